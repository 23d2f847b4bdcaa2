#include "test/timing/plans/spaces.h"

namespace dtc::plans {
namespace {

TEST(PlanCandidate, KnowsItsMesh) {
  Candidate candidate = meshed({{"pp", 2}, {"dp", 4}, {"tp", 8}});
  EXPECT_EQ(candidate.sizeOf("dp"), 4);
  EXPECT_EQ(candidate.sizeOf("cp"), 1);
  EXPECT_EQ(candidate.devices(), 64);
  EXPECT_EQ(candidate.meshText(), "pp=2,dp=4,tp=8");
  EXPECT_EQ(Candidate().devices(), 1);
  EXPECT_EQ(Candidate().meshText(), "dp=1");
}

TEST(PlanCandidate, NamesTheStrategyInTheSimplestWords) {
  auto strategy = [](const std::vector<MeshAxis> &mesh, bool splitsSequence, const std::string &state) {
    Candidate candidate = meshed(mesh);
    candidate.splitsSequence = splitsSequence;
    candidate.state = state;
    return candidate.strategyText();
  };
  EXPECT_EQ(strategy({}, false, "ddp"), "ddp");
  EXPECT_EQ(strategy({{"pp", 4}}, false, "ddp"), "ddp");
  EXPECT_EQ(strategy({{"dp", 4}}, false, "zero3"), "zero3");
  EXPECT_EQ(strategy({{"tp", 4}}, false, "ddp"), "megatron");
  EXPECT_EQ(strategy({{"tp", 4}}, true, "ddp"), "megatron-sp");
  EXPECT_EQ(strategy({{"dp", 8}, {"tp", 4}}, false, "hsdp:4"), "megatron+hsdp:4");
  EXPECT_EQ(strategy({{"cp", 4}}, false, "ddp"), "cp");
  EXPECT_EQ(strategy({{"cp", 4}}, false, "zero3"), "cp+zero3");
  EXPECT_EQ(strategy({{"dp", 2}, {"cp", 2}, {"tp", 2}}, true, "zero1"), "megatron-sp+cp+zero1");
}

TEST(PlanCandidate, SaysAllThatMatters) {
  Candidate candidate = meshed({{"pp", 2}, {"dp", 4}, {"tp", 8}});
  candidate.splitsSequence = true;
  candidate.state = "zero1";
  candidate.timetable = "zbv";
  candidate.microBatches = 16;
  candidate.recompute = "full";
  EXPECT_EQ(candidate.text(), "pp=2,dp=4,tp=8, megatron-sp+zero1, zbv, 16 micro-batches, recompute full");
  EXPECT_EQ(Candidate().text(), "dp=1, ddp");
  candidate = meshed({{"dp", 4}});
  candidate.microBatches = 2;
  EXPECT_EQ(candidate.text(), "dp=4, ddp, 2 micro-batches") << "without a pipeline there is no timetable";
  candidate = meshed({{"pp", 4}});
  candidate.timetable = "pipedream";
  EXPECT_EQ(candidate.text(), "pp=4, ddp, pipedream, 1 micro-batch");
}

} // namespace
} // namespace dtc::plans
