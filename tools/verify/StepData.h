// Values for everything that a training step reads: the same for every form of the program, others in every draw.
#pragma once

#include "tools/verify/LogicalProgram.h"

namespace dtc::verify {

/// A value of a parameter or moment: not the initialisation of training, where whole gradients are zero, but one at
/// which every operation has something to do. Second moments are positive.
mlir::dt::HostTensor makeState(const LogicalProgram::Port &port, uint64_t draw);

/// An input of micro-batch `microBatch` of `samples` rows, by its source: tokens and next tokens below `vocabulary`,
/// between none and half of a sample's next tokens left out (-100), which makes the samples unequal, but none in both
/// of two successive draws; a key; scalars. Throws BadInput where it has no source.
mlir::dt::HostTensor makeInput(const LogicalProgram::Port &port, int64_t microBatch, int64_t samples,
                               int64_t vocabulary, uint64_t draw);

} // namespace dtc::verify
