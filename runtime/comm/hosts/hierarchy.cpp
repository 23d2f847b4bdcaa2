// All-reduce and reduce-scatter that add within hosts first, and all-gather that sends each part to each host only
// once.
//
// The members of a host are numbered. Members i of all hosts together add slice i of an all-reduce's elements (for a
// reduce-scatter: the elements that members i get). The slice is divided again into one part per host. For another
// host's part, a member adds its own host's terms, which it reads in shared memory, and sends the sum there. For its
// own host's part it adds the hosts' sums. It writes the result to the outputs of all members on its host, and sends it
// to the members i of the other hosts, which do the same. Everything is done in segments: while one is being added,
// others are in flight.
//
// So with H hosts each host sends 2 (H - 1) / H times the elements, instead of that much for each of its members. Sums
// are formed in f32 and rounded once: with 16-bit operands a host's sums are sent as f32 (a maximum needs only 16
// bits), the results as 16 bits.
//
// In an all-gather, data goes from member i of a host to the members i of the others. These put it into shared memory,
// in rounds of as much as fits, and the members of the host copy it from each other. (Outputs may be in memory that
// others cannot see.)
#include "runtime/abi/element_type.h"
#include "runtime/comm/hosts/parts.h"
#include "runtime/comm/hosts/spanning_group.h"
#include "runtime/comm/local/peer_memory.h"
#include "runtime/comm/local/reduce.h"

#include <algorithm>

namespace dtc {

/// The type in which one host's sums are sent to another.
static abi::DataType wireType(const abi::Collective &collective) {
  bool is16Bits = abi::elementType(collective.type()).bytes == 2;
  return is16Bits && collective.reduction() == abi::SUM ? abi::F32 : collective.type();
}

bool SpanningGroup::isEven() const {
  size_t each = here.size();
  return each >= 2 && std::all_of(hosts.begin(), hosts.end(), [&](const auto &host) { return host.size() == each; });
}

bool SpanningGroup::addsWithinHostsFirst(const abi::Collective &collective) const {
  if (!isEven())
    return false;
  // If the sums are so wide that nothing is saved, adding in rank order is as good.
  int64_t width = abi::elementType(collective.type()).bytes, wire = abi::elementType(wireType(collective)).bytes;
  return collective.kind() == abi::Collective::ALL_REDUCE || width * int64_t(here.size()) > wire;
}

namespace {

/// One member's work in a hierarchical reduction of one part. The sums of all parts follow one another, as one run to
/// and one run from each other host.
struct HierarchicalPart {
  /// What goes to and comes from the member with the same number on another host.
  struct Other {
    Adding sums;                 ///< of this host's terms, for the other host
    int64_t begin, bytes;        ///< of these sums in the run
    std::vector<Strided> places; ///< of the other host's results, in the outputs of this host's members; this member's
                                 ///< first
    int64_t given = 0;           ///< bytes of the results that are in all of these outputs
  };

  std::vector<Other> others; ///< in the order of the links
  Adding own, total;         ///< this host's sums of its own part, and the totals over all hosts
  int64_t begin, elements;   ///< of this part in the run of all parts
};

struct Hierarchy {
  void addUp(std::span<Link> links);
  void addForOthers(std::span<Link> links);
  void giveOn(std::span<const Link> links);

  int64_t width, wireWidth, segment, ring; // bytes, bytes, elements, elements
  bool toAll;
  std::vector<HierarchicalPart> parts;
  int64_t elements = 0; ///< of this host, in all parts
};

} // namespace

/// Adds other hosts' parts as far as the rings allow.
void Hierarchy::addForOthers(std::span<Link> links) {
  for (size_t host = 0; host < links.size(); ++host) {
    Run &sums = links[host].out.runs[0];
    int64_t room = sums.moved + ring * wireWidth, done = 0;
    for (HierarchicalPart &part : parts) {
      HierarchicalPart::Other &other = part.others[host];
      other.sums.advance(std::clamp<int64_t>(room - other.begin, 0, other.bytes) / wireWidth, segment);
      done += other.sums.done() * wireWidth;
    }
    sums.allowed = done;
  }
}

/// Adds totals as far as arrived data and the rings allow.
void Hierarchy::addUp(std::span<Link> links) {
  addForOthers(links);
  int64_t arrived = elements, done = 0;
  for (const Link &link : links)
    arrived = std::min(arrived, link.in.runs[0].moved / wireWidth);
  for (const HierarchicalPart &part : parts)
    done += part.total.done();
  int64_t room = done + ring;
  done = 0;
  for (size_t index = 0; index < parts.size(); ++index) {
    HierarchicalPart &part = parts[index];
    auto within = [&](int64_t end) { return std::clamp<int64_t>(end - part.begin, 0, part.elements); };
    part.own.advance(within(room), segment);
    part.total.advance(std::min(within(arrived), part.own.done()), segment);
    done += part.total.done();
    for (Link &link : links)
      if (toAll)
        link.out.runs[1 + index].allowed = part.total.done() * width;
  }
  for (Link &link : links)
    link.in.runs[0].allowed = std::min(elements, done + ring) * wireWidth;
}

/// Copies other hosts' results, which arrived in this member's output, to the outputs of the other members on this
/// host.
void Hierarchy::giveOn(std::span<const Link> links) {
  for (size_t index = 0; index < parts.size(); ++index)
    for (size_t host = 0; host < links.size(); ++host) {
      HierarchicalPart::Other &other = parts[index].others[host];
      int64_t come = links[host].in.runs[1 + index].moved;
      for (size_t i = 1; i < other.places.size(); ++i)
        copyBytes(other.places[i].at(other.given), other.places[0].at(other.given), come - other.given,
                  /*bypassCache=*/false);
      other.given = come;
    }
}

/// A part with `counts` elements per host, placed after the earlier parts in the runs.
static HierarchicalPart behind(const std::vector<int64_t> &before, const std::vector<int64_t> &counts, size_t ownHost,
                               abi::DataType type, abi::DataType wire, abi::Reduction reduction) {
  int64_t own = counts[ownHost], wireWidth = abi::elementType(wire).bytes;
  HierarchicalPart part = {
      {}, Adding(type, wire, reduction, own), Adding(wire, type, reduction, own), before[ownHost], own};
  for (size_t host = 0; host < counts.size(); ++host)
    if (host != ownHost)
      part.others.push_back(
          {Adding(type, wire, reduction, counts[host]), before[host] * wireWidth, counts[host] * wireWidth, {}});
  return part;
}

/// This member's index among the members of its host.
size_t SpanningGroup::numberHere() const { return std::find(here.begin(), here.end(), group.self) - here.begin(); }

/// The share that this member adds for a host.
Strided SpanningGroup::shareFor(const abi::Collective &collective, std::byte *base, size_t host) const {
  if (collective.kind() == abi::Collective::REDUCE_SCATTER)
    return partOf(collective, base, hosts[host][numberHere()], group.size());
  int64_t width = abi::elementType(collective.type()).bytes;
  Strided slice = partOf(collective, base, static_cast<int64_t>(numberHere()), static_cast<int64_t>(here.size()));
  return sliceOf(slice.base, slice.bytes / width, width, static_cast<int64_t>(host),
                 static_cast<int64_t>(hosts.size()));
}

/// That share in each local member's input.
std::vector<Strided> SpanningGroup::termsFor(const abi::Collective &collective, size_t host) const {
  std::vector<Strided> terms;
  for (int member : here)
    terms.push_back(shareFor(collective, input(member), host));
  return terms;
}

/// Where the sums go: into this member's output, and for an all-reduce into its neighbours' outputs, too.
std::vector<Strided> SpanningGroup::resultsOf(const abi::Collective &collective, size_t host) const {
  if (collective.kind() == abi::Collective::REDUCE_SCATTER)
    return {Strided(output(), shareFor(collective, input(), host).bytes)};
  std::vector<Strided> results;
  for (size_t i = 0; i < here.size(); ++i)
    results.push_back(shareFor(collective, output(here[(numberHere() + i) % here.size()]), host));
  return results;
}

void SpanningGroup::reduceWithinHostsFirst() {
  const abi::Collective &first = current.front()->start();
  abi::DataType type = first.type(), wire = wireType(first);
  int64_t width = abi::elementType(type).bytes, wireWidth = abi::elementType(wire).bytes;
  bool toAll = first.kind() == abi::Collective::ALL_REDUCE;
  auto ownHost = static_cast<size_t>(std::find(hosts.begin(), hosts.end(), here) - hosts.begin());
  int64_t segment = context.options.segmentBytes / wireWidth, ring = StageSegments * segment;
  Hierarchy work = {width, wireWidth, segment, ring, toAll, {}};
  std::vector<int64_t> elements(hosts.size()); // of each host, of all parts
  forEachPart([&](const abi::Collective &each) {
    std::vector<int64_t> counts;
    for (size_t host = 0; host < hosts.size(); ++host)
      counts.push_back(shareFor(each, input(), host).bytes / width);
    work.parts.push_back(behind(elements, counts, ownHost, type, wire, each.reduction()));
    for (size_t host = 0; host < hosts.size(); ++host)
      elements[host] += counts[host];
  });
  work.elements = elements[ownHost];

  int64_t ringBytes = ring * wireWidth;
  std::byte *free = stage((2 * static_cast<int64_t>(hosts.size()) - 1) * ringBytes);
  auto nextRing = [&](int64_t count) {
    return Strided::ring(std::exchange(free, free + ringBytes), ringBytes, count * wireWidth);
  };
  std::vector<Link> links;
  for (size_t host = 0; host < hosts.size(); ++host) {
    bool isOwn = host == ownHost;
    Strided sums = nextRing(elements[host]), come = isOwn ? sums : nextRing(work.elements);
    size_t other = links.size();
    if (!isOwn) {
      Link &link = links.emplace_back(linkTo(hosts[host][numberHere()]));
      link.out.runs.emplace_back(sums, 0);
      link.in.runs.emplace_back(come, 0);
    }
    forEachPart([&](const abi::Collective &each) {
      HierarchicalPart &added = work.parts[part];
      added.total.terms.push_back(come.within(added.begin * wireWidth, added.elements * wireWidth));
      if (isOwn) {
        added.own.terms = termsFor(each, host);
        added.own.results.push_back(added.total.terms.back());
        added.total.results = resultsOf(each, host);
        return;
      }
      HierarchicalPart::Other &there = added.others[other];
      there.sums.terms = termsFor(each, host);
      there.sums.results.push_back(sums.within(there.begin, there.bytes));
      if (!toAll)
        return;
      there.places = resultsOf(each, host);
      links.back().out.runs.emplace_back(shareFor(each, output(), ownHost), 0);
      links.back().in.runs.emplace_back(there.places[0]);
    });
  }

  move(links, [&] {
    work.addUp(links);
    if (toAll)
      work.giveOn(links);
  });
}

void SpanningGroup::gatherOncePerHost() {
  int64_t stageBytes = std::min<int64_t>(SharedArenas::StageBytes, StageSegments * context.options.segmentBytes);
  int64_t room = stageBytes / static_cast<int64_t>(hosts.size() - 1), bytes = 0;
  std::vector<int64_t> begins; // of the parts, which follow one another
  forEachPart([&](const abi::Collective &each) {
    begins.push_back(bytes);
    bytes += gathered(each, 0).bytes;
  });
  std::vector<const std::vector<int> *> others; // hosts
  std::vector<Link> links;
  auto stagedBy = [&](int member, size_t other) { return Strided::ring(stageOf(member) + other * room, room, bytes); };
  for (const std::vector<int> &host : hosts) {
    if (host == here)
      continue;
    Link &link = links.emplace_back(linkTo(host[numberHere()]));
    forEachPart(
        [&](const abi::Collective &each) { link.out.runs.emplace_back(Strided(input(), gathered(each, 0).bytes)); });
    link.in.runs.emplace_back(stagedBy(group.self, others.size()), std::min(bytes, room));
    others.push_back(&host);
  }
  auto takeFrom = [&](int neighbour, size_t other, int64_t begin, int64_t end) {
    Strided come = stagedBy(here[neighbour], other);
    forEachPart([&](const abi::Collective &each) {
      Strided place = gathered(each, (*others[other])[neighbour]);
      int64_t first = std::max(begin - begins[part], int64_t(0)), last = std::min(end - begins[part], place.bytes);
      if (first < last)
        copyPieces(place, come.within(begins[part], place.bytes), first, last);
    });
  };
  int64_t begin = 0;
  move(links, [&] {
    for (int64_t end = std::min(bytes, begin + room); begin < end; end = std::min(bytes, begin + room)) {
      // A member that waits for its neighbours has already sent what others need to get here, so there is no circular
      // wait.
      for (const Link &link : links)
        if (link.in.runs[0].moved < end || link.out.movedBytes() < end)
          return;
      context.control.synchronize(lane(), herePlaces);
      for (size_t neighbour = 0; neighbour < here.size(); ++neighbour)
        for (size_t other = 0; other < others.size(); ++other)
          takeFrom(static_cast<int>(neighbour), other, begin, end);
      context.control.synchronize(lane(), herePlaces);
      begin = end;
      for (Link &link : links)
        link.in.runs[0].allowed = std::min(bytes, begin + room);
    }
  });
  forEachPart([&](const abi::Collective &each) { gatherHere(each); });
}

} // namespace dtc
