// Generators of timetables: in which order the stages of a pipeline take the micro-batches of a step.
//
//   naive  one micro-batch through all stages and back before the next (model parallelism without a pipeline)
//   gpipe  all forward passes, then all backward passes (Huang et al., arXiv:1811.06965). A stage keeps the stash of m
//          micro-batches
//   1f1b   as many forward passes as it takes to fill the later stages, then one backward and one forward pass in turn
//          (PipeDream-flush: Narayanan et al., arXiv:2104.04473). Stage s of p keeps min(m, p - s)
//
// Backward passes come in the order of the micro-batches in all of them, so that gradients are added in one order and
// all three give the same bits. The bubble of gpipe and 1f1b is (p - 1) / (m + p - 1) of a step, naive's is (p - 1) /
// p.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtc::timing {

enum class PassKind { Forward, Backward };

/// A pass of a micro-batch through one stage.
struct Pass {
  PassKind kind;
  int64_t microBatch;
  bool operator==(const Pass &) const = default;
};

/// What one stage of `stages` does in a step of `microBatches`, in order.
using Generator = std::vector<Pass> (*)(int64_t stage, int64_t stages, int64_t microBatches);

/// The generator of that name, or null.
Generator findGenerator(std::string_view name);

/// The names, in the order in which they are explained above.
std::span<const std::string_view> generatorNames();

} // namespace dtc::timing
