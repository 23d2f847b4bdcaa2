// All-reduce and reduce-scatter of rows with logarithms of their weights. Each member combines whole rows: it receives
// every other member's rows and, for an all-reduce, sends each member the result. It takes some rows at a time, so the
// staging memory does not grow with the tensors, only with a row.
#include "runtime/comm/hosts/parts.h"
#include "runtime/comm/hosts/spanning_group.h"

#include <algorithm>

namespace dtc {

/// The rows that member `adder` combines, starting at its row `from`, in the operand of a member on this host.
WeightedRows SpanningGroup::rowsFor(const abi::Collective &collective, int member, int adder, int64_t from) const {
  return rowsOf(collective, input(member), besideInput(member), adder, group.size()).from(from);
}

/// Where the results of these rows go.
WeightedRows SpanningGroup::resultRows(const abi::Collective &collective, int member, int adder, int64_t from) const {
  std::byte *values = output(member), *logs = besideOutput(member);
  bool toAll = collective.kind() == abi::Collective::ALL_REDUCE;
  return (toAll ? rowsOf(collective, values, logs, adder, group.size()) : denseRows(collective, values, logs))
      .from(from);
}

void SpanningGroup::mergeRows(const abi::Collective &collective) {
  int64_t rowBytes = (collective.chunk() + 1) * FloatBytes;
  int64_t most = std::max<int64_t>(1, StageSegments * context.options.segmentBytes / rowBytes);
  int64_t largest = 0; // the largest row count of any member, so that all run the same number of rounds
  for (int member = 0; member < group.size(); ++member)
    largest = std::max(largest, rowCountOf(collective, member, group.size()));
  for (int64_t begin = 0; begin < largest; begin += most)
    mergeRound(collective, begin, most);
}

/// Adds `count` rows to a direction. They may be sent at once, or are allowed later.
static void addRows(Direction &direction, const WeightedRows &rows, int64_t count, int64_t chunk, bool atOnce) {
  Strided values(rows.values, chunk * FloatBytes, count, rows.valueStride);
  Strided logs(rows.logs, FloatBytes, count, rows.logStride);
  for (const Strided &part : {values, logs})
    direction.runs.emplace_back(part, atOnce ? part.bytes : 0);
}

/// One round: the rows [begin, begin + most) of what each member combines.
void SpanningGroup::mergeRound(const abi::Collective &collective, int64_t begin, int64_t most) {
  int64_t chunk = collective.chunk(), rowBytes = (chunk + 1) * FloatBytes;
  bool toAll = collective.kind() == abi::Collective::ALL_REDUCE;
  auto countOf = [&](int member) {
    return std::clamp<int64_t>(rowCountOf(collective, member, group.size()) - begin, 0, most);
  };
  int64_t own = countOf(group.self);
  std::byte *stages = stage((group.size() - static_cast<int64_t>(here.size())) * own * rowBytes);
  std::vector<WeightedRows> sources, targets;
  std::vector<Link> links;
  for (int member = 0; member < group.size(); ++member) {
    if (isHere(member)) {
      sources.push_back(rowsFor(collective, member, group.self, begin));
      if (toAll || member == group.self)
        targets.push_back(resultRows(collective, member, group.self, begin));
      continue;
    }
    std::byte *values = stages + static_cast<int64_t>(links.size()) * own * rowBytes;
    sources.push_back(denseRows(collective, values, values + own * chunk * FloatBytes));
    Link &link = links.emplace_back(linkTo(member));
    addRows(link.out, rowsFor(collective, group.self, member, begin), countOf(member), chunk, /*atOnce=*/true);
    addRows(link.in, sources.back(), own, chunk, /*atOnce=*/true);
    if (!toAll)
      continue;
    addRows(link.out, resultRows(collective, group.self, group.self, begin), own, chunk, /*atOnce=*/false);
    addRows(link.in, resultRows(collective, group.self, member, begin), countOf(member), chunk, /*atOnce=*/true);
  }
  bool isMerged = false;
  move(links, [&] {
    if (isMerged || !std::ranges::all_of(links, [](const Link &link) { return link.in.at >= 2; }))
      return;
    isMerged = true;
    dtc::mergeRows(targets, sources, own, chunk);
    for (Link &link : links)
      for (size_t run = 2; run < link.out.runs.size(); ++run)
        link.out.runs[run].allowed = link.out.runs[run].data.bytes;
  });
}

} // namespace dtc
