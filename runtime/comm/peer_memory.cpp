#include "runtime/comm/peer_memory.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/error.h"
#include "runtime/comm/reduce.h"

#include <algorithm>
#include <string>

namespace dtc {

/// Results larger than this are written past the cache: they would only push out what is there.
static constexpr int64_t CacheBypassBytes = int64_t(1) << 20;
/// Slices of an all-reduce begin at multiples of a cache line, so that no two members write one.
static constexpr int64_t SliceBytes = 64;

static int64_t elementBytes(const abi::Collective &collective) { return abi::elementType(collective.type()).bytes; }

PeerMemory::PeerMemory(ControlBlock block, std::vector<std::byte *> bases, std::shared_ptr<void> resources)
    : resources(std::move(resources)), control(std::move(block)), bases(std::move(bases)) {
  for (int rank = 0; rank < size(); ++rank)
    everybody.push_back(rank);
}

PeerMemory::~PeerMemory() { control.leave(); }

void PeerMemory::poison(std::string_view why) noexcept { control.fail(rank(), why); }

std::vector<int64_t> PeerMemory::exchange(int64_t value) {
  control.throwIfFailed();
  control.ticket(rank()).value = value;
  control.synchronize(everybody);
  std::vector<int64_t> values;
  values.reserve(everybody.size());
  for (int peer : everybody)
    values.push_back(control.ticket(peer).value);
  control.synchronize(everybody);
  return values;
}

/// Everything but the offsets must be the same for all members.
static uint64_t signatureOf(const Group &group, const abi::Collective &collective) {
  uint64_t hash = 0xcbf29ce484222325u;
  auto add = [&](uint64_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29; };
  for (int member : group.ranks)
    add(member);
  add(collective.kind());
  add(collective.reduction());
  add(collective.type());
  add(collective.outer());
  add(collective.middle());
  add(collective.chunk());
  add(collective.split_first());
  return hash;
}

/// Ranks that run different collectives would deadlock or, worse, not: say so instead.
void PeerMemory::checkAgreement(const Group &group, const abi::Collective &collective) {
  uint64_t own = control.ticket(rank()).signature;
  for (int member : group.ranks)
    if (control.ticket(member).signature != own)
      throw Error("ranks " + std::to_string(rank()) + " and " + std::to_string(member) +
                  " disagree about the collective of " + collective.value() +
                  ": their command lists do not match; start all ranks from one program file");
}

void PeerMemory::run(const Group &group, const abi::Collective &collective) {
  control.throwIfFailed();
  Ticket &own = control.ticket(rank());
  own.input = collective.input();
  own.output = collective.output();
  own.signature = signatureOf(group, collective);
  control.synchronize(group.ranks);
  checkAgreement(group, collective);
  switch (collective.kind()) {
  case abi::Collective::ALL_REDUCE:
    allReduce(group, collective);
    break;
  case abi::Collective::ALL_GATHER:
    allGather(group, collective);
    break;
  case abi::Collective::REDUCE_SCATTER:
    reduceScatter(group, collective);
    break;
  case abi::Collective::ALL_TO_ALL:
    allToAll(group, collective);
    break;
  default:
    throw Error(ExitCode::BadInput, "the program has a collective of unknown kind " +
                                        std::to_string(collective.kind()) +
                                        "; run it with the runtime it was made for");
  }
  fenceStores();
  control.synchronize(group.ranks);
}

void PeerMemory::allReduce(const Group &group, const abi::Collective &collective) {
  int64_t elements = collective.outer() * collective.chunk(), width = elementBytes(collective);
  int64_t inLine = SliceBytes / width, lines = (elements + inLine - 1) / inLine;
  auto sliceBegin = [&](int member) { return std::min(elements, lines * member / group.size() * inLine); };
  int64_t begin = sliceBegin(group.self), count = sliceBegin(group.self + 1) - begin;
  std::vector<const std::byte *> sources;
  std::vector<std::byte *> targets;
  for (int member : group.ranks) {
    sources.push_back(input(member) + begin * width);
    targets.push_back(output(member) + begin * width);
  }
  // Begin with the own target, then the next ones: no two members write to one at the same time.
  std::rotate(targets.begin(), targets.begin() + group.self, targets.end());
  reduceInto(targets, sources, count, collective.type(), collective.reduction(), elements * width > CacheBypassBytes);
}

void PeerMemory::reduceScatter(const Group &group, const abi::Collective &collective) {
  int64_t chunk = collective.chunk(), outer = collective.outer(), bytes = chunk * elementBytes(collective);
  std::vector<const std::byte *> sources;
  sources.reserve(group.size());
  for (int member : group.ranks)
    sources.push_back(input(member) + group.self * bytes);
  std::byte *target = output(rank());
  for (int64_t row = 0; row < outer; ++row) {
    reduceInto({&target, 1}, sources, chunk, collective.type(), collective.reduction(),
               outer * bytes > CacheBypassBytes);
    target += bytes;
    for (const std::byte *&source : sources)
      source += group.size() * bytes;
  }
}

void PeerMemory::allGather(const Group &group, const abi::Collective &collective) {
  int64_t bytes = collective.chunk() * elementBytes(collective), outer = collective.outer(), members = group.size();
  for (int step = 0; step < members; ++step) {
    // Everybody begins with another peer.
    int64_t from = (group.self + step) % members;
    for (int64_t row = 0; row < outer; ++row)
      copyBytes(output(rank()) + (row * members + from) * bytes, input(group.ranks[from]) + row * bytes, bytes,
                outer * members * bytes > CacheBypassBytes);
  }
}

void PeerMemory::allToAll(const Group &group, const abi::Collective &collective) {
  int64_t bytes = collective.chunk() * elementBytes(collective), outer = collective.outer(),
          middle = collective.middle();
  int64_t members = group.size();
  bool bypass = outer * middle * members * bytes > CacheBypassBytes;
  for (int step = 0; step < members; ++step) {
    int64_t from = (group.self + step) % members;
    for (int64_t row = 0; row < outer; ++row) {
      for (int64_t m = 0; m < middle; ++m) {
        // The two layouts: [outer][member][middle] and [outer][middle][member], in chunks.
        int64_t memberMajor = collective.split_first() ? group.self : from;
        int64_t memberMinor = collective.split_first() ? from : group.self;
        int64_t inMajor = (row * members + memberMajor) * middle + m;
        int64_t inMinor = (row * middle + m) * members + memberMinor;
        int64_t source = collective.split_first() ? inMajor : inMinor;
        int64_t target = collective.split_first() ? inMinor : inMajor;
        copyBytes(output(rank()) + target * bytes, input(group.ranks[from]) + source * bytes, bytes, bypass);
      }
    }
  }
}

} // namespace dtc
