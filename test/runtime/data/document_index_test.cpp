#include "runtime/data/document_index.h"

#include "runtime/data/token_data.h"
#include "runtime/data/token_writer.h"
#include "runtime/support/error.h"
#include "test/runtime/data/token_files.h"
#include "test/runtime/temporary_directory.h"

#include <gmock/gmock.h>

#include <cstring>

using namespace dtc;
using dtc::test::refusal;
using dtc::test::TemporaryDirectory;
using dtc::test::tokensOf;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

const std::string Recorded = DTC_SOURCE_DIR "/test/runtime/data/recorded/";

TEST(DocumentIndex, ReadsWhatMegatronWrites) {
  TokenFile file(Recorded + "megatron16.bin");
  EXPECT_EQ(file.format(), TokenFile::Format::Megatron);
  EXPECT_EQ(file.tokenBits(), 16);
  EXPECT_THAT(tokensOf(file), ElementsAre(5, 6, 7, 1, 2, 3, 65499, 9, 8, 7, 6, 5));
  ASSERT_TRUE(file.documents());
  EXPECT_EQ(file.documents()->documents(), 5u);
  EXPECT_EQ(file.documents()->documentBegin(5), 12u);
  EXPECT_THAT(file.documents()->beginsIn(0, 12), ElementsAre(0, 3, 6, 7)) << "one of two sequences, one of none";
  EXPECT_THAT(file.documents()->beginsIn(1, 3), ElementsAre(3));
  EXPECT_THAT(file.documents()->beginsIn(4, 2), IsEmpty());
  EXPECT_THAT(file.documents()->beginsIn(6, 100), ElementsAre(6, 7));

  TokenFile wide(Recorded + "megatron32.bin");
  EXPECT_EQ(wide.tokenBits(), 32);
  EXPECT_THAT(tokensOf(wide), ElementsAre(128000, 1, 2, 3));
}

// One sequence a document, and no empty one: then the recorded bytes are what we write.
TEST(DocumentIndex, WritesWhatMegatronDoes) {
  TemporaryDirectory directory;
  TokenFileWriter writer(directory / "a.bin", {.format = TokenFile::Format::Megatron, .bits = 32});
  writer.append(std::vector<uint32_t>{128000, 1});
  writer.append(std::vector<uint32_t>{2});
  writer.endDocument();
  writer.endDocument();
  writer.append(std::vector<uint32_t>{3});
  writer.publish();
  for (const char *ending : {".bin", ".idx"})
    EXPECT_EQ(test::readFile(directory / (std::string("a") + ending)),
              test::readFile(Recorded + "megatron32" + ending));
}

TEST(DocumentIndex, FilesThatDoNotBelongTogetherAreRefused) {
  TemporaryDirectory directory;
  std::string tokens = test::readFile(Recorded + "megatron16.bin"), index = test::readFile(Recorded + "megatron16.idx");
  auto said = [&](size_t at, auto value) {
    std::string changed = index;
    std::memcpy(changed.data() + at, &value, sizeof(value));
    directory.write("a.idx", changed);
    return refusal(directory.write("a.bin", tokens));
  };
  EXPECT_EQ(said(9, uint64_t(1)), "accepted");
  EXPECT_THAT(said(9, uint64_t(2)), AllOf(HasSubstr("a.idx"), HasSubstr("version 2")));
  EXPECT_THAT(said(17, uint8_t(5)), HasSubstr("tokens of type 5"));
  EXPECT_THAT(said(18, uint64_t(1) << 62), HasSubstr("do not fit its"));
  EXPECT_THAT(said(26, uint64_t(1) << 62), HasSubstr("do not fit its"));
  EXPECT_THAT(said(34, int32_t(2)),
              HasSubstr("sequence 0 has 2 tokens of 2 bytes from byte 0 on, but the next begins at "
                        "byte 6"));
  EXPECT_THAT(said(34, int32_t(-1)), HasSubstr("sequence 0 has -1"));
  EXPECT_THAT(said(34 + 20, int64_t(2)), HasSubstr("sequence 0 has 3 tokens"));
  EXPECT_THAT(said(34 + 20 + 8, int64_t(7)), HasSubstr("sequence 1 begins at byte 7"));
  EXPECT_THAT(said(34 + 20 + 40, int64_t(1)), HasSubstr("begins with sequence 1 instead of 0"));
  EXPECT_THAT(said(34 + 20 + 40 + 8, int64_t(4)), HasSubstr("document 1 begins behind"));
  EXPECT_THAT(said(34 + 20 + 40 + 8, int64_t(-1)), HasSubstr("document 1 begins with sequence -1"));
  EXPECT_THAT(said(34 + 20 + 40 + 40, int64_t(4)), HasSubstr("ends with sequence 4 of 5"));
  directory.write("a.idx", index);
  EXPECT_THAT(refusal(directory.write("a.bin", tokens + "xx")), HasSubstr("the end begins at byte 26"));
  directory.write("a.idx", index.substr(0, 30));
  EXPECT_THAT(refusal(directory.write("a.bin", tokens)), HasSubstr("30 bytes end within its header"));
  directory.write("a.idx", "something else");
  EXPECT_THAT(refusal(directory / "a.bin"), HasSubstr("Megatron's index (NAME.idx for NAME.bin) is not beside it"));
}

TEST(DocumentIndex, AFormatThatIsAskedForMustBeThere) {
  TemporaryDirectory directory;
  EXPECT_THAT(refusal(Recorded + "megatron16.bin", TokenFile::Format::NanoGpt),
              HasSubstr("leave --data-format nanogpt"));
  EXPECT_THAT(refusal(Recorded + "megatron16.bin", TokenFile::Format::LlmC), HasSubstr("does not begin as llm.c's"));
  EXPECT_THAT(refusal(directory.write("a.bin", "abcd"), TokenFile::Format::Megatron), HasSubstr("a.idx"));
  EXPECT_THAT(refusal(Recorded + "megatron16.idx"),
              HasSubstr("it is Megatron's index; name the file of tokens beside"));
}

TEST(DocumentIndex, AnOldIndexOrMaskWouldSpeakOfOtherTokens) {
  TemporaryDirectory directory;
  TokenFileWriter(directory / "a.bin", {.format = TokenFile::Format::Megatron, .masked = true}).publish();
  EXPECT_THROW(TokenFileWriter(directory / "a.bin", {.masked = true}), Error);
  EXPECT_THROW(TokenFileWriter(directory / "a.bin", {.format = TokenFile::Format::Megatron}), Error);
  EXPECT_THROW(TokenFileWriter(directory / "a", {.format = TokenFile::Format::Megatron}), Error);
  EXPECT_NO_THROW(TokenFileWriter(directory / "a.bin", {.format = TokenFile::Format::Megatron, .masked = true}));
}

TEST(DocumentIndex, TheWidthFollowsFromTheVocabulary) {
  using enum TokenFile::Format;
  EXPECT_EQ(layoutFor(LlmC, 50257).bits, 16);
  EXPECT_EQ(layoutFor(LlmC, 65536).bits, 16);
  EXPECT_EQ(layoutFor(LlmC, 65537).bits, 32);
  EXPECT_EQ(layoutFor(Megatron, 65499).bits, 16);
  EXPECT_EQ(layoutFor(Megatron, 65500).bits, 32);
  EXPECT_THROW(layoutFor(NanoGpt, 65537), Error);
}

TEST(DocumentIndex, DocumentsOfSeveralFiles) {
  TemporaryDirectory directory;
  writeTokenFile(directory / "plain.bin", std::vector<uint16_t>{1, 2});
  std::string plain = directory / "plain.bin", indexed = Recorded + "megatron16.bin";
  EXPECT_FALSE(TokenData({plain, plain}).hasDocuments());
  EXPECT_THAT(TokenData({plain, plain}).documentsIn(0, 4), IsEmpty()) << "a document may go on from shard to shard";
  TokenData data({plain, indexed, plain, plain});
  EXPECT_TRUE(data.hasDocuments());
  EXPECT_THAT(data.documentsIn(0, 1000), ElementsAre(2, 5, 8, 9, 14));
  EXPECT_THAT(data.documentsIn(3, 6), ElementsAre(5, 8));
  EXPECT_THAT(data.documentsIn(14, 1), ElementsAre(14));
  EXPECT_THAT(data.documentsIn(15, 9), IsEmpty());
}

} // namespace
