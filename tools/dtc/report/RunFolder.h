// What a run has written to its folder, even if it is incomplete.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "tools/dtc/report/Series.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dtc {

struct RunFolder {
  std::string path;
  std::optional<abi::Training> settings; ///< of settings.toml
  std::optional<abi::Manifest> manifest; ///< the program's, without the model's small files
  /// By the keys of metrics.jsonl, at ascending steps; each step once. A value that is not a number is NaN.
  std::map<std::string, Series> metrics;
  int64_t lastStep = 0;              ///< that have metrics
  std::string trace;                 ///< the file; empty: there is none
  std::optional<int64_t> checkpoint; ///< the newest one's step
  bool isGoingOn = false;            ///< a process holds the folder
  std::vector<std::string> remarks;  ///< what is missing or cannot be read, and what to do, in sentences

  /// Throws Error (BadInput) where the folder is not a run's.
  static RunFolder read(const std::string &path);

  int64_t plannedSteps() const { return settings ? settings->steps() : lastStep; }
};

} // namespace dtc
