// Text that is printed while its tokens come is the whole text, with the small tokenizers of
// test/e2e/oracle/tokenizers.
#include "tools/dtc/text/TokenText.h"

#include "runtime/support/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace dtc {
namespace {

const std::string Oracle = DTC_SOURCE_DIR "/test/e2e/oracle/tokenizers/", Parts = DTC_BINARY_DIR "/bin/";

std::vector<std::string> commandOf(const std::string &tokenizer) {
  if (tokenizer.ends_with(".model"))
    return {Parts + "dtc-sentencepiece", "--text", Oracle + tokenizer};
  return {"python3", Parts + "dtc-tokenize.py", "--text", Oracle + tokenizer + "/tokenizer.json"};
}

class TokenTexts : public testing::TestWithParam<std::string> {
protected:
  TokenText tokenizer{commandOf(GetParam())};

  TextStream stream() {
    return {[this](std::span<const int32_t> tokens) { return tokenizer.decode(tokens); },
            [this](int32_t token) { return tokenizer.isByte(token); }};
  }

  /// The pieces in which a text comes.
  std::vector<std::string> pieces(const std::vector<int32_t> &tokens) {
    TextStream text = stream();
    std::vector<std::string> all;
    for (int32_t token : tokens)
      all.push_back(text.push(token));
    all.push_back(text.finish());
    return all;
  }
};

std::string join(const std::vector<std::string> &pieces) {
  return std::accumulate(pieces.begin(), pieces.end(), std::string());
}

TEST_P(TokenTexts, ComeWhole) {
  std::mt19937 engine(11);
  for (int round = 0; round < 300; ++round) {
    std::vector<int32_t> tokens(engine() % 40);
    for (int32_t &token : tokens)
      token = static_cast<int32_t>(engine() % tokenizer.vocabulary());
    ASSERT_EQ(join(pieces(tokens)), tokenizer.decode(tokens)) << testing::PrintToString(tokens);
  }
}

TEST_P(TokenTexts, ComeInCharacters) {
  std::string text = "The house is small. Zw\u00f6lf \u65e5\u672c\u8a9e \U0001F642\U0001F643, and the door.";
  std::vector<int32_t> tokens = tokenizer.encode(text);
  ASSERT_EQ(tokenizer.decode(tokens), text);
  std::vector<std::string> all = pieces(tokens);
  EXPECT_EQ(join(all), text);
  EXPECT_GT(std::count_if(all.begin(), all.end(), [](const std::string &piece) { return !piece.empty(); }), 10);
  for (const std::string &piece : all)
    EXPECT_THAT(piece, testing::Not(testing::HasSubstr("\uFFFD")));
}

TEST_P(TokenTexts, GoOnBehindAPrompt) {
  std::vector<int32_t> prompt = tokenizer.encode("The house"), whole = tokenizer.encode("The house is old");
  TextStream text = stream();
  std::string before, after;
  for (size_t i = 0; i < whole.size(); ++i)
    (i < prompt.size() ? before : after) += text.push(whole[i]);
  EXPECT_EQ(before + after + text.finish(), "The house is old");
}

TEST_P(TokenTexts, RefuseWhatIsNoTextAndNoToken) {
  EXPECT_THROW(tokenizer.encode("a\xff"), Error);
  try {
    tokenizer.decode(std::vector<int32_t>{1, int32_t(tokenizer.vocabulary())});
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.exitCode(), ExitCode::BadInput);
    EXPECT_THAT(error.what(), testing::HasSubstr("is it the model's own?"));
  }
  // And go on.
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("house")), "house");
}

INSTANTIATE_TEST_SUITE_P(All, TokenTexts,
                         testing::Values("gpt2style", "llamastyle", "fallback", "llama.model", "t5.model"),
                         [](const auto &info) { return info.param.substr(0, info.param.find('.')); });

TEST(TokenText, SaysWhatIsWrongWithItsFile) {
  for (const char *tokenizer : {"none.model", "none"})
    try {
      TokenText text(commandOf(tokenizer));
      FAIL();
    } catch (const Error &error) {
      EXPECT_EQ(error.exitCode(), ExitCode::BadInput);
      EXPECT_THAT(error.what(), testing::HasSubstr(Oracle + "none"));
    }
}

TEST(StopStrings, EndTheTextBeforeTheFirst) {
  StopStrings stop({"\n\n", "END"});
  EXPECT_EQ(stop.push("one E"), "one ");
  EXPECT_EQ(stop.push("N two\n"), "EN two");
  EXPECT_EQ(stop.push("three EN"), "\nthree ");
  EXPECT_FALSE(stop.isStopped());
  EXPECT_EQ(stop.push("D\n\n four"), "");
  EXPECT_TRUE(stop.isStopped());
  EXPECT_EQ(stop.push("five"), "");
  EXPECT_EQ(stop.finish(), "");
}

TEST(StopStrings, GiveBackWhatWasNoneAtTheEnd) {
  StopStrings stop({"END"});
  EXPECT_EQ(stop.push("the EN"), "the ");
  EXPECT_EQ(stop.finish(), "EN");
  StopStrings none({});
  EXPECT_EQ(none.push("all"), "all");
}

} // namespace
} // namespace dtc
