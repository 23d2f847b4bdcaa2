// One run of a generated kernel's code against its meaning, with any way of calling it, on poisoned memory
// (PoisonedCall.h): each stored element must be within the bounds that f32 arithmetic and one rounding to the stored
// type allow (RoundingBounds.h).
#pragma once

#include "dialect/IR/HostTensor.h"
#include "dialect/IR/Ops.h"
#include "tools/verify/PoisonedCall.h"
#include "tools/verify/RoundingBounds.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dtc {
struct KernelPlan;
}

namespace dtc::verify {

/// The result of a run.
struct CodeResult {
  std::string failure;  ///< empty: correct; otherwise the first wrong element or byte
  int64_t compared = 0; ///< elements of outputs
  bool isWhole = true;  ///< all of them
  /// Nothing was run: a single index of the grid takes far more work than a trial may.
  bool isTooMuch = false;
  uint64_t stored = 0;   ///< a hash of the bits of all that was written
  int64_t unbounded = 0; ///< compared elements that may be anything, as operands are near a pole, or overflow
};

/// The layout of buffers in a run, and their contents.
struct RunPlaces {
  std::vector<int> inPlace = {}; ///< for each output the input that it overwrites, or -1; short: none
  unsigned draw = 0;             ///< of the inputs: draws differ in magnitudes and signs
  /// Buffers begin at odd multiples of this many bytes; 0: at any element.
  int64_t alignment = 0;
  std::string manner = {}; ///< how the code is called, for messages
};

class KernelRun {
public:
  /// With `flatSize` >= 0 a flat kernel gets that size. All references outlive this.
  KernelRun(mlir::dt::KernelOp kernel, const KernelPlan &plan, const mlir::dt::RankContext &rank, RunPlaces places,
            int64_t flatSize = -1);

  /// For each output in turn: the elements that the call writes, in ascending order, and those that are compared.
  void expect(std::vector<int64_t> written, std::vector<int64_t> compared);
  /// Expects the call to write all elements of all outputs.
  void expectAll();

  /// Called once, after the expectations for all outputs. The call's buffers are inputs, then outputs.
  CodeResult call(const KernelCall &call);

private:
  double input(unsigned argument, int64_t element);
  double inputValue(unsigned argument, int64_t element) const;
  const abi::ElementType &typeOf(size_t buffer) const;
  int64_t elementsOf(size_t buffer) const;
  std::vector<CalledBuffer> layOut();
  CalledBuffer bufferOf(size_t number) const;
  std::string describe() const;

  const KernelPlan &plan;
  const RunPlaces places;
  std::vector<std::vector<int64_t>> read; ///< elements of each input
  RoundingBounds meaning;
  std::vector<Elements> written;  ///< elements of each output
  std::vector<Elements> compared; ///< those of them that are compared
  CodeResult result;
};

} // namespace dtc::verify
