// What ranks hold in memory in the course of a simulated step, and whether their devices have as much.
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
  /// All outlive it; `classes` are of the manifest's step on `layout`.
  ForecastMemory(const abi::Manifest &manifest, const timing::Layout &layout, const timing::EqualRanks &classes,
                 timing::Watcher *next);

  void executed(const timing::Executed &executed) override;

  /// A line a role.
  void print() const;
  /// "memory" of docs/json.md.
  nlohmann::ordered_json json() const;
  /// Warns of each role that its device has too little for.
  void warn() const;

private:
  struct OfClass {
    int number;
    int rank;
    const abi::Role &role;
    const timing::StepMemory &memory;
    uint64_t deviceBytes;       ///< 0: the cluster file does not say
    std::vector<double> begins; ///< of commands, seconds from the step's begin
    bool fits() const { return deviceBytes == 0 || role.arena_bytes() <= deviceBytes; }
  };
  nlohmann::ordered_json json(const OfClass &own) const;
  std::string placeOf(const OfClass &own, size_t command) const;

  const abi::Manifest &manifest;
  const timing::Layout &layout;
  const timing::EqualRanks &classes;
  timing::Watcher *next;
  std::map<const abi::Role *, timing::StepMemory> memories;
  std::vector<OfClass> ofClasses;
};

} // namespace dtc
