// Random timetables, valid and broken: the checker accepts those that reach their end, and no others.
#include "test/long_tests.h"
#include "timing/timetables/check.h"
#include "timing/timetables/greedy.h"
#include "timing/timetables/named.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace dtc::timetables {
namespace {

class RandomTimetables : public testing::Test {
protected:
  int32_t below(int32_t bound) { return static_cast<int32_t>(random() % static_cast<uint64_t>(bound)); }

  /// Of a name, or by list scheduling with random preferences and memory.
  Timetable make() {
    for (;;) {
      Shape shape{1 + below(5), 1 + below(3), 1 + below(9)};
      if (below(3) == 0) {
        Placement placement = shape.stagesPerRank == 2 && below(2) == 0 ? Placement::V : Placement::Loop;
        Timetable frame{"greedy", shape.microBatches,
                        placeStages(placement, shape.ranks, shape.ranks * shape.stagesPerRank),
                        std::vector<std::vector<Entry>>(static_cast<size_t>(shape.ranks))};
        limit = shape.stagesPerRank + below(2 * shape.ranks + 1);
        Policy policy{below(2) == 0, below(2) == 0, below(2) == 0, 0.5 * below(3), 1 + below(4)};
        Costs costs = equalCosts(frame.stages(), 1 + below(3), 1 + below(3), 1 + below(3), below(2));
        return scheduleGreedily(std::move(frame), costs, static_cast<double>(limit), policy);
      }
      limit = 0;
      const Named &named = allNamed()[static_cast<size_t>(below(static_cast<int32_t>(allNamed().size())))];
      if (findMisfit(named, shape).empty())
        return generate(named, shape);
    }
  }

  std::vector<Entry> &anyList(Timetable &timetable) {
    return timetable.ranks[static_cast<size_t>(below(static_cast<int32_t>(timetable.ranks.size())))];
  }
  size_t anyPlace(const std::vector<Entry> &list) {
    return static_cast<size_t>(below(static_cast<int32_t>(list.size())));
  }

  std::mt19937_64 random{26};
  int64_t limit = 0; ///< of what make() made last
};

/// Runs what can run until nothing can, by sets of what has been done: slow, and unlike the checker.
bool comesToItsEnd(const Timetable &timetable) {
  std::set<std::tuple<char, int32_t, int32_t>> done;
  std::vector<size_t> next(timetable.ranks.size(), 0);
  auto isReady = [&](const Entry &entry) {
    auto has = [&](char what, int32_t stage) { return done.contains({what, stage, entry.microBatch}); };
    if (entry.kind == Kind::Forward)
      return entry.stage == 0 || has('F', entry.stage - 1);
    if (entry.kind == Kind::BackwardWeight)
      return has('I', entry.stage);
    return has('F', entry.stage) && (entry.stage + 1 == timetable.stages() || has('I', entry.stage + 1));
  };
  for (bool goesOn = true; goesOn;) {
    goesOn = false;
    for (size_t rank = 0; rank < next.size(); ++rank) {
      const std::vector<Entry> &list = timetable.ranks[rank];
      while (next[rank] < list.size()) {
        size_t end = next[rank] + (list[next[rank]].withNext ? 2 : 1);
        bool areReady = true;
        for (size_t at = next[rank]; at < end; ++at)
          areReady &= isReady(list[at]);
        if (!areReady)
          break;
        for (; next[rank] < end; ++next[rank]) {
          const Entry &entry = list[next[rank]];
          done.insert({entry.kind == Kind::Backward ? 'I' : letterOf(entry.kind), entry.stage, entry.microBatch});
        }
        goesOn = true;
      }
    }
  }
  for (size_t rank = 0; rank < next.size(); ++rank)
    if (next[rank] < timetable.ranks[rank].size())
      return false;
  return true;
}

int32_t howMany() { return test::testsMayBeLong() ? 20000 : 2000; }

TEST_F(RandomTimetables, AreValidAndKeepTheirMemory) {
  for (int32_t i = 0; i < howMany(); ++i) {
    Timetable timetable = make();
    ASSERT_EQ(findFault(timetable, limit), "") << timetable.name << " " << i;
    ASSERT_EQ(findWeightsOutOfOrder(timetable), "") << timetable.name << " " << i;
  }
}

TEST_F(RandomTimetables, WithAnEntryLessOrMoreAreRefused) {
  for (int32_t i = 0; i < howMany(); ++i) {
    Timetable timetable = make();
    std::vector<Entry> &list = anyList(timetable);
    size_t at = anyPlace(list);
    bool isPaired = list[at].withNext || (at > 0 && list[at - 1].withNext);
    auto place = list.begin() + static_cast<ptrdiff_t>(at);
    switch (below(3)) {
    case 0:
      if (isPaired && !list[at].withNext)
        list[at - 1].withNext = false;
      list.erase(place);
      break;
    case 1: {
      Entry copy = list[at];
      copy.withNext = false;
      list.push_back(copy);
      break;
    }
    default:
      ++list[at].microBatch; // one twice or out of range, and one missing
    }
    ASSERT_NE(findFault(timetable), "") << timetable.name << " " << i;
  }
}

TEST_F(RandomTimetables, InAnotherOrderAreRefusedWhereTheyNeverEnd) {
  int32_t refused = 0;
  for (int32_t i = 0; i < howMany(); ++i) {
    Timetable timetable = make();
    for (int32_t swaps = 1 + below(2); swaps > 0; --swaps) {
      std::vector<Entry> &list = anyList(timetable);
      size_t first = anyPlace(list), second = anyPlace(list);
      std::swap(list[first].kind, list[second].kind);
      std::swap(list[first].stage, list[second].stage);
      std::swap(list[first].microBatch, list[second].microBatch);
      bool arePairsWhole = true; // of a forward and a backward pass
      for (size_t at = 0; at + 1 < list.size(); ++at)
        arePairsWhole &= !list[at].withNext || (list[at].kind == Kind::Forward) != (list[at + 1].kind == Kind::Forward);
      if (!arePairsWhole)
        for (Entry &entry : list)
          entry.withNext = false;
    }
    bool ends = comesToItsEnd(timetable);
    ASSERT_EQ(findFault(timetable).empty(), ends) << timetable.name << " " << i << ": " << findFault(timetable);
    refused += ends ? 0 : 1;
  }
  EXPECT_GT(refused, howMany() / 4);
  EXPECT_LT(refused, howMany());
}

} // namespace
} // namespace dtc::timetables
