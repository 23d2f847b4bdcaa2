// The data of `dtc report` for handwritten inputs. test/e2e/report_run_test.py compares it with real runs.
#include "runtime/abi/addresses.h"
#include "tools/dtc/report/Page.h"
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
