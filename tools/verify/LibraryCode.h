// A library kernel's code against its meaning, as launches call it, on poisoned memory: each element that it stores
// must lie where f32 arithmetic and one rounding to what is stored may put it (Estimate.h), and nothing else may
// change.
//
// Sizes of large launches are cut (LibraryForm.h); strides, types and flags are what they are.
#pragma once

#include "tools/verify/Estimate.h"
#include "tools/verify/KernelCode.h"
#include "tools/verify/LibraryForm.h"
#include "tools/verify/LibraryKernels.h"
#include "tools/verify/PoisonedCall.h"

#include <string>
#include <vector>

namespace dtc::verify {

class LibraryCode {
public:
  /// `types` are of the elements of the launch's buffers. Throws ProgramFault where no kernel has that symbol.
  LibraryCode(const std::string &symbol, std::vector<abi::DataType> types, LibraryCall call, CodeFunction function);

  /// With trial.inPlace for each buffer, also the inputs: the buffer that it lies over, or -1.
  CodeResult run(const CodeTrial &trial) const;

private:
  double inputValue(unsigned draw, size_t buffer, int64_t element) const;
  std::vector<CalledBuffer> layOut(const CodeTrial &trial) const;
  void evaluate(std::vector<CalledBuffer> &buffers) const;
  void callInParts(const std::vector<void *> &addresses, int parts) const;
  std::string describe(const CodeTrial &trial) const;

  const LibraryForm &form;
  LibraryReferenceOf<Estimate> reference;
  std::vector<abi::DataType> types;
  LibraryCall call;
  bool isCut;
  CodeFunction function;
};

} // namespace dtc::verify
