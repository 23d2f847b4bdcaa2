#include "runtime/data/text.h"

#include "runtime/data/token_writer.h"
#include "runtime/support/error.h"
#include "test/runtime/temporary_directory.h"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <zlib.h>

using namespace dtc;
using dtc::test::TemporaryDirectory;
using testing::ElementsAre;

namespace {

std::string wholeText(const std::string &path) {
  std::string text;
  readText(path, [&](std::string_view block) { text += block; });
  return text;
}

TEST(Text, UnpacksGzipAndPassesPlainTextThrough) {
  TemporaryDirectory directory;
  EXPECT_EQ(wholeText(directory.write("plain", "a word\n")), "a word\n");
  std::string path = directory / "packed.dict.dz";
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, "a longer word\n", 14);
  gzclose(file);
  EXPECT_EQ(wholeText(path), "a longer word\n");
}

TEST(Text, RefusesWhatItCannotRead) {
  TemporaryDirectory directory;
  EXPECT_THROW(wholeText(directory / "missing"), Error);
  EXPECT_THROW(wholeText(directory.path), Error);
  std::string path = directory / "whole.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  std::string text(10000, 'x');
  gzwrite(file, text.data(), text.size());
  gzclose(file);
  std::string bytes = test::readFile(path);
  EXPECT_THROW(wholeText(directory.write("cut.gz", bytes.substr(0, bytes.size() / 2))), Error);
}

TEST(Text, TurnsBytesIntoTokens) { EXPECT_THAT(byteTokens("a\xff"), ElementsAre(97, 255)); }

// 64 MB of one letter in 64 kB: blocks arrive one by one, and none is large.
TEST(Text, ASmallFileThatUnpacksToALargeOneComesInBlocks) {
  TemporaryDirectory directory;
  std::string path = directory / "bomb.gz", block(1 << 20, 'x');
  gzFile file = gzopen(path.c_str(), "wb");
  for (int i = 0; i < 64; ++i)
    gzwrite(file, block.data(), block.size());
  gzclose(file);
  size_t bytes = 0, largest = 0;
  readText(path, [&](std::string_view part) {
    bytes += part.size();
    largest = std::max(largest, part.size());
  });
  EXPECT_EQ(bytes, size_t(64) << 20);
  EXPECT_LE(largest, size_t(1) << 20);
}

TokenStatistics statisticsOf(const std::vector<uint16_t> &tokens) {
  TemporaryDirectory directory;
  writeTokenFile(directory / "a.bin", tokens);
  return tokenStatistics(TokenFile(directory / "a.bin"));
}

TEST(Statistics, EntropyOfAlternatingTokensIsOneBitAloneAndNoneAfterAnother) {
  std::vector<uint16_t> tokens;
  for (int i = 0; i < 1000; ++i)
    tokens.push_back(i % 2 ? 3 : 9);
  TokenStatistics statistics = statisticsOf(tokens);
  EXPECT_EQ(statistics.tokens, 1000u);
  EXPECT_EQ(statistics.counted, 1000u);
  EXPECT_EQ(statistics.distinct, 2);
  EXPECT_EQ(statistics.largest, 9u);
  EXPECT_NEAR(statistics.unigramEntropy.value(), std::log(2), 1e-12);
  EXPECT_NEAR(statistics.bigramEntropy.value(), 0, 1e-12);
}

// Of a a b a: pairs aa, ab, ba; after a comes a or b with 1/2 each, after b always a.
TEST(Statistics, BigramEntropyIsConditional) {
  EXPECT_NEAR(statisticsOf(byteTokens("aaba")).bigramEntropy.value(), 2.0 / 3 * std::log(2), 1e-12);
}

TEST(Statistics, NothingIsKnownOfNothing) {
  EXPECT_EQ(statisticsOf({}).distinct, 0);
  EXPECT_EQ(statisticsOf({}).unigramEntropy, 0);
}

TEST(Statistics, StopCountingWhenThereIsTooMuch) {
  TemporaryDirectory directory;
  writeTokenFile(directory / "a.bin", byteTokens("abacadbcbdcd")); // 4 tokens, 11 pairs
  TokenFile file(directory / "a.bin");
  EXPECT_TRUE(tokenStatistics(file, 11).bigramEntropy);
  EXPECT_FALSE(tokenStatistics(file, 10).bigramEntropy);
  EXPECT_EQ(tokenStatistics(file, 4).distinct, 4);
  EXPECT_FALSE(tokenStatistics(file, 3).distinct || tokenStatistics(file, 3).unigramEntropy);
}

} // namespace
