// DualPipeV: DualPipe (DeepSeek-AI, arXiv:2412.19437) cut in half, so that each rank has two stages in a V and one copy
// of their parameters. In its main part each forward pass runs at the same time as a backward pass. The phases are
// those of DeepSeek's published schedule.
#include "timing/timetables/families.h"
#include "timing/timetables/lane.h"

#include <deque>

namespace dtc::timetables {

namespace {

class DualPipeRank {
public:
  DualPipeRank(Timetable &timetable, const Shape &shape, int32_t rank)
      : lane(timetable, rank), p(shape.ranks), m(shape.microBatches), rank(rank), down(rank), up(2 * p - 1 - rank) {}

  void fill() {
    fillPipeline();
    addPairs();
    drain();
  }

private:
  /// Forward passes, at last with backward passes that are split, as the next rank waits for input gradients.
  void fillPipeline() {
    for (int32_t i = 0; i < 2 * (p - 1 - rank); ++i)
      lane.add(Kind::Forward, down);
    for (int32_t i = 0; i <= rank; ++i) {
      lane.add(Kind::Forward, down);
      lane.add(Kind::Forward, up);
    }
    for (int32_t i = 0; i < p - 1 - rank; ++i) {
      input(up);
      weight();
      lane.add(Kind::Forward, up);
    }
  }

  void addPairs() {
    for (int32_t i = 0; i < m - 2 * p + rank + 1; ++i) {
      if (i == 0 && rank == p - 1) { // its backward pass needs what has just been computed: apart, it begins earlier
        lane.add(Kind::Forward, down);
        lane.add(Kind::Backward, up);
      } else {
        lane.addPair(Kind::Forward, down, Kind::Backward, up);
      }
      lane.addPair(Kind::Forward, up, Kind::Backward, down);
    }
    for (int32_t i = 0; i < p - 1 - rank; ++i) {
      lane.add(Kind::Backward, up);
      lane.addPair(Kind::Forward, up, Kind::Backward, down);
    }
  }

  /// Backward passes, of which the later half is split: weight gradients fill the gaps at the end.
  void drain() {
    int32_t whole = rank + 1; // passes of both stages in turn
    for (int32_t i = 0; i < 2 * (rank + 1); ++i) {
      int32_t stage = i % 2 == 0 ? up : down;
      if (i < whole)
        lane.add(Kind::Backward, stage);
      else
        input(stage);
    }
    for (int32_t i = 0; i < p - 1 - rank; ++i) {
      weight();
      input(down);
    }
    while (!pending.empty())
      weight();
  }

  void input(int32_t stage) {
    lane.add(Kind::BackwardInput, stage);
    pending.push_back(stage);
  }

  /// The oldest weight gradients that wait, if any.
  void weight() {
    if (pending.empty())
      return;
    lane.add(Kind::BackwardWeight, pending.front());
    pending.pop_front();
  }

  Lane lane;
  int32_t p, m, rank, down, up;
  std::deque<int32_t> pending; ///< stages whose weight gradients wait
};

} // namespace

void fillDualPipeV(Timetable &timetable, const Shape &shape) {
  for (int32_t rank = 0; rank < shape.ranks; ++rank)
    DualPipeRank(timetable, shape, rank).fill();
}

} // namespace dtc::timetables
