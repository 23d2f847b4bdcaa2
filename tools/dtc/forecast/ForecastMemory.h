// What ranks hold in memory in the course of a simulated step. Whether devices have as much says Room.h.
#pragma once

#include "timing/events/memory.h"
#include "timing/events/simulate.h"

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace dtc {

/// Hears of a simulated step when its commands run; `next` hears of all too, unless it is null.
class ForecastMemory final : public timing::Watcher {
public:
  /// All outlive it; `classes` are of the manifest's step.
  ForecastMemory(const abi::Manifest &manifest, const timing::EqualRanks &classes, timing::Watcher *next);

  void executed(const timing::Executed &executed) override;

  /// A line a role.
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
