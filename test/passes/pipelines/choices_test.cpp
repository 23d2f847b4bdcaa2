// Choices as text: what is written is read back, and invalid text is refused with its place.
#include "passes/choices/Choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using testing::ElementsAre;
using testing::HasSubstr;

namespace dtc {
namespace {

Choices parse(const std::string &text) {
  std::optional<Choices> choices =
      parseChoices(text, "c.toml", {}, [](const llvm::Twine &problem) { ADD_FAILURE() << problem.str(); });
  return choices.value_or(Choices());
}

std::string problemOf(const std::string &text) {
  std::string found;
  EXPECT_FALSE(parseChoices(text, "c.toml", {}, [&](const llvm::Twine &problem) { found = problem.str(); }));
  return found;
}

constexpr const char *everything = R"(timetable = "gpipe"
layers = [9, 3]
crossing = ["whole", "sliced"]
gather_ahead = 4
bucket_bytes = "25MB"

[recompute]
"*" = "none"
"h.*" = "5 full, 4 every:2, 3 cheap"

[gathers]
"h.*.mlp.*" = "shared"
"a \"quoted\" name" = "again"
"h.*.attn.*" = "8 again, 4 shared"

[rows]
"wte.*" = "gathered"

[split]
"*" = 1
"h.*" = 2

[[bucket]]
starts = ["update all_reduce h.*.ln_1.weight", "update all_reduce h.*.ln_1.bias"]
layers = 4
why = "they are small"

[[order]]
list = "micro_last*"
move = "update all_reduce h.*.mlp.c_fc.weight"
after = "input_gradient contract h.*.attn.c_proj"
layer = -1

[[order]]
move = "forward all_gather h.*.ln_1.weight"
before = "forward attention h.*.attn"
)";

TEST(ChoicesTest, AllThereIsToSay) {
  Choices choices = parse(everything);
  EXPECT_EQ(choices.timetable, "gpipe");
  EXPECT_THAT(choices.layers, ElementsAre(9, 3));
  EXPECT_THAT(choices.crossing, ElementsAre("whole", "sliced"));
  EXPECT_EQ(choices.gatherAhead, 4U);
  ASSERT_EQ(choices.gathers.size(), 3U);
  EXPECT_EQ(choices.gathers[0].parameters, "h.*.mlp.*"); // in the order of the file
  EXPECT_EQ(choices.gathers[0].runs, std::vector{GatherRun{Gathering::Shared}});
  EXPECT_EQ(choices.gathers[1].runs, std::vector{GatherRun{Gathering::Again}});
  EXPECT_EQ(choices.gathers[2].runs, (std::vector{GatherRun{Gathering::Again, 8}, GatherRun{Gathering::Shared, 4}}));
  ASSERT_EQ(choices.rows.size(), 1U);
  EXPECT_EQ(choices.rows[0].parameters, "wte.*");
  EXPECT_EQ(choices.rows[0].how, "gathered");
  ASSERT_EQ(choices.split.size(), 2U);
  EXPECT_EQ(choices.split[1].pattern, "h.*"); // in the order of the file
  EXPECT_EQ(choices.split[1].parts, 2);
  ASSERT_EQ(choices.recompute.size(), 2U);
  EXPECT_EQ(choices.recompute[0].layers, "*");
  EXPECT_EQ(choices.recompute[0].runs, std::vector{RecomputeRun{abi::Recompute{abi::Recompute::Kind::None}}});
  EXPECT_EQ(choices.recompute[1].layers, "h.*");
  ASSERT_EQ(choices.recompute[1].runs.size(), 3U);
  EXPECT_EQ(choices.recompute[1].runs[1], (RecomputeRun{abi::Recompute{abi::Recompute::Kind::Full, 2}, 4}));
  ASSERT_EQ(choices.order.size(), 2U);
  const OrderRule &rule = choices.order[0];
  EXPECT_EQ(rule.list, "micro_last*");
  EXPECT_EQ(rule.move, "update all_reduce h.*.mlp.c_fc.weight");
  EXPECT_EQ(rule.anchor, "input_gradient contract h.*.attn.c_proj");
  EXPECT_FALSE(rule.isBefore);
  EXPECT_EQ(rule.layer, -1);
  EXPECT_EQ(rule.where, "c.toml:28");
  EXPECT_TRUE(choices.order[1].isBefore);
  EXPECT_EQ(choices.order[1].list, "*");
  EXPECT_EQ(choices.bucketSize, (abi::BucketSize{abi::BucketSize::Kind::Bytes, 25'000'000}));
  ASSERT_EQ(choices.buckets.size(), 1U);
  EXPECT_THAT(choices.buckets[0].starts,
              ElementsAre("update all_reduce h.*.ln_1.weight", "update all_reduce h.*.ln_1.bias"));
  EXPECT_EQ(choices.buckets[0].layers, 4);
  EXPECT_EQ(choices.buckets[0].why, "they are small");
}

TEST(ChoicesTest, SizesOfBuckets) {
  auto textOf = [](const std::string &text) {
    std::optional<abi::BucketSize> size = abi::parseBucketSize(text);
    return size ? abi::textOf(*size) : "no size";
  };
  for (std::string text : {"auto", "none", "1", "1023", "7KB", "25MB", "3GB"})
    EXPECT_EQ(textOf(text), text);
  EXPECT_EQ(textOf("25000KB"), "25MB");
  EXPECT_EQ(textOf("2K"), "2KB");
  EXPECT_EQ(textOf("1KiB"), "1024");
  EXPECT_EQ(textOf("1MiB"), "1048576");
  for (std::string text : {"", "0", "0MB", "-1", "MB", "1.5MB", "2 MB", "2mb", "2MBs", "9999999999999999GB", "all"})
    EXPECT_EQ(textOf(text), "no size") << text;
}

TEST(ChoicesTest, WhatIsPrintedIsReadBack) {
  Choices choices = parse(everything), again = parse(printChoices(choices, true));
  EXPECT_EQ(printChoices(again, true), printChoices(choices, true));
  EXPECT_EQ(again.timetable, choices.timetable);
  EXPECT_EQ(again.layers, choices.layers);
  EXPECT_EQ(again.crossing, choices.crossing);
  EXPECT_EQ(again.gatherAhead, choices.gatherAhead);
  EXPECT_EQ(again.order, choices.order);
  ASSERT_EQ(again.gathers.size(), 3U);
  EXPECT_EQ(again.gathers[1].parameters, "a \"quoted\" name");
  ASSERT_EQ(again.rows.size(), 1U);
  EXPECT_EQ(again.rows[0].how, "gathered");
  // Without stages, they are not mentioned.
  EXPECT_EQ(printChoices(choices, false).find("timetable"), std::string::npos);
  EXPECT_EQ(printChoices(choices, false).find("layers = ["), std::string::npos);
  EXPECT_EQ(printChoices(choices, false).find("crossing"), std::string::npos);
  // One word stands for all cuts.
  EXPECT_THAT(parse("crossing = \"sliced\"").crossing, ElementsAre("sliced"));
  EXPECT_THAT(printChoices(parse("crossing = [\"sliced\", \"sliced\"]"), true), HasSubstr("crossing = 'sliced'\n"));
  EXPECT_EQ(printChoices({}, true).find("crossing"), std::string::npos);
}

TEST(ChoicesTest, WhatIsNotSaidIsAsGiven) {
  Choices given;
  given.timetable = "naive";
  given.gatherAhead = 7;
  std::optional<Choices> choices = parseChoices("layers = [1, 1]", "c.toml", given, [](const llvm::Twine &) {});
  ASSERT_TRUE(choices);
  EXPECT_EQ(choices->timetable, "naive");
  EXPECT_EQ(choices->gatherAhead, 7U);
}

TEST(ChoicesTest, WhatCannotBeIsNamedWithItsPlace) {
  EXPECT_THAT(problemOf("\ntimetabel = \"1f1b\""),
              HasSubstr("c.toml:2: unknown key 'timetabel'; did you mean 'timetable'?"));
  EXPECT_THAT(problemOf("timetable = \"chimera\""),
              HasSubstr("c.toml:1: timetable: there is no 'chimera'; there are naive, gpipe, 1f1b"));
  EXPECT_THAT(problemOf("layers = [2, 0]"), HasSubstr("c.toml:1: layers: how many layers each stage has"));
  EXPECT_THAT(problemOf("layers = 2"), HasSubstr("layers = [9, 3]"));
  for (const char *way : {"\"half\"", "[\"half\"]", "[\"sliced\", \"half\"]"})
    EXPECT_THAT(problemOf(std::string("crossing = ") + way),
                HasSubstr("c.toml:1: crossing: must be \"whole\" or \"sliced\", or a list of these with one for each "
                          "cut of the pipeline, not 'half'"));
  EXPECT_THAT(problemOf("crossing = []"), HasSubstr("c.toml:1: crossing: must be"));
  EXPECT_THAT(problemOf("gather_ahead = -1"), HasSubstr("c.toml:1: gather_ahead: must be a whole number"));
  EXPECT_THAT(problemOf("bucket_bytes = 0"), HasSubstr("c.toml:1: bucket_bytes: '0' is not a size"));
  EXPECT_THAT(problemOf("bucket_bytes = \"large\""),
              HasSubstr("'large' is not a size; write a number of bytes above 0"));
  EXPECT_THAT(problemOf("[[bucket]]\nstarts = []"), HasSubstr("c.toml:1: bucket: starts: the names"));
  EXPECT_THAT(problemOf("[[bucket]]\nstarts = [\"x\"]\nlayers = 0"), HasSubstr("bucket: layers: must be a number"));
  EXPECT_THAT(problemOf("[[bucket]]\nstart = [\"x\"]"),
              HasSubstr("c.toml:2: bucket: unknown key 'start'; did you mean 'starts'?"));
  EXPECT_THAT(problemOf("bucket = 3"), HasSubstr("c.toml:1: bucket: tables"));
  EXPECT_THAT(problemOf("recompute = \"all\""),
              HasSubstr("c.toml:1: recompute: '*' can be none, cheap, regather, selective, full, every:K, offload or "
                        "keep VALUE + VALUE, or counts such as \"5 full, 7 cheap\", not 'all'"));
  for (const char *how : {"every:0", "every:", "every:2x", "full, 2 cheap", "0 full", "5", "", "2 full,"})
    EXPECT_THAT(problemOf(std::string("[recompute]\n\"h.*\" = \"") + how + "\""),
                HasSubstr("c.toml:2: recompute: 'h.*' can be"))
        << how;
  for (const char *how : {"often", "1 often", "shared, 2 again", "0 shared", "5", "", "2 shared,"})
    EXPECT_THAT(
        problemOf(std::string("[gathers]\nw = \"") + how + "\""),
        HasSubstr(
            "c.toml:2: gathers: 'w' can be \"shared\" or \"again\", or counts such as \"8 again, 4 shared\", not '" +
            std::string(how) + "'"))
        << how;
  EXPECT_THAT(problemOf("[gathers]\n\"[\" = \"again\""), HasSubstr("c.toml:2: '['"));
  EXPECT_THAT(problemOf("[rows]\nw = \"shared\""),
              HasSubstr("c.toml:2: rows: 'w' can be \"gathered\" or \"reduced\", not 'shared'"));
  EXPECT_THAT(problemOf("rows = \"gathered\""),
              HasSubstr("c.toml:1: rows: a table such as \"wte.weight\" = \"gathered\""));
  for (const char *parts : {"0", "-2", "1.5", "\"2\""})
    EXPECT_THAT(problemOf(std::string("[split]\n\"h.*\" = ") + parts),
                HasSubstr("c.toml:2: split: 'h.*' must be a number of parts, 1 or more"));
  EXPECT_THAT(problemOf("split = 2"), HasSubstr("c.toml:1: split: a table such as \"h.*\" = 2"));
  EXPECT_THAT(problemOf("[[order]]\nmove = \"x\""), HasSubstr("c.toml:1: order: say which command to 'move'"));
  EXPECT_THAT(problemOf("[[order]]\nmove = \"x\"\nbefore = \"y\"\nafter = \"z\""),
              HasSubstr("'before' or 'after' which"));
  EXPECT_THAT(problemOf("[[order]]\nmove = \"x\"\nbehind = \"y\""), HasSubstr("c.toml:3: order: unknown key 'behind'"));
  EXPECT_THAT(problemOf("[[order]]\nmove = \"x\"\nbefore = \"y\"\nlayer = \"next\""),
              HasSubstr("c.toml:4: order: 'layer' must be a number"));
  EXPECT_THAT(problemOf("order = 3"), HasSubstr("c.toml:1: order: tables"));
  EXPECT_THAT(problemOf("x = ["), HasSubstr("c.toml:1"));
}

TEST(ChoicesTest, RunsOfFewerLayersGetTheirShares) {
  auto shared = [](const char *text, int64_t count) {
    return printRecomputeRuns(shareOutRuns(*parseRecomputeRuns(text), count));
  };
  EXPECT_EQ(shared("5 full, 7 cheap", 12), "5 full, 7 cheap");
  EXPECT_EQ(shared("5 full, 7 cheap", 2), "1 full, 1 cheap");
  EXPECT_EQ(shared("5 full, 7 cheap", 24), "10 full, 14 cheap");
  EXPECT_EQ(shared("5 full, 7 cheap", 1), "1 cheap");
  EXPECT_EQ(shared("5 full, 1 none, 6 cheap", 2), "1 full, 1 cheap");
  EXPECT_EQ(shared("every:4", 12), "12 every:4");
}

TEST(ChoicesTest, ALayerIsTreatedAsTheRunThatItIsIn) {
  auto ofLayers = [](const char *text, int64_t count) {
    std::string all;
    for (int64_t layer = 0; layer < count; ++layer)
      all += howOfLayer(*parseGatherRuns(text), layer, count) == Gathering::Shared ? 's' : 'a';
    return all;
  };
  EXPECT_EQ(ofLayers("2 again, 1 shared", 3), "aas");
  EXPECT_EQ(ofLayers("2 again, 1 shared", 6), "aaaass");
  EXPECT_EQ(ofLayers("2 again, 1 shared", 1), "a");
  EXPECT_EQ(ofLayers("1 shared, 1 again, 2 shared", 4), "sass");
  EXPECT_EQ(ofLayers("shared", 3), "sss");
  EXPECT_EQ(ofLayers("again", 2), "aa");
}

TEST(ChoicesTest, StagesOfFewerLayersGetTheirShares) {
  EXPECT_THAT(shareOutLayers({9, 3}, 12), ElementsAre(9, 3));
  EXPECT_THAT(shareOutLayers({9, 3}, 4), ElementsAre(3, 1));
  EXPECT_THAT(shareOutLayers({9, 3}, 2), ElementsAre(1, 1));
  EXPECT_THAT(shareOutLayers({1, 10, 1}, 3), ElementsAre(1, 1, 1));
  EXPECT_THAT(shareOutLayers({1, 1, 10}, 4), ElementsAre(1, 1, 2));
  EXPECT_THAT(shareOutLayers({10, 1, 1}, 4), ElementsAre(2, 1, 1));
  EXPECT_THAT(shareOutLayers({2, 2}, 96), ElementsAre(48, 48));
}

} // namespace
} // namespace dtc
