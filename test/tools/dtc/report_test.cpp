// The data of `dtc report` for handwritten inputs. test/e2e/report_run_test.py compares it with real runs.
#include "runtime/abi/addresses.h"
#include "runtime/abi/timetables.h"
#include "tools/dtc/report/Page.h"
#include "tools/dtc/report/Pipeline.h"
#include "tools/dtc/report/Residuals.h"
#include "tools/dtc/report/Series.h"
#include "tools/dtc/report/Sharding.h"
#include "tools/dtc/report/Timeline.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>

namespace dtc {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

TEST(Thinned, KeepsEndsAndExtremes) {
  Series series;
  for (int step = 1; step <= 1000; ++step)
    series.add(step, step == 400 ? 9 : step == 401 ? -9 : std::sin(step));
  Series drawn = thinned(series, 50);
  EXPECT_LE(drawn.steps.size(), 50u);
  EXPECT_EQ(drawn.steps.front(), 1);
  EXPECT_EQ(drawn.steps.back(), 1000);
  EXPECT_TRUE(std::ranges::is_sorted(drawn.steps));
  EXPECT_EQ(std::ranges::max(drawn.values), 9);
  EXPECT_EQ(std::ranges::min(drawn.values), -9);
  EXPECT_EQ(thinned(series, 1000).steps, series.steps);
}

TEST(Thinned, NumbersComeBeforeNone) {
  Series series;
  for (int step = 1; step <= 100; ++step)
    series.add(step, step == 50 ? 1 : std::numeric_limits<double>::quiet_NaN());
  Series drawn = thinned(series, 10);
  EXPECT_EQ(std::ranges::count(drawn.values, 1.0), 1);
}

TEST(RanksText, NamesRows) {
  EXPECT_EQ(ranksText({0, 1, 2, 3}), "0-3");
  EXPECT_EQ(ranksText({0, 2}), "0, 2");
  EXPECT_EQ(ranksText({0, 2, 4, 6}), "0-6 by 2");
  EXPECT_EQ(ranksText({0, 1, 2, 8, 9, 10, 20}), "0-2, 8-10, 20");
}

std::string slice(int rank, int thread, double begin, double length, const char *name, const char *category,
                  const char *more = "") {
  return fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":"{}","cat":"{}","args":{{"list":"l",)"
                     R"("command":0{}}}}})",
                     rank, thread, begin, length, name, category, more);
}

RunTrace traceOf(const std::vector<std::string> &events) {
  return RunTrace::parse(fmt::format(R"({{"traceEvents":[{}]}})", fmt::join(events, ",")), "a trace");
}

// The prediction begins at its own step, as the measurement does.
TEST(TimelineData, PredictedStandsAboveMeasured) {
  RunTrace measured = traceOf({slice(0, 100, 1000, 50, "step 7", "step"), slice(0, 0, 1010, 20, "k", "kernel")}),
           predicted = traceOf({slice(0, 100, 0, 40, "step 1", "step"), slice(0, 0, 5, 30, "k", "kernel")});
  Json data = timelineJson(measured, &predicted, 100);
  ASSERT_EQ(data["rows"].size(), 2u);
  EXPECT_EQ(data["rows"][0]["source"], "predicted");
  EXPECT_EQ(data["rows"][1]["source"], "measured");
  EXPECT_EQ(data["rows"][0]["lanes"][0]["after"], Json({50})); // tenths of microseconds
  EXPECT_EQ(data["rows"][0]["lanes"][0]["length"], Json({300}));
  EXPECT_EQ(data["rows"][1]["lanes"][0]["after"], Json({100}));
  EXPECT_EQ(data["steps"], Json::parse(R"([{"step":7,"begin":0.0,"end":50.0}])"));
  EXPECT_EQ(data["names"][data["rows"][0]["lanes"][0]["what"][0].get<size_t>()], "k");
}

TEST(TimelineData, ShortSlicesOfAKindAreOneBar) {
  std::vector<std::string> events = {slice(0, 100, 0, 10000, "step 1", "step")};
  for (int i = 0; i < 1000; ++i)
    events.push_back(slice(0, 0, 10 * i, 9, "k", "kernel", i < 500 ? R"(,"direction":"forward")" : ""));
  events.push_back(slice(0, 0, 20000, 5000, "long", "kernel"));
  Json lane = timelineJson(traceOf(events), nullptr, 100)["rows"][0]["lanes"][0];
  EXPECT_LE(lane["after"].size(), 100u);
  int64_t slices = 0, end = 0;
  for (size_t i = 0; i < lane["after"].size(); ++i) {
    slices += lane["slices"][i].get<int64_t>();
    end += lane["after"][i].get<int64_t>() + lane["length"][i].get<int64_t>();
  }
  EXPECT_EQ(slices, 1001);
  EXPECT_EQ(end, 250000);
}

TEST(Residuals, TheLargestDifferenceComesFirst) {
  RunTrace measured = traceOf({slice(0, 100, 0, 100, "step 1", "step"), slice(0, 0, 0, 30, "a", "kernel"),
                               slice(0, 0, 30, 20, "b", "kernel"), slice(0, 0, 200, 70, "evaluation", "kernel")}),
           predicted = traceOf({slice(0, 100, 0, 100, "step 1", "step"), slice(0, 0, 0, 29, "a", "kernel"),
                                slice(0, 1, 0, 5, "ALL_REDUCE", "collective"), slice(0, 0, 30, 10, "b", "kernel")});
  Json rows = residualsJson(predicted, measured);
  ASSERT_EQ(rows.size(), 3u) << rows;
  EXPECT_EQ(rows[0]["class"], "b");
  EXPECT_DOUBLE_EQ(rows[0]["predicted"], 10e-6);
  EXPECT_DOUBLE_EQ(rows[0]["measured"], 20e-6);
  EXPECT_EQ(rows[1]["class"], "ALL_REDUCE");
  EXPECT_EQ(rows[1]["measured"], 0);
  EXPECT_EQ(rows[2]["class"], "a");
}

/// Two stages on the mesh pp=2,dp=2, with two micro-batches.
abi::Manifest pipelineManifest() {
  abi::Manifest manifest;
  manifest.set_timetable("gpipe");
  for (const char *name : {"pp", "dp"}) {
    abi::Axis &axis = *manifest.mutable_mesh()->add_axes();
    axis.set_name(name);
    axis.set_size(2);
  }
  for (auto [name, duty] : {std::pair{"forward.0", abi::CommandList::FORWARD_PASS},
                            {"backward.0", abi::CommandList::BACKWARD_PASS},
                            {"receive.1", abi::CommandList::TRANSFER},
                            {"forward.1", abi::CommandList::FORWARD_PASS},
                            {"inputs.1", abi::CommandList::INPUT_GRADIENTS},
                            {"weights.1", abi::CommandList::WEIGHT_GRADIENTS},
                            {"update", abi::CommandList::ONCE}}) {
    abi::CommandList &list = *manifest.add_lists();
    list.set_name(name);
    list.set_duty(duty);
  }
  for (uint32_t stage = 0; stage < 2; ++stage) {
    manifest.add_stages();
    abi::Role &role = *manifest.add_roles();
    abi::RankRange &ranks = *role.add_ranks();
    ranks.set_first(2 * stage);
    ranks.set_count(2);
    abi::Timetable &step = abi::timetableIn(role, abi::stepTimetable);
    auto add = [&](const char *list, int64_t microBatch) {
      abi::TimetableEntry &entry = *step.add_period();
      entry.set_list(list);
      entry.set_stage(stage);
      entry.set_micro_batch(microBatch);
    };
    std::vector<const char *> lists = {"receive.1", "forward.1", "inputs.1", "weights.1"};
    for (int64_t microBatch = 0; microBatch < 2 && stage == 1; ++microBatch)
      for (const char *list : lists)
        add(list, microBatch);
    for (const char *list : {"forward.0", "backward.0"})
      for (int64_t microBatch = 0; microBatch < 2 && stage == 0; ++microBatch)
        add(list, microBatch);
    step.add_period()->set_list("update");
  }
  return manifest;
}

/// A step of that program: all times are `factor` times what is written here, and it begins at `begin`.
std::vector<std::string> pipelineEvents(int64_t step, double begin, double factor) {
  std::vector<std::string> events;
  auto add = [&](int rank, const char *list, int command, double from, double to, const char *category) {
    events.push_back(fmt::format(R"({{"ph":"X","pid":{},"tid":0,"ts":{},"dur":{},"name":"k","cat":"{}",)"
                                 R"("args":{{"list":"{}","command":{}}}}})",
                                 rank, begin + from * factor, (to - from) * factor, category, list, command));
  };
  for (int rank : {0, 2})
    events.push_back(slice(rank, 100, begin, 200 * factor, fmt::format("step {}", step).c_str(), "step"));
  for (double from : {10, 21}) {
    add(0, "forward.0", 0, from, from + 10, "kernel");
    add(0, "forward.0", 1, from + 10, from + 11, "start");
  }
  add(0, "backward.0", 0, 32, 60, "wait");
  add(0, "backward.0", 1, 60, 80, "kernel");
  add(0, "backward.0", 0, 80, 90, "wait");
  add(0, "backward.0", 1, 90, 100, "kernel");
  add(0, "backward.0", 2, 100, 102, "wait"); // within the pass: it counts
  add(0, "backward.0", 3, 102, 110, "kernel");
  add(0, "update", 0, 120, 130, "kernel");
  for (double from : {0, 60}) {
    add(2, "receive.1", 0, from, from + 1, "start");
    add(2, "forward.1", 0, from + 1, from + 25, "wait");
    add(2, "forward.1", 1, from + 25, from + 35, "kernel");
    add(2, "inputs.1", 0, from + 35, from + 45, "kernel");
    add(2, "inputs.1", 1, from + 45, from + 46, "start");
    add(2, "weights.1", 0, from + 46, from + 56, "kernel");
    add(2, "weights.1", 1, from + 56, from + 58, "wait"); // behind it: it does not count
  }
  add(2, "update", 0, 119, 130, "kernel");
  return events;
}

// Passes from 10 to 116 us. Rank 0 computes 11 + 11 + 20 + 20 us, rank 2 twice 10 + 11 + 10.
TEST(PipelineData, PassesLastWithoutTheWaitsAroundThem) {
  abi::Manifest manifest = pipelineManifest();
  std::optional<PipelineStep> step = pipelineStepOf(traceOf(pipelineEvents(7, 1000, 1)), manifest);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->number, 7);
  EXPECT_THAT(step->ranks, ElementsAre(0, 2));
  EXPECT_EQ(step->timetable.microBatches, 2);
  EXPECT_THAT(step->timetable.rankOf, ElementsAre(0, 1));
  std::vector<std::string> found;
  for (size_t row = 0; row < 2; ++row)
    for (size_t at = 0; at < step->times.entries[row].size(); ++at)
      found.push_back(fmt::format("{} {} {}", timetables::textOf(step->timetable.ranks[row][at]),
                                  std::llround(step->times.entries[row][at].begin * 1e6),
                                  std::llround(step->times.entries[row][at].end * 1e6)));
  EXPECT_THAT(found, ElementsAre("0F0 0 11", "0F1 11 22", "0B0 50 70", "0B1 80 100", "1F0 15 25", "1I0 25 36",
                                 "1W0 36 46", "1F1 75 85", "1I1 85 96", "1W1 96 106"));
  EXPECT_DOUBLE_EQ(step->times.seconds, 106e-6);
  EXPECT_DOUBLE_EQ(step->times.meanWork(), 62e-6);
  EXPECT_DOUBLE_EQ(step->times.bubbleOverhead(), 44.0 / 62);
  EXPECT_DOUBLE_EQ(step->times.bubbleFraction(), 44.0 / 106);
}

TEST(PipelineData, IsTheStepOfMedianLength) {
  std::vector<std::string> events;
  double begin = 0, factors[] = {4, 1, 2, 3};
  for (int step = 0; step < 4; ++step, begin += 1000)
    for (const std::string &event : pipelineEvents(step + 1, begin, factors[step]))
      events.push_back(event);
  std::optional<PipelineStep> step = pipelineStepOf(traceOf(events), pipelineManifest());
  ASSERT_TRUE(step);
  EXPECT_EQ(step->number, 3);
  EXPECT_DOUBLE_EQ(step->times.seconds, 212e-6);
}

TEST(PipelineData, OtherProgramsAndPartsOfStepsAreNotTaken) {
  abi::Manifest manifest = pipelineManifest();
  std::vector<std::string> events = pipelineEvents(1, 0, 1), less = events;
  std::erase_if(less, [](const std::string &event) { return event.find(R"("pid":2)") != std::string::npos; });
  EXPECT_FALSE(pipelineStepOf(traceOf(less), manifest));
  less = events;
  std::erase_if(less, [](const std::string &event) { return event.find("weights.1") != std::string::npos; });
  EXPECT_FALSE(pipelineStepOf(traceOf(less), manifest));
  std::vector<std::string> more = events;
  more.push_back(slice(0, 0, 150, 5, "k", "kernel")); // of the list "l", which nobody knows
  EXPECT_FALSE(pipelineStepOf(traceOf(more), manifest));
  // Lists that leave no slice are no fault: this receive has begun before.
  less = events;
  std::erase_if(less, [](const std::string &event) { return event.find("receive.1") != std::string::npos; });
  EXPECT_TRUE(pipelineStepOf(traceOf(less), manifest));
}

TEST(PipelineData, IsOfPipelinesWhoseStepsDoNotOverlap) {
  abi::Manifest manifest = pipelineManifest();
  EXPECT_TRUE(hasPipeline(manifest));
  abi::timetableIn(*manifest.mutable_roles(1), abi::stepTimetable).mutable_period(0)->set_step(1);
  EXPECT_FALSE(hasPipeline(manifest));
  manifest = pipelineManifest();
  manifest.mutable_mesh()->mutable_axes(0)->set_name("tp");
  EXPECT_FALSE(hasPipeline(manifest));
}

// A row is 700 wide where 16 for each pass are less, and the longer step fills it.
TEST(PipelineData, PicturesHaveOneScale) {
  abi::Manifest manifest = pipelineManifest();
  std::optional<PipelineStep> predicted = pipelineStepOf(traceOf(pipelineEvents(1, 0, 0.5)), manifest),
                              measured = pipelineStepOf(traceOf(pipelineEvents(7, 0, 1)), manifest);
  ASSERT_TRUE(predicted && measured);
  Json data = pipelineJson(manifest, &*predicted, &*measured, 10);
  EXPECT_EQ(data["timetable"], "gpipe");
  EXPECT_EQ(data["stages"], 2);
  std::string shorter = data["predicted"]["svg"], longer = data["measured"]["svg"];
  EXPECT_THAT(shorter, HasSubstr(R"(width="350.00" height="18" fill="#eeeeee")"));
  EXPECT_THAT(longer, HasSubstr(R"(width="700.00" height="18" fill="#eeeeee")"));
  EXPECT_THAT(longer, HasSubstr("bubble overhead 0.71, fraction 0.415"));
  EXPECT_THAT(longer, HasSubstr("0B0 (stage 0, micro-batch 0): 0.05 to 0.07 ms"));
  EXPECT_THAT(shorter, HasSubstr("0B0 (stage 0, micro-batch 0): 0.025 to 0.035 ms"));
  EXPECT_THAT(longer, HasSubstr(">rank 2<"));
  EXPECT_EQ(data["measured"]["ranks"][1]["rank"], 2);
  EXPECT_EQ(data["measured"]["ranks"][1]["entries"][0],
            Json::parse(R"({"entry":"1F0","begin":1.5e-05,"end":2.5e-05})"));
  // Alone, the shorter one fills its row. Ten passes are too many where nine are the most.
  data = pipelineJson(manifest, &*predicted, nullptr, 10);
  EXPECT_THAT(data["predicted"]["svg"].get<std::string>(), HasSubstr(R"(width="700.00" height="18" fill="#eeeeee")"));
  EXPECT_FALSE(data.contains("measured"));
  data = pipelineJson(manifest, &*predicted, nullptr, 9);
  EXPECT_FALSE(data["predicted"].contains("svg"));
  EXPECT_FALSE(data["predicted"]["ranks"][0].contains("entries"));
}

TEST(Page, NamesDoNotEndTheDataOrBecomeHtml) {
  std::string name = "</script><!--<script><img src=x onerror=alert(1)>\xff\u2028";
  std::string page = reportPage({{"name", name}});
  size_t begin = page.find("id=\"data\">") + 10, end = page.find("</script>", begin);
  std::string data = page.substr(begin, end - begin);
  EXPECT_THAT(data, Not(HasSubstr("<")));
  EXPECT_THAT(Json::parse(data)["name"].get<std::string>(), HasSubstr("</script><!--<script><img src=x"));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
}

} // namespace
} // namespace dtc
