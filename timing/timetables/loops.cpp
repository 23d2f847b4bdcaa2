// Timetables whose backward passes are whole, with stages in a loop: naive, gpipe, 1f1b, interleaved.
#include "timing/timetables/families.h"
#include "timing/timetables/lane.h"

#include <algorithm>

namespace dtc::timetables {

void fillNaive(Timetable &timetable, const Shape &shape) {
  for (int32_t rank = 0; rank < shape.ranks; ++rank) {
    Lane lane(timetable, rank);
    for (int32_t micro = 0; micro < shape.microBatches; ++micro) {
      for (int32_t chunk = 0; chunk < shape.stagesPerRank; ++chunk)
        lane.add(Kind::Forward, chunk * shape.ranks + rank);
      for (int32_t chunk = shape.stagesPerRank; chunk-- > 0;)
        lane.add(Kind::Backward, chunk * shape.ranks + rank);
    }
  }
}

// With several stages a rank, all micro-batches go through a stage before the rank turns to its next one.
void fillGpipe(Timetable &timetable, const Shape &shape) {
  for (int32_t rank = 0; rank < shape.ranks; ++rank) {
    Lane lane(timetable, rank);
    for (int32_t chunk = 0; chunk < shape.stagesPerRank; ++chunk)
      for (int32_t micro = 0; micro < shape.microBatches; ++micro)
        lane.add(Kind::Forward, chunk * shape.ranks + rank);
    for (int32_t chunk = shape.stagesPerRank; chunk-- > 0;)
      for (int32_t micro = 0; micro < shape.microBatches; ++micro)
        lane.add(Kind::Backward, chunk * shape.ranks + rank);
  }
}

/// `ahead` forward passes of one stage before the first backward pass; then they take turns as long as there are any.
static void addInTurns(Lane &lane, int32_t stage, int32_t ahead, int32_t microBatches) {
  for (int32_t forward = 0; forward < std::min(ahead, microBatches); ++forward)
    lane.add(Kind::Forward, stage);
  for (int32_t backward = 0; backward < microBatches; ++backward) {
    lane.add(Kind::Backward, stage);
    lane.add(Kind::Forward, stage);
  }
}

void fillOneForwardOneBackward(Timetable &timetable, const Shape &shape) {
  for (int32_t rank = 0; rank < shape.ranks; ++rank) {
    Lane lane(timetable, rank);
    addInTurns(lane, rank, shape.ranks - rank, shape.microBatches);
  }
}

// The n-th forward pass of a rank belongs to its stage (n / round) mod v: a round of micro-batches through one stage,
// then through the rank's next. Backward passes come in the same way, from the last stage on.
void fillInterleaved(Timetable &timetable, const Shape &shape) {
  int32_t p = shape.ranks, v = shape.stagesPerRank, passes = v * shape.microBatches;
  int32_t round = shape.microBatches / std::max(1, shape.microBatches / p);
  for (int32_t rank = 0; rank < p; ++rank) {
    Lane lane(timetable, rank);
    auto forward = [&](int32_t pass) { lane.add(Kind::Forward, pass / round % v * p + rank); };
    int32_t ahead = std::min(passes, (v - 1) * round + 2 * (p - 1 - rank));
    for (int32_t pass = 0; pass < ahead; ++pass)
      forward(pass);
    for (int32_t pass = 0; pass < passes; ++pass) {
      if (ahead + pass < passes)
        forward(ahead + pass);
      lane.add(Kind::Backward, (v - 1 - pass / round % v) * p + rank);
    }
  }
}

} // namespace dtc::timetables
