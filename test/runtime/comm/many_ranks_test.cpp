// With very many ranks on a host, no rank may look at all others each time.
#include "runtime/liveness/control_block.h"
#include "runtime/support/error.h"

#include <gmock/gmock.h>
#include <numeric>
#include <set>
#include <sys/mman.h>
#include <thread>

namespace dtc::test {
namespace {

using namespace std::chrono_literals;

class ManyRanks : public testing::Test {
protected:
  static constexpr int Ranks = 64;

  ManyRanks()
      : memory(
            mmap(nullptr, ControlBlock::bytesFor(Ranks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  ~ManyRanks() override { munmap(memory, ControlBlock::bytesFor(Ranks)); }

  ControlBlock view(int rank, std::function<bool(int)> alive) const { return {memory, Ranks, rank, std::move(alive)}; }

  /// All but the last have joined; the exception of `rank` when it waits for that one, and the ranks that it looks at.
  std::string waitFor(int rank, const std::function<bool(int)> &alive) {
    for (int joined = 0; joined + 1 < Ranks; ++joined)
      view(joined, alive).join({});
    try {
      view(rank, [&](int other) {
        looks.push_back(other);
        return alive(other);
      }).awaitAll(550ms);
      return "";
    } catch (const Error &error) {
      return error.what();
    }
  }

  void *memory;
  std::vector<int> looks;
};

TEST_F(ManyRanks, WhoeverWaitsForTheLastLooksAfterOneOther) {
  EXPECT_THAT(waitFor(3, [](int) { return true; }), testing::HasSubstr("rank 63 of 64 did not start within"));
  EXPECT_EQ(std::set<int>(looks.begin(), looks.end()), std::set<int>{4});
  EXPECT_LE(looks.size(), 6u); // not with every turn
}

TEST_F(ManyRanks, TheLastThatHasComeLooksAfterTheFirst) {
  waitFor(Ranks - 2, [](int) { return true; });
  EXPECT_EQ(std::set<int>(looks.begin(), looks.end()), std::set<int>{0});
}

TEST_F(ManyRanks, OneThatDiesMeanwhileIsSeenByTheOneBefore) {
  EXPECT_EQ(waitFor(3, [](int rank) { return rank != 4; }),
            "rank 4 was lost: its process ended while the job was starting");
}

} // namespace
} // namespace dtc::test
