// A rank's list under construction: each stage takes its micro-batches in ascending order, in each kind of pass.
#pragma once

#include "timing/timetables/timetable.h"

namespace dtc::timetables {

class Lane {
public:
  Lane(Timetable &timetable, int32_t rank)
      : list(timetable.ranks[static_cast<size_t>(rank)]), microBatches(timetable.microBatches),
        next(timetable.rankOf.size()) {}

  /// The next micro-batch of a stage, or nothing where the stage has had all. Returns which it was.
  int32_t add(Kind kind, int32_t stage) {
    Next &of = next[static_cast<size_t>(stage)];
    int32_t &counter = kind == Kind::Forward ? of.forward : givesInputGradient(kind) ? of.input : of.weight;
    int32_t micro = counter++;
    if (kind == Kind::Backward)
      of.weight = micro + 1;
    if (micro < microBatches)
      list.push_back({kind, false, stage, micro});
    return micro;
  }

  /// Two at the same time.
  void addPair(Kind first, int32_t firstStage, Kind second, int32_t secondStage) {
    add(first, firstStage);
    list.back().withNext = true;
    add(second, secondStage);
  }

  /// How many micro-batches a stage has had.
  int32_t forwards(int32_t stage) const { return next[static_cast<size_t>(stage)].forward; }
  int32_t inputs(int32_t stage) const { return next[static_cast<size_t>(stage)].input; }
  int32_t weights(int32_t stage) const { return next[static_cast<size_t>(stage)].weight; }

private:
  struct Next {
    int32_t forward = 0, input = 0, weight = 0;
  };

  std::vector<Entry> &list;
  int32_t microBatches;
  std::vector<Next> next; ///< by stage
};

} // namespace dtc::timetables
