// What a plan says about all plans of its family, which differ from it in how state is split, what is recomputed, the
// timetable and the cut: seconds that none of their steps is shorter than.
//
// All of them do the products and the attention of the forward pass and of both parts of the backward pass, on tensors
// of the same sizes. What else they do differs: which elementwise kernels there are and what these read, what gradients
// are added to, what is recomputed. So only these products and this attention count, with their operations alone:
//
//   launch_seconds + flops / peak / (the largest share that kernels of the class reach at any size)
//
// which is at most what timing::kernelSeconds says, because a mean of shares is at most the largest one, and reading
// memory only adds. On GPUs, products may also do the elementwise work behind them, some operations for each element of
// their result: so a share of their operations, `epilogues`, does not count.
//
// Without a pipeline, the slowest device counts. Of a pipeline, whose stages may be cut in any way, it is the mean over
// ranks, each kernel on the device that does it fastest.
#pragma once

#include "passes/pipelines/search/Planner.h"
#include "timing/cluster/cluster.h"
#include "timing/cost/cost.h"

namespace dtc {

/// The share of the operations of products that epilogues may be.
inline constexpr double epilogues = 0.02;

/// At most what kernelSeconds says about any such work, whatever bytes it moves.
double leastKernelSeconds(const timing::Device &device, abi::Work::Class kind, abi::DataType type, double flops);

/// Of the plan's family. `layout`: for its mesh.
double floorOf(const Plan &plan, const timing::Layout &layout);

} // namespace dtc
