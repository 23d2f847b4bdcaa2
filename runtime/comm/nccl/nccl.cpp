#include "runtime/comm/nccl/nccl.h"

#include "runtime/abi/commands.h"
#include "runtime/abi/element_type.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/written.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <optional>
#include <set>

namespace dtc {

using namespace std::chrono_literals;

/// A rank is in four groups of transfers (previous and next stage, forward and backward), and a collective takes 32
/// blocks: 64 blocks fit on any GPU. Saturating NVLink needs more blocks, a network adapter does not.
static constexpr int BlocksOfTransfers = 8;

/// Element type and count in NCCL's terms.
struct Elements {
  int type;
  size_t count;
};

static Elements elementsOf(abi::DataType type, int64_t count) {
  switch (type) {
  case abi::F32:
    return {nccl::Float32, size_t(count)};
  case abi::BF16:
    return {nccl::Bfloat16, size_t(count)};
  case abi::F16:
    return {nccl::Float16, size_t(count)};
  case abi::I32:
    return {nccl::Int32, size_t(count)};
  default: // moved only, byte by byte
    return {nccl::Uint8, abi::bytesOf(type, uint64_t(count))};
  }
}

//===----------------------------------------------------------------------===//
// Joining
//===----------------------------------------------------------------------===//

/// The groups in which ranks send and receive, by index.
static std::set<uint32_t> groupsOfTransfers(const abi::Manifest &manifest) {
  std::set<uint32_t> groups;
  for (const abi::CommandList &list : manifest.lists())
    for (const abi::Command &command : list.commands())
      if (command.has_send() || command.has_recv())
        groups.insert(abi::groupOf(command));
  return groups;
}

NcclCommunicator::NcclCommunicator(Communicator &host, CudaDevice &device, const abi::Manifest &manifest,
                                   Options options)
    : library(!groupsOfTransfers(manifest).empty()), host(host), device(device), manifest(manifest),
      options(std::move(options)) {
  showWhereabouts(host.whereabouts());
  const cuda::Driver &driver = device.getGpu().driver;
  device.getGpu().makeCurrent();
  try {
    driver.check(driver.eventCreate(&ready, cuda::EventDisableTiming), "cannot make an event");
    nccl::Config config;
    nccl::UniqueId id = agreeOnId();
    int result = library.CommInitRankConfig(&world, size(), id, rank(), &config); // must run before `world` is read
    settle(result, world, "cannot join the ranks");
    makeMembers();
    if (library.MemAlloc && library.MemFree)
      device.allocateBy({library.MemAlloc, library.MemFree});
  } catch (...) {
    isPoisoned = true;
    release();
    throw;
  }
  watcher = std::jthread([this](const std::stop_token &stop) { watch(stop); });
}

/// The first rank's ID, sent one number at a time.
nccl::UniqueId NcclCommunicator::agreeOnId() {
  nccl::UniqueId id;
  if (rank() == 0)
    settle(library.GetUniqueId(&id), nullptr, "cannot name the job");
  constexpr size_t Words = sizeof(id) / sizeof(int64_t);
  int64_t words[Words];
  std::memcpy(words, &id, sizeof id);
  for (int64_t &word : words)
    word = host.exchange(word)[0];
  std::memcpy(&id, words, sizeof id);
  return id;
}

/// All ranks take part in each split, one split after the other, in the manifest's order: which splits there are must
/// not depend on the rank.
void NcclCommunicator::makeMembers() {
  std::set<uint32_t> transfers = groupsOfTransfers(manifest);
  for (Group &group : groupsOf(manifest, rank())) {
    auto index = static_cast<uint32_t>(members.size());
    bool hasTransfers = transfers.contains(index);
    Member &member = members.emplace_back(Member{std::move(group)});
    if (abi::membersOf(manifest.groups(static_cast<int>(index))) == 1)
      continue;
    nccl::Config config;
    config.blocking = 1;
    if (hasTransfers)
      config.maximumBlocks = BlocksOfTransfers;
    bool isMember = member.group.size() > 0;
    int color = isMember ? *std::ranges::min_element(member.group.ranks) : nccl::NoColor;
    settle(library.CommSplit(world, color, member.group.self, &member.comm, &config), world, "cannot cut the ranks");
    if (!isMember)
      continue;
    member.stream = device.getGpu().makeUrgentStream();
    settle(nccl::InProgress, member.comm, "cannot join a group's ranks");
  }
}

/// Registers the memory, so that NCCL need not copy it first if the GPUs can reach each other.
void NcclCommunicator::show(Memory &shown) {
  memory = &shown;
  if (!library.CommRegister || !library.CommDeregister || shown.bytes() == 0)
    return;
  for (Member &member : members)
    if (member.comm)
      settle(library.CommRegister(member.comm, shown.base(), shown.bytes(), &member.shown), member.comm,
             "cannot show memory to peers");
}

NcclCommunicator::~NcclCommunicator() {
  watcher.request_stop();
  if (watcher.joinable())
    watcher.join();
  release();
}

/// After a failure, does not wait for any rank.
void NcclCommunicator::release() noexcept {
  const cuda::Driver &driver = device.getGpu().driver;
  auto end = [&](nccl::Comm comm) {
    if (comm && isPoisoned)
      library.CommAbort(comm);
    else if (comm)
      library.CommDestroy(comm);
  };
  for (Member &member : members) {
    if (member.stream && !isPoisoned)
      driver.streamSynchronize(member.stream);
    if (member.shown && !isPoisoned)
      library.CommDeregister(member.comm, member.shown);
    end(member.comm);
    if (member.stream)
      driver.streamDestroy(member.stream);
  }
  end(world);
  for (const Flight &flight : flights)
    driver.eventDestroy(flight.end);
  for (cuda::EventHandle event : spare)
    driver.eventDestroy(event);
  if (ready)
    driver.eventDestroy(ready);
}

/// Waits until the operation that returned `result` is complete; NCCL reports this when polled.
void NcclCommunicator::settle(int result, nccl::Comm comm, const char *what) {
  while (result == nccl::InProgress) {
    host.checkPeers();
    int state = library.CommGetAsyncError(comm, &result);
    if (state != nccl::Success)
      result = state;
    else if (result == nccl::InProgress)
      std::this_thread::sleep_for(100us);
  }
  if (result != nccl::Success)
    throw Error(fmt::format("NCCL {}: {}; NCCL_DEBUG=INFO in the environment makes it say more", what,
                            library.describe(result, comm)));
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

NcclCommunicator::Member &NcclCommunicator::memberOf(const Group &group) {
  for (Member &member : members)
    if (member.group.channel == group.channel && member.group.ranks == group.ranks)
      return member;
  throw Error("a group of ranks that was not made when they joined");
}

cuda::EventHandle NcclCommunicator::takeEvent() {
  std::lock_guard lock(mutex);
  if (!spare.empty()) {
    cuda::EventHandle event = spare.back();
    spare.pop_back();
    return event;
  }
  cuda::EventHandle event = nullptr;
  const cuda::Driver &driver = device.getGpu().driver;
  driver.check(driver.eventCreate(&event, cuda::EventDisableTiming), "cannot make an event");
  return event;
}

CommandHandle NcclCommunicator::start(const Group &group, const abi::Command &command) {
  const cuda::Driver &driver = device.getGpu().driver;
  Member &member = memberOf(group);
  auto times = std::make_shared<CommandTimes>();
  member.gathering.push_back({&command, ++tickets, times});
  if (command.start().more())
    return {group.channel, tickets, times};
  cuda::StreamHandle stream = member.comm ? member.stream : device.getStream();
  if (member.comm) {
    driver.check(driver.eventRecord(ready, device.getStream()), "cannot begin a command");
    driver.check(driver.streamWaitEvent(stream, ready, 0), "cannot begin a command");
    // Two concurrent collectives may each hold the blocks that the other needs, and deadlock.
    if (previous && command.has_start() && !library.keepsOrder())
      driver.check(driver.streamWaitEvent(stream, previous, 0), "cannot begin a command");
  }
  auto mark = [&] { return tellsTimes ? int64_t(device.mark(stream)) : 0; };
  int64_t begin = mark();
  give(member);
  int64_t over = mark();
  for (const Part &part : std::exchange(member.gathering, {})) { // each part has its own wait
    *part.times = {begin, over};
    cuda::EventHandle end = takeEvent();
    driver.check(driver.eventRecord(end, stream), "cannot begin a command");
    if (member.comm && command.has_start())
      previous = end;
    std::lock_guard lock(mutex);
    flights.push_back({part.command, part.ticket, end, std::chrono::steady_clock::now(), part.times});
  }
  return {group.channel, tickets, times};
}

CommandTimes NcclCommunicator::wait(const CommandHandle &handle) {
  const cuda::Driver &driver = device.getGpu().driver;
  std::lock_guard lock(mutex);
  auto flight = std::ranges::find(flights, handle.ticket, &Flight::ticket);
  driver.check(driver.streamWaitEvent(device.getStream(), flight->end, 0), "cannot wait for a command");
  flight->isWaitedFor = true;
  return *handle.times;
}

/// Enqueues all parts in one NCCL group, which NCCL launches as one kernel.
void NcclCommunicator::give(Member &member) {
  if (member.comm)
    settle(library.GroupStart(), member.comm, "cannot begin a command");
  for (const auto &[command, ticket, times] : member.gathering)
    if (!member.comm)
      giveAlone(*command);
    else if (command->has_start())
      giveCollective(member, command->start());
    else
      giveTransfer(member, abi::transferOf(*command), command->has_send());
  if (member.comm)
    settle(library.GroupEnd(), member.comm, "cannot begin a command");
}

/// In a group of one, every kind of collective is a copy, and there is no peer to send to.
void NcclCommunicator::giveAlone(const abi::Command &command) {
  const abi::Collective &collective = command.start();
  uint64_t bytes = abi::bytesOf(collective.type(), uint64_t(abi::inputElements(collective, 1)));
  if (collective.input() != collective.output() && bytes > 0)
    device.copy(memory->base() + collective.output(), memory->base() + collective.input(), bytes);
}

void NcclCommunicator::giveCollective(Member &member, const abi::Collective &collective) {
  const std::byte *in = memory->base() + collective.input();
  std::byte *out = memory->base() + collective.output();
  auto [type, count] = elementsOf(collective.type(), collective.chunk());
  int operation = collective.reduction() == abi::MAX ? nccl::Max : nccl::Sum;
  uint64_t bytes = abi::bytesOf(collective.type(), uint64_t(collective.chunk())), rows = uint64_t(collective.outer());
  uint64_t ranks = uint64_t(member.group.size());
  auto check = [&](int result) { settle(result, member.comm, "cannot begin a collective"); };
  switch (collective.kind()) {
  case abi::Collective::ALL_REDUCE:
    return check(library.AllReduce(in, out, rows * count, type, operation, member.comm, member.stream));
  case abi::Collective::ALL_GATHER:
    for (uint64_t row = 0; row < rows; ++row)
      check(library.AllGather(in + row * bytes, out + row * ranks * bytes, count, type, member.comm, member.stream));
    return;
  case abi::Collective::REDUCE_SCATTER:
    for (uint64_t row = 0; row < rows; ++row)
      check(library.ReduceScatter(in + row * ranks * bytes, out + row * bytes, count, type, operation, member.comm,
                                  member.stream));
    return;
  case abi::Collective::BROADCAST:
    return check(library.Broadcast(in, out, rows * count, type, int(collective.root()), member.comm, member.stream));
  default:
    return giveAllToAll(member, collective);
  }
}

/// Each row [o][m] of a peer is a separate message; manifest.proto describes the layout.
void NcclCommunicator::giveAllToAll(Member &member, const abi::Collective &collective) {
  int64_t ranks = member.group.size(), middle = collective.middle();
  auto [type, count] = elementsOf(collective.type(), collective.chunk());
  uint64_t chunkBytes = abi::bytesOf(collective.type(), uint64_t(collective.chunk()));
  auto apart = [&](int64_t o, int64_t m, int64_t q) { return (uint64_t((o * ranks + q) * middle + m)) * chunkBytes; };
  auto together = [&](int64_t o, int64_t m, int64_t q) {
    return (uint64_t((o * middle + m) * ranks + q)) * chunkBytes;
  };
  const std::byte *in = memory->base() + collective.input();
  std::byte *out = memory->base() + collective.output();
  for (int64_t o = 0; o < collective.outer(); ++o)
    for (int64_t m = 0; m < middle; ++m)
      for (int q = 0; q < ranks; ++q) {
        uint64_t from = collective.split_first() ? apart(o, m, q) : together(o, m, q);
        uint64_t to = collective.split_first() ? together(o, m, q) : apart(o, m, q);
        settle(library.Send(in + from, count, type, q, member.comm, member.stream), member.comm, "cannot send");
        settle(library.Recv(out + to, count, type, q, member.comm, member.stream), member.comm, "cannot receive");
      }
}

void NcclCommunicator::giveTransfer(Member &member, const abi::Transfer &transfer, bool sends) {
  int peer = int(abi::shifted(member.group.self, transfer.shift(), member.group.size()));
  std::byte *buffer = memory->base() + transfer.buffer();
  auto [type, count] = elementsOf(transfer.type(), transfer.elements());
  settle(sends ? library.Send(buffer, count, type, peer, member.comm, member.stream)
               : library.Recv(buffer, count, type, peer, member.comm, member.stream),
         member.comm, sends ? "cannot send" : "cannot receive");
}

//===----------------------------------------------------------------------===//
// The watchdog
//===----------------------------------------------------------------------===//

void NcclCommunicator::poison(std::string_view why) noexcept {
  isPoisoned = true;
  host.poison(why);
}

void NcclCommunicator::watch(const std::stop_token &stop) {
  while (!stop.stop_requested() && !isPoisoned) {
    try {
      look();
    } catch (const Error &error) {
      isPoisoned = true;
      options.onFailure(Error(error.exitCode(), error.what() + describeOldest()));
      return;
    }
    std::this_thread::sleep_for(50ms);
  }
}

void NcclCommunicator::look() {
  const cuda::Driver &driver = device.getGpu().driver;
  device.getGpu().makeCurrent();
  host.checkPeers();
  for (const Member &member : members) {
    int state = nccl::Success;
    if (!member.comm)
      continue;
    if (int result = library.CommGetAsyncError(member.comm, &state); result != nccl::Success)
      state = result;
    if (state != nccl::Success && state != nccl::InProgress)
      throw Error(ExitCode::PeerLost, "NCCL failed: " + library.describe(state, member.comm));
  }
  std::lock_guard lock(mutex);
  while (!flights.empty() && flights.front().isWaitedFor && driver.eventQuery(flights.front().end) == cuda::Success) {
    spare.push_back(flights.front().end);
    flights.pop_front();
  }
  if (!flights.empty() && std::chrono::steady_clock::now() - flights.front().started > options.timeout &&
      driver.eventQuery(flights.front().end) == cuda::NotReady)
    throw Error(ExitCode::PeerLost,
                fmt::format("a command has not ended within {} s: another rank does not start it, or hangs",
                            std::chrono::duration_cast<std::chrono::seconds>(options.timeout).count()));
}

/// "all-reduce of 'gradients' at h.0.mlp".
static std::string describe(const abi::Command &command, const abi::Manifest &manifest) {
  std::string kind = command.has_send() ? "send" : "receive";
  if (command.has_start()) {
    kind = abi::Collective::Kind_Name(command.start().kind());
    std::ranges::transform(kind, kind.begin(), [](char c) { return c == '_' ? '-' : char(std::tolower(c)); });
  }
  std::string location = abi::locationOf(manifest, command);
  return kind + " of '" + abi::valueOf(command) + "'" + (location.empty() ? "" : " at " + location);
}

/// The oldest unfinished command, which may be the one that hangs.
std::string NcclCommunicator::describeOldest() {
  const cuda::Driver &driver = device.getGpu().driver;
  std::lock_guard lock(mutex);
  for (const Flight &flight : flights)
    if (driver.eventQuery(flight.end) == cuda::NotReady)
      return "; under way was the " + describe(*flight.command, manifest);
  return "";
}

} // namespace dtc
