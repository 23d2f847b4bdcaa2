// What the layers of a pipeline took in the traced steps of a run.
#pragma once

#include "passes/pipelines/search/StageProfile.h"
#include "runtime/abi/manifest.pb.h"
#include "tools/dtc/report/RunTrace.h"

#include <string>

namespace dtc {

/// Of a micro-batch, from the kernels of forward and backward passes, and from the waits for collectives in them; waits
/// for other stages do not count. Of each command the median of its runs counts for all. Of the ranks that have the
/// same stages, the one that computes longest counts. `manifest` is the program's that was traced; `path` names the
/// trace in messages. Throws Error (BadInput) where the program has no pipeline, or the trace lacks steps of a rank
/// along it.
StageProfile stageProfileOf(const RunTrace &trace, const abi::Manifest &manifest, const std::string &path);

/// Likewise, of the folder of a run; throws Error (BadInput) also where that has no trace.
StageProfile readStageProfile(const std::string &folder);

} // namespace dtc
