#include "runtime/data/token_writer.h"

#include "runtime/support/error.h"
#include "test/runtime/data/token_files.h"
#include "test/runtime/temporary_directory.h"

#include <gmock/gmock.h>

using namespace dtc;
using dtc::test::TemporaryDirectory;
using dtc::test::tokensOf;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

std::string refusal(const std::string &path, TokenFile::Format format = TokenFile::Format::LlmC) {
  return test::refusal(path, format);
}

/// A file with llm.c's header.
std::string llmC(int32_t magic, int32_t version, int32_t count, std::string_view tokens) {
  int32_t header[256] = {magic, version, count};
  return std::string(reinterpret_cast<const char *>(header), sizeof(header)) + std::string(tokens);
}

TEST(TokenFile, ReadsWhatItWritesInTheFormatOfLlmC) {
  TemporaryDirectory directory;
  std::vector<uint16_t> tokens = {7, 65535, 0};
  writeTokenFile(directory / "a.bin", tokens);
  EXPECT_EQ(test::readFile(directory / "a.bin").size(), 1024u + 6u);
  TokenFile file(directory / "a.bin");
  EXPECT_EQ(file.format(), TokenFile::Format::LlmC);
  EXPECT_EQ(file.tokenBits(), 16);
  EXPECT_THAT(tokensOf(file), ElementsAre(7, 65535, 0));
}

TEST(TokenFile, ReadsTokensOf32Bits) {
  TemporaryDirectory directory;
  std::string path =
      directory.write("a.bin", llmC(20240801, 7, 3, std::string_view("\0\xf5\1\0\1\0\0\0\xff\xff\0\0", 12)));
  TokenFile file(path);
  EXPECT_EQ(file.tokenBits(), 32);
  EXPECT_THAT(tokensOf(file), ElementsAre(128256, 1, 65535));
  EXPECT_NO_THROW(file.checkVocabulary(128257));
  EXPECT_THROW(file.checkVocabulary(128256), Error);
  EXPECT_THAT(refusal(directory.write("version", llmC(20240801, 1, 0, ""))), HasSubstr("only version 7 (32-bit"));
  EXPECT_THAT(refusal(directory.write("odd", llmC(20240801, 7, 3, "abcdefghij"))),
              HasSubstr("3 tokens of 32 bits, but 10"));
}

// A text of even size would train as 16-bit tokens.
TEST(TokenFile, TakesBareTokensOnlyWhenAskedTo) {
  TemporaryDirectory directory;
  std::string path = directory.write("a.bin", std::string("\x01\x00\x02\x01", 4));
  EXPECT_THAT(refusal(path), AllOf(HasSubstr("dtc data pack"), HasSubstr("--data-format nanogpt")));
  TokenFile file(path, TokenFile::Format::NanoGpt);
  EXPECT_EQ(file.format(), TokenFile::Format::NanoGpt);
  EXPECT_THAT(tokensOf(file), ElementsAre(1, 258));
  EXPECT_THAT(refusal(directory.write("odd", "abc"), TokenFile::Format::NanoGpt), HasSubstr("3 bytes"));
  for (int32_t magic : {20240520, 20240801})
    EXPECT_THAT(refusal(directory.write("header", llmC(magic, 1, 0, "")), TokenFile::Format::NanoGpt),
                HasSubstr("leave --data-format nanogpt out"));
}

TEST(TokenFile, AMaskMustFit) {
  TemporaryDirectory directory;
  writeTokenFile(directory / "a.bin", std::vector<uint16_t>{1, 2, 3});
  EXPECT_FALSE(TokenFile(directory / "a.bin").hasMask());
  directory.write("a.bin.mask", std::string("\1\0\1", 3));
  TokenFile file(directory / "a.bin");
  EXPECT_TRUE(file.counts(0) && !file.counts(1) && file.counts(2));
  directory.write("a.bin.mask", "\1\1");
  EXPECT_THAT(refusal(directory / "a.bin"), AllOf(HasSubstr("a.bin.mask"), HasSubstr("2 bytes for 3 tokens")));
  directory.write("a.bin.mask", std::string("\1\0\2", 3));
  EXPECT_THAT(refusal(directory / "a.bin"), HasSubstr("byte 2 is 2"));
  EXPECT_THROW(writeTokenFile(directory / "a.bin", {}), Error) << "the mask would mark other tokens";
}

TEST(TokenFile, AFileThatIsNotFinishedLeavesTheOldOne) {
  TemporaryDirectory directory;
  directory.write("a.bin", "old");
  {
    TokenFileWriter writer(directory / "a.bin");
    writer.append(std::vector<uint16_t>{1, 2, 3});
  }
  EXPECT_EQ(test::readFile(directory / "a.bin"), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path), {}), 1);
  EXPECT_THROW(TokenFileWriter("/dev/null"), Error);
}

TEST(TokenFile, RefusesDamagedFiles) {
  TemporaryDirectory directory;
  writeTokenFile(directory / "a.bin", std::vector<uint16_t>{1, 2, 3});
  std::string bytes = test::readFile(directory / "a.bin");
  EXPECT_THAT(refusal(directory.write("cut", bytes.substr(0, bytes.size() - 2))),
              HasSubstr("3 tokens of 16 bits, but 4 bytes"));
  bytes[4] = 2;
  EXPECT_THAT(refusal(directory.write("version", bytes)), HasSubstr("version 2"));
  EXPECT_THAT(refusal(directory.write("header", bytes.substr(0, 1000))), HasSubstr("within llm.c's header"));
  EXPECT_THAT(refusal(directory / "missing"), HasSubstr("missing"));
  EXPECT_THAT(refusal(directory.path), HasSubstr("not a regular file"));
}

TEST(TokenFile, NamesTheTokenOutsideTheVocabulary) {
  TemporaryDirectory directory;
  writeTokenFile(directory / "a.bin", std::vector<uint16_t>{1, 2, 300, 400});
  TokenFile file(directory / "a.bin");
  EXPECT_NO_THROW(file.checkVocabulary(401));
  try {
    file.checkVocabulary(256);
    FAIL();
  } catch (const Error &error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("position 2 is 300"), HasSubstr("256")));
  }
}

} // namespace
