// All-reduce and reduce-scatter in which each member adds up all members' terms of its part.
#include "runtime/abi/element_type.h"
#include "runtime/comm/hosts/parts.h"
#include "runtime/comm/hosts/spanning_group.h"
#include "runtime/comm/reduce.h"

#include <algorithm>

namespace dtc {

/// A member sends this much rather than wait for a second trip: measured with two, over a link that costs only
/// processor time (bench/hosts.md).
static constexpr int64_t SmallBytes = 64 << 10;

void SpanningGroup::reduce(const abi::Collective &collective) {
  int64_t width = abi::elementType(collective.type()).bytes, members = group.size();
  bool toAll = collective.kind() == abi::Collective::ALL_REDUCE;
  if (toAll && isSpread() && (members - 1) * collective.outer() * collective.chunk() * width <= SmallBytes)
    return reduceSmall(collective);

  if (addsWithinHostsFirst(collective))
    return reduceWithinHostsFirst(collective);
  auto partOf = [&](std::byte *base, int member) { return dtc::partOf(collective, base, member, members); };
  int64_t bytes = partOf(input(), group.self).bytes;
  int64_t ringBytes = std::min(bytes, StageSegments * context.options.segmentBytes);
  std::byte *rings = stage((members - static_cast<int64_t>(here.size())) * ringBytes);
  Adding adding(collective.type(), collective.type(), collective.reduction(), bytes / width);
  std::vector<Link> links;
  for (int member = 0; member < members; ++member) {
    if (isHere(member)) {
      adding.terms.push_back(partOf(input(member), group.self));
      continue;
    }
    adding.terms.push_back(Strided::ring(rings + links.size() * ringBytes, ringBytes, bytes));
    Link &link = links.emplace_back(linkTo(member));
    link.out.runs.emplace_back(partOf(input(), member));
    link.in.runs.emplace_back(adding.terms.back(), ringBytes);
    if (toAll) {
      link.out.runs.emplace_back(partOf(output(), group.self), 0);
      link.in.runs.emplace_back(partOf(output(), member));
    }
  }
  if (toAll)
    for (int member : here)
      adding.results.push_back(partOf(output(member), group.self));
  else
    adding.results.push_back(Strided(output(), bytes));

  move(links, [&] {
    int64_t arrived = bytes;
    for (const Link &link : links)
      arrived = std::min(arrived, link.in.runs[0].moved);
    adding.advance(arrived / width, context.options.segmentBytes / width);
    int64_t added = adding.done() * width;
    for (Link &link : links) {
      link.in.runs[0].allowed = std::min(bytes, added + ringBytes);
      if (toAll)
        link.out.runs[1].allowed = added;
    }
  });
}

/// Every member gets all terms and adds them all.
void SpanningGroup::reduceSmall(const abi::Collective &collective) {
  int64_t elements = collective.outer() * collective.chunk();
  int64_t bytes = elements * abi::elementType(collective.type()).bytes;
  std::byte *copies = stage(group.size() * bytes);
  std::vector<const std::byte *> terms;
  std::vector<Link> links;
  for (int member = 0; member < group.size(); ++member) {
    terms.push_back(isHere(member) ? input() : copies + member * bytes);
    if (isHere(member))
      continue;
    Link &link = links.emplace_back(linkTo(member));
    link.out.runs.emplace_back(Strided(input(), bytes));
    link.in.runs.emplace_back(Strided(copies + member * bytes, bytes));
  }
  move(links, [] {}); // and with that, all of the input has been sent: the result may lie over it
  std::byte *result = output();
  reduceInto({&result, 1}, terms, elements, collective.type(), collective.reduction(), /*bypassCache=*/false);
}

} // namespace dtc
