#include "passes/schedule/launches/JoinLaunches.h"

#include <algorithm>
#include <map>
#include <set>

namespace dtc {

namespace {

using ByteRange = std::pair<uint64_t, uint64_t>;
ByteRange rangeOf(const LaunchBuffer &buffer) { return {buffer.begin, buffer.end}; }

/// Which group touched each byte last.
class LastGroups {
public:
  void mark(ByteRange range, int group);
  /// The last group that touched a part of the range, or -1.
  int in(ByteRange range) const;

private:
  struct Piece {
    uint64_t end;
    int group;
  };
  void splitAt(uint64_t address);
  std::map<uint64_t, Piece> pieces; ///< by where they begin
};

/// Joins launches one after the other. This runs for each launch of an update, so nothing here looks at all groups.
class Joiner {
public:
  explicit Joiner(const LaunchRun &run) : run(run) {}

  std::vector<std::vector<int>> join() {
    for (size_t launch = 0; launch < run.formulas.size(); ++launch) {
      buffers.push_back(run.buffersOf(launch));
      visit(static_cast<int>(launch), run.formulas[launch]);
    }
    return std::move(groups);
  }

private:
  void visit(int launch, unsigned formula);
  bool continues(int group, int launch) const;
  bool isInTheWay(int group, int launch) const;
  /// Of a launch's first result.
  const LaunchBuffer &firstWritten(int launch) const {
    return *std::ranges::find_if(buffers[launch], &LaunchBuffer::isWritten);
  }

  const LaunchRun &run;
  std::vector<std::vector<LaunchBuffer>> buffers;
  std::vector<std::vector<int>> groups;
  std::map<std::pair<unsigned, uint64_t>, std::vector<int>> endingAt; ///< groups by formula and end, ascending
  LastGroups readBy, writtenBy;
};

/// Afterwards a piece ends at `address`, or none is there.
void LastGroups::splitAt(uint64_t address) {
  auto piece = pieces.lower_bound(address);
  if (piece == pieces.begin() || std::prev(piece)->second.end <= address)
    return;
  --piece;
  pieces.emplace(address, Piece(piece->second));
  piece->second.end = address;
}

void LastGroups::mark(ByteRange range, int group) {
  splitAt(range.first);
  splitAt(range.second);
  uint64_t at = range.first; // all before it in the range is marked
  for (auto piece = pieces.lower_bound(at); piece != pieces.end() && piece->first < range.second; ++piece) {
    if (piece->first > at)
      pieces.emplace(at, Piece{piece->first, group});
    piece->second.group = std::max(piece->second.group, group);
    at = piece->second.end;
  }
  if (at < range.second)
    pieces.emplace(at, Piece{range.second, group});
}

int LastGroups::in(ByteRange range) const {
  auto piece = pieces.upper_bound(range.first);
  if (piece != pieces.begin() && std::prev(piece)->second.end > range.first)
    --piece;
  int last = -1;
  for (; piece != pieces.end() && piece->first < range.second; ++piece)
    last = std::max(last, piece->second.group);
  return last;
}

/// Adds a launch to the first group that it continues and to whose place it can be moved, or opens one.
void Joiner::visit(int launch, unsigned formula) {
  int group = static_cast<int>(groups.size());
  if (formula != 0) {
    // A launch that continues a group begins where the group's first result ends.
    if (auto ending = endingAt.find({formula, firstWritten(launch).begin}); ending != endingAt.end())
      if (auto found = std::ranges::find_if(ending->second, [&](int each) { return continues(each, launch); });
          found != ending->second.end() && !isInTheWay(*found, launch)) {
        group = *found;
        ending->second.erase(found);
      }
    std::vector<int> &ending = endingAt[{formula, firstWritten(launch).end}];
    ending.insert(std::ranges::upper_bound(ending, group), group);
  }
  if (group == static_cast<int>(groups.size()))
    groups.emplace_back();
  groups[group].push_back(launch);
  for (const LaunchBuffer &buffer : buffers[launch])
    (buffer.isWritten ? writtenBy : readBy).mark(rangeOf(buffer), group);
}

/// Whether each tensor begins where the group's ends, and the numbers that elements share are the same.
bool Joiner::continues(int group, int launch) const {
  return std::ranges::equal(buffers[groups[group].back()], buffers[launch],
                            [](const LaunchBuffer &before, const LaunchBuffer &next) {
                              if (before.isScalar)
                                return before.value == next.value;
                              return before.isDense && next.isDense && before.end == next.begin;
                            });
}

/// Whether a launch cannot run before the groups after this one: one writes what the other touches.
bool Joiner::isInTheWay(int group, int launch) const {
  return std::ranges::any_of(buffers[launch], [&](const LaunchBuffer &buffer) {
    return writtenBy.in(rangeOf(buffer)) > group || (buffer.isWritten && readBy.in(rangeOf(buffer)) > group);
  });
}

} // namespace

std::vector<std::vector<int>> joinLaunches(const LaunchRun &run) {
  std::set<unsigned> seen;
  // Most are alone or next to others with other formulas: no need to ask where these are.
  if (std::ranges::any_of(run.formulas, [&](unsigned formula) { return formula != 0 && !seen.insert(formula).second; }))
    return Joiner(run).join();
  std::vector<std::vector<int>> alone;
  for (size_t launch = 0; launch < run.formulas.size(); ++launch)
    alone.push_back({static_cast<int>(launch)});
  return alone;
}

} // namespace dtc
