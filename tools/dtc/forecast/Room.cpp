#include "tools/dtc/forecast/Room.h"

#include "runtime/abi/roles.h"
#include "runtime/support/error.h"
#include "runtime/support/log_line.h"
#include "tools/dtc/Program.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace dtc {

using timing::Layout;

/// Memory of the rank's node; 0: the file does not say.
static double nodeMemory(const Layout &layout, int64_t rank) {
  int64_t node = layout.nodeOf(rank);
  for (const timing::Nodes &nodes : layout.cluster().nodes()) {
    if (node < nodes.count())
      return static_cast<double>(nodes.memory_bytes());
    node -= nodes.count();
  }
  return 0;
}

std::vector<Room> roomOf(const abi::Manifest &manifest, const Layout &layout) {
  auto scratch = static_cast<double>(scratchBytes(manifest));
  std::map<std::pair<int, int>, Room> devices; // by role and kind
  std::map<int64_t, Room> nodes;
  for (int64_t rank = 0; rank < layout.ranks(); ++rank) {
    int number = abi::roleIndexOf(manifest, rank);
    const abi::Role &role = manifest.roles(number);
    const timing::Device &device = layout.deviceOf(rank);
    double needs = static_cast<double>(role.arena_bytes()) + scratch, onHost = static_cast<double>(role.host_bytes());
    if (device.memory_bytes() > 0)
      devices.try_emplace({number, layout.deviceIndexOf(rank)},
                          Room{rank, role.name(), device.name(), 0, needs, static_cast<double>(device.memory_bytes())});
    else
      onHost += needs;
    Room &node =
        nodes.try_emplace(layout.nodeOf(rank), Room{rank, role.name(), device.name(), 0, 0, nodeMemory(layout, rank)})
            .first->second;
    ++node.sharing;
    node.needs += onHost;
  }
  std::vector<Room> rooms;
  for (const auto &[key, room] : devices)
    rooms.push_back(room);
  std::map<double, Room> fullest; // by the memory of a node
  for (const auto &[number, room] : nodes)
    if (room.needs > 0 && room.has > 0)
      if (Room &most = fullest[room.has]; room.needs > most.needs)
        most = room;
  for (const auto &[memory, room] : fullest)
    rooms.push_back(room);
  return rooms;
}

std::string roomText(const Room &room) {
  double percent = 100 * room.needs / room.has;
  if (room.sharing == 0)
    return fmt::format("rank {} ({}) needs {} of the {} of its {} ({:.3g}%)", room.rank, room.role,
                       bytesText(room.needs), bytesText(room.has), room.device, percent);
  return fmt::format("{} on the node of rank {} need{} {} of its {} ({:.3g}%)", ranksText(room.sharing), room.rank,
                     room.sharing == 1 ? "s" : "", bytesText(room.needs), bytesText(room.has), percent);
}

nlohmann::ordered_json toJson(const std::vector<Room> &rooms) {
  auto json = nlohmann::ordered_json::array();
  for (const Room &room : rooms)
    json.push_back({{"rank", room.rank},
                    {"role", room.role},
                    {"device", room.device},
                    {"ranks_on_node", room.sharing},
                    {"needed_bytes", room.needs},
                    {"bytes", room.has}});
  return json;
}

Layout layoutOn(const std::string &clusterPath, const abi::Mesh &mesh) {
  return {timing::readCluster(clusterPath), mesh};
}

/// "activations 12.3 GB, parameters 1.2 GB": the largest first.
static std::string usesText(const abi::Role &role) {
  std::vector<abi::MemoryUse> uses(role.memory().begin(), role.memory().end());
  std::ranges::sort(uses, std::greater(), &abi::MemoryUse::bytes);
  std::string text;
  for (const abi::MemoryUse &use : uses)
    if (use.bytes() > 0)
      text +=
          fmt::format("{}{} {}", text.empty() ? "" : ", ", use.category(), bytesText(static_cast<double>(use.bytes())));
  return text;
}

static std::string lackText(const abi::Manifest &manifest, const Layout &layout, const Room &room) {
  return fmt::format("does not fit on the cluster '{}': {}, {:.0f} bytes of {:.0f}; a rank of role '{}' holds {}. Use "
                     "more ranks, a strategy that splits more (such as zero3 or a larger tp), a smaller micro-batch or "
                     "more accumulation, or devices with more memory",
                     layout.cluster().name(), roomText(room), room.needs, room.has, room.role,
                     usesText(abi::roleOf(manifest, room.rank)));
}

void warnOfRoom(const abi::Manifest &manifest, const Layout &layout, const std::vector<Room> &rooms) {
  for (const Room &room : rooms)
    if (!room.isEnough())
      tellWarning("the program " + lackText(manifest, layout, room));
}

void requireRoom(const abi::Manifest &manifest, const Layout &layout, const std::string &path) {
  for (const Room &room : roomOf(manifest, layout))
    if (!room.isEnough())
      throw Error(ExitCode::BadInput, path + ": " + lackText(manifest, layout, room));
}

} // namespace dtc
