// Whether ranks can work with their GPUs as they are given.
#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/device/cuda/gpu.h"

namespace dtc {

/// All ranks call it. Throws Error (Runtime) where two ranks work on one GPU, which NCCL refuses, or on GPUs of several
/// kinds: what is computed on every rank would differ, and so would what should be equal. One rank says which.
void requireOwnGpus(Communicator &hosts, const cuda::Gpu &gpu);

} // namespace dtc
