#include "runtime/comm/hosts/spanning_group.h"

#include "runtime/abi/commands.h"
#include "runtime/abi/element_type.h"
#include "runtime/comm/command_signature.h"
#include "runtime/comm/hosts/parts.h"
#include "runtime/comm/link_text.h"
#include "runtime/comm/local/peer_memory.h"
#include "runtime/comm/local/reduce.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <string>
#include <sys/mman.h>

namespace dtc {

SpanningGroup::SpanningGroup(HostsContext &context, Group ofGroup) : context(context), group(std::move(ofGroup)) {
  std::map<int, size_t> numbers;
  for (int member = 0; member < group.size(); ++member) {
    auto [host, isNew] = numbers.try_emplace(context.membership.hosts()[group.ranks[member]], hosts.size());
    if (isNew)
      hosts.emplace_back();
    hosts[host->second].push_back(member);
    if (isHere(member)) {
      here.push_back(member);
      herePlaces.push_back(context.places[group.ranks[member]]);
    }
  }
  if (isEven())
    backStage();
  connect();
}

/// Connects to members with which no connection exists yet for this channel; groups on one channel share connections.
void SpanningGroup::connect() {
  Group strangers = {{group.ranks[group.self]}, 0, group.channel};
  for (int rank : group.ranks)
    if (context.places[rank] < 0 && !context.connections.contains({group.channel, rank}))
      strangers.ranks.push_back(rank);
  std::vector<SharedDescriptor> added = context.membership.connect(strangers);
  for (size_t i = 1; i < added.size(); ++i) {
    limitBytesUnderWay(added[i]->get());
    context.connections.emplace(std::pair(group.channel, strangers.ranks[i]), std::move(added[i]));
  }
  for (int rank : group.ranks) {
    auto connection = context.connections.find({group.channel, rank});
    sockets.push_back(connection == context.connections.end() ? -1 : connection->second->get());
  }
}

std::byte *SpanningGroup::at(int member, uint64_t Ticket::Operands::*offset) const {
  int place = context.places[group.ranks[member]];
  return context.bases[place] + context.control.ticket(lane(), place).parts[part].*offset;
}

void SpanningGroup::carryOut(Parts parts, uint64_t ofStep) {
  throwFailure(context.membership);
  const abi::Command &first = *parts.front();
  std::vector<int> ranks = membersOf(group, first), places;
  for (int rank : ranks)
    if (context.places[rank] >= 0)
      places.push_back(context.places[rank]);
  current = parts;
  part = 0;
  step = ofStep;
  signature = signatureOf(ranks, parts, step);
  meet(places);
  if (first.has_start()) {
    collective();
  } else {
    const abi::Transfer &message = abi::transferOf(first);
    transfer(message, first.has_send(), static_cast<int>(abi::shifted(group.self, message.shift(), group.size())));
  }
  fenceStores();
  context.control.synchronize(lane(), places);
}

/// Announces this rank's operands to the members on this host, and waits for theirs.
void SpanningGroup::meet(const std::vector<int> &places) {
  ControlBlock &control = context.control;
  Ticket &own = control.ticket(lane(), control.self());
  noteOperands(own, current);
  own.signature = signature;
  control.synchronize(lane(), places);
  for (int place : places)
    if (control.ticket(lane(), place).signature != signature)
      throwMismatch(control.nameOf(control.self()), control.nameOf(place), *current.front(), step);
}

/// A link that was never measured may be slow, so it is hashed.
Link SpanningGroup::linkTo(int member) {
  int rank = group.ranks[member];
  auto known = context.isHashed.find(rank);
  bool isHashed = known == context.isHashed.end() ? context.options.hashedUpTo > 0 : known->second;
  return {sockets[member], rank, signature, isHashed};
}

void SpanningGroup::move(std::vector<Link> &links, const std::function<void()> &advance) {
  context.streams.move(
      links, advance,
      [&](const Link &link) { throwMismatch(group.ranks[group.self], link.peer, *current.front(), step); },
      [&](const Link &link) { throwDamage(link); });
}

/// No rank that could finish the step has seen the damaged sums: this rank's part of the command is not done.
void SpanningGroup::throwDamage(const Link &link) const {
  throw Error(fmt::format("what rank {} sent to rank {} for the {} of {} came damaged, over the link between {}: its "
                          "hash is {:016x}, that of what came {:016x}, and TCP has not noticed. Look for errors of the "
                          "network cards and switches on the way; a start from the last checkpoint loses nothing",
                          link.peer, group.ranks[group.self], current.front()->has_start() ? "collective" : "transfer",
                          abi::valueOf(*current.front()), linkText(link.socket), link.in.hash, link.in.own.value()));
}

/// Makes the system allocate the memory in which this host's members find data that arrived for all of them.
void SpanningGroup::backStage() {
  if (madvise(stageOf(group.self), SharedArenas::StageBytes, MADV_POPULATE_WRITE) != 0 && errno != EINVAL)
    throw Error("no memory for what ranks of a host receive for each other, " +
                std::to_string(SharedArenas::StageBytes) + " bytes: " + std::strerror(errno));
}

std::byte *SpanningGroup::stageOf(int member) const {
  return context.stages[context.places[group.ranks[member]]] + group.channel * SharedArenas::StageBytes;
}

/// Memory for data that arrives before it is needed. Its contents are uninitialized.
std::byte *SpanningGroup::stage(int64_t bytes) {
  if (bytes > stagedBytes) {
    staged = std::make_unique_for_overwrite<std::byte[]>(bytes);
    stagedBytes = bytes;
  }
  return staged.get();
}

/// Reductions and gathers run all parts at once; the parts of other collectives run one after the other.
void SpanningGroup::collective() {
  const abi::Collective &first = current.front()->start();
  if (!abi::hasLogs(first)) {
    if (first.kind() == abi::Collective::ALL_REDUCE || first.kind() == abi::Collective::REDUCE_SCATTER)
      return reduce();
    if (first.kind() == abi::Collective::ALL_GATHER)
      return allGather();
  }
  forEachPart([&](const abi::Collective &each) { alone(each); });
}

void SpanningGroup::alone(const abi::Collective &collective) {
  if (abi::hasLogs(collective))
    return mergeRows(collective);
  switch (collective.kind()) {
  case abi::Collective::ALL_TO_ALL:
    return allToAll(collective);
  case abi::Collective::BROADCAST:
    return broadcast(collective);
  default:
    throwUnknownKind(collective);
  }
}

void SpanningGroup::transfer(const abi::Transfer &transfer, bool sends, int member) {
  Strided data(output(), transfer.elements() * abi::elementType(transfer.type()).bytes);
  if (isHere(member)) {
    if (!sends)
      copyBytes(data.base, input(member), data.bytes, /*bypassCache=*/false);
    return;
  }
  std::vector<Link> links;
  links.push_back(linkTo(member));
  (sends ? links[0].out : links[0].in).runs.emplace_back(data);
  move(links, [] {});
}

/// Where a member's part of a gathered tensor goes.
Strided SpanningGroup::gathered(const abi::Collective &collective, int member) const {
  int64_t bytes = collective.chunk() * abi::elementType(collective.type()).bytes;
  return {output() + member * bytes, bytes, collective.outer(), group.size() * bytes};
}

void SpanningGroup::allGather() {
  if (isEven())
    return gatherOncePerHost();
  std::vector<Link> links;
  for (int member = 0; member < group.size(); ++member) {
    if (isHere(member))
      continue;
    Link &link = links.emplace_back(linkTo(member));
    forEachPart([&](const abi::Collective &each) {
      Strided place = gathered(each, member);
      link.out.runs.emplace_back(Strided(input(), place.bytes));
      link.in.runs.emplace_back(place);
    });
  }
  move(links, [] {});
  forEachPart([&](const abi::Collective &each) { gatherHere(each); });
}

/// The parts of this host's members.
void SpanningGroup::gatherHere(const abi::Collective &collective) {
  for (int member : here) {
    Strided place = gathered(collective, member);
    copyPieces(place, Strided(input(member), place.bytes), 0, place.bytes);
  }
}

/// One member of each other host receives the data, and the other members there copy it from that member's output.
void SpanningGroup::broadcast(const abi::Collective &collective) {
  int root = static_cast<int>(collective.root()), nearest = isHere(root) ? root : here.front();
  int64_t bytes = collective.outer() * collective.chunk() * abi::elementType(collective.type()).bytes;
  std::vector<Link> links;
  if (group.self == root) {
    for (const std::vector<int> &host : hosts)
      if (host != here)
        links.emplace_back(linkTo(host.front())).out.runs.emplace_back(Strided(input(), bytes));
  } else if (!isHere(root) && group.self == nearest) {
    links.emplace_back(linkTo(root)).in.runs.emplace_back(Strided(output(), bytes));
  }
  move(links, [] {});
  if (!isHere(root)) {
    fenceStores();
    context.control.synchronize(lane(), herePlaces);
  }
  const std::byte *source = isHere(root) ? input(root) : output(nearest);
  if (output() != source)
    copyBytes(output(), source, bytes, /*bypassCache=*/false);
}

} // namespace dtc
