// The table of lints, and what becomes of their findings.
#include "runtime/support/error.h"
#include "test/tools/dtc/advice/hand_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <sstream>

namespace dtc::test {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::vector<std::string> namesOf(const std::vector<Finding> &findings) {
  std::vector<std::string> names;
  for (const Finding &finding : findings)
    names.emplace_back(finding.name);
  return names;
}

TEST(AdviceTest, TheTableHasAllLints) {
  std::vector<std::string_view> names;
  for (const Lint &lint : lints()) {
    names.push_back(lint.name);
    EXPECT_FALSE(lint.threshold.empty()) << lint.name;
  }
  EXPECT_THAT(names, UnorderedElementsAre("tensor-parallel-over-slow-link", "batch-smaller-than-dp",
                                          "few-micro-batches", "needless-accumulation", "exposed-communication",
                                          "small-messages", "load-imbalance", "groups-against-topology",
                                          "learning-rate-not-scaled", "sums-in-16-bits", "needless-recomputation",
                                          "data-parallel-does-not-fit", "checkpoint-interval", "uneven-sequences"));
}

/// The rows of the table of docs/advice.md: name and threshold.
std::vector<std::pair<std::string, std::string>> rowsOfPage() {
  std::ifstream page(std::string(DTC_SOURCE_DIR) + "/docs/advice.md");
  std::vector<std::pair<std::string, std::string>> rows;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `"))
      continue;
    size_t end = line.find("` | "), next = line.find(" | ", end + 4);
    if (end != std::string::npos && next != std::string::npos)
      rows.emplace_back(line.substr(3, end - 3), line.substr(end + 4, next - end - 4));
  }
  return rows;
}

TEST(AdviceTest, ThePageHasEachLintWithItsThreshold) {
  std::vector<std::pair<std::string, std::string>> expected;
  for (const Lint &lint : lints())
    expected.emplace_back(lint.name, lint.threshold);
  EXPECT_THAT(rowsOfPage(), testing::ElementsAreArray(expected))
      << "docs/advice.md has a row for each lint, in the order of the table, with Lint::threshold in its second column";
}

/// Two ranks that compute 1 s and 11 s, and then wait 4 s for an all-reduce that is not small. The slower one computes
/// 5 of 15 seconds longer than the mean.
abi::Manifest troubled() {
  HandStep step({{"dp", 2}});
  step.role("first", {0}).list("one").compute(1).reduce("dp", 1);
  step.role("second", {1}).list("other").compute(11).reduce("dp", 1);
  return step.manifest;
}

std::vector<Finding> adviseOn(const abi::Manifest &program, const std::vector<std::string> &silenced) {
  timing::Layout layout(timing::unitCluster(2), program.mesh());
  timing::Forecast forecast = timing::forecastStep(program, layout);
  return advise({program, &layout, &forecast}, silenced);
}

TEST(AdviceTest, TheWeightiestFindingIsFirst) {
  std::vector<Finding> findings = adviseOn(troubled(), {});
  EXPECT_TRUE(std::ranges::is_sorted(findings, std::greater(), &Finding::share));
  std::vector<std::string> names = namesOf(findings);
  auto exposed = std::ranges::find(names, "exposed-communication"), load = std::ranges::find(names, "load-imbalance");
  ASSERT_NE(exposed, names.end());
  EXPECT_LT(load - names.begin(), exposed - names.begin()) << "5 of 15 seconds, and 4; in the table exposed is first";
}

TEST(AdviceTest, ASilencedLintSaysNothing) {
  std::vector<std::string> all = namesOf(adviseOn(troubled(), {}));
  std::vector<std::string> left = namesOf(adviseOn(troubled(), {"exposed-communication"}));
  std::erase(all, "exposed-communication");
  EXPECT_EQ(left, all);
}

TEST(AdviceTest, NobodyIsSilencedByAnotherName) {
  try {
    adviseOn(troubled(), {"load-inbalance"});
    FAIL() << "an unknown name";
  } catch (const Error &error) {
    EXPECT_EQ(error.exitCode(), ExitCode::Usage);
    EXPECT_THAT(error.what(), HasSubstr("--silence load-inbalance"));
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'load-imbalance'?"));
  }
}

TEST(AdviceTest, AProgramThatGeneratesHasNoStep) {
  abi::Manifest program = troubled();
  program.mutable_generation()->set_rows(1);
  EXPECT_TRUE(advise({program}, {}).empty());
}

std::string printed(size_t count, bool all) {
  std::vector<Finding> findings;
  for (size_t i = 0; i < count; ++i)
    findings.push_back({"load-imbalance", "found " + std::to_string(i), "change it", 0.5});
  testing::internal::CaptureStderr();
  printAdvice(findings, all);
  return testing::internal::GetCapturedStderr();
}

TEST(AdviceTest, ThreeAreShown) {
  EXPECT_EQ(printed(0, false), "");
  EXPECT_EQ(printed(1, false), "dtc: advice: load-imbalance: found 0; change it\n");
  EXPECT_THAT(printed(3, false), testing::EndsWith("found 2; change it\n"));
  EXPECT_THAT(printed(5, false),
              testing::EndsWith("found 2; change it\ndtc: advice: 2 more: --advice all shows all, and "
                                "--silence NAME leaves one out\n"));
  EXPECT_THAT(printed(5, true), testing::EndsWith("found 4; change it\n"));
}

TEST(AdviceTest, JsonHasAllOfIt) {
  EXPECT_EQ(toJson({{"load-imbalance", "found", "change it", 0.25}}).dump(),
            R"([{"name":"load-imbalance","text":"found","remedy":"change it","share":0.25}])");
}

} // namespace
} // namespace dtc::test
