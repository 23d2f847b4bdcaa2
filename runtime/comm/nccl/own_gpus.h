// Checks that ranks can use the GPUs assigned to them.
#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/device/cuda/gpu.h"

namespace dtc {

/// All ranks call it. Throws Error (Runtime) if two ranks use one GPU, which NCCL refuses, or if ranks use GPUs of
/// different kinds: replicated computations would differ, and so would results that must be equal. One rank's message
/// names them.
void requireOwnGpus(Communicator &hosts, const cuda::Gpu &gpu);

} // namespace dtc
