#include "runtime/data/token_file.h"

#include "runtime/abi/error.h"
#include "test/runtime/temporary_directory.h"

#include <gmock/gmock.h>

using namespace dtc;
using dtc::test::TemporaryDirectory;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

std::string refusal(const std::string &path) {
  try {
    TokenFile file(path);
  } catch (const Error &error) {
    EXPECT_EQ(error.exitCode(), ExitCode::BadInput);
    return error.what();
  }
  return "accepted";
}

TEST(TokenFile, ReadsWhatItWritesInTheFormatOfLlmC) {
  TemporaryDirectory directory;
  std::vector<uint16_t> tokens = {7, 65535, 0};
  writeTokenFile(directory / "a.bin", tokens);
  EXPECT_EQ(test::readFile(directory / "a.bin").size(), 1024u + 6u);
  TokenFile file(directory / "a.bin");
  EXPECT_EQ(file.format(), TokenFile::Format::LlmC);
  EXPECT_THAT(file.tokens(), ElementsAre(7, 65535, 0));
}

TEST(TokenFile, ReadsBareTokens) {
  TemporaryDirectory directory;
  TokenFile file(directory.write("a.bin", std::string("\x01\x00\x02\x01", 4)));
  EXPECT_EQ(file.format(), TokenFile::Format::NanoGpt);
  EXPECT_THAT(file.tokens(), ElementsAre(1, 258));
}

TEST(TokenFile, RefusesDamagedFiles) {
  TemporaryDirectory directory;
  writeTokenFile(directory / "a.bin", std::vector<uint16_t>{1, 2, 3});
  std::string bytes = test::readFile(directory / "a.bin");
  EXPECT_THAT(refusal(directory.write("cut", bytes.substr(0, bytes.size() - 2))), HasSubstr("3 tokens, but 4 bytes"));
  bytes[4] = 2;
  EXPECT_THAT(refusal(directory.write("version", bytes)), HasSubstr("version 2"));
  EXPECT_THAT(refusal(directory.write("odd", "abc")), HasSubstr("3 bytes"));
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
