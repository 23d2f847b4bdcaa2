// Compares a generated kernel's code for a processor with its meaning (KernelRun.h), called as launches call it.
//
// Of large kernels only a part of the grid is run: its first, middle and last indices, so that the innermost sizes and
// their tails are the real ones. Memory is reserved whole, but only what is touched is allocated.
#pragma once

#include "dialect/IR/HostTensor.h"
#include "dialect/IR/Ops.h"
#include "passes/lower/kernels/LaunchShape.h"
#include "tools/verify/KernelRun.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace dtc {
struct KernelPlan;
}

namespace dtc::verify {

/// Calls the code for the part [begin, end) of its grid; see runtime/abi/kernel.h.
using CodeFunction = std::function<void(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end)>;

/// One way to run a kernel.
struct CodeTrial {
  std::vector<int> inPlace = {}; ///< for each output the input that it overwrites, or -1; short: none
  int parts = 1;                 ///< pieces into which each stretch of the grid is cut, as for threads
  unsigned draw = 0;             ///< of the inputs: draws differ in magnitudes and signs
  double mostWork = 4e6;         ///< elements times operations for which the meaning is evaluated, about
};

/// A kernel and its code. `shape` is how its target launches it; `scalars` are a launch's, on `rank`. All arguments but
/// the last two outlive this.
class KernelCode {
public:
  KernelCode(mlir::dt::KernelOp kernel, const KernelPlan &plan, LaunchShape shape, CodeFunction function,
             std::vector<int64_t> scalars, mlir::dt::RankContext rank);

  CodeResult run(const CodeTrial &trial) const;

private:
  struct Stretch {
    int64_t begin, end; ///< of the grid
  };

  double workOfIndex() const;
  int64_t flatSizeFor(double mostWork) const;
  std::vector<Stretch> chooseStretches(double mostWork) const;
  std::vector<int64_t> elementsOf(unsigned output, const std::vector<Stretch> &stretches, int64_t flatSize) const;
  bool isSampled(int64_t element) const;
  void call(const CodeTrial &trial, const std::vector<Stretch> &stretches, int64_t flatSize,
            const std::vector<void *> &buffers) const;

  mlir::dt::KernelOp kernel;
  const KernelPlan &plan;
  LaunchShape shape;
  CodeFunction function;
  std::vector<int64_t> scalars;
  mlir::dt::RankContext rank;
};

} // namespace dtc::verify
