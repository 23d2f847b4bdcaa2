// One run of a generated kernel's code against its meaning, however it is called, on poisoned memory (PoisonedCall.h):
// each element that is stored must lie where f32 arithmetic and one rounding to what is stored may put it
// (RoundingBounds.h).
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

/// What a run finds.
struct CodeResult {
  std::string failure;  ///< empty: as it should be; else the first element or byte that is not
  int64_t compared = 0; ///< elements of outputs
  bool isWhole = true;  ///< all that there are
  /// Nothing was run: a single index of the grid takes more work than a trial may by far.
  bool isTooMuch = false;
  uint64_t stored = 0;   ///< a hash of the bits of all that was written
  int64_t unbounded = 0; ///< of those compared: may be anything, as operands are near a pole, or overflow
};

/// What lies where in a run, and what is in it.
struct RunPlaces {
  std::vector<int> inPlace = {}; ///< for each output the input that it takes over, or -1; short: none
  unsigned draw = 0;             ///< of the inputs: draws differ in magnitudes and signs
  /// Buffers begin at odd multiples of so many bytes; 0: at any element.
  int64_t alignment = 0;
  std::string manner = {}; ///< how the code is called, for messages
};

class KernelRun {
public:
  /// With `flatSize` >= 0 a flat kernel is told that size. All references outlive this.
  KernelRun(mlir::dt::KernelOp kernel, const KernelPlan &plan, const mlir::dt::RankContext &rank, RunPlaces places,
            int64_t flatSize = -1);

  /// For output after output: the elements that the call writes, in rising order, and those that are compared.
  void expect(std::vector<int64_t> written, std::vector<int64_t> compared);
  /// That the call writes all of all outputs.
  void expectAll();

  /// Once, when it is known of every output what is expected. The call's buffers are inputs, then outputs.
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
