// The candidates from which tokens are drawn, compared with transformers' logits warpers, as recorded in
// test/e2e/oracle/choices.json; and the draws.
#include "runtime/program/sample/choose_token.h"

#include "runtime/support/error.h"

#include <cmath>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

namespace dtc {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

TEST(ChooseToken, DrawsFromWhatTransformersLeaves) {
  std::ifstream file(DTC_SOURCE_DIR "/test/e2e/oracle/choices.json");
  nlohmann::json record = nlohmann::json::parse(file);
  ASSERT_GT(record["cases"].size(), 20u);
  for (const nlohmann::json &each : record["cases"]) {
    std::vector<float> logits;
    for (const nlohmann::json &logit : each["logits"])
      logits.push_back(logit.is_null() ? -infinity : logit.get<float>());
    Choice choice{.temperature = each["temperature"], .topK = each["top_k"], .topP = each["top_p"]};
    std::vector<int64_t> ids;
    std::vector<double> probabilities;
    for (const Candidate &candidate : candidates(logits, choice)) {
      ids.push_back(candidate.id);
      probabilities.push_back(candidate.probability);
    }
    ASSERT_EQ(ids, each["ids"].get<std::vector<int64_t>>()) << each;
    for (size_t i = 0; i < ids.size(); ++i)
      EXPECT_NEAR(probabilities[i], each["probabilities"][i].get<double>(), 1e-12) << each;
  }
}

TEST(ChooseToken, TheLargestOfLowestIdWithoutTemperature) {
  EXPECT_EQ(chooseToken(std::vector<float>{1, 4, 2, 4}, {}, {}), 1);
  EXPECT_EQ(chooseToken(std::vector<float>{-infinity, -3}, {}, {}), 1);
  EXPECT_EQ(chooseToken(std::vector<float>{7}, {.temperature = 1}, {}), 0);
}

/// Pearson's statistic of draws over the number of degrees of freedom is close to 1.
TEST(ChooseToken, DrawsByProbability) {
  std::vector<float> logits = {0.5f, -1, 2, 0, 1.5f, -0.5f, 1, -2};
  Choice choice{.temperature = 1.3};
  constexpr int seeds = 40, positions = 500;
  std::map<int64_t, int> counts;
  for (int seed = 0; seed < seeds; ++seed) {
    choice.seed = uint64_t(seed) << (seed % 2 ? 32 : 0);
    for (uint64_t position = 0; position < positions; ++position)
      ++counts[chooseToken(logits, choice, {.row = uint32_t(seed % 3), .position = position})];
  }
  double statistic = 0;
  for (const Candidate &candidate : candidates(logits, choice)) {
    double expected = candidate.probability * seeds * positions;
    statistic += std::pow(counts[candidate.id] - expected, 2) / expected;
  }
  EXPECT_LT(statistic, 24.3); // with 7 degrees of freedom, one in a thousand is above
}

TEST(ChooseToken, SeedRowAndPositionDecide) {
  std::vector<float> logits(1000, 0.0f);
  Choice choice{.temperature = 1, .seed = 7};
  int64_t token = chooseToken(logits, choice, {.row = 2, .position = 9});
  EXPECT_EQ(chooseToken(logits, choice, {.row = 2, .position = 9}), token);
  EXPECT_NE(chooseToken(logits, choice, {.row = 3, .position = 9}), token);
  EXPECT_NE(chooseToken(logits, choice, {.row = 2, .position = 10}), token);
  choice.seed = 8;
  EXPECT_NE(chooseToken(logits, choice, {.row = 2, .position = 9}), token);
  choice.seed = 7 + (uint64_t(1) << 32);
  EXPECT_NE(chooseToken(logits, choice, {.row = 2, .position = 9}), token);
}

void expectError(const std::vector<float> &logits, const Choice &choice, ExitCode code, const std::string &part) {
  try {
    chooseToken(logits, choice, {});
    FAIL() << "no error with '" << part << "'";
  } catch (const Error &error) {
    EXPECT_EQ(error.exitCode(), code);
    EXPECT_THAT(error.what(), testing::HasSubstr(part));
  }
}

TEST(ChooseToken, LogitsThatAreNoNumbersAreRefused) {
  for (double temperature : {0.0, 1.0}) {
    Choice choice{.temperature = temperature};
    expectError({1, nan, 2}, choice, ExitCode::NonFinite, "the logit of token 1 is NaN");
    expectError({1, 2, infinity}, choice, ExitCode::NonFinite, "the logit of token 2 is infinite");
    expectError({-infinity, -infinity}, choice, ExitCode::NonFinite, "none of 2 logits is a finite number");
    expectError({}, choice, ExitCode::NonFinite, "none of 0 logits");
  }
}

TEST(ChooseToken, ChoicesOutOfRangeAreRefused) {
  expectError({1}, {.temperature = -1}, ExitCode::BadInput, "the temperature is -1");
  expectError({1}, {.temperature = nan}, ExitCode::BadInput, "the temperature is nan");
  expectError({1}, {.topK = -1}, ExitCode::BadInput, "top-k is -1");
  expectError({1}, {.topP = 1.5}, ExitCode::BadInput, "top-p is 1.5");
  expectError({1}, {.topP = nan}, ExitCode::BadInput, "top-p is nan");
}

} // namespace
} // namespace dtc
