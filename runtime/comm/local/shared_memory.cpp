#include "runtime/comm/local/shared_memory.h"

#include "runtime/meeting/job_file.h"
#include "runtime/support/error.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dtc {

[[noreturn]] static void throwSystemError(const std::string &what) {
  int number = errno;
  throw Error(what + ": " + std::strerror(number));
}

static void *mapControl(int file, int ranks) {
  void *memory = mmap(nullptr, ControlBlock::bytesFor(ranks), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED)
    throwSystemError("cannot map the memory in which the ranks meet");
  return memory;
}

//===----------------------------------------------------------------------===//
// Rendezvous
//===----------------------------------------------------------------------===//

static constexpr int NoRank = -1;

Rendezvous::Rendezvous(int ranks, std::vector<int> names)
    : ranks(ranks), names(std::move(names)), file(memfd_create("dtc-job", 0)) {
  if (file < 0)
    throwSystemError("cannot make the memory that the ranks share");
  if (ftruncate(file, static_cast<off_t>(ControlBlock::bytesFor(ranks))) != 0) {
    int number = errno;
    close(file);
    throw Error(std::string("cannot make the memory that the ranks share: ") + std::strerror(number));
  }
  memory = mapControl(file, ranks);
}

Rendezvous::~Rendezvous() {
  munmap(memory, ControlBlock::bytesFor(ranks));
  close(file);
}

std::string Rendezvous::path() const { return "/proc/self/fd/" + std::to_string(file); }

ControlBlock Rendezvous::control() const {
  return ControlBlock(memory, ranks, NoRank, [](int) { return true; }, names);
}

void reportFailure(const std::string &path, int rank, int ranks, int name, std::string_view words) noexcept {
  if (path.rfind("/proc/", 0) != 0)
    return;
  int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0)
    return;
  try {
    struct stat status;
    if (fstat(file, &status) == 0 && uint64_t(status.st_size) >= ControlBlock::bytesFor(ranks)) {
      ControlBlock control(mapControl(file, ranks), ranks, rank, [](int) { return true; });
      if (words.empty())
        control.resign();
      else
        control.fail(name, words);
    }
  } catch (const std::exception &) { // the launcher still sees the exit code
  }
  close(file);
}

//===----------------------------------------------------------------------===//
// Connecting
//===----------------------------------------------------------------------===//

namespace {

/// A rank's resources in the job. Destroyed with its communicator.
class Job {
public:
  explicit Job(const SharedMemoryOptions &options)
      : file(options.path, options.rank), controlBytes(ControlBlock::bytesFor(options.size)) {
    file.grow(controlBytes, /*allocate=*/true);
    controlMapping = mapControl(file.descriptor(), options.size);
  }
  ~Job() {
    heart.reset();
    for (auto [base, bytes] : mapped)
      unmapPeer(base, 0, bytes);
    munmap(controlMapping, controlBytes);
  }
  Job(const Job &) = delete;
  Job &operator=(const Job &) = delete;

  void *control() const { return controlMapping; }
  /// Maps the file's bytes from `begin` to `end`.
  std::byte *map(uint64_t begin, uint64_t end) {
    std::byte *base = mapPeer(file.descriptor(), begin, 0, end - begin);
    mapped.emplace_back(base, end - begin);
    return base;
  }

  JobFile file;
  std::optional<Heart> heart;

private:
  uint64_t controlBytes;
  void *controlMapping;
  std::vector<std::pair<std::byte *, uint64_t>> mapped;
};

} // namespace

/// Places all shared parts one after another in the file, followed by the stages, and maps them: everything before this
/// rank's part in one mapping, and everything after it in another.
static void mapArenas(Job &job, Arena &arena, const std::vector<int> &everybody, SharedArenas &mapped) {
  ControlBlock &control = mapped.control;
  std::vector<uint64_t> offsets;
  uint64_t end = (ControlBlock::bytesFor(control.ranks()) + Arena::Alignment - 1) / Arena::Alignment * Arena::Alignment;
  for (int rank : everybody) {
    offsets.push_back(end);
    end += control.arenaOf(rank).mappedBytes;
  }
  if (control.ranks() == 1) { // no peers: private memory gets huge pages more readily
    mapped.bases = {arena.base()};
    return;
  }
  uint64_t stagesBegin = end;
  if (control.isPartOfJob())
    end += control.ranks() * SharedArenas::StagesBytes;
  // Each rank allocates the memory of its own part when it maps it; here it is checked that there is enough.
  if (control.self() == 0)
    job.file.grow(end, /*allocate=*/false);
  control.synchronize(ControlBlock::HostLane, everybody);
  uint64_t own = offsets[control.self()], behind = own + arena.mappedBytes();
  arena.mapShared(job.file.descriptor(), own);
  std::byte *low = job.map(offsets[0], own), *high = job.map(behind, end);
  for (int rank : everybody) {
    if (rank == control.self()) {
      mapped.bases.push_back(arena.base());
    } else {
      std::byte *part = rank < control.self() ? low + (offsets[rank] - offsets[0]) : high + (offsets[rank] - behind);
      mapped.bases.push_back(part - control.arenaOf(rank).mappedBegin);
    }
    if (end > stagesBegin)
      mapped.stages.push_back(high + (stagesBegin + rank * SharedArenas::StagesBytes - behind));
  }
}

SharedArenas joinSharedMemory(const SharedMemoryOptions &options, Arena &arena) {
  auto job = std::make_shared<Job>(options);
  SharedArenas mapped = {ControlBlock(
                             job->control(), options.size, options.rank,
                             [job](int rank) { return job->file.isLocked(rank); }, options.names),
                         {},
                         job};
  ControlBlock &control = mapped.control;
  try {
    control.join({arena.bytes(), arena.sharedBegin(), arena.mappedBegin(), arena.mappedBytes(), nullptr});
    control.awaitAll(options.connectTimeout);
    job->file.removeName(); // all have opened it
    std::vector<int> everybody(options.size);
    for (int rank = 0; rank < options.size; ++rank)
      everybody[rank] = rank;
    mapArenas(*job, arena, everybody, mapped);
    // It has its own view, which does not keep the job alive.
    job->heart.emplace(ControlBlock(
                           job->control(), options.size, options.rank, [](int) { return true; }, options.names),
                       options.heart);
    return mapped;
  } catch (const std::exception &error) {
    control.fail(control.nameOf(options.rank), error.what());
    job->file.removeName();
    throw;
  }
}

std::unique_ptr<Communicator> connectSharedMemory(const SharedMemoryOptions &options, Arena &arena) {
  return std::make_unique<PeerMemory>(joinSharedMemory(options, arena));
}

} // namespace dtc
