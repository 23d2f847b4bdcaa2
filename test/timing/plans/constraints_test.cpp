#include "test/refusal.h"
#include "test/timing/plans/spaces.h"

#include <gmock/gmock.h>

#include <set>

namespace dtc::plans {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string parsed(const std::string &text) {
  Constraint constraint = parseConstraint(text, true);
  return constraint.dimension + "=" + constraint.value;
}

std::string refusal(const std::string &text, bool isFixed = true) {
  return test::refusalOf([&] { parseConstraint(text, isFixed); }, ExitCode::Usage);
}

TEST(PlanConstraints, AreAValueOfADimension) {
  EXPECT_EQ(parsed("tp=8"), "tp=8");
  EXPECT_EQ(parsed("tp=08"), "tp=8");
  EXPECT_EQ(parsed("micro-batches=16"), "micro-batches=16");
  EXPECT_EQ(parsed("order=pp>dp>tp"), "order=pp>dp>tp");
  EXPECT_EQ(parsed("sp=on"), "sp=on");
  EXPECT_EQ(parsed("state=hsdp:8"), "state=hsdp:8");
  EXPECT_EQ(parsed("state=fsdp"), "state=zero3");
  EXPECT_EQ(parsed("timetable=zb-h1"), "timetable=zb-h1");
  EXPECT_EQ(parsed("recompute=none"), "recompute=none");
  Constraint fixed = parseConstraint("zero3", true), forbidden = parseConstraint("zbv", false);
  EXPECT_TRUE(fixed.isFixed);
  EXPECT_EQ(fixed.text, "--fix zero3");
  EXPECT_FALSE(forbidden.isFixed);
  EXPECT_EQ(forbidden.text, "--forbid zbv");
}

TEST(PlanConstraints, MayBeAValueThatOneDimensionHas) {
  EXPECT_EQ(parsed("zero3"), "state=zero3");
  EXPECT_EQ(parsed("hsdp:4"), "state=hsdp:4");
  EXPECT_EQ(parsed("hsdp"), "state=hsdp");
  EXPECT_EQ(parsed("fsdp"), "state=zero3");
  EXPECT_EQ(parsed("zbv"), "timetable=zbv");
  EXPECT_EQ(parsed("pipedream"), "timetable=pipedream");
  EXPECT_EQ(parsed("full"), "recompute=full");
  EXPECT_EQ(parsed("dp>pp"), "order=dp>pp");
}

TEST(PlanConstraints, OfUnknownDimensionsAreRefused) {
  EXPECT_THAT(refusal("sate=zero3"),
              AllOf(HasSubstr("--fix sate=zero3: a plan has no 'sate', only tp, cp, pp, dp, order, sp, state, "
                              "micro-batches, timetable, recompute"),
                    HasSubstr("did you mean 'state'?")));
  EXPECT_THAT(refusal("micro_batches=4", false),
              AllOf(HasSubstr("--forbid micro_batches=4"), HasSubstr("did you mean 'micro-batches'?")));
  EXPECT_THAT(refusal("=4"), HasSubstr("has no ''"));
}

TEST(PlanConstraints, OfUnknownValuesAreRefused) {
  EXPECT_THAT(refusal("state=zero33"), AllOf(HasSubstr("'zero33' is no value of 'state'"),
                                             HasSubstr("one of ddp, zero1, zero2, zero3, hsdp:N"),
                                             HasSubstr("did you mean 'zero3'?")));
  EXPECT_THAT(refusal("timetable=1f1c"), HasSubstr("did you mean '1f1b'?"));
  EXPECT_THAT(refusal("recompute=every:2"), HasSubstr("one of cheap, none, regather, selective, full"));
  EXPECT_THAT(refusal("sp=yes"), HasSubstr("one of off, on"));
  for (const char *text : {"tp=", "tp=0", "tp=-2", "tp=2x", "tp=two", "tp= 2", "tp=99999999999999999999"})
    EXPECT_THAT(refusal(text), HasSubstr("it takes a number, 1 or more")) << text;
  for (const char *text : {"order=", "order=tp>", "order=tp>tp", "order=tp>ep", "order=tp,dp"})
    EXPECT_THAT(refusal(text), HasSubstr("outermost first, as in pp>dp>tp")) << text;
  for (const char *text : {"state=hsdp:", "state=hsdp:1", "state=hsdp:N", "state=hsdp4", "state=zero3:2"})
    EXPECT_THAT(refusal(text), HasSubstr("is no value of 'state'")) << text;
}

TEST(PlanConstraints, OfAValueAloneSayWhichDimension) {
  EXPECT_THAT(refusal("8"), AllOf(HasSubstr("--fix 8: tp, cp, pp, dp, micro-batches have such a value"),
                                  HasSubstr("as in --fix tp=8")));
  EXPECT_THAT(refusal("tp"), HasSubstr("--fix tp: say which value, as in --fix tp=VALUE"));
  EXPECT_THAT(refusal("zero4"), AllOf(HasSubstr("no part of a plan has this value"), HasSubstr("did you mean 'zero")));
  EXPECT_THAT(refusal("interleave", false),
              AllOf(HasSubstr("--forbid interleave:"), HasSubstr("did you mean 'interleaved'?")));
  EXPECT_THAT(refusal("no-tp"), HasSubstr("NAME is one of tp, cp, pp, dp, order"));
  EXPECT_THAT(refusal(""), HasSubstr("no part of a plan has this value"));
}

/// What the candidates say of one thing.
template <typename Say> std::set<std::string> said(const std::vector<Candidate> &candidates, const Say &say) {
  std::set<std::string> all;
  for (const Candidate &candidate : candidates)
    all.insert(say(candidate));
  return all;
}

TEST(PlanConstraints, LeaveWhatIsFixedAndNothingThatIsForbidden) {
  Problem problem = problemOf(gpus({2, 2, 2}), 8);
  size_t all = candidatesOf(problem).size();
  auto states = [&](const std::vector<std::string> &constraints) {
    return said(candidatesOf(problem, constraints), [](const Candidate &candidate) { return candidate.state; });
  };
  problem.model.batch = 8;
  EXPECT_THAT(states({}), ElementsAre("ddp", "hsdp:2", "hsdp:4", "zero1", "zero2", "zero3"));
  EXPECT_THAT(states({"zero3"}), ElementsAre("zero3"));
  EXPECT_THAT(states({"hsdp"}), ElementsAre("hsdp:2", "hsdp:4"));
  EXPECT_THAT(states({"!hsdp", "!ddp"}), ElementsAre("zero1", "zero2", "zero3"));
  EXPECT_THAT(states({"!hsdp:2", "!zero1", "!zero2"}), ElementsAre("ddp", "hsdp:4", "zero3"));
  problem.model.batch = 4;
  EXPECT_EQ(candidatesOf(problem, {"tp=2"}).size() + candidatesOf(problem, {"!tp=2"}).size(), all);
  EXPECT_EQ(candidatesOf(problem, {"zbv"}).size() + candidatesOf(problem, {"!zbv"}).size(), all);
}

TEST(PlanConstraints, FixAnOrderThoughAnotherIsAsGood) {
  Problem problem = problemOf(gpus({4}), 4);
  auto orders = [&](const std::vector<std::string> &constraints) {
    return said(candidatesOf(problem, constraints), [](const Candidate &candidate) { return candidate.meshText(); });
  };
  EXPECT_THAT(orders({"pp=2", "dp=2"}), ElementsAre("pp=2,dp=2"));
  EXPECT_THAT(orders({"pp=2", "dp=2", "dp>pp"}), ElementsAre("dp=2,pp=2"));
  EXPECT_THAT(orders({"dp>pp"}), ElementsAre("dp=2,pp=2"));
  EXPECT_THAT(orders({"dp=4", "dp>pp"}), IsEmpty()) << "there is no pp";
  EXPECT_FALSE(isEmpty(problem, constraintsOf({"dp>pp"})));
  EXPECT_THAT(orders({"!pp>dp", "pp=2", "dp=2"}), IsEmpty());
}

std::vector<std::string> conflict(const Problem &problem, const std::vector<std::string> &constraints) {
  std::vector<std::string> texts;
  for (const Constraint &constraint : smallestConflict(problem, constraintsOf(constraints)))
    texts.push_back(constraint.text);
  EXPECT_EQ(isEmpty(problem, constraintsOf(constraints)), candidatesOf(problem, constraints).empty());
  return texts;
}

TEST(PlanConflict, IsEmptyWhereThereAreCandidatesOrNoneAtAll) {
  Problem problem = problemOf(gpus({2, 2}), 4);
  EXPECT_THAT(conflict(problem, {}), IsEmpty());
  EXPECT_THAT(conflict(problem, {"tp=2", "zero1", "!full"}), IsEmpty());
  problem.model.batch = 3;
  problem.model.sequence = 5;
  problem.model.layers = 1;
  problem.model.heads = 3;
  EXPECT_TRUE(isEmpty(problem, {}));
  EXPECT_THAT(conflict(problem, {"tp=2"}), IsEmpty());
}

TEST(PlanConflict, IsTheFewestThatMustGiveWay) {
  Problem problem = problemOf(gpus({2, 2}), 4);
  EXPECT_THAT(conflict(problem, {"tp=3"}), ElementsAre("--fix tp=3"));
  EXPECT_THAT(conflict(problem, {"zero1", "tp=4"}), ElementsAre("--fix zero1")) << "either; the first is named";
  EXPECT_THAT(conflict(problem, {"tp=4", "zero1"}), ElementsAre("--fix tp=4"));
  // dp=2 and tp=2 leave no ranks for a pipeline.
  EXPECT_THAT(conflict(problem, {"dp=2", "zbv", "tp=2"}), ElementsAre("--fix dp=2"));
  EXPECT_THAT(conflict(problem, {"dp=2", "tp=2", "zbv", "v-min"}), ElementsAre("--fix dp=2", "--fix zbv"));
  EXPECT_THAT(conflict(problem, {"tp=2", "tp=4", "tp=1"}), ElementsAre("--fix tp=2", "--fix tp=4"));
  EXPECT_THAT(conflict(problem, {"!cheap", "!none", "!regather", "!selective", "!full"}),
              ElementsAre("--forbid cheap"));
  EXPECT_THAT(conflict(problem, {"sp=on", "dp=4", "!sp=off"}), ElementsAre("--fix dp=4"));
  // With tp=4 state is not split: the two others must give way, or tp=4.
  EXPECT_THAT(conflict(problem, {"zero1", "!ddp", "tp=4"}), ElementsAre("--fix tp=4"));
}

TEST(PlanConflict, OfTwoSetsIsTheOneWithTheFirstThatTheyDoNotShare) {
  Problem problem = problemOf(gpus({2, 2}), 4);
  EXPECT_THAT(conflict(problem, {"tp=2", "tp=1", "zero1"}), ElementsAre("--fix tp=2"));
  // Only tp=2 has a sequence to split.
  EXPECT_THAT(conflict(problem, {"tp=2", "zero1", "tp=1", "sp=on"}), ElementsAre("--fix tp=1"));
  // hsdp:2 takes dp=4, and sp=on does not: what stays is the second and the third, or the first and the fourth.
  EXPECT_THAT(conflict(problem, {"dp=4", "dp=2", "sp=on", "hsdp:2"}), ElementsAre("--fix dp=4", "--fix hsdp:2"));
}

TEST(PlanConflict, IsFoundAmongManyConstraintsAndDevices) {
  Problem problem = problemOf(gpus({8, 16, 8}), 1024);
  problem.model.layers = 96;
  problem.model.heads = problem.model.keyHeads = 96;
  problem.model.hidden = 12288;
  problem.model.sequence = 2048;
  problem.model.batch = 1536;
  std::vector<std::string> constraints = {"zbv",    "pp=1", "!cheap",    "!none", "!regather",
                                          "!selective", "full", "dp=1024", "hsdp",  "order=pp>dp"};
  // A batch of 1536 does not divide over 1024 ranks. Then pp=1 is against both zbv and the order.
  EXPECT_TRUE(isEmpty(problem, constraintsOf(constraints)));
  std::vector<std::string> found;
  for (const Constraint &constraint : smallestConflict(problem, constraintsOf(constraints)))
    found.push_back(constraint.text);
  EXPECT_THAT(found, ElementsAre("--fix pp=1", "--fix dp=1024"));
}

TEST(PlanConflict, IsRefusedAmongMoreConstraintsThanThereMayBe) {
  Problem problem = problemOf(gpus({2, 2}), 4);
  std::vector<std::string> constraints(64, "!tp=2");
  EXPECT_FALSE(isEmpty(problem, constraintsOf(constraints)));
  constraints.emplace_back("!tp=2");
  EXPECT_THAT(test::refusalOf([&] { isEmpty(problem, constraintsOf(constraints)); }, ExitCode::Usage),
              HasSubstr("there are 65 options --fix and --forbid"));
}

} // namespace
} // namespace dtc::plans
