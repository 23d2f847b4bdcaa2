#include "timing/timetables/check.h"
#include "timing/timetables/walk.h"

#include <algorithm>
#include <fmt/format.h>

namespace dtc::timetables {

static std::string findOutOfRange(const Timetable &timetable, int32_t rank, const Entry &entry) {
  if (entry.stage < 0 || entry.stage >= timetable.stages())
    return fmt::format("rank {}: {} has a stage that is not there; there are {}", rank, describe(entry),
                       timetable.stages());
  if (entry.microBatch < 0 || entry.microBatch >= timetable.microBatches)
    return fmt::format("rank {}: {} has a micro-batch that is not there; there are {}", rank, describe(entry),
                       timetable.microBatches);
  int32_t owner = timetable.rankOf[static_cast<size_t>(entry.stage)];
  if (owner != rank)
    return fmt::format("rank {}: {} belongs to rank {}, which has stage {}", rank, describe(entry), owner, entry.stage);
  return "";
}

static std::string findBadPair(int32_t rank, const std::vector<Entry> &list, size_t at) {
  if (!list[at].withNext)
    return "";
  if (at + 1 == list.size() || list[at + 1].withNext)
    return fmt::format("rank {}: {} is co-scheduled, but there is no single entry beside it", rank, describe(list[at]));
  auto [first, second] = std::pair{list[at].kind, list[at + 1].kind};
  if ((first == Kind::Forward) == (second == Kind::Forward))
    return fmt::format("rank {}: {} and {} are co-scheduled, but only a forward and a backward pass can be", rank,
                       describe(list[at]), describe(list[at + 1]));
  return "";
}

/// Of entries that are not exactly once where they belong.
static std::string findMiscount(const Timetable &timetable) {
  std::vector<uint8_t> seen(timetable.rankOf.size() * static_cast<size_t>(timetable.microBatches), 0);
  constexpr uint8_t bits[] = {1, 2, 4, 8}; // by kind
  for (size_t rank = 0; rank < timetable.ranks.size(); ++rank) {
    const std::vector<Entry> &list = timetable.ranks[rank];
    for (size_t at = 0; at < list.size(); ++at) {
      std::string fault = findOutOfRange(timetable, static_cast<int32_t>(rank), list[at]);
      if (fault.empty())
        fault = findBadPair(static_cast<int32_t>(rank), list, at);
      if (!fault.empty())
        return fault;
      uint8_t &before = seen[timetable.index(list[at])], bit = bits[static_cast<size_t>(list[at].kind)];
      if (before & bit)
        return fmt::format("rank {}: {} is there twice", rank, describe(list[at]));
      before |= bit;
      constexpr uint8_t whole = 2, halves = 4 | 8;
      if ((before & whole) && (before & halves))
        return fmt::format("rank {}: the backward pass {} is there whole (B) and in parts (I, W)", rank,
                           describe(list[at]));
    }
  }
  for (int32_t stage = 0; stage < timetable.stages(); ++stage)
    for (int32_t micro = 0; micro < timetable.microBatches; ++micro) {
      uint8_t found = seen[timetable.index(stage, micro)];
      if ((found & 1) && ((found & 2) || (found & 12) == 12))
        continue;
      Kind kind = !(found & 1)    ? Kind::Forward
                  : !(found & 12) ? Kind::Backward
                  : (found & 4)   ? Kind::BackwardWeight
                                  : Kind::BackwardInput;
      return fmt::format("rank {}: {} is missing", timetable.rankOf[static_cast<size_t>(stage)],
                         describe({kind, false, stage, micro}));
    }
  return "";
}

namespace {

/// Where ranks stand for ever.
class Standstill {
public:
  Standstill(const Timetable &timetable, const std::vector<size_t> &stopped) : timetable(timetable), stopped(stopped) {
    Done done(timetable);
    for (size_t rank = 0; rank < stopped.size(); ++rank)
      for (size_t at = 0; at < stopped[rank]; ++at)
        done.add(timetable.ranks[rank][at]);
    for (size_t rank = 0; rank < stopped.size(); ++rank)
      waits.push_back(waitOf(done, rank));
  }

  std::string describe() const {
    for (size_t rank = 0; rank < waits.size(); ++rank)
      if (waits[rank].giver == rank)
        return describeWithin(rank);
    return describeCycle();
  }

private:
  struct Wait {
    Entry entry;      ///< that waits; of a pair the one that does
    Entry needed;     ///< as it is in a list
    size_t giver = 0; ///< the rank that has it; or nobody, where the rank does not wait
    bool isPaired = false;
  };
  static constexpr size_t nobody = ~size_t(0);

  Wait waitOf(const Done &done, size_t rank) const {
    const std::vector<Entry> &list = timetable.ranks[rank];
    size_t at = stopped[rank];
    if (at == list.size())
      return {{}, {}, nobody};
    size_t end = at + (list[at].withNext ? 2 : 1);
    std::optional<Entry> needed = done.missing(list[at]);
    size_t waiting = needed ? at : at + 1;
    if (!needed)
      needed = done.missing(list[at + 1]);
    auto giver = static_cast<size_t>(timetable.rankOf[static_cast<size_t>(needed->stage)]);
    auto given = std::ranges::find_if(timetable.ranks[giver], [&](const Entry &other) {
      return other.stage == needed->stage && other.microBatch == needed->microBatch &&
             (needed->kind == Kind::Forward ? other.kind == Kind::Forward : givesInputGradient(other.kind));
    });
    auto place = static_cast<size_t>(given - timetable.ranks[giver].begin());
    return {list[waiting], *given, giver, giver == rank && place < end};
  }

  std::string describeWithin(size_t rank) const {
    const Wait &wait = waits[rank];
    return fmt::format("rank {}: {} {} {}, which it needs", rank, timetables::describe(wait.entry),
                       wait.isPaired ? "is co-scheduled with" : "comes before", textOf(wait.needed));
  }

  std::string describeCycle() const {
    size_t rank = 0;
    while (waits[rank].giver == nobody)
      ++rank;
    std::vector<size_t> path;
    for (; std::ranges::find(path, rank) == path.end(); rank = waits[rank].giver)
      path.push_back(rank);
    path.erase(path.begin(), std::ranges::find(path, rank));
    std::string text = "the ranks wait for each other for ever: ";
    for (size_t each : path)
      text += fmt::format("{}rank {} waits at {} for {} of rank {}", each == path.front() ? "" : "; ", each,
                          timetables::describe(waits[each].entry), textOf(waits[each].needed), waits[each].giver);
    return text;
  }

  const Timetable &timetable;
  const std::vector<size_t> &stopped;
  std::vector<Wait> waits; ///< of each rank
};

} // namespace

/// Calls see(entry, held) for the entries of a rank: how many stashes there are while the entry runs. `held`: before
/// the first.
template <typename See> static void followStashes(const std::vector<Entry> &list, int64_t held, See &&see) {
  for (size_t at = 0; at < list.size(); ++at) {
    bool paired = list[at].withNext;
    auto starts = [&](const Entry &entry) { return entry.kind == Kind::Forward ? 1 : 0; };
    auto ends = [&](const Entry &entry) { return givesWeightGradient(entry.kind) ? 1 : 0; };
    held += starts(list[at]) + (paired ? starts(list[at + 1]) : 0);
    see(list[at], held);
    held -= ends(list[at]) + (paired ? ends(list[at + 1]) : 0);
    at += paired ? 1 : 0;
  }
}

std::vector<int64_t> peakStashes(const Timetable &timetable) {
  std::vector<int64_t> peaks;
  for (const std::vector<Entry> &list : timetable.ranks)
    peaks.push_back(stashPeak(list).stashes);
  return peaks;
}

StashPeak stashPeak(const std::vector<Entry> &list, int64_t held) {
  StashPeak peak;
  followStashes(list, held, [&](const Entry &entry, int64_t stashes) {
    if (stashes > peak.stashes)
      peak = {stashes, {}};
    if (stashes == peak.stashes)
      peak.entries.push_back(entry);
  });
  return peak;
}

static std::string findOverfull(const Timetable &timetable, int64_t most) {
  std::string fault;
  for (size_t rank = 0; rank < timetable.ranks.size() && fault.empty(); ++rank)
    followStashes(timetable.ranks[rank], 0, [&](const Entry &entry, int64_t held) {
      if (held > most && fault.empty())
        fault = fmt::format("rank {}: at {} it holds {} stashes, and may hold {}", rank, describe(entry), held, most);
    });
  return fault;
}

std::string findFault(const Timetable &timetable, int64_t mostStashes) {
  for (int32_t stage = 0; stage < timetable.stages(); ++stage) {
    int32_t rank = timetable.rankOf[static_cast<size_t>(stage)];
    if (rank < 0 || static_cast<size_t>(rank) >= timetable.ranks.size())
      return fmt::format("stage {} is on no rank", stage);
  }
  size_t least = timetable.rankOf.size() * static_cast<size_t>(timetable.microBatches);
  size_t entries = countEntries(timetable);
  if (entries < least) // and a table of what is there would be larger than what is there
    return fmt::format("{} stages and {} micro-batches take at least {} entries, and there are {}", timetable.stages(),
                       timetable.microBatches, 2 * least, entries);
  std::string fault = findMiscount(timetable);
  if (!fault.empty())
    return fault;
  std::vector<size_t> stopped = walk(timetable, [](size_t, size_t, size_t) {});
  for (size_t rank = 0; rank < stopped.size(); ++rank)
    if (stopped[rank] < timetable.ranks[rank].size())
      return Standstill(timetable, stopped).describe();
  return mostStashes > 0 ? findOverfull(timetable, mostStashes) : "";
}

std::string findWeightsOutOfOrder(const Timetable &timetable) {
  std::vector<const Entry *> last(timetable.rankOf.size(), nullptr); // of each stage
  for (size_t rank = 0; rank < timetable.ranks.size(); ++rank)
    for (const Entry &entry : timetable.ranks[rank]) {
      if (!givesWeightGradient(entry.kind))
        continue;
      const Entry *&before = last[static_cast<size_t>(entry.stage)];
      if (before && before->microBatch > entry.microBatch)
        return fmt::format("rank {}: {} adds its weight gradients after {}, not in ascending order of micro-batches",
                           rank, describe(entry), textOf(*before));
      before = &entry;
    }
  return "";
}

} // namespace dtc::timetables
