// Seconds of layers, from handwritten traces.
#include "tools/dtc/report/StageTimes.h"

#include "runtime/support/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtc {
namespace {

using testing::HasSubstr;

abi::Manifest pipeline(std::initializer_list<std::pair<const char *, int64_t>> axes, int64_t accumulation) {
  abi::Manifest manifest;
  for (const auto &[name, size] : axes) {
    abi::Axis &axis = *manifest.mutable_mesh()->add_axes();
    axis.set_name(name);
    axis.set_size(size);
  }
  manifest.mutable_training()->set_accumulation(accumulation);
  return manifest;
}

class StageTimes : public testing::Test {
protected:
  void step(int rank, double begin, double length) {
    events.push_back(fmt::format(R"({{"ph":"X","pid":{},"tid":100,"ts":{},"dur":{},"name":"step 3","cat":"step"}})",
                                 rank, begin, length));
  }
  /// `layer` and `direction` may be empty. Microseconds.
  void slice(int rank, double begin, double length, const char *layer, const char *direction, int command = 0,
             const char *category = "kernel", const char *name = "k") {
    std::string more;
    if (*layer)
      more += fmt::format(R"(,"layer":"{}")", layer);
    if (*direction)
      more += fmt::format(R"(,"direction":"{}")", direction);
    int thread = std::string(category) == "collective" ? 1 : 0;
    events.push_back(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":"{}","cat":"{}",)"
                                 R"("args":{{"list":"l","command":{}{}}}}})",
                                 rank, thread, begin, length, name, category, command, more));
  }
  StageProfile read(const abi::Manifest &manifest) const {
    return stageProfileOf(RunTrace::parse(fmt::format(R"({{"traceEvents":[{}]}})", fmt::join(events, ",")), "a trace"),
                          manifest, "a trace");
  }
  std::string problem(const abi::Manifest &manifest) const {
    try {
      read(manifest);
    } catch (const Error &error) {
      EXPECT_EQ(error.exitCode(), ExitCode::BadInput);
      return error.what();
    }
    return "";
  }

  std::vector<std::string> events;
};

TEST_F(StageTimes, PassesAreCountedByLayer) {
  step(0, 0, 1000);
  step(1, 0, 1000);
  slice(0, 0, 10, "h.0", "forward", 0);
  slice(0, 10, 20, "h.0", "input gradient", 1);
  slice(0, 30, 30, "h.0", "weight gradient", 2);
  slice(0, 60, 4, "", "forward", 3);
  slice(0, 70, 500, "h.0", "update", 4);
  slice(0, 600, 500, "", "", 5);
  slice(0, 2000, 500, "h.0", "forward", 0); // an evaluation, outside the step
  slice(1, 0, 8, "h.1", "forward", 0);
  StageProfile profile = read(pipeline({{"pp", 2}}, 1));
  ASSERT_EQ(profile.layers.size(), 2U);
  EXPECT_EQ(profile.layers[0].size(), 1U);
  EXPECT_NEAR(profile.layers[0].at("h.0"), 60e-6, 1e-12);
  EXPECT_NEAR(profile.outside[0], 4e-6, 1e-12);
  EXPECT_NEAR(profile.layers[1].at("h.1"), 8e-6, 1e-12);
  EXPECT_EQ(profile.outside[1], 0);
}

// Its stages' own collectives take a rank's time; waits for other stages are what balancing is to remove.
TEST_F(StageTimes, OnlyWaitsForCollectivesCount) {
  for (int rank : {0, 1}) {
    step(rank, 0, 1000);
    slice(rank, 0, 10, "h.0", "forward", 0);
  }
  slice(0, 10, 1, "h.0", "forward", 1, "start", "start ALL_REDUCE of x");
  slice(0, 11, 30, "h.0", "forward", 1, "collective", "ALL_REDUCE");
  slice(0, 20, 5, "h.0", "forward", 2, "wait", "wait for ALL_REDUCE of x");
  slice(0, 30, 100, "h.0", "forward", 3, "wait", "wait for RECV of y");
  slice(0, 130, 100, "h.0", "forward", 4, "wait", "wait for SEND of y");
  EXPECT_NEAR(read(pipeline({{"pp", 2}}, 1)).layers[0].at("h.0"), 15e-6, 1e-12);
}

// Two steps of two micro-batches: four runs of a command, whose median counts for all of them.
TEST_F(StageTimes, OneSlowRunOfACommandDoesNotCount) {
  for (int rank : {0, 1}) {
    step(rank, 0, 500);
    step(rank, 500, 500);
    for (double begin : {0, 100, 500})
      slice(rank, begin, 10, "h.0", "forward", 0);
    slice(rank, 600, 300, "h.0", "forward", 0);
  }
  EXPECT_NEAR(read(pipeline({{"pp", 2}}, 2)).layers[0].at("h.0"), 10e-6, 1e-12);
}

// Ranks 0, 1 have the first stage and 2, 3 the second, as pp is the first axis.
TEST_F(StageTimes, TheSlowestOfEqualRanksCounts) {
  for (int rank : {0, 1, 2, 3}) {
    step(rank, 0, 1000);
    slice(rank, 0, 10 + rank % 2, rank < 2 ? "h.0" : "h.1", "forward", 0);
  }
  StageProfile profile = read(pipeline({{"pp", 2}, {"tp", 2}}, 1));
  ASSERT_EQ(profile.layers.size(), 2U);
  EXPECT_NEAR(profile.layers[0].at("h.0"), 11e-6, 1e-12);
  EXPECT_NEAR(profile.layers[1].at("h.1"), 11e-6, 1e-12);
}

TEST_F(StageTimes, WhatIsNoProfileIsRefused) {
  step(0, 0, 1000);
  slice(0, 0, 10, "h.0", "forward", 0);
  EXPECT_THAT(problem(pipeline({{"dp", 2}}, 1)), HasSubstr("the run had no pipeline (its mesh was dp=2)"));
  step(2, 0, 1000);
  slice(2, 0, 10, "h.0", "update", 0);
  EXPECT_THAT(problem(pipeline({{"pp", 2}, {"tp", 2}}, 1)),
              HasSubstr("no commands of a forward or backward pass of rank 2, which is number 1 along the pipeline"));
}

} // namespace
} // namespace dtc
