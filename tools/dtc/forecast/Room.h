// Whether a cluster has the memory that a program needs.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "timing/cluster/cluster.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace dtc {

/// The memory that ranks need, and how much there is: that of a device, or that of a node, which its ranks share.
struct Room {
  int64_t rank = 0;    ///< the rank that has the device, or the lowest one on the node
  std::string role;    ///< of that rank
  std::string device;  ///< of that rank
  int64_t sharing = 0; ///< ranks on the node whose memory this is; 0: it is the device's
  double needs = 0;    ///< bytes: the arenas and the kernels' scratch; for a node also what these keep on the host
  double has = 0;      ///< bytes
  bool isEnough() const { return needs <= has; }
};

/// For each role and kind of device one rank, and for each kind of node the one with most to hold. Nothing where the
/// cluster file does not say. The memory that drivers and communication libraries take for themselves is not counted.
std::vector<Room> roomOf(const abi::Manifest &manifest, const timing::Layout &layout);

/// "rank 0 (all) needs 1.2 GB of the 80 GB of its H100 (1.5%)".
std::string roomText(const Room &room);
nlohmann::ordered_json toJson(const std::vector<Room> &rooms);

/// Reads a cluster file for ranks of this mesh. Throws Error (BadInput) where it has no devices for them.
timing::Layout layoutOn(const std::string &clusterPath, const abi::Mesh &mesh);

/// Warns about each that is too small.
void warnOfRoom(const abi::Manifest &manifest, const timing::Layout &layout, const std::vector<Room> &rooms);

/// Throws Error (BadInput) where memory is too small: with bytes, what they are for, and what would help. `path` names
/// the model or program.
void requireRoom(const abi::Manifest &manifest, const timing::Layout &layout, const std::string &path);

} // namespace dtc
