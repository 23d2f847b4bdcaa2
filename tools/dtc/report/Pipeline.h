// The timetable of a pipeline's step with the times that a trace gives its passes.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "timing/timetables/simulate.h"
#include "tools/dtc/report/RunTrace.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace dtc {

/// Whether a program's ranks run passes of a pipeline, in steps that do not overlap.
bool hasPipeline(const abi::Manifest &manifest);

/// One step of a pipeline: of the ranks that are first on all other axes of the mesh.
struct PipelineStep {
  int64_t number = 0;         ///< in the trace
  std::vector<int64_t> ranks; ///< of each row of the timetable
  timetables::Timetable timetable;
  /// A pass lasts from the begin of its first command to the end of its last, without waits before and after. Seconds,
  /// from the step's first pass on, in whole nanoseconds. Memory is not known.
  timetables::Simulated times;
};

/// Of the traced steps the one of median length, the shorter one of two. None if there is no step whose commands are
/// those of the program's timetable on all these ranks: it was not traced as a whole, or is another program's.
std::optional<PipelineStep> pipelineStepOf(const RunTrace &trace, const abi::Manifest &manifest);

/// "pipeline" of docs/report.md, of a program that has one. Either step may be null. Their pictures have one scale. A
/// step of more than `most` passes is not drawn, and its entries are left out.
nlohmann::ordered_json pipelineJson(const abi::Manifest &manifest, const PipelineStep *predicted,
                                    const PipelineStep *measured, size_t most);

} // namespace dtc
