// All-reduce and reduce-scatter that add within hosts first, and all-gather that crosses between hosts once for each.
//
// The members of a host are numbered. Member i of each host adds, together with member i of all others, slice i of an
// all-reduce's elements (of a reduce-scatter: what members i get), which is cut once more, a part for each host. For
// the part of another host it adds its own host's terms, which it reads in shared memory, and sends the sum there. For
// its own host's part it adds the hosts' sums, and gives the result to all of its host's members by writing to their
// outputs, and to the members i of the other hosts, which do the same. Everything is done in segments: while one is
// added, others are on their way.
//
// So each host sends 2 (H - 1) / H times the elements for H hosts, not that for every one of its members. Sums are
// formed in f32 and rounded once: the sums of a host travel as f32 where the operands have 16 bits (a maximum needs no
// more than these), the results as 16 bits.
//
// What is gathered goes from member i of a host to the members i of the others. These lay it down where their
// neighbours see it, in rounds of as much as there is room for, and all take from each other. (Outputs may lie in
// memory that others do not see.)
#include "runtime/abi/element_type.h"
#include "runtime/comm/hosts/parts.h"
#include "runtime/comm/hosts/spanning_group.h"
#include "runtime/comm/local/peer_memory.h"
#include "runtime/comm/local/reduce.h"

#include <algorithm>

namespace dtc {

/// The type in which sums of one host travel to another.
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
  // Where sums are so wide that nothing is saved, those of ranks in their order are as good.
  int64_t width = abi::elementType(collective.type()).bytes, wire = abi::elementType(wireType(collective)).bytes;
  return collective.kind() == abi::Collective::ALL_REDUCE || width * int64_t(here.size()) > wire;
}

namespace {

/// One member's work in a hierarchical reduction of one part. What it sends and gets of all parts lies one behind the
/// other, as one run of sums to and from each other host.
struct HierarchicalPart {
  /// What goes to and comes from the member of equal number on another host.
  struct Other {
    Adding sums;                 ///< of this host's terms, for that one
    int64_t begin, bytes;        ///< of them in the run
    std::vector<Strided> places; ///< of its results, in the outputs of this host's members; this member's first
    int64_t given = 0;           ///< bytes of them that are in all of these
  };

  std::vector<Other> others; ///< as the links
  Adding own, total;         ///< this host's sums of its own part, and the sums of these and the others'
  int64_t begin, elements;   ///< of that in the run of all parts'
};

struct Hierarchy {
  void addUp(std::span<Link> links);
  void addForOthers(std::span<Link> links);
  void giveOn(std::span<const Link> links);

  int64_t width, wireWidth, segment, ring; // bytes, bytes, elements, elements
  bool toAll;
  std::vector<HierarchicalPart> parts;
  int64_t elements = 0; ///< of this host's, of all parts
};

} // namespace

/// As far as the rings allow.
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

/// Goes as far as what has come and the rings allow.
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

/// Copies results of other hosts, which came into this member's output, to those of the others on this host.
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

/// A part of so many elements for each host, behind those that come before in the runs.
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

/// The place of this member among those of its host.
size_t SpanningGroup::numberHere() const { return std::find(here.begin(), here.end(), group.self) - here.begin(); }

/// What this member adds for a host.
Strided SpanningGroup::shareFor(const abi::Collective &collective, std::byte *base, size_t host) const {
  if (collective.kind() == abi::Collective::REDUCE_SCATTER)
    return partOf(collective, base, hosts[host][numberHere()], group.size());
  int64_t width = abi::elementType(collective.type()).bytes;
  Strided slice = partOf(collective, base, static_cast<int64_t>(numberHere()), static_cast<int64_t>(here.size()));
  return sliceOf(slice.base, slice.bytes / width, width, static_cast<int64_t>(host),
                 static_cast<int64_t>(hosts.size()));
}

/// That of each member's input here.
std::vector<Strided> SpanningGroup::termsFor(const abi::Collective &collective, size_t host) const {
  std::vector<Strided> terms;
  for (int member : here)
    terms.push_back(shareFor(collective, input(member), host));
  return terms;
}

/// Where the sums go: into this member's output, and those of its neighbours where all get all.
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
  std::vector<int64_t> begins; // of the parts, which come one behind the other
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
      // Who waits for its neighbours has sent what others need to come as far: so nobody waits in a circle.
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
