#include "runtime/comm/shared_memory.h"

#include "runtime/abi/error.h"
#include "runtime/comm/control_block.h"
#include "runtime/comm/peer_memory.h"

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

//===----------------------------------------------------------------------===//
// Rendezvous
//===----------------------------------------------------------------------===//

Rendezvous::Rendezvous() : file(memfd_create("dtc-job", 0)) {
  if (file < 0)
    throwSystemError("cannot make the memory that the ranks share");
}

Rendezvous::~Rendezvous() { close(file); }

std::string Rendezvous::path() const { return "/proc/self/fd/" + std::to_string(file); }

//===----------------------------------------------------------------------===//
// Connecting
//===----------------------------------------------------------------------===//

namespace {

/// What a rank holds of the job's file. Destroyed when its communicator is.
class JobFile {
public:
  /// Opens the file, takes the rank's lock and maps the control block.
  explicit JobFile(const SharedMemoryOptions &options);
  ~JobFile();

  void *control() const { return controlMapping; }
  int descriptor() const { return file; }
  bool isLocked(int rank) const;
  /// Makes room for the shared parts of all arenas.
  void grow(uint64_t bytes);
  std::byte *addPeer(uint64_t offset, const ArenaNotice &notice);
  /// Removes the file's name, if it has one.
  void removeName() const noexcept;

private:
  JobFile(const std::string &path, uint64_t controlBytes);
  void lockOwnByte(int rank) const;

  std::string path;
  uint64_t controlBytes;
  int file;
  void *controlMapping = MAP_FAILED;
  struct Peer {
    std::byte *base;
    uint64_t mappedBegin, mappedBytes;
  };
  std::vector<Peer> peers;
};

} // namespace

JobFile::JobFile(const std::string &path, uint64_t controlBytes)
    : path(path), controlBytes(controlBytes), file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  if (file < 0)
    throwSystemError("cannot open the memory that the ranks share, " + path);
}

JobFile::JobFile(const SharedMemoryOptions &options) : JobFile(options.path, ControlBlock::bytesFor(options.size)) {
  lockOwnByte(options.rank);
  struct stat status;
  if (fstat(file, &status) == 0 && uint64_t(status.st_size) < controlBytes)
    grow(controlBytes);
  controlMapping = mmap(nullptr, controlBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (controlMapping == MAP_FAILED)
    throwSystemError("cannot map " + path);
}

JobFile::~JobFile() {
  for (const Peer &peer : peers)
    unmapPeer(peer.base, peer.mappedBegin, peer.mappedBytes);
  if (controlMapping != MAP_FAILED)
    munmap(controlMapping, controlBytes);
  close(file);
}

void JobFile::lockOwnByte(int rank) const {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  if (fcntl(file, F_OFD_SETLK, &lock) == 0)
    return;
  if (errno == EAGAIN || errno == EACCES)
    throw Error(ExitCode::BadInput,
                "two processes were started as rank " + std::to_string(rank) + " of one job (" + path + ")");
  throwSystemError("cannot lock " + path);
}

bool JobFile::isLocked(int rank) const {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return fcntl(file, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

void JobFile::grow(uint64_t bytes) {
  if (ftruncate(file, static_cast<off_t>(bytes)) != 0)
    throwSystemError("cannot grow the memory that the ranks share to " + std::to_string(bytes) + " bytes");
}

std::byte *JobFile::addPeer(uint64_t offset, const ArenaNotice &notice) {
  std::byte *base = mapPeer(file, offset, notice.mappedBegin, notice.mappedBytes);
  peers.push_back({base, notice.mappedBegin, notice.mappedBytes});
  return base;
}

void JobFile::removeName() const noexcept {
  if (path.rfind("/proc/", 0) != 0)
    unlink(path.c_str());
}

/// Lays all shared parts one after the other into the file and maps them.
static std::vector<std::byte *> mapArenas(JobFile &job, ControlBlock &control, Arena &arena,
                                          const std::vector<int> &everybody) {
  std::vector<uint64_t> offsets;
  uint64_t end = (ControlBlock::bytesFor(control.ranks()) + Arena::Alignment - 1) / Arena::Alignment * Arena::Alignment;
  for (int rank : everybody) {
    offsets.push_back(end);
    end += control.arenaOf(rank).mappedBytes;
  }
  if (control.ranks() == 1)
    return {arena.base()}; // nobody to share with: private memory gets huge pages more readily
  if (control.self() == 0)
    job.grow(end);
  control.synchronize(everybody);
  arena.mapShared(job.descriptor(), offsets[control.self()]);
  std::vector<std::byte *> bases;
  bases.reserve(everybody.size());
  for (int rank : everybody)
    bases.push_back(rank == control.self() ? arena.base() : job.addPeer(offsets[rank], control.arenaOf(rank)));
  return bases;
}

std::unique_ptr<Communicator> connectSharedMemory(const SharedMemoryOptions &options, Arena &arena) {
  auto job = std::make_shared<JobFile>(options);
  ControlBlock control(job->control(), options.size, options.rank, [job](int rank) { return job->isLocked(rank); });
  try {
    control.join({arena.bytes(), arena.sharedBegin(), arena.mappedBegin(), arena.mappedBytes(), nullptr});
    control.awaitAll(options.connectTimeout);
    job->removeName(); // all have opened it
    std::vector<int> everybody(options.size);
    for (int rank = 0; rank < options.size; ++rank)
      everybody[rank] = rank;
    std::vector<std::byte *> bases = mapArenas(*job, control, arena, everybody);
    return std::make_unique<PeerMemory>(std::move(control), std::move(bases), job);
  } catch (const std::exception &error) {
    control.fail(options.rank, error.what());
    job->removeName();
    throw;
  }
}

} // namespace dtc
