// Values for everything that a training step reads: the same for every form of the program, different in every draw.
#pragma once

#include "tools/verify/LogicalProgram.h"

namespace dtc::verify {

/// A value of a parameter or moment: not the initialisation of training, which makes whole gradients zero, but one at
/// which every operation has an effect. Second moments are positive.
mlir::dt::HostTensor makeState(const LogicalProgram::Port &port, uint64_t draw);

/// An input of micro-batch `microBatch` of `samples` rows, by its source: tokens and next tokens below `vocabulary`. Up
/// to half of a sample's next tokens are left out (-100), which makes the samples unequal, but none is left out in both
/// of two successive draws. Also a key, and scalars. Throws BadInput where the tensor has no source.
mlir::dt::HostTensor makeInput(const LogicalProgram::Port &port, int64_t microBatch, int64_t samples,
                               int64_t vocabulary, uint64_t draw);

} // namespace dtc::verify
