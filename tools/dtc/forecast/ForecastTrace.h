// A simulated step as a trace in the run's own format: a process for the first rank of each class.
#pragma once

#include "runtime/observe/trace.h"
#include "timing/events/simulate.h"

#include <map>
#include <memory>
#include <string>

namespace dtc {

class ForecastTrace final : public timing::Watcher {
public:
  /// Both arguments outlive it; `classes` are of the manifest's step.
  ForecastTrace(const abi::Manifest &manifest, const timing::EqualRanks &classes);
  ~ForecastTrace() override;

  void executed(const timing::Executed &executed) override;
  /// Throws Error (Runtime) when the file cannot be written.
  void write(const std::string &path, double seconds);

private:
  struct OfClass;
  std::vector<std::unique_ptr<OfClass>> ofClasses;
};

} // namespace dtc
