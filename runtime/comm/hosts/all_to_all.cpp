// All-to-all of all rows, or of as many as the counts say.
#include "runtime/abi/element_type.h"
#include "runtime/comm/command_signature.h"
#include "runtime/comm/hosts/parts.h"
#include "runtime/comm/hosts/spanning_group.h"

#include <cstring>

namespace dtc {

/// How many rows each member sends to each other; empty if all send all rows. This takes a round trip of its own: no
/// member sends a row before all counts are known to be valid.
std::vector<int32_t> SpanningGroup::countsOf(const abi::Collective &collective) {
  std::vector<int32_t> counts;
  if (!collective.has_counts())
    return counts;
  size_t members = group.ranks.size();
  int64_t bytes = group.size() * abi::elementType(abi::I32).bytes;
  counts.resize(members * members);
  std::vector<Link> links;
  for (int member = 0; member < group.size(); ++member) {
    auto *place = reinterpret_cast<std::byte *>(&counts[member * members]);
    if (isHere(member)) {
      std::memcpy(place, besideInput(member), bytes);
      continue;
    }
    Link &link = links.emplace_back(linkTo(member));
    link.out.runs.emplace_back(Strided(besideInput(group.self), bytes));
    link.in.runs.emplace_back(Strided(place, bytes));
  }
  move(links, [] {});
  requireCounts(collective, counts, group.ranks);
  return counts;
}

void SpanningGroup::allToAll(const abi::Collective &collective) {
  int64_t bytes = collective.chunk() * abi::elementType(collective.type()).bytes, outer = collective.outer(),
          middle = collective.middle(), members = group.size();
  std::vector<int32_t> counts = countsOf(collective);
  auto rowsFrom = [&](int from, int to) { return counts.empty() ? middle : counts[from * members + to]; };
  // The two layouts: [outer][member][middle] and [outer][middle][member], in chunks.
  auto major = [&](std::byte *base, int member, int64_t rows) {
    return Strided(base + member * middle * bytes, rows * bytes, outer, members * middle * bytes);
  };
  auto minor = [&](std::byte *base, int member, int64_t rows) {
    return Strided(base + member * bytes, bytes, outer * rows, members * bytes);
  };
  auto partOf = [&](int from, std::byte *in, int to) {
    return collective.split_first() ? major(in, to, rowsFrom(from, to)) : minor(in, to, rowsFrom(from, to));
  };
  auto placeOf = [&](int from) {
    int64_t rows = rowsFrom(from, group.self);
    return collective.split_first() ? minor(output(), from, rows) : major(output(), from, rows);
  };
  std::vector<Link> links;
  for (int member = 0; member < members; ++member) {
    if (isHere(member))
      continue;
    Link &link = links.emplace_back(linkTo(member));
    link.out.runs.emplace_back(partOf(group.self, input(), member));
    link.in.runs.emplace_back(placeOf(member));
  }
  move(links, [] {});
  for (int member : here)
    copyPieces(placeOf(member), partOf(member, input(member), group.self), 0, placeOf(member).bytes);
  std::byte *received = context.bases[context.places[group.ranks[group.self]]] + collective.received();
  for (int member = 0; collective.has_received() && member < members; ++member) {
    auto rows = static_cast<int32_t>(rowsFrom(member, group.self));
    std::memcpy(received + member * sizeof(rows), &rows, sizeof(rows));
  }
}

} // namespace dtc
