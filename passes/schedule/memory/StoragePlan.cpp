// Follows what a change of one interval moves.
#include "passes/schedule/memory/StoragePlan.h"

#include <algorithm>

namespace dtc {

/// Beyond this number, moves are not followed one by one.
constexpr size_t mostMoves = 64;

StoragePlan::Placed StoragePlan::withoutPlace(size_t index) const {
  const StorageInterval &interval = current.intervals[index];
  return {0, current.roomOf(interval), interval.first, interval.last, index};
}

void StoragePlan::placeAll() {
  solved = placeLargestFirst(current);
  ranked.clear();
}

/// Most plans are made once and never change: they need no ranks.
void StoragePlan::rankAll() {
  if (ranked.size() == current.intervals.size())
    return;
  for (size_t i = 0; i < current.intervals.size(); ++i) {
    ranked.push_back(withoutPlace(i));
    ranked.back().begin += solved.offsets[i];
    ranked.back().end += solved.offsets[i];
  }
  std::sort(ranked.begin(), ranked.end(),
            [&](const Placed &a, const Placed &b) { return current.isPlacedBefore(a.index, b.index); });
}

/// The rank that an interval has, or would have, in the order of placing.
size_t StoragePlan::rankFor(size_t index) const {
  auto rank = std::partition_point(ranked.begin(), ranked.end(),
                                   [&](const Placed &other) { return current.isPlacedBefore(other.index, index); });
  return static_cast<size_t>(rank - ranked.begin());
}

size_t StoragePlan::add(StorageInterval interval) {
  rankAll();
  size_t index = current.intervals.size();
  current.intervals.push_back({0, interval.first, interval.last});
  solved.offsets.push_back(0);
  ranked.insert(ranked.begin() + static_cast<ptrdiff_t>(rankFor(index)), withoutPlace(index));
  change(index, interval);
  return index;
}

void StoragePlan::change(size_t index, StorageInterval interval) {
  rankAll();
  size_t rank = rankFor(index);
  Placed before = ranked[rank];
  ranked.erase(ranked.begin() + static_cast<ptrdiff_t>(rank));
  current.intervals[index] = interval;
  size_t newRank = rankFor(index);
  ranked.insert(ranked.begin() + static_cast<ptrdiff_t>(newRank), withoutPlace(index));
  moves.assign(1, {before, {0, 0, interval.first, interval.last, index}, 0}); // where it goes is not known yet
  follow(std::min(rank, newRank), index);
}

static bool liveTogether(const auto &a, const auto &b) { return a.first <= b.last && b.first <= a.last; }

/// Whether something that moved is now where this one is, or opened a lower place for it.
bool StoragePlan::isAffected(size_t rank) {
  const Placed &placed = ranked[rank];
  return std::any_of(moves.begin(), moves.end(), [&](Move &move) {
    bool isTaken = liveTogether(move.after, placed) && move.after.begin < placed.end && placed.begin < move.after.end;
    return isTaken || (liveTogether(move.before, placed) && move.before.begin < placed.begin && isFree(move, rank));
  });
}

/// Whether a part of the memory that was left is free for as long as the interval of this rank lives. Memory that one
/// interval left mostly belongs to others at other times, and one of these is the answer for all that live long.
bool StoragePlan::isFree(Move &move, size_t rank) {
  auto isHeldBy = [&](const Placed &other) {
    return other.begin <= move.before.begin && move.before.end <= other.end && liveTogether(other, ranked[rank]);
  };
  if (move.holder < rank && isHeldBy(ranked[move.holder]))
    return false;
  auto end = ranked.begin() + static_cast<ptrdiff_t>(rank), holder = std::find_if(ranked.begin(), end, isHeldBy);
  if (holder != end)
    move.holder = static_cast<size_t>(holder - ranked.begin());
  return holder == end;
}

/// The lowest offset that the intervals before a rank leave free.
uint64_t StoragePlan::lowestFree(size_t rank, uint64_t room) {
  occupied.clear();
  for (size_t before = 0; before < rank; ++before)
    if (const Placed &other = ranked[before];
        other.begin < other.end && other.first <= ranked[rank].last && ranked[rank].first <= other.last)
      occupied.emplace_back(other.begin, other.end);
  std::sort(occupied.begin(), occupied.end());
  uint64_t offset = 0;
  for (auto [begin, end] : occupied) {
    if (begin >= offset + room)
      break;
    offset = std::max(offset, end);
  }
  return offset;
}

void StoragePlan::follow(size_t rank, size_t changed) {
  for (; rank < ranked.size(); ++rank) {
    Placed &placed = ranked[rank];
    bool isChanged = placed.index == changed;
    if (!isChanged && !isAffected(rank))
      continue;
    uint64_t room = placed.end - placed.begin, offset = lowestFree(rank, room);
    if (!isChanged && offset == placed.begin)
      continue;
    if (moves.size() > mostMoves)
      return placeAll();
    Placed before = placed;
    placed.begin = offset;
    placed.end = offset + room;
    solved.offsets[placed.index] = offset;
    if (isChanged)
      moves.front().after = placed;
    else
      moves.push_back({before, placed, 0});
  }
  solved.end = 0;
  for (const Placed &placed : ranked)
    solved.end = std::max(solved.end, placed.end);
}

} // namespace dtc
