// What the commands of a plan say about its relatives, which have the same stages on the same ranks, recompute the same
// and split backward passes alike (timing/plans/relatives.h). Relatives differ in how state is split and in the order
// of commands, so only those commands count that do not depend on either:
//
//   - products and attention. Of products that give gradients of weights only their operations, because what these are
//     added to, and in which type, depends on how gradients are split
//   - other kernels of forward passes and of input gradients, less what they read from parameters and gradients: this
//     may be gathered, and converted before. Kernels that only convert parameters do not count, nor do copies and
//     look-ups of rows, some of which are for collectives
//   - sums for gradients of weights, such as a bias's: what they read. Not sums of such gradients
//   - collectives that exchange activations, when they have the links to themselves, in the group that is the fastest
//
// Elementwise kernels of one formula may be launched together, so their launches do not count, and they reach the best
// share of any size.
//
// Kernels of a rank run one after the other, and functions in the order of the timetable (timing/events/simulate.h). So
// from the first to the last kernel of a function it takes no less than leastSpan() says. Products of the forward pass
// that wait for tensor-parallel ranks are bounded with their waiting in this way.
#pragma once

#include "passes/pipelines/search/Planner.h"
#include "timing/cluster/cluster.h"
#include "timing/plans/search.h"

#include <vector>

namespace dtc {

/// Of each command of a function, in an order in which producers come first: the commands whose results it reads.
using Producers = std::vector<std::vector<size_t>>;

/// Seconds of each command; 0: it does not count.
struct CommandTimes {
  std::vector<double> kernels, exchanges;
};

/// Seconds from the beginning of the first kernel to the end of the last, at least. A kernel begins no earlier than the
/// longest chain of kernels and exchanges that it depends on has ended, and all that begin no earlier than some moment
/// run one after the other behind it (the bound of the one-machine problem with heads; Carlier 1982). An exchange
/// counts only if it depends on a kernel.
double leastSpan(const Producers &producers, const CommandTimes &times);

/// Sets Evaluated::passes and busy, unless a pipeline's ranks have different devices: then relatives may be cut
/// otherwise. `layout`: for the mesh.
void addPasses(const Plan &plan, const timing::Layout &layout, const abi::Mesh &mesh, plans::Evaluated &evaluated);

} // namespace dtc
