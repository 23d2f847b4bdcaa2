#include "tools/dtc/forecast/MeasuredTrace.h"

#include "runtime/support/error.h"
#include "test/runtime/temporary_directory.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

namespace dtc {
namespace {

/// Two kernels of 4 flops each, and a collective between them that is started and waited for.
abi::Manifest twoKernels() {
  abi::Manifest manifest;
  abi::CommandList &list = *manifest.add_lists();
  list.set_name("micro");
  for (bool isLaunch : {true, false, false, true}) {
    abi::Command &command = *list.add_commands();
    if (isLaunch) {
      command.mutable_launch();
      command.mutable_work()->set_flops(4);
    }
  }
  list.mutable_commands(1)->mutable_start();
  list.mutable_commands(2)->mutable_wait();
  return manifest;
}

class Traces : public testing::Test {
protected:
  void slice(int rank, const char *category, int command, double begin, double length) {
    events += fmt::format(R"({}{{"ph": "X", "pid": {}, "tid": {}, "cat": "{}", "name": "x {}", "ts": {}, "dur": {},)"
                          R"( "args": {{"list": "micro", "command": {}}}}})",
                          events.empty() ? "" : ",", rank, std::string(category) == "collective", category, command,
                          begin, length, command);
  }
  MeasuredTrace read() {
    return MeasuredTrace(manifest, directory.write("trace.json", R"({"traceEvents": [)" + events + "]}"));
  }

  abi::Manifest manifest = twoKernels();
  std::string events;
  // One file for each test: tests run at once.
  test::TemporaryDirectory directory;
};

// In microseconds. A gap of 5 counts with the kernel before it, one of 100 with the host.
TEST_F(Traces, WhatLiesBetweenCommandsCountsWithThemUnlessItIsLong) {
  slice(0, "step", 7, 0, 300);
  slice(0, "kernel", 0, 10, 20);
  slice(0, "start", 1, 35, 1);
  slice(0, "collective", 1, 36, 90);
  slice(0, "wait", 2, 36, 50);
  slice(0, "kernel", 3, 186, 40);
  MeasuredTrace trace = read();
  ASSERT_EQ(trace.kernels().size(), 2u);
  EXPECT_NEAR(trace.kernels()[0].seconds, 25e-6, 1e-12) << "20 and the gap to the start";
  EXPECT_NEAR(trace.kernels()[1].seconds, 40e-6, 1e-12) << "nothing follows";
  EXPECT_EQ(trace.kernels()[0].work.flops, 4);
  EXPECT_NEAR(trace.steps().at(0), 300e-6, 1e-12);
  // Until 86 all is covered, of the gap of 100 nothing, of the rest 40, and nothing of 74.
  EXPECT_NEAR(trace.hosts().at(0), 300e-6 - 86e-6 - 40e-6, 1e-12);
}

TEST_F(Traces, StepsAreThoseOfTheSlowestRankAndKernelsOfAll) {
  for (int rank : {0, 1})
    for (int step : {3, 4}) {
      slice(rank, "step", step, 1000 * step, 100 + 10 * rank * step);
      slice(rank, "kernel", 0, 1000 * step, 20 + 2 * rank);
    }
  MeasuredTrace trace = read();
  ASSERT_EQ(trace.steps().size(), 2u);
  EXPECT_NEAR(trace.steps()[0], 130e-6, 1e-12);
  EXPECT_NEAR(trace.steps()[1], 140e-6, 1e-12);
  EXPECT_EQ(trace.kernels().size(), 4u);
  EXPECT_EQ(trace.hosts().size(), 4u);
  EXPECT_EQ(trace.medians().size(), 1u);
}

TEST_F(Traces, OfAnotherProgramAreRefused) {
  slice(0, "kernel", 9, 0, 1);
  EXPECT_THROW(read(), Error);
}

TEST_F(Traces, OfNothingAreRefused) { EXPECT_THROW(read(), Error); }

} // namespace
} // namespace dtc
