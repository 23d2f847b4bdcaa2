// The time that single collectives of a program take on a cluster, and how long ranks wait for them.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "timing/events/forecast.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace dtc {

/// Of one collective; a part of a bucket gets its share by bytes.
struct CollectiveTime {
  double seconds = 0; ///< each time, with nothing else on the links
  std::string algorithm, level;
  double exposed = 0; ///< seconds of a step in which a rank waits for the transfer, of the rank that waits longest
  double late = 0;    ///< likewise, waiting for ranks that arrive later
};

class CollectiveTimes {
public:
  /// Simulates a step. Both arguments outlive it.
  CollectiveTimes(const abi::Manifest &manifest, const timing::Layout &layout);

  double stepSeconds() const { return step; }
  const timing::Layout &layout() const { return onLayout; }

  /// For the collective that command `number` of a role's list starts.
  CollectiveTime of(const abi::Role &role, const abi::CommandList &list, int number) const;

  /// Seconds that a message of the role's first rank to another stage takes.
  double ofSend(const abi::Role &role, const abi::Command &command) const;

private:
  const abi::Manifest &manifest;
  const timing::Layout &onLayout;
  double step = 0;
  std::map<std::pair<std::string, uint32_t>, timing::Culprit> waits; ///< by list, and first command of a bucket
};

} // namespace dtc
