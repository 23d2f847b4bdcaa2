// Compares a library kernel's code with its meaning, called as launches call it, on poisoned memory: each element that
// it stores must be within the bounds that f32 arithmetic and one rounding to the stored type allow (Estimate.h), and
// nothing else may change.
//
// Sizes of large launches are cut (LibraryForm.h); strides, types and flags are the real ones.
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
  /// `types` are the element types of the launch's buffers. Throws ProgramFault where no kernel has that symbol.
  LibraryCode(const std::string &symbol, std::vector<abi::DataType> types, LibraryCall call, CodeFunction function);

  /// trial.inPlace has one entry for each buffer, inputs included: the buffer whose memory it shares, or -1.
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
