// A stand-in for NCCL, for ranks that are processes of one machine on stand-ins of GPUs: libnccl.so.2 for tests, never
// installed. Messages between ranks pass through a file in shared memory, in the order of the stand-in driver's
// streams, so a command waits for its peers where a GPU would, and other streams continue. Sums are in f32, in the
// order of ranks, and rounded once.
// The stand-in is in one file because it is one library's table of functions, which share their communicators.
//
// What NCCL leaves undefined ends the process with a message: ranks that start different commands, a communicator that
// is used before it is set up, or asked for errors by two threads although it does not block; groups of calls that are
// left open or are for several communicators, collectives in flight without an order between them, more in flight than
// a GPU has room for, memory that peers cannot access without a copy. Like NCCL it allocates memory of the GPU: for
// each communicator, and once more at its first command.
//
// DTC_STAND_IN_NCCL_VERSION in the environment is the version that it claims to be, DTC_STAND_IN_NCCL_MEMORY the bytes
// that it allocates each time.
#include "runtime/comm/nccl/library.h"
#include "test/gpu/stand_in/find.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <map>
#include <memory>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace dtc::nccl {
namespace {

[[noreturn]] void fail(const std::string &what) {
  std::fprintf(stderr, "stand-in for NCCL: %s\n", what.c_str());
  std::abort();
}

constexpr int UnhandledCudaError = 1;
/// The blocks of a GPU that a communicator's commands take by default, and those that a small GPU has.
constexpr int DefaultBlocks = 32, BlocksOfGpu = 64;

std::map<void *, size_t> reachable; // allocated by ncclMemAlloc

template <typename T> T *find(const char *name) {
  T *function = dtc::test::findInDriver<T>(name);
  if (!function)
    fail("the driver is not the stand-in");
  return function;
}

/// The version that it claims to be.
int version() {
  const char *text = std::getenv("DTC_STAND_IN_NCCL_VERSION");
  return text ? std::atoi(text) : 22809;
}

/// What one rank has sent to another and has not been read yet. Zero at first.
struct Box {
  static constexpr uint64_t Capacity = 4 << 20;

  std::atomic<uint64_t> written, read;
  std::byte bytes[Capacity];

  uint64_t unread() const { return written.load() - read.load(); }

  /// There is room for it.
  void put(const void *source, uint64_t size) {
    if (size == 0) // nobody need have memory for that
      return;
    uint64_t at = written.load() % Capacity, first = std::min(size, Capacity - at);
    std::memcpy(bytes + at, source, first);
    std::memcpy(bytes, static_cast<const std::byte *>(source) + first, size - first);
    written += size;
  }
  /// It is there. Leaves it there too.
  void look(void *target, uint64_t size) const {
    if (size == 0)
      return;
    uint64_t at = read.load() % Capacity, first = std::min(size, Capacity - at);
    std::memcpy(target, bytes + at, first);
    std::memcpy(static_cast<std::byte *>(target) + first, bytes, size - first);
  }
  void take(void *target, uint64_t size) {
    while (unread() < size)
      sched_yield();
    look(target, size);
    read += size;
  }
};

} // namespace
} // namespace dtc::nccl

using namespace dtc::nccl;

/// A communicator: the boxes of all pairs of ranks.
struct ncclComm {
  std::string name;
  int ranks, self, splits = 0, room;
  bool blocks;
  std::atomic<int> polls = 2; ///< that are answered "in progress" before it is set up, or what it was given is
  std::thread::id asker;      ///< the thread that may ask one that does not block: the first to ask
  std::vector<dtc::cuda::DevicePointer> taken; ///< memory of the GPU
  const std::byte *shown = nullptr, *shownEnd = nullptr;
  Box *boxes;

  ncclComm(std::string path, int ranks, int self, const Config &config)
      : name(std::move(path)), ranks(ranks), self(self),
        room(config.maximumBlocks == INT_MIN ? DefaultBlocks : config.maximumBlocks), blocks(config.blocking != 0) {
    int file = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
    size_t bytes = sizeof(Box) * size_t(ranks) * size_t(ranks);
    if (file < 0 || ftruncate(file, off_t(bytes)) != 0)
      fail("no shared memory");
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED)
      fail("no shared memory");
    boxes = static_cast<Box *>(memory);
    gather(0); // all have it open: its name is no longer needed
    shm_unlink(name.c_str());
  }
  ~ncclComm() {
    munmap(boxes, sizeof(Box) * size_t(ranks) * size_t(ranks));
    for (dtc::cuda::DevicePointer address : taken)
      find<dtc::cuda::Driver::memFree_fn>("cuMemFree_v2")(address);
  }

  /// Allocates memory of the GPU, of which there may be too little.
  bool take() {
    const char *text = std::getenv("DTC_STAND_IN_NCCL_MEMORY");
    dtc::cuda::DevicePointer address = 0;
    size_t bytes = text ? size_t(std::atoll(text)) : 4096;
    if (find<dtc::cuda::Driver::memAlloc_fn>("cuMemAlloc_v2")(&address, bytes) != 0)
      return false;
    taken.push_back(address);
    return true;
  }

  Box &box(int from, int to) const { return boxes[from * ranks + to]; }

  /// Every rank's value.
  std::vector<int64_t> gather(int64_t value) const {
    std::vector<int64_t> values(ranks);
    for (int peer = 0; peer < ranks; ++peer)
      box(self, peer).put(&value, sizeof value);
    for (int peer = 0; peer < ranks; ++peer)
      box(peer, self).take(&values[peer], sizeof value);
    return values;
  }

  void requireReady() const {
    if (polls > 0)
      fail("a communicator is used before it is set up, or has taken what it was given");
  }

  /// The result of a call that begins something.
  int begin() {
    polls = blocks ? 0 : 2;
    return blocks ? Success : InProgress;
  }
};

namespace {

enum class Kind : int { AllReduce, AllGather, ReduceScatter, Broadcast, Send, Recv };

/// What peers must agree on.
struct Header {
  Kind kind;
  int type, operation; ///< or the root
  size_t count;
  bool operator==(const Header &) const = default;
};

struct Call {
  Header header;
  const void *input;
  void *output;
  int peer; ///< of a send or receive
  ncclComm *comm;
  CUstream_st *stream;
};

/// The calls of one group that are given to a stream.
struct Work {
  std::vector<Call> calls;
  uint64_t number = 0; ///< from 1, of those that have an order
  bool isTransfer = false;
  bool hasBegun = false, isSent = false;
  size_t received = 0; ///< how many of the calls have what they wait for
  uint64_t end = 0;    ///< of what a transfer has put into its box
};

thread_local int depth = 0;
thread_local std::vector<Call> group;

size_t widthOf(int type) { return type == Int32 || type == Float32 ? 4 : type == Float16 || type == Bfloat16 ? 2 : 1; }

std::byte *reach(const void *address, size_t bytes) {
  static auto *function = find<dtc_stand_in_reach_fn>("dtc_stand_in_reach");
  void *found = function(reinterpret_cast<dtc::cuda::DevicePointer>(address), bytes);
  if (!found && bytes > 0)
    fail("operands that are not of the GPU's memory");
  return static_cast<std::byte *>(found);
}

double load(int type, const std::byte *from) {
  uint32_t bits = 0;
  std::memcpy(&bits, from, widthOf(type));
  if (type == Float32)
    return std::bit_cast<float>(bits);
  if (type == Bfloat16)
    return std::bit_cast<float>(bits << 16);
  if (type == Float16)
    return static_cast<double>(std::bit_cast<_Float16>(uint16_t(bits)));
  if (type == Int32)
    return static_cast<int32_t>(bits);
  fail("a reduction of a type that is only moved");
}

void store(int type, std::byte *to, double value) {
  uint32_t bits = std::bit_cast<uint32_t>(float(value));
  if (type == Bfloat16)
    bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  else if (type == Float16)
    bits = std::bit_cast<uint16_t>(static_cast<_Float16>(value));
  else if (type == Int32)
    bits = uint32_t(int32_t(int64_t(value)));
  std::memcpy(to, &bits, widthOf(type));
}

/// The part of a call's input that goes to a peer.
std::pair<const std::byte *, size_t> partFor(const Call &call, int peer) {
  size_t bytes = call.header.count * widthOf(call.header.type);
  if (call.header.kind == Kind::ReduceScatter)
    return {reach(call.input, bytes * size_t(call.comm->ranks)) + bytes * size_t(peer), bytes};
  return {reach(call.input, bytes), bytes};
}

/// To whom a call sends.
std::vector<int> targetsOf(const Call &call) {
  std::vector<int> peers;
  bool sends =
      call.header.kind == Kind::Broadcast ? call.comm->self == call.header.operation : call.header.kind != Kind::Recv;
  for (int peer = 0; sends && peer < call.comm->ranks; ++peer)
    if (call.header.kind != Kind::Send || peer == call.peer)
      peers.push_back(peer);
  return peers;
}

/// Puts all that calls send into the boxes, if there is room for all of it.
bool send(const std::vector<Call> &calls) {
  std::map<Box *, uint64_t> needed;
  for (const Call &call : calls)
    for (int peer : targetsOf(call))
      needed[&call.comm->box(call.comm->self, peer)] += sizeof(Header) + partFor(call, peer).second;
  for (auto [box, bytes] : needed)
    if (bytes > Box::Capacity)
      fail("messages of " + std::to_string(bytes) + " bytes are more than it has room for");
    else if (bytes > Box::Capacity - box->unread())
      return false;
  for (const Call &call : calls)
    for (int peer : targetsOf(call)) {
      auto [bytes, size] = partFor(call, peer);
      Box &box = call.comm->box(call.comm->self, peer);
      box.put(&call.header, sizeof(Header));
      box.put(bytes, size);
    }
  return true;
}

/// Whether all that a call needs of a peer has come.
bool isThere(const Call &call, int peer) {
  const Box &box = call.comm->box(peer, call.comm->self);
  if (box.unread() < sizeof(Header))
    return false;
  Header theirs{}, ours = call.header;
  box.look(&theirs, sizeof theirs);
  if (ours.kind == Kind::Recv)
    ours.kind = Kind::Send;
  if (theirs != ours)
    fail("ranks " + std::to_string(call.comm->self) + " and " + std::to_string(peer) + " start different commands");
  return box.unread() >= sizeof(Header) + ours.count * widthOf(ours.type);
}

bool receivesFrom(const Call &call, int peer) {
  return call.header.kind == Kind::Broadcast ? peer == call.header.operation
                                             : call.header.kind != Kind::Recv || peer == call.peer;
}

bool isThere(const Call &call) {
  if (call.header.kind == Kind::Send)
    return true;
  for (int peer = 0; peer < call.comm->ranks; ++peer)
    if (receivesFrom(call, peer) && !isThere(call, peer))
      return false;
  return true;
}

std::vector<std::byte> receive(const Call &call, int peer) {
  Box &box = call.comm->box(peer, call.comm->self);
  Header theirs{};
  box.take(&theirs, sizeof theirs);
  std::vector<std::byte> bytes(call.header.count * widthOf(call.header.type));
  box.take(bytes.data(), bytes.size());
  return bytes;
}

/// Element by element over all ranks' terms.
void combine(const Call &call, const std::vector<std::vector<std::byte>> &terms, std::byte *output) {
  int type = call.header.type;
  for (size_t at = 0, width = widthOf(type); at < terms[0].size(); at += width) {
    double result = load(type, &terms[0][at]);
    for (size_t i = 1; i < terms.size(); ++i) {
      double term = load(type, &terms[i][at]);
      if (call.header.operation == Max)
        result = std::max(result, term);
      else
        result = type == Int32 ? result + term : double(float(result) + float(term));
    }
    store(type, output + at, result);
  }
}

void finish(const Call &call) {
  size_t bytes = call.header.count * widthOf(call.header.type);
  if (call.header.kind == Kind::Send)
    return;
  if (call.header.kind == Kind::Recv || call.header.kind == Kind::Broadcast) {
    std::vector<std::byte> got = receive(call, call.header.kind == Kind::Recv ? call.peer : call.header.operation);
    std::ranges::copy(got, reach(call.output, bytes)); // there may be nothing, at no address
    return;
  }
  if (call.header.kind == Kind::AllGather) {
    std::byte *output = reach(call.output, bytes * size_t(call.comm->ranks));
    for (int peer = 0; peer < call.comm->ranks; ++peer)
      std::ranges::copy(receive(call, peer), output + bytes * size_t(peer));
    return;
  }
  std::vector<std::vector<std::byte>> terms;
  for (int peer = 0; peer < call.comm->ranks; ++peer)
    terms.push_back(receive(call, peer));
  combine(call, terms, reach(call.output, bytes));
}

/// How many of the ordered groups of calls were enqueued and are done, and the blocks of those in progress. A lone send
/// or receive has an order only if NCCL is asked for one: it may wait for what is enqueued after it.
uint64_t given = 0, done = 0;
int blocks = 0;

bool keepsOrder() {
  const char *asked = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  return version() >= 22600 && asked && std::strcmp(asked, "1") == 0;
}

/// Occupies its blocks of the GPU, where it waits for peers.
bool begin(Work &work) {
  if (work.number && done + 1 != work.number) {
    if (!keepsOrder())
      fail("two commands are in flight without an order between them");
    return false;
  }
  if (work.isTransfer && !find<dtc_stand_in_may_wait_fn>("dtc_stand_in_may_wait")())
    fail("a send or receive that waits holds up the GPU's other work: code may be loaded late, or streams share a "
         "queue");
  blocks += work.calls[0].comm->room;
  if (blocks > BlocksOfGpu)
    fail("commands in flight have " + std::to_string(blocks) + " blocks, more than a GPU need have room for");
  return work.hasBegun = true;
}

/// Whether a group of calls is done. A message is gone when its peer has it: NCCL buffers only small ones.
bool attempt(Work &work) {
  if (!work.hasBegun && !begin(work))
    return false;
  if (!work.isSent) {
    if (!send(work.calls))
      return false;
    work.isSent = true;
    const Call &call = work.calls[0];
    if (call.header.kind == Kind::Send)
      work.end = call.comm->box(call.comm->self, call.peer).written.load();
  }
  for (; work.received < work.calls.size(); ++work.received) {
    if (!isThere(work.calls[work.received]))
      return false;
    finish(work.calls[work.received]);
  }
  const Call &call = work.calls[0];
  if (work.isTransfer && call.header.kind == Kind::Send &&
      call.comm->box(call.comm->self, call.peer).read.load() < work.end)
    return false;
  blocks -= call.comm->room;
  done += work.number != 0;
  return true;
}

int closeGroup() {
  if (group.empty())
    return Success;
  for (const Call &call : group)
    if (call.comm != group[0].comm || call.stream != group[0].stream)
      fail("a group of calls for several communicators or streams");
  ncclComm &comm = *group[0].comm;
  if (comm.taken.size() == 1 && !comm.take())
    return UnhandledCudaError;
  auto *work = new Work{.calls = std::move(group)};
  group.clear();
  Kind kind = work->calls[0].header.kind;
  work->isTransfer = work->calls.size() == 1 && (kind == Kind::Send || kind == Kind::Recv);
  if (!work->isTransfer || keepsOrder())
    work->number = ++given;
  static auto *attempt = find<dtc_stand_in_attempt_fn>("dtc_stand_in_attempt");
  attempt(
      work->calls.front().stream,
      [](void *argument) {
        return int(::attempt(*static_cast<Work *>(argument)) ? dtc::cuda::Success : dtc::cuda::NotReady);
      },
      work, [](void *argument) { delete static_cast<Work *>(argument); });
  return comm.begin();
}

int give(Call call) {
  call.comm->requireReady();
  for (const void *address : {call.input, static_cast<const void *>(call.output)})
    if (address && (address < call.comm->shown || address >= call.comm->shownEnd))
      fail("a command uses memory that was not shown");
  group.push_back(call);
  return depth > 0 ? int(Success) : closeGroup();
}

} // namespace

extern "C" {

int ncclGetVersion(int *result) {
  *result = version();
  return Success;
}

int ncclGetUniqueId(UniqueId *id) {
  static std::atomic<int> count = 0;
  std::snprintf(id->bytes, sizeof id->bytes, "/dtc-stand-in-nccl-%d-%d", getpid(), count++);
  return Success;
}

int ncclCommInitRankConfig(Comm *comm, int ranks, UniqueId id, int rank, Config *config) {
  if (config->magic != 0xcafebeef)
    fail("a configuration that is none");
  *comm = new ncclComm(id.bytes, ranks, rank, *config);
  return (*comm)->take() ? (*comm)->begin() : int(UnhandledCudaError);
}

/// The parent's setting decides how this ends.
int ncclCommSplit(Comm comm, int color, int key, Comm *part, Config *config) {
  comm->requireReady();
  std::vector<int64_t> colors = comm->gather(color), keys = comm->gather(key);
  if (color < 0) {
    ++comm->splits;
    *part = nullptr;
    return comm->begin();
  }
  int ranks = 0, self = 0;
  for (int peer = 0; peer < comm->ranks; ++peer) {
    ranks += colors[peer] == color;
    self += colors[peer] == color && keys[peer] < key;
  }
  *part = new ncclComm(comm->name + "-" + std::to_string(comm->splits++) + "-" + std::to_string(color), ranks, self,
                       *config);
  return (*part)->take() ? comm->begin() : int(UnhandledCudaError);
}

int ncclCommGetAsyncError(Comm comm, int *state) {
  // At any time, not only while something is in progress: that is so short that hardly any test would hit it.
  if (!comm->blocks && comm->asker == std::thread::id())
    comm->asker = std::this_thread::get_id();
  if (!comm->blocks && comm->asker != std::this_thread::get_id())
    fail("two threads ask a communicator that does not block");
  *state = comm->polls > 0 ? int(InProgress) : int(Success);
  comm->polls = std::max(0, comm->polls - 1);
  return Success;
}

int ncclMemAlloc(void **address, size_t bytes) {
  dtc::cuda::DevicePointer pointer = 0;
  if (find<dtc::cuda::Driver::memAlloc_fn>("cuMemAlloc_v2")(&pointer, bytes) != 0)
    return UnhandledCudaError;
  *address = reinterpret_cast<void *>(pointer); // NOLINT(performance-no-int-to-ptr)
  reachable[*address] = bytes;
  return Success;
}
int ncclMemFree(void *address) {
  if (reachable.erase(address) == 0)
    fail("memory is given back that it did not give");
  return find<dtc::cuda::Driver::memFree_fn>("cuMemFree_v2")(reinterpret_cast<uintptr_t>(address)) ? UnhandledCudaError
                                                                                                   : Success;
}

int ncclCommRegister(const Comm comm, void *memory, size_t bytes, void **handle) {
  if (comm->shown)
    fail("memory is shown twice");
  if (auto found = reachable.find(memory); found == reachable.end() || found->second < bytes)
    fail("memory is shown that peers cannot reach: it is not ncclMemAlloc's");
  comm->shown = static_cast<const std::byte *>(memory);
  comm->shownEnd = comm->shown + bytes;
  *handle = comm;
  return Success;
}
int ncclCommDeregister(const Comm comm, void *handle) {
  if (handle != comm || !comm->shown)
    fail("memory is hidden that was not shown");
  comm->shown = comm->shownEnd = nullptr;
  return Success;
}

int ncclCommDestroy(Comm comm) {
  if (comm->shown)
    fail("memory is still shown");
  delete comm;
  return Success;
}
int ncclCommAbort(Comm) { return Success; } // running work still uses it

const char *ncclGetErrorString(int) { return "an error"; }
const char *ncclGetLastError(Comm) { return ""; }

int ncclAllReduce(const void *in, void *out, size_t count, int type, int operation, Comm comm, Stream stream) {
  return give({{Kind::AllReduce, type, operation, count}, in, out, 0, comm, stream});
}
int ncclAllGather(const void *in, void *out, size_t count, int type, Comm comm, Stream stream) {
  return give({{Kind::AllGather, type, 0, count}, in, out, 0, comm, stream});
}
int ncclReduceScatter(const void *in, void *out, size_t count, int type, int operation, Comm comm, Stream stream) {
  return give({{Kind::ReduceScatter, type, operation, count}, in, out, 0, comm, stream});
}
int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, Comm comm, Stream stream) {
  return give({{Kind::Broadcast, type, root, count}, in, out, 0, comm, stream});
}
int ncclSend(const void *in, size_t count, int type, int peer, Comm comm, Stream stream) {
  return give({{Kind::Send, type, 0, count}, in, nullptr, peer, comm, stream});
}
int ncclRecv(void *out, size_t count, int type, int peer, Comm comm, Stream stream) {
  return give({{Kind::Recv, type, 0, count}, nullptr, out, peer, comm, stream});
}

int ncclGroupStart() {
  ++depth;
  return Success;
}
int ncclGroupEnd() {
  if (--depth < 0)
    fail("the end of a group of calls that did not begin");
  return depth > 0 ? int(Success) : closeGroup();
}

} // extern "C"
