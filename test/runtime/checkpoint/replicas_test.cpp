// Copies of the state that diverge are noticed, and so is the rank that has them.
#include "runtime/checkpoint/replicas.h"

#include "test/runtime/checkpoint/states.h"

#include <algorithm>
#include <bit>
#include <gmock/gmock.h>

using testing::StartsWith;

namespace dtc::test {
namespace {

/// One bit of one element that this rank stores, padding or not.
void flip(const RankState &state, const StateTensor &tensor, int64_t element) {
  std::vector<float> values(static_cast<size_t>(tensor.localElements()));
  state.copy(tensor, values);
  auto bits = std::bit_cast<uint32_t>(values[static_cast<size_t>(element)]) ^ 1;
  state.write(tensor, [&](const FileRun &run, std::span<float> out) {
    for (int64_t i = 0; i < run.count; ++i)
      out[static_cast<size_t>(i)] =
          run.local + i == element ? std::bit_cast<float>(bits) : values[static_cast<size_t>(run.local + i)];
  });
}

/// The messages of a layout's ranks when one of them has another bit in the first element of a tensor.
std::vector<std::string> problemsOf(const Layout &layout, int victim, bool slot, size_t number) {
  return asRanks(layout, [&](RankState &state, Communicator &communicator) {
    fill(state);
    ReplicaCheck check(state, communicator);
    check.compare(3);
    if (communicator.rank() == victim)
      flip(state, (slot ? state.moments() : state.parameters())[number], 0);
    check.compare(3); // has been done
    check.compare(4);
    ADD_FAILURE() << "rank " << communicator.rank() << " noticed nothing";
  });
}

constexpr const char *Silent = "exit code 7: ";

TEST(ReplicaCheck, OfThreeRanksTheOddOneIsNamedWithTheTensor) {
  for (int victim : {0, 1, 2})
    for (bool slot : {false, true}) {
      std::vector<std::string> said = problemsOf(Replicated, victim, slot, 0);
      std::string odd = std::to_string(victim), even = victim == 0 ? "1, 2" : victim == 1 ? "0, 2" : "0, 1";
      EXPECT_THAT(said[static_cast<size_t>(victim)],
                  AllOf(StartsWith("exit code 7: after step 4: 'attn.weight" + std::string(slot ? ".exp_avg'" : "'")),
                        HasSubstr(": rank " + odd + " differs from ranks " + even + ";"),
                        HasSubstr("after step 3 all were equal"), HasSubstr("--resume")));
      said.erase(said.begin() + victim);
      EXPECT_THAT(said, Each(Silent));
    }
}

TEST(ReplicaCheck, OfTwoRanksBothAreNamed) {
  Layout layout{2, 2, {"", "tp", "", ""}, ""}; // attn.weight: ranks 0 and 2, 1 and 3
  std::vector<std::string> said = problemsOf(layout, 3, false, 0);
  EXPECT_THAT(said[1], AllOf(HasSubstr("'attn.weight'"), HasSubstr(": ranks 1, 3 differ, and no majority")));
  EXPECT_THAT((std::vector{said[0], said[2], said[3]}), Each(Silent));
  said = problemsOf(layout, 3, false, 1); // norm.bias: all
  EXPECT_THAT(said[3], AllOf(HasSubstr("'norm.bias'"), HasSubstr(": rank 3 differs from ranks 0, 1, 2;")));
}

// The other ranks of a mesh store other pieces, which differ as they should; and padding does not count.
TEST(ReplicaCheck, PiecesAndPaddingAreNotCompared) {
  const Layout twice{2, 3, {"", "", "tp", ""}, "tp"}; // 5 over 3, inside
  for (const Layout &layout : {Alone, Megatron, Padded, Replicated, twice})
    EXPECT_THAT(asRanks(layout,
                        [](RankState &state, Communicator &communicator) {
                          fill(state);
                          ReplicaCheck check(state, communicator);
                          check.compare(1);
                        }),
                Each(""));
}

TEST(ReplicaCheck, SaysWhatItDoesNotCompare) {
  auto describe = [](const Layout &layout) {
    std::string words;
    asRanks(layout, [&](RankState &state, Communicator &communicator) {
      if (communicator.rank() == 0)
        words = ReplicaCheck(state, communicator).describe();
    });
    return words;
  };
  EXPECT_EQ(describe(Alone), "");
  EXPECT_EQ(describe(Replicated),
            "replicas: 4 of 4 parameters and optimizer slots are compared between the ranks that store them");
  EXPECT_THAT(describe({1, 2, {"", "tp", "", ""}, ""}),
              AllOf(HasSubstr("2 of 4 parameters"), HasSubstr("the others are stored once")));
  EXPECT_THAT(describe({2, 1, {"", "", "", "dp"}, "dp"}), HasSubstr("no parameter or optimizer slot is compared"));
}

// Before the third comparison its cost is unknown. From then on it takes a thousandth of the time of the steps between
// two.
TEST(ReplicaCheck, TakesAThousandthOfTheTime) {
  EXPECT_THAT(asRanks(Replicated,
                      [](RankState &state, Communicator &communicator) {
                        fill(state);
                        ReplicaCheck check(state, communicator);
                        std::vector<double> seconds;
                        for (int64_t step = 1; step <= 3; ++step) {
                          EXPECT_EQ(check.wantedInterval(), 0);
                          EXPECT_TRUE(check.isDue(step));
                          check.compare(step);
                          check.noteStep(step == 2 ? 1e-4 : 3e-4);
                          seconds.push_back(check.takeSeconds());
                        }
                        EXPECT_EQ(check.takeSeconds(), 0);
                        int64_t steps = check.wantedInterval();
                        EXPECT_GE(static_cast<double>(steps) * 1e-4, 1000 * std::ranges::max(seconds) * 0.999999);
                        EXPECT_LE(static_cast<double>(steps - 1) * 1e-4, 1000 * std::ranges::max(seconds));
                        EXPECT_TRUE(check.setInterval(steps));
                        EXPECT_FALSE(check.setInterval(steps));
                        EXPECT_EQ(check.isDue(steps), true);
                        EXPECT_EQ(check.isDue(steps + 1), steps == 1);
                      }),
              Each(""));
}

} // namespace
} // namespace dtc::test
