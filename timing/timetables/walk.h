// Walks the lists of all ranks as ranks do, without times: an entry runs when what it needs has run.
//
// Ranks send without waiting for the receiver, so a rank waits for its inputs alone, and it does not matter in which
// order the walk visits the ranks: it ends at the same places.
#pragma once

#include "timing/timetables/timetable.h"

#include <optional>

namespace dtc::timetables {

/// Which passes have run.
class Done {
public:
  explicit Done(const Timetable &timetable)
      : timetable(timetable), passes(timetable.rankOf.size() * static_cast<size_t>(timetable.microBatches), 0) {}

  void add(const Entry &entry) { passes[timetable.index(entry)] |= bitsOf(entry.kind); }
  bool has(Kind kind, int32_t stage, int32_t microBatch) const {
    return (passes[timetable.index(stage, microBatch)] & bitsOf(kind)) == bitsOf(kind);
  }

  /// What an entry needs and is not there. A needed gradient is named as the whole backward pass or as its first half,
  /// whatever the entry is.
  std::optional<Entry> missing(const Entry &entry) const {
    auto need = [&](Kind kind, int32_t stage) -> std::optional<Entry> {
      if (has(kind, stage, entry.microBatch))
        return std::nullopt;
      return Entry{kind, false, stage, entry.microBatch};
    };
    if (entry.kind == Kind::Forward)
      return entry.stage == 0 ? std::nullopt : need(Kind::Forward, entry.stage - 1);
    if (entry.kind == Kind::BackwardWeight)
      return need(Kind::BackwardInput, entry.stage);
    if (std::optional<Entry> own = need(Kind::Forward, entry.stage))
      return own;
    return entry.stage + 1 == timetable.stages() ? std::nullopt : need(Kind::BackwardInput, entry.stage + 1);
  }

private:
  static uint8_t bitsOf(Kind kind) {
    constexpr uint8_t forward = 1, input = 2, weight = 4;
    constexpr uint8_t bits[] = {forward, input | weight, input, weight};
    return bits[static_cast<size_t>(kind)];
  }

  const Timetable &timetable;
  std::vector<uint8_t> passes; ///< bits, by stage and micro-batch
};

/// Calls run(rank, begin, end) for each entry [begin, end) of a rank's list, and for both of a pair at once, behind all
/// that it needs. Returns the place where each rank stops: the length of its list, unless something never comes.
/// Stages, micro-batches and pairs must be in range, as check.h ensures.
template <typename Run> std::vector<size_t> walk(const Timetable &timetable, Run &&run) {
  Done done(timetable);
  size_t ranks = timetable.ranks.size();
  std::vector<size_t> next(ranks, 0);
  std::vector<bool> waits(ranks, false);
  std::vector<size_t> awake;
  for (size_t rank = ranks; rank-- > 0;)
    awake.push_back(rank);
  auto wake = [&](int32_t stage) {
    if (stage < 0 || stage >= timetable.stages())
      return;
    auto rank = static_cast<size_t>(timetable.rankOf[static_cast<size_t>(stage)]);
    if (!waits[rank])
      return;
    waits[rank] = false;
    awake.push_back(rank);
  };
  while (!awake.empty()) {
    size_t rank = awake.back();
    awake.pop_back();
    const std::vector<Entry> &list = timetable.ranks[rank];
    size_t &at = next[rank];
    while (at < list.size()) {
      size_t end = at + (list[at].withNext ? 2 : 1);
      if (done.missing(list[at]) || (end == at + 2 && done.missing(list[at + 1])))
        break;
      run(rank, at, end);
      for (; at < end; ++at) {
        done.add(list[at]);
        if (list[at].kind == Kind::Forward)
          wake(list[at].stage + 1);
        else if (givesInputGradient(list[at].kind))
          wake(list[at].stage - 1);
      }
    }
    waits[rank] = at < list.size();
  }
  return next;
}

} // namespace dtc::timetables
