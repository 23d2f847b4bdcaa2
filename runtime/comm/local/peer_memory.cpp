#include "runtime/comm/local/peer_memory.h"

#include "runtime/abi/commands.h"
#include "runtime/abi/element_type.h"
#include "runtime/abi/volume.h"
#include "runtime/comm/command_signature.h"
#include "runtime/comm/local/reduce.h"
#include "runtime/comm/local/weighted_rows.h"
#include "runtime/support/now.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dtc {

/// Results larger than this bypass the cache: they would only evict what is there.
static constexpr int64_t CacheBypassBytes = int64_t(1) << 20;
/// Moving this much takes less time than waking a thread.
static constexpr int64_t ShortBytes = int64_t(1) << 20;
/// The most that is moved while waiting for others; more would evict what they are about to read.
static constexpr int64_t BesideBytes = int64_t(256) << 10;
/// Slices of an all-reduce begin at multiples of a cache line, so that no two members write to the same line.
static constexpr int64_t SliceBytes = 64;

static int64_t elementBytes(const abi::Collective &collective) { return abi::elementType(collective.type()).bytes; }

PeerMemory::PeerMemory(SharedArenas arenas)
    : resources(std::move(arenas.resources)), control(std::move(arenas.control)), bases(std::move(arenas.bases)) {
  for (int rank = 0; rank < size(); ++rank)
    everybody.push_back(rank);
  showWhereabouts(control.whereabouts(rank()));
  this->control.beforeSleep = [this](bool hasSlept) {
    if (std::this_thread::get_id() == starter)
      handOver(/*postponed=*/hasSlept);
  };
}

/// Leaves first: a peer that waits for a command that this rank never starts then fails, and with it every thread here
/// that waits for that peer.
PeerMemory::~PeerMemory() { control.leave(); }

void PeerMemory::poison(std::string_view why) noexcept { control.fail(control.nameOf(rank()), why); }

std::vector<int64_t> PeerMemory::exchange(int64_t value) {
  WaitingNote waits(whereabouts());
  control.throwIfFailed();
  control.ticket(ControlBlock::HostLane, rank()).value = value;
  control.synchronize(ControlBlock::HostLane, everybody);
  std::vector<int64_t> values;
  values.reserve(everybody.size());
  for (int peer : everybody)
    values.push_back(control.ticket(ControlBlock::HostLane, peer).value);
  control.synchronize(ControlBlock::HostLane, everybody);
  return values;
}

void PeerMemory::checkSignatures(const Flight &flight) {
  uint32_t channel = flight.group.channel;
  uint64_t own = control.ticket(channel, rank()).signature;
  for (int member : flight.members)
    if (control.ticket(channel, member).signature != own)
      throwMismatch(control.nameOf(rank()), control.nameOf(member), *flight.parts.front(), flight.step);
}

CommandHandle PeerMemory::start(const Group &group, const abi::Command &command) {
  Channel &channel = channels.at(group.channel);
  if (!channel.stream)
    channel.stream = std::make_unique<Stream>();
  starter = std::this_thread::get_id();
  if (!channel.gathering)
    channel.gathering = std::make_shared<Flight>(group, membersOf(group, command), whereabouts().currentStep());
  channel.gathering->parts.push_back(&command);
  if (command.start().more())
    return {group.channel, channel.lastTicket + 1,
            std::shared_ptr<CommandTimes>(channel.gathering, &channel.gathering->times)};
  std::shared_ptr<Flight> flight = std::exchange(channel.gathering, nullptr);
  int64_t bytes = bytesEach(flight->parts);
  bool isShort = channel.isIdle() && bytes <= ShortBytes;
  // Two commands that fill the cache would evict each other's data, so every rank runs them one after the other.
  bool isPostponed = isShort && command.has_start() && bytes > BesideBytes && hasUnheard();
  // Announces it now, so that peers need not wait for a thread to wake.
  if (channel.isIdle() && !isPostponed)
    announce(*flight);
  channel.unheard = isShort ? flight : nullptr;
  channel.started += flight->parts.size();
  channel.lastTicket = channel.stream->enqueue([this, flight] { carryOut(*flight); }, /*wake=*/!isShort);
  return {group.channel, channel.lastTicket, std::shared_ptr<CommandTimes>(flight, &flight->times)};
}

bool PeerMemory::hasUnheard() const {
  return std::any_of(channels.begin(), channels.end(),
                     [](const Channel &channel) { return channel.unheard != nullptr; });
}

void PeerMemory::handOver() { handOver(/*postponed=*/true); }

void PeerMemory::handOver(bool postponed) {
  for (Channel &channel : channels)
    if (channel.unheard && (postponed || channel.unheard->phase != Flight::New)) {
      channel.unheard = nullptr;
      channel.stream->wake();
    }
}

CommandTimes PeerMemory::wait(const CommandHandle &handle) {
  Channel &channel = channels.at(handle.channel);
  if (!std::exchange(channel.unheard, nullptr))
    handOver(); // the wait may be long
  channel.stream->wait(handle.ticket);
  ++channel.waited;
  return *handle.times;
}

/// With nothing to overlap, handing it to another thread would only cost time.
CommandTimes PeerMemory::run(const Group &group, const abi::Command &command) {
  if (!channels.at(group.channel).isIdle())
    return Communicator::run(group, command);
  Flight flight(group, membersOf(group, command), whereabouts().currentStep());
  flight.parts.push_back(&command);
  carryOut(flight);
  return flight.times;
}

void PeerMemory::carryOut(Flight &flight) {
  if (flight.phase == Flight::New)
    announce(flight);
  if (flight.phase == Flight::Announced)
    move(flight);
  if (std::this_thread::get_id() == starter)
    moveUnheard();
  control.awaitOthers(flight.group.channel, flight.members);
  flight.times.end = now();
}

/// Does this rank's part of commands that are ready, instead of waiting for the others' part of one command.
void PeerMemory::moveUnheard() {
  for (Channel &channel : channels)
    if (channel.unheard && channel.unheard->phase == Flight::Announced &&
        bytesEach(channel.unheard->parts) <= BesideBytes &&
        control.othersHaveArrived(channel.unheard->group.channel, channel.unheard->members))
      move(*channel.unheard);
}

/// Announces this rank's operands to the others. Nothing else may be running on the channel.
void PeerMemory::announce(Flight &flight) {
  control.throwIfFailed();
  Ticket &own = control.ticket(flight.group.channel, rank());
  noteOperands(own, flight.parts);
  own.signature = signatureOf(flight.members, flight.parts, flight.step);
  control.arrive(flight.group.channel, flight.members);
  flight.phase = Flight::Announced;
}

/// Does this rank's part of the command, once all others have announced theirs.
void PeerMemory::move(Flight &flight) {
  flight.times.begin = now();
  control.awaitOthers(flight.group.channel, flight.members);
  checkSignatures(flight);
  const abi::Command &first = *flight.parts.front();
  if (first.has_start())
    for (size_t part = 0; part < flight.parts.size(); ++part)
      collective(flight.group, flight.parts[part]->start(), part);
  else
    transfer(flight, abi::transferOf(first));
  fenceStores();
  control.arrive(flight.group.channel, flight.members);
  flight.phase = Flight::Moved;
}

void PeerMemory::collective(const Group &group, const abi::Collective &collective, size_t part) {
  if (abi::hasLogs(collective))
    return mergeRows(group, collective, part);
  switch (collective.kind()) {
  case abi::Collective::ALL_REDUCE:
    return allReduce(group, collective, part);
  case abi::Collective::ALL_GATHER:
    return allGather(group, collective, part);
  case abi::Collective::REDUCE_SCATTER:
    return reduceScatter(group, collective, part);
  case abi::Collective::ALL_TO_ALL:
    return allToAll(group, collective, part);
  case abi::Collective::BROADCAST:
    return broadcast(group, collective, part);
  default:
    throwUnknownKind(collective);
  }
}

void PeerMemory::transfer(const Flight &flight, const abi::Transfer &transfer) {
  int sender = flight.members.front();
  if (sender == rank())
    return;
  int64_t bytes = transfer.elements() * abi::elementType(transfer.type()).bytes;
  copyBytes(output(flight.group, rank(), 0), input(flight.group, sender, 0), bytes, bytes > CacheBypassBytes);
}

void PeerMemory::allReduce(const Group &group, const abi::Collective &collective, size_t part) {
  int64_t elements = collective.outer() * collective.chunk(), width = elementBytes(collective);
  int64_t inLine = SliceBytes / width, lines = (elements + inLine - 1) / inLine;
  auto sliceBegin = [&](int member) { return std::min(elements, lines * member / group.size() * inLine); };
  int64_t begin = sliceBegin(group.self), count = sliceBegin(group.self + 1) - begin;
  std::vector<const std::byte *> sources;
  std::vector<std::byte *> targets;
  for (int member : group.ranks) {
    sources.push_back(input(group, member, part) + begin * width);
    targets.push_back(output(group, member, part) + begin * width);
  }
  // Begin with this member's own target, then the next ones, so that no two members write to one at the same time.
  std::rotate(targets.begin(), targets.begin() + group.self, targets.end());
  reduceInto(targets, sources, count, collective.type(), collective.reduction(), elements * width > CacheBypassBytes);
}

void PeerMemory::reduceScatter(const Group &group, const abi::Collective &collective, size_t part) {
  int64_t chunk = collective.chunk(), outer = collective.outer(), bytes = chunk * elementBytes(collective);
  std::vector<const std::byte *> sources;
  sources.reserve(group.size());
  for (int member : group.ranks)
    sources.push_back(input(group, member, part) + group.self * bytes);
  std::byte *target = output(group, rank(), part);
  for (int64_t row = 0; row < outer; ++row) {
    reduceInto({&target, 1}, sources, chunk, collective.type(), collective.reduction(),
               outer * bytes > CacheBypassBytes);
    target += bytes;
    for (const std::byte *&source : sources)
      source += group.size() * bytes;
  }
}

/// Like allReduce and reduceScatter, but with whole rows, because each row has one logarithm.
void PeerMemory::mergeRows(const Group &group, const abi::Collective &collective, size_t part) {
  std::vector<WeightedRows> sources, targets;
  for (int member : group.ranks)
    sources.push_back(
        rowsOf(collective, input(group, member, part), besideInput(group, member, part), group.self, group.size()));
  if (collective.kind() == abi::Collective::REDUCE_SCATTER)
    targets.push_back(denseRows(collective, output(group, rank(), part), besideOutput(group, rank(), part)));
  else
    for (int member : group.ranks)
      targets.push_back(
          rowsOf(collective, output(group, member, part), besideOutput(group, member, part), group.self, group.size()));
  dtc::mergeRows(targets, sources, rowCountOf(collective, group.self, group.size()), collective.chunk());
}

void PeerMemory::allGather(const Group &group, const abi::Collective &collective, size_t part) {
  int64_t bytes = collective.chunk() * elementBytes(collective), outer = collective.outer(), members = group.size();
  for (int step = 0; step < members; ++step) {
    // Each member begins with a different peer.
    int64_t from = (group.self + step) % members;
    for (int64_t row = 0; row < outer; ++row)
      copyBytes(output(group, rank(), part) + (row * members + from) * bytes,
                input(group, group.ranks[from], part) + row * bytes, bytes, outer * members * bytes > CacheBypassBytes);
  }
}

void PeerMemory::broadcast(const Group &group, const abi::Collective &collective, size_t part) {
  int64_t bytes = collective.outer() * collective.chunk() * elementBytes(collective);
  const std::byte *source = input(group, group.ranks[collective.root()], part);
  if (std::byte *target = output(group, rank(), part); target != source)
    copyBytes(target, source, bytes, bytes > CacheBypassBytes);
}

/// How many rows each member sends to each other; empty if all send all rows.
std::vector<int32_t> PeerMemory::countsOf(const Group &group, const abi::Collective &collective, size_t part) {
  std::vector<int32_t> counts;
  if (!collective.has_counts())
    return counts;
  size_t members = group.ranks.size();
  counts.resize(members * members);
  std::vector<int> names;
  for (size_t member = 0; member < members; ++member) {
    std::memcpy(&counts[member * members], besideInput(group, group.ranks[member], part),
                abi::bytesOf(abi::I32, members));
    names.push_back(control.nameOf(group.ranks[member]));
  }
  requireCounts(collective, counts, names);
  return counts;
}

void PeerMemory::allToAll(const Group &group, const abi::Collective &collective, size_t part) {
  int64_t bytes = collective.chunk() * elementBytes(collective), outer = collective.outer(),
          middle = collective.middle();
  int64_t members = group.size();
  bool bypass = outer * middle * members * bytes > CacheBypassBytes;
  std::vector<int32_t> counts = countsOf(group, collective, part);
  auto sentBy = [&](int64_t from) { return counts.empty() ? middle : counts[from * members + group.self]; };
  for (int step = 0; step < members; ++step) {
    int64_t from = (group.self + step) % members;
    for (int64_t row = 0; row < outer; ++row) {
      for (int64_t m = 0; m < sentBy(from); ++m) {
        // The two layouts: [outer][member][middle] and [outer][middle][member], in chunks.
        int64_t memberMajor = collective.split_first() ? group.self : from;
        int64_t memberMinor = collective.split_first() ? from : group.self;
        int64_t inMajor = (row * members + memberMajor) * middle + m;
        int64_t inMinor = (row * middle + m) * members + memberMinor;
        int64_t source = collective.split_first() ? inMajor : inMinor;
        int64_t target = collective.split_first() ? inMinor : inMajor;
        copyBytes(output(group, rank(), part) + target * bytes, input(group, group.ranks[from], part) + source * bytes,
                  bytes, bypass);
      }
    }
  }
  for (int64_t from = 0; collective.has_received() && from < members; ++from) {
    auto rows = static_cast<int32_t>(sentBy(from));
    std::memcpy(bases[rank()] + collective.received() + from * sizeof(rows), &rows, sizeof(rows));
  }
}

} // namespace dtc
