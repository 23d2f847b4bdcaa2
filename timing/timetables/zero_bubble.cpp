// Zero bubble (Qi et al., arXiv:2401.10241): weight gradients wait until there is nothing else to do.
#include "timing/timetables/families.h"
#include "timing/timetables/lane.h"

#include <algorithm>

namespace dtc::timetables {

/// `ahead` forward passes, then input gradients and forward passes in turn; the weight gradients follow their input
/// gradients `delay` micro-batches later, so that the stashes stay at most ahead + delay.
static void addOneStage(Lane &lane, int32_t stage, int32_t ahead, int32_t delay, int32_t microBatches) {
  for (int32_t forward = 0; forward < std::min(ahead, microBatches); ++forward)
    lane.add(Kind::Forward, stage);
  for (int32_t input = 0; input < microBatches; ++input) {
    lane.add(Kind::BackwardInput, stage);
    if (input >= delay)
      lane.add(Kind::BackwardWeight, stage);
    lane.add(Kind::Forward, stage);
  }
  while (lane.weights(stage) < microBatches)
    lane.add(Kind::BackwardWeight, stage);
}

void fillZeroBubbleH1(Timetable &timetable, const Shape &shape) {
  for (int32_t rank = 0; rank < shape.ranks; ++rank) {
    Lane lane(timetable, rank);
    addOneStage(lane, rank, shape.ranks - rank, rank, shape.microBatches);
  }
}

void fillZeroBubbleH2(Timetable &timetable, const Shape &shape) {
  for (int32_t rank = 0; rank < shape.ranks; ++rank) {
    Lane lane(timetable, rank);
    addOneStage(lane, rank, 2 * (shape.ranks - rank) - 1, 2 * rank, shape.microBatches);
  }
}

// The V of 2p - 1 micro-batches or more; with fewer, the others are left out, and their gaps stay.
void fillZeroBubbleV(Timetable &timetable, const Shape &shape) {
  using enum Kind;
  int32_t p = shape.ranks, passes = std::max(shape.microBatches, 2 * p - 1);
  for (int32_t rank = 0; rank < p; ++rank) {
    Lane lane(timetable, rank);
    int32_t down = rank, up = 2 * p - 1 - rank; // the two stages of the V
    auto backward = [&](int32_t stage) {
      lane.add(BackwardInput, stage);
      lane.add(BackwardWeight, stage);
    };
    for (int32_t i = 0; i < 2 * (p - rank) - 1; ++i)
      lane.add(Forward, down);
    for (int32_t i = 0; i < rank; ++i) {
      lane.add(Forward, up);
      lane.add(Forward, down);
    }
    for (int32_t i = 0; i < p - rank; ++i) {
      lane.add(Forward, up);
      backward(up);
    }
    while (lane.forwards(up) < passes) {
      if (lane.forwards(down) < passes)
        lane.add(Forward, down);
      backward(down);
      lane.add(Forward, up);
      backward(up);
    }
    for (int32_t i = 0; i < rank; ++i) {
      lane.add(BackwardInput, down);
      lane.add(BackwardInput, up);
    }
    while (lane.inputs(down) < passes)
      backward(down);
    for (int32_t stage : {up, down})
      while (lane.weights(stage) < passes)
        lane.add(BackwardWeight, stage);
  }
}

} // namespace dtc::timetables
