// V-Half and V-Min (Qi et al., "Pipeline Parallelism with Controllable Memory", arXiv:2405.15362): the passes of one
// micro-batch are a building block, which is repeated every six slots. How long a block keeps its stashes sets how many
// there are at a time, so the slots of its passes are chosen for memory.
#include "timing/timetables/families.h"

#include <algorithm>
#include <deque>

namespace dtc::timetables {

namespace {

/// The slots of the first micro-batch's passes on a rank: forward down and up the V, input gradients up and down.
struct Block {
  int32_t down, up, inputUp, inputDown;
};

struct Slot {
  int32_t slot;
  Entry entry;
};

} // namespace

static constexpr int32_t slotsOfABlock = 6;

/// Weight gradients take the slots that are left, in the order of their input gradients.
static void unroll(std::vector<Entry> &list, const Block &block, int32_t down, int32_t up, int32_t microBatches) {
  std::vector<Slot> slots;
  for (int32_t micro = 0; micro < microBatches; ++micro) {
    int32_t from = micro * slotsOfABlock;
    slots.push_back({block.down + from, {Kind::Forward, false, down, micro}});
    slots.push_back({block.up + from, {Kind::Forward, false, up, micro}});
    slots.push_back({block.inputUp + from, {Kind::BackwardInput, false, up, micro}});
    slots.push_back({block.inputDown + from, {Kind::BackwardInput, false, down, micro}});
  }
  std::ranges::sort(slots, {}, &Slot::slot);
  std::deque<Entry> weights;
  auto addWeight = [&] {
    list.push_back(weights.front());
    weights.pop_front();
  };
  int32_t free = 0;
  for (const auto &[slot, entry] : slots) {
    for (; free < slot && !weights.empty(); ++free)
      addWeight();
    list.push_back(entry);
    if (entry.kind == Kind::BackwardInput)
      weights.push_back({Kind::BackwardWeight, false, entry.stage, entry.microBatch});
    free = slot + 1;
  }
  while (!weights.empty())
    addWeight();
}

template <typename MakeBlock> static void fillBlocks(Timetable &timetable, const Shape &shape, MakeBlock &&blockOf) {
  for (int32_t rank = 0; rank < shape.ranks; ++rank)
    unroll(timetable.ranks[static_cast<size_t>(rank)], blockOf(rank), rank, 2 * shape.ranks - 1 - rank,
           shape.microBatches);
}

// Forward passes go down two slots a rank and up one, backward passes the other way round. The gap, for even p, keeps
// passes of different micro-batches out of each other's slots.
void fillVHalf(Timetable &timetable, const Shape &shape) {
  int32_t p = shape.ranks, gap = p % 2 == 0 ? 3 : 0;
  fillBlocks(timetable, shape, [&](int32_t rank) {
    return Block{2 * rank, 3 * p - rank - 2, 3 * p + gap + 2 * rank - 1, 6 * p + gap - rank - 2};
  });
}

// One slot a rank, down and up: no block is shorter.
void fillVMin(Timetable &timetable, const Shape &shape) {
  int32_t p = shape.ranks, gap = p % 3 == 0 ? 2 : 0;
  fillBlocks(timetable, shape, [&](int32_t rank) {
    return Block{rank, 2 * p - rank - 1, 2 * p + gap + rank, 4 * p + gap - rank - 1};
  });
}

} // namespace dtc::timetables
