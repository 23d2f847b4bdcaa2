// Whether a program finds the memory that it needs on a cluster.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "timing/cluster/cluster.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace dtc {

/// Memory that ranks need, and what there is of it: that of a device, or that of a node, which its ranks share.
struct Room {
  int64_t rank = 0;    ///< that has the device, or the lowest one on the node
  std::string role;    ///< of that rank
  std::string device;  ///< of that rank
  int64_t sharing = 0; ///< ranks on the node whose memory this is; 0: it is the device's
  double needs = 0;    ///< bytes: the arenas and what kernels work in; of a node what these keep on the host, too
  double has = 0;      ///< bytes
  bool isEnough() const { return needs <= has; }
};

/// Of each role and kind of device one, and of each kind of node that with most to hold. Nothing of what the cluster
/// file does not say. What drivers and communication libraries take for themselves is not counted.
std::vector<Room> roomOf(const abi::Manifest &manifest, const timing::Layout &layout);

/// "rank 0 (all) needs 1.2 GB of the 80 GB of its H100 (1.5%)".
std::string roomText(const Room &room);
nlohmann::ordered_json toJson(const std::vector<Room> &rooms);

/// Reads a cluster file for ranks of this mesh. Throws Error (BadInput) where they have no devices there.
timing::Layout layoutOn(const std::string &clusterPath, const abi::Mesh &mesh);

/// Warns of each that is too little.
void warnOfRoom(const abi::Manifest &manifest, const timing::Layout &layout, const std::vector<Room> &rooms);

/// Throws Error (BadInput) where there is too little of it: with bytes, what they are for, and what would help. `path`
/// names the model or program.
void requireRoom(const abi::Manifest &manifest, const timing::Layout &layout, const std::string &path);

} // namespace dtc
