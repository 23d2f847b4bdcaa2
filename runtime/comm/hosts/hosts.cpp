#include "runtime/comm/hosts/hosts.h"

#include "runtime/abi/volume.h"
#include "runtime/comm/command_signature.h"
#include "runtime/support/error.h"
#include "runtime/support/now.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <sys/eventfd.h>
#include <utility>

namespace dtc {

/// Moving this much takes less time than waking a thread.
static constexpr int64_t ShortBytesBetweenHosts = int64_t(64) << 10;
/// Handles of groups that span hosts number their channels from here.
static constexpr uint32_t SpanningChannel = abi::MaximumChannels;

static Descriptor makeSignal() {
  Descriptor signal(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!signal)
    throw Error(std::string("cannot make a signal for the communicator's threads: ") + std::strerror(errno));
  return signal;
}

/// The ranks of this one's host, in the order of their numbers.
static std::vector<int> ranksOfThisHost(const Membership &membership) {
  std::vector<int> ranks;
  for (int rank = 0; rank < membership.size(); ++rank)
    if (membership.hosts()[rank] == membership.hosts()[membership.rank()])
      ranks.push_back(rank);
  return ranks;
}

static std::vector<int> placesOn(const Membership &membership) {
  std::vector<int> places(membership.size(), -1);
  int place = 0;
  for (int rank : ranksOfThisHost(membership))
    places[rank] = place++;
  return places;
}

//===----------------------------------------------------------------------===//
// Failures within and between hosts
//===----------------------------------------------------------------------===//

/// Runs `work`. If it fails within this host, reports that to the job and throws what the job says, because the job may
/// have heard of another failure first.
template <typename Work> auto HostsCommunicator::telling(const Work &work) const {
  try {
    return work();
  } catch (const PeerLostError &) {
    throwFailure(*membership);
    std::optional<FailureNotice> notice = control.failure();
    if (!notice)
      throw;
    membership->fail(notice->rank, notice->reason);
    membership->lost(notice->rank, notice->reason);
    throw; // never reached; g++ does not see that lost() does not return
  }
}

void HostsCommunicator::checkPeers() {
  telling([&] {
    throwFailure(*membership);
    control.checkPeers();
  });
}

void HostsCommunicator::poison(std::string_view why) noexcept {
  membership->fail(rank(), why);
  std::optional<FailureNotice> first = membership->failure();
  control.fail(first ? first->rank : rank(), first ? std::string_view(first->reason) : why);
}

//===----------------------------------------------------------------------===//
// Joining and leaving
//===----------------------------------------------------------------------===//

HostsCommunicator::HostsCommunicator(std::shared_ptr<Membership> ofJob, SharedArenas arenas, HostsOptions options)
    : membership(std::move(ofJob)), resources(arenas.resources), bases(arenas.bases), stages(arenas.stages),
      control(arenas.control), leaving(makeSignal()),
      context{*membership,
              control,
              bases,
              stages,
              placesOn(*membership),
              Streams(*membership, leaving.get(), [this] { control.checkPeers(); }),
              options} {
  // The membership may outlive this communicator.
  membership->onFailure([view = arenas.control, kept = arenas.resources](const FailureNotice &notice) mutable {
    view.fail(notice.rank, notice.reason);
  });
  local = std::make_unique<PeerMemory>(std::move(arenas));
  showWhereabouts(local->whereabouts());
}

/// Leaves first, like PeerMemory, and stops the threads that move bytes.
HostsCommunicator::~HostsCommunicator() {
  eventfd_write(leaving.get(), 1);
  local.reset();
}

void HostsCommunicator::connect(const Group &group) {
  if (!isHere(group))
    telling([&] { spanning(group).measure(); });
}

SpanningGroup &HostsCommunicator::spanning(const Group &group) {
  std::unique_ptr<SpanningGroup> &found = groups[{group.channel, group.ranks}];
  if (!found)
    found = telling([&] { return std::make_unique<SpanningGroup>(context, group); });
  return *found;
}

bool HostsCommunicator::isHere(const Group &group) const {
  return std::all_of(group.ranks.begin(), group.ranks.end(), [&](int rank) { return context.places[rank] >= 0; });
}

Group HostsCommunicator::amongLocal(const Group &group) const {
  Group result = group;
  for (int &rank : result.ranks)
    rank = context.places[rank];
  return result;
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

CommandHandle HostsCommunicator::start(const Group &group, const abi::Command &command) {
  if (isHere(group))
    return telling([&] { return local->start(amongLocal(group), command); });
  Channel &channel = channels.at(group.channel);
  SpanningGroup &members = spanning(group);
  if (!channel.stream)
    channel.stream = std::make_unique<Stream>(/*urgent=*/true);
  if (!channel.gathering)
    channel.gathering = std::make_shared<Flight>();
  channel.gathering->parts.push_back(&command);
  std::shared_ptr<CommandTimes> times(channel.gathering, &channel.gathering->times);
  if (command.start().more())
    return {SpanningChannel + group.channel, channel.lastTicket + 1, std::move(times)};
  std::shared_ptr<Flight> flight = std::exchange(channel.gathering, nullptr);
  bool isShort = channel.isIdle() && bytesEach(flight->parts) <= ShortBytesBetweenHosts;
  channel.unheard = isShort;
  channel.started += flight->parts.size();
  channel.lastTicket = channel.stream->enqueue(
      [&members, flight, step = whereabouts().currentStep()] {
        flight->times.begin = now();
        members.carryOut(flight->parts, step);
        flight->times.end = now();
      },
      /*wake=*/!isShort);
  return {SpanningChannel + group.channel, channel.lastTicket, std::move(times)};
}

void HostsCommunicator::handOverSpanning() {
  for (Channel &channel : channels)
    if (std::exchange(channel.unheard, false))
      channel.stream->wake();
}

void HostsCommunicator::handOver() {
  local->handOver();
  handOverSpanning();
}

/// Other commands continue in the meantime: the wait may be long.
CommandTimes HostsCommunicator::wait(const CommandHandle &handle) {
  if (handle.channel < SpanningChannel) {
    handOverSpanning();
    return telling([&] { return local->wait(handle); });
  }
  Channel &channel = channels.at(handle.channel - SpanningChannel);
  channel.unheard = false;
  handOver();
  telling([&] { channel.stream->wait(handle.ticket); });
  ++channel.waited;
  return *handle.times;
}

CommandTimes HostsCommunicator::run(const Group &group, const abi::Command &command) {
  handOverSpanning();
  if (isHere(group))
    return telling([&] { return local->run(amongLocal(group), command); });
  if (!channels.at(group.channel).isIdle())
    return Communicator::run(group, command);
  local->handOver();
  SpanningGroup &members = spanning(group);
  CommandTimes times;
  times.begin = now();
  const abi::Command *parts[] = {&command};
  telling([&] { members.carryOut(parts, whereabouts().currentStep()); });
  times.end = now();
  return times;
}

std::vector<int64_t> HostsCommunicator::exchange(int64_t value) {
  WaitingNote waits(whereabouts());
  handOver();
  return telling([&] { return membership->exchange(value); });
}

std::unique_ptr<Communicator> connectHosts(std::shared_ptr<Membership> membership, SharedMemoryOptions local,
                                           Arena &arena, const std::vector<Group> &groups, HostsOptions options) {
  local.names = ranksOfThisHost(*membership);
  local.size = static_cast<int>(local.names.size());
  local.rank = placesOn(*membership)[membership->rank()];
  auto communicator = std::make_unique<HostsCommunicator>(membership, joinSharedMemory(local, arena), options);
  for (const Group &group : groups)
    if (!group.ranks.empty())
      communicator->connect(group);
  return communicator;
}

} // namespace dtc
