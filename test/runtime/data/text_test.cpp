#include "runtime/data/text.h"

#include "runtime/abi/error.h"
#include "test/runtime/temporary_directory.h"

#include <cmath>
#include <gmock/gmock.h>
#include <zlib.h>

using namespace dtc;
using dtc::test::TemporaryDirectory;
using testing::ElementsAre;

namespace {

TEST(Text, UnpacksGzipAndPassesPlainTextThrough) {
  TemporaryDirectory directory;
  EXPECT_EQ(readText(directory.write("plain", "a word\n")), "a word\n");
  std::string path = directory / "packed.dict.dz";
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, "a longer word\n", 14);
  gzclose(file);
  EXPECT_EQ(readText(path), "a longer word\n");
}

TEST(Text, RefusesWhatItCannotRead) {
  TemporaryDirectory directory;
  EXPECT_THROW(readText(directory / "missing"), Error);
  EXPECT_THROW(readText(directory.path), Error);
  std::string path = directory / "whole.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  std::string text(10000, 'x');
  gzwrite(file, text.data(), text.size());
  gzclose(file);
  std::string bytes = test::readFile(path);
  EXPECT_THROW(readText(directory.write("cut.gz", bytes.substr(0, bytes.size() / 2))), Error);
}

TEST(Text, TurnsBytesIntoTokens) { EXPECT_THAT(byteTokens("a\xff"), ElementsAre(97, 255)); }

TEST(Statistics, EntropyOfAlternatingTokensIsOneBitAloneAndNoneAfterAnother) {
  std::vector<uint16_t> tokens;
  for (int i = 0; i < 1000; ++i)
    tokens.push_back(i % 2 ? 3 : 9);
  TokenStatistics statistics = tokenStatistics(tokens);
  EXPECT_EQ(statistics.tokens, 1000u);
  EXPECT_EQ(statistics.distinct, 2);
  EXPECT_EQ(statistics.largest, 9);
  EXPECT_NEAR(statistics.unigramEntropy, std::log(2), 1e-12);
  EXPECT_NEAR(statistics.bigramEntropy, 0, 1e-12);
}

// Of a a b a: pairs aa, ab, ba; after a comes a or b with 1/2 each, after b always a.
TEST(Statistics, BigramEntropyIsConditional) {
  EXPECT_NEAR(tokenStatistics(byteTokens("aaba")).bigramEntropy, 2.0 / 3 * std::log(2), 1e-12);
}

} // namespace
