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

#include <vector>

namespace dtc {

/// At most what kernelSeconds says about any such work that moves `bytes` or more.
double leastKernelSeconds(const timing::Device &device, abi::Work::Class kind, abi::DataType type, double flops,
                          double bytes = 0);

/// One of each kind that a rank has, in the order of the cluster file.
std::vector<const timing::Device *> devicesOf(const timing::Layout &layout);

/// Of the plan's family. `layout`: for its mesh.
double floorOf(const Plan &plan, const timing::Layout &layout);

} // namespace dtc
