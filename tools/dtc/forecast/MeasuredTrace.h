// What a run's trace says about its kernels, and about what its host did meanwhile.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "timing/cost/fit.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace dtc {

struct TraceSlice;

class MeasuredTrace {
public:
  /// From `trace.json` of a run of the program with this manifest. Throws Error (BadInput) where the file is not a
  /// trace, or is a trace of another program.
  MeasuredTrace(const abi::Manifest &manifest, const std::string &path);

  /// Of all launches and copies, of all ranks; each with the gap between it and the next command.
  const std::vector<timing::Observation> &kernels() const { return observations; }
  /// Of each step: seconds on the rank that took longest.
  const std::vector<double> &steps() const { return stepSeconds; }
  /// For each step of each rank: seconds that no command took.
  const std::vector<double> &hosts() const { return hostsOfSteps; }
  /// The median for each launch and copy, by list and index in it.
  std::map<std::pair<std::string, uint32_t>, double> medians() const;

private:
  using Place = std::pair<std::string, uint32_t>;
  void addKernels(const std::vector<const TraceSlice *> &ordered, const std::vector<std::string> &names);
  const abi::Command &commandOf(const std::string &list, int64_t command) const;

  std::string path;
  std::map<std::string, const abi::CommandList *> lists;
  std::map<Place, std::vector<double>> secondsOf;
  std::vector<timing::Observation> observations;
  std::vector<double> stepSeconds, hostsOfSteps;
};

} // namespace dtc
