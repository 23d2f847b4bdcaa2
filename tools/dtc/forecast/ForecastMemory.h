// How much memory ranks hold in the course of a simulated step. Room.h says whether devices have that much.
#pragma once

#include "timing/events/memory.h"
#include "timing/events/simulate.h"

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace dtc {

/// Receives the commands of a simulated step as they run; passes them on to `next` unless it is null.
class ForecastMemory final : public timing::Watcher {
public:
  /// All arguments outlive it; `classes` are of the manifest's step.
  ForecastMemory(const abi::Manifest &manifest, const timing::EqualRanks &classes, timing::Watcher *next);

  void executed(const timing::Executed &executed) override;

  /// One line per role.
  void print() const;
  /// "memory" of docs/json.md.
  nlohmann::ordered_json json() const;

private:
  struct OfClass {
    int number;
    int rank;
    const abi::Role &role;
    const timing::StepMemory &memory;
    std::vector<double> begins; ///< of commands, seconds from the step's begin
  };
  nlohmann::ordered_json json(const OfClass &own) const;
  std::string placeOf(const OfClass &own, size_t command) const;

  const abi::Manifest &manifest;
  const timing::EqualRanks &classes;
  timing::Watcher *next;
  std::map<const abi::Role *, timing::StepMemory> memories;
  std::vector<OfClass> ofClasses;
};

} // namespace dtc
