// All data that the page of `dtc report` shows, as one JSON object. docs/report.md says what its fields mean.
#pragma once

#include "tools/dtc/report/RunFolder.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>

namespace dtc {

/// What the page is made from, besides the run itself.
struct ReportInputs {
  std::optional<RunFolder> other; ///< a run to draw for comparison
  std::string predictedTrace;     ///< the file, in the form of a run's trace; empty: nothing was predicted
};

nlohmann::ordered_json reportData(const RunFolder &run, const ReportInputs &inputs);

} // namespace dtc
