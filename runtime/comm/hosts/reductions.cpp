// All-reduce and reduce-scatter in which each member adds all members' terms of its part.
#include "runtime/abi/element_type.h"
#include "runtime/comm/hosts/parts.h"
#include "runtime/comm/hosts/spanning_group.h"
#include "runtime/comm/local/reduce.h"

#include <algorithm>

namespace dtc {

/// Up to this size, sending everything is faster than a second round trip: measured with two members over a link that
/// costs only processor time (bench/hosts.md).
static constexpr int64_t SmallBytes = 64 << 10;

/// The bytes of the tensors that the parts reduce.
int64_t SpanningGroup::reducedBytes() const {
  int64_t bytes = 0;
  for (const abi::Command *each : current)
    bytes += each->start().outer() * each->start().chunk() * abi::elementType(each->start().type()).bytes;
  return bytes;
}

namespace {
/// What this member adds in one part. The terms of all parts arrive one after another, as one run of bytes.
struct PartSum {
  Adding adding;
  int64_t begin, bytes; ///< of this part in that run
};
} // namespace

/// Adds as far as `arrived` bytes of the run allow and, for an all-reduce, allows the results to be sent. Returns how
/// many bytes of the run are no longer needed.
static int64_t addArrived(std::vector<PartSum> &sums, std::span<Link> links, int64_t arrived, int64_t width,
                          int64_t segment, bool toAll) {
  int64_t added = 0;
  for (size_t each = 0; each < sums.size(); ++each) {
    auto &[adding, begin, own] = sums[each];
    adding.advance(std::clamp<int64_t>(arrived - begin, 0, own) / width, segment / width);
    added += adding.done() * width;
    for (Link &link : links)
      if (toAll)
        link.out.runs[sums.size() + each].allowed = adding.done() * width;
  }
  return added;
}

void SpanningGroup::reduce() {
  const abi::Collective &first = current.front()->start();
  int64_t width = abi::elementType(first.type()).bytes, members = group.size(), bytes = 0;
  bool toAll = first.kind() == abi::Collective::ALL_REDUCE;
  if (toAll && isSpread() && (members - 1) * reducedBytes() <= SmallBytes)
    return reduceSmall();
  if (addsWithinHostsFirst(first))
    return reduceWithinHostsFirst();

  std::vector<PartSum> sums;
  forEachPart([&](const abi::Collective &each) {
    int64_t own = partOf(each, input(), group.self, members).bytes;
    sums.push_back({Adding(each.type(), each.type(), each.reduction(), own / width), bytes, own});
    bytes += own;
  });
  int64_t ringBytes = std::min(bytes, StageSegments * context.options.segmentBytes);
  std::byte *rings = stage((members - static_cast<int64_t>(here.size())) * ringBytes);
  std::vector<Link> links;
  for (int member = 0; member < members; ++member) {
    if (isHere(member)) {
      forEachPart([&](const abi::Collective &each) {
        sums[part].adding.terms.push_back(partOf(each, input(member), group.self, members));
      });
      continue;
    }
    Strided ring = Strided::ring(rings + links.size() * ringBytes, ringBytes, bytes);
    Link &link = links.emplace_back(linkTo(member));
    link.in.runs.emplace_back(ring, ringBytes);
    forEachPart([&](const abi::Collective &each) {
      sums[part].adding.terms.push_back(ring.within(sums[part].begin, sums[part].bytes));
      link.out.runs.emplace_back(partOf(each, input(), member, members));
    });
    if (toAll)
      forEachPart([&](const abi::Collective &each) {
        link.out.runs.emplace_back(partOf(each, output(), group.self, members), 0);
        link.in.runs.emplace_back(partOf(each, output(), member, members));
      });
  }
  forEachPart([&](const abi::Collective &each) {
    if (!toAll)
      sums[part].adding.results.push_back(Strided(output(), sums[part].bytes));
    for (int member : here)
      if (toAll)
        sums[part].adding.results.push_back(partOf(each, output(member), group.self, members));
  });

  move(links, [&] {
    int64_t arrived = bytes;
    for (const Link &link : links)
      arrived = std::min(arrived, link.in.runs[0].moved);
    int64_t added = addArrived(sums, links, arrived, width, context.options.segmentBytes, toAll);
    for (Link &link : links)
      link.in.runs[0].allowed = std::min(bytes, added + ringBytes);
  });
}

/// Every member gets all terms and adds them itself.
void SpanningGroup::reduceSmall() {
  int64_t bytes = reducedBytes();
  std::byte *copies = stage(group.size() * bytes);
  std::vector<Link> links;
  for (int member = 0; member < group.size(); ++member) {
    if (isHere(member))
      continue;
    Link &link = links.emplace_back(linkTo(member));
    link.in.runs.emplace_back(Strided(copies + member * bytes, bytes));
    forEachPart([&](const abi::Collective &each) { link.out.runs.emplace_back(partOf(each, input(), 0, 1)); });
  }
  move(links, [] {}); // now all of the input has been sent, so the result may overwrite it
  int64_t begin = 0;
  forEachPart([&](const abi::Collective &each) {
    std::vector<const std::byte *> terms;
    for (int member = 0; member < group.size(); ++member)
      terms.push_back(isHere(member) ? input() : copies + member * bytes + begin);
    std::byte *result = output();
    int64_t elements = each.outer() * each.chunk();
    reduceInto({&result, 1}, terms, elements, each.type(), each.reduction(), /*bypassCache=*/false);
    begin += elements * abi::elementType(each.type()).bytes;
  });
}

} // namespace dtc
