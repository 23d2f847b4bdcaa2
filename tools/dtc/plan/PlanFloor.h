// What a plan says about all plans of its family, which have the same stages on the same ranks, and differ from it in
// how state is split, what is recomputed and the timetable: seconds that none of their steps is shorter than.
//
// All of them do the products and the attention of the forward pass and of both parts of the backward pass, on tensors
// of the same sizes. What else they do differs: which elementwise kernels there are and what these read, what gradients
// are added to, what is recomputed. So only these products and this attention count, with their operations alone:
//
//   launch_seconds + flops / peak / (the largest share that kernels of the class reach at any size)
//
// which is at most what timing::kernelSeconds says, because a mean of shares is at most the largest one, and reading
// memory only adds. (On GPUs products also do elementwise work that is behind them: see plans::floorShare.)
//
// The rank where this takes longest counts. Only where a pipeline's ranks have different devices, relatives may be cut
// in another way: then it is the mean over ranks, each kernel on the device that does it fastest.
#pragma once

#include "passes/pipelines/search/Planner.h"
#include "timing/cluster/cluster.h"
#include "timing/cost/cost.h"
#include "timing/plans/search.h"

namespace dtc {

/// At most what kernelSeconds says about any such work, whatever bytes it moves.
double leastKernelSeconds(const timing::Device &device, abi::Work::Class kind, abi::DataType type, double flops);

/// Of the plan's family. `layout`: for its mesh.
double floorOf(const Plan &plan, const timing::Layout &layout);

/// Sets Evaluated::passes and busy (timing/plans/relatives.h), unless a pipeline's ranks have different devices.
///
/// Kernels that add to gradients of weights depend on how state is split, so of these passes only the library's
/// products and sums over rows count. Elementwise kernels of one formula may be joined, so their launches do not count.
/// Otherwise kernels take what the simulator says.
void addPasses(const Plan &plan, const timing::Layout &layout, const abi::Mesh &mesh, plans::Evaluated &evaluated);

} // namespace dtc
