#include "tools/dtc/PeerMemory.h"

#include "runtime/abi/commands.h"
#include "runtime/abi/element_type.h"
#include "runtime/abi/mesh.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/roles.h"

#include <algorithm>
#include <map>
#include <vector>

using namespace dtc;
using abi::Collective;

namespace {

/// When a page is touched, the kernel maps the pages around it too, in units of this many bytes.
constexpr uint64_t Unit = 64 << 10;

/// More ranks than a host has, and more parts than are tracked one by one: the answer must come quickly for any
/// program.
constexpr int MostRanks = 1024;
constexpr size_t MostParts = 1 << 20;

/// Parts of one arena, in units; they may overlap.
class Touched {
public:
  void add(uint64_t begin, uint64_t bytes) {
    if (bytes > 0)
      parts.push_back({begin / Unit, (begin + bytes + Unit - 1) / Unit});
  }

  bool hasMany() const { return parts.size() > MostParts; }

  uint64_t bytes() {
    std::sort(parts.begin(), parts.end());
    uint64_t units = 0, end = 0;
    for (auto [first, last] : parts) {
      units += std::max(last, end) - std::max(first, end);
      end = std::max(end, last);
    }
    return units * Unit;
  }

private:
  std::vector<std::pair<uint64_t, uint64_t>> parts;
};

/// What one member of a group touches in another's arena, as runtime/comm/local/peer_memory.cpp does it.
void addCollective(const Collective &collective, uint64_t self, uint64_t ranks, Touched &peer) {
  uint64_t width = abi::elementType(collective.type()).bytes, outer = collective.outer();
  uint64_t rows = width * collective.chunk(), logBytes = abi::elementType(abi::F32).bytes;
  switch (collective.kind()) {
  case Collective::ALL_REDUCE: { // each rank's own slice
    auto slice = [&](uint64_t address, uint64_t bytes) {
      uint64_t part = (bytes + ranks - 1) / ranks;
      peer.add(address + self * part, part);
    };
    slice(collective.input(), outer * rows);
    slice(collective.output(), outer * rows);
    slice(collective.log_input(), abi::inputLogs(collective, ranks) * logBytes);
    slice(collective.log_output(), abi::outputLogs(collective) * logBytes);
    break;
  }
  case Collective::REDUCE_SCATTER: // each rank's own part of each row
    peer.add(collective.log_input(), abi::inputLogs(collective, ranks) * logBytes);
    if (ranks * rows <= Unit || outer > MostParts || peer.hasMany())
      peer.add(collective.input(), outer * ranks * rows);
    else
      for (uint64_t row = 0; row < outer; ++row)
        peer.add(collective.input() + (row * ranks + self) * rows, rows);
    break;
  case Collective::ALL_TO_ALL: // a part of each row: in whole units that is all of it
    peer.add(collective.input(), outer * ranks * collective.middle() * rows);
    if (collective.has_counts())
      peer.add(collective.counts(), abi::bytesOf(abi::I32, ranks));
    break;
  case Collective::BROADCAST: // the root's
    if (collective.root() != self)
      peer.add(collective.input(), outer * rows);
    break;
  default: // ALL_GATHER
    peer.add(collective.input(), outer * rows);
  }
}

} // namespace

uint64_t dtc::touchedPeerBytes(const abi::Manifest &manifest, const abi::Role &role) {
  Mesh mesh(manifest.mesh());
  if (mesh.ranks() > MostRanks || abi::isForGpus(manifest)) // the system does not count GPU memory for any process
    return 0;
  int rank = abi::firstRankOf(role);
  std::vector<Group> groups;
  std::map<int, std::vector<bool>> meets; // for each peer, the groups in which they meet
  for (const abi::Group &group : manifest.groups()) {
    groups.push_back(mesh.group(rank, group));
    for (int member : groups.back().ranks)
      if (member != rank) {
        meets[member].resize(manifest.groups_size());
        meets[member][groups.size() - 1] = true;
      }
  }
  std::map<std::vector<bool>, uint64_t> alike; // peers that meet in the same groups have the same bytes touched
  for (const auto &[peer, where] : meets)
    ++alike[where];
  std::vector<abi::CommandList> lists = abi::Resolver(manifest, role).all();
  uint64_t bytes = 0;
  for (const auto &[where, peers] : alike) {
    Touched touched;
    for (const abi::CommandList &list : lists)
      for (const abi::Command &command : list.commands())
        if (command.has_start() && where[command.start().group()]) {
          const Group &group = groups[command.start().group()];
          addCollective(command.start(), group.self, group.size(), touched);
        }
    bytes += peers * touched.bytes();
  }
  return bytes;
}
