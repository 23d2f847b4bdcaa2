// What a trace shows of commands that communicate.
#include "runtime/observe/trace.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

using testing::ElementsAre;

namespace dtc::test {
namespace {

/// An all-reduce of eight floats over four ranks on channel 2, and the wait for it.
class TraceTest : public testing::Test {
protected:
  TraceTest() {
    abi::Group &group = *manifest.add_groups();
    group.set_channel(2);
    abi::AxisRef &axis = *group.add_axes();
    axis.set_axis("dp");
    axis.set_size(4);
    abi::Collective &collective = *start.mutable_start();
    collective.set_kind(abi::Collective::ALL_REDUCE);
    collective.set_type(abi::F32);
    collective.set_outer(1);
    collective.set_chunk(8);
    collective.set_token(7);
    collective.set_value("gradient of h.0.mlp");
    wait.mutable_wait()->set_token(7);
  }

  static std::vector<nlohmann::json> eventsOf(const Trace &trace, const char *phases) {
    std::vector<nlohmann::json> found;
    std::string text = trace.events();
    for (const auto &event : nlohmann::json::parse("[" + text.substr(0, text.size() - 2) + "]"))
      if (std::string(phases).find(event["ph"].get<std::string>()) != std::string::npos)
        found.push_back(event);
    return found;
  }

  abi::Manifest manifest;
  abi::Command start, wait;
};

TEST_F(TraceTest, AFlowLeadsFromAStartToItsWait) {
  Trace trace(manifest, 3);
  for (int64_t begin : {1000, 11000}) { // the second wait begins before the channel is free
    int64_t carriedOut = begin == 1000 ? begin + 1000 : begin + 5000;
    trace.executed({start, "micro", 0, begin, begin + 500, true});
    trace.executed({start, "micro", 0, carriedOut, carriedOut + 3000, false});
    trace.executed({wait, "update", 5, begin + 3000, begin + 9000, false});
  }
  std::vector<std::string> names;
  for (const auto &slice : eventsOf(trace, "X"))
    names.push_back(slice["name"].get<std::string>() + " on " + std::to_string(slice["tid"].get<int>()));
  EXPECT_EQ(names.size(), 6u);
  names.resize(3);
  EXPECT_THAT(names, ElementsAre("start ALL_REDUCE of gradient of h.0.mlp on 0", "ALL_REDUCE on 3",
                                 "wait for ALL_REDUCE of gradient of h.0.mlp on 0"));
  std::vector<nlohmann::json> flow = eventsOf(trace, "stf");
  ASSERT_EQ(flow.size(), 6u);
  auto told = [&](const char *key) {
    std::vector<nlohmann::json> values;
    for (const auto &event : flow)
      values.push_back(event[key]);
    return values;
  };
  EXPECT_THAT(told("ph"), ElementsAre("s", "t", "f", "s", "t", "f"));
  EXPECT_THAT(told("tid"), ElementsAre(0, 3, 0, 0, 3, 0));
  EXPECT_THAT(told("ts"), ElementsAre(1.0, 2.0, 4.0, 11.0, 16.0, 16.0)); // never back in time
  int64_t first = int64_t(3) << 32;                                      // other ranks have others
  EXPECT_THAT(told("id"), ElementsAre(first, first, first, first + 1, first + 1, first + 1));
}

TEST_F(TraceTest, ACopyBesideLaunchesIsOnALineOfItsChannel) {
  abi::Command copied;
  copied.mutable_copy()->set_elements(256);
  *manifest.add_lists()->add_commands() = copied;
  copied.mutable_copy()->set_token(7);
  copied.mutable_copy()->set_channel(3);
  *manifest.mutable_lists(0)->add_commands() = copied;
  Trace trace(manifest, 0);
  trace.executed({copied, "micro", 1, 1000, 1500, true});
  trace.executed({copied, "micro", 1, 2000, 2512, false});
  trace.executed({wait, "update", 5, 2400, 3000, false});
  std::vector<nlohmann::json> slices = eventsOf(trace, "X"), flow = eventsOf(trace, "stf");
  std::vector<std::string> names, lines;
  for (const auto &slice : slices)
    names.push_back(slice["name"].get<std::string>() + " on " + std::to_string(slice["tid"].get<int>()));
  EXPECT_THAT(names, ElementsAre("start copy on 0", "copy on 12", "wait for copy on 0"));
  EXPECT_EQ(slices.at(1)["args"]["bytes"], 1024);
  EXPECT_EQ(slices.at(1)["args"]["GB/s"], 2);
  ASSERT_EQ(flow.size(), 3U);
  EXPECT_EQ(flow[1]["tid"], 12);
  for (const auto &line : eventsOf(trace, "M"))
    if (line["name"] == "thread_name")
      lines.push_back(line["args"]["name"].get<std::string>());
  EXPECT_THAT(lines, ElementsAre("steps", "compute", "channel 2", "copies 3"));
}

TEST_F(TraceTest, ACollectiveHasItsBytesAndRate) {
  Trace trace(manifest, 0);
  trace.executed({start, "micro", 0, 1000, 1024, false}); // waited for at once: no flow
  EXPECT_TRUE(eventsOf(trace, "stf").empty());
  nlohmann::json arguments = eventsOf(trace, "X").at(0)["args"];
  EXPECT_EQ(arguments["bytes"], 32);
  EXPECT_EQ(arguments["sent_bytes"], 48); // 2 (4 - 1) / 4
  EXPECT_EQ(arguments["GB/s"], 2);
}

} // namespace
} // namespace dtc::test
