#include "runtime/program/start/connection.h"

#include "runtime/comm/hosts/hosts.h"
#include "runtime/comm/nccl/nccl.h"
#include "runtime/comm/nccl/own_gpus.h"
#include "runtime/comm/staged.h"
#include "runtime/executor/executor.h"
#include "runtime/job/member.h"
#include "runtime/meeting/job_file.h"

#include <fmt/format.h>
#include <limits>
#include <sys/stat.h>
#include <utility>

namespace dtc {

Connection::Connection(RankIdentity ofRank, const abi::Manifest &manifest, Options given)
    : identity(std::move(ofRank)), manifest(manifest), options(std::move(given)), meetingPlace(identity.rendezvous) {
  if (identity.hasSeveralHosts())
    joinJob();
}

Connection::~Connection() {
  if (membership)
    membership->show(nullptr);
}

static DescribePlace placesOf(const abi::Manifest &manifest) {
  return [&manifest](int rank, const CommandPlace &place) { return describePlace(manifest, rank, place); };
}

/// Ranks of different launchers on one machine do not share memory.
static std::string hostOf(const std::string &meetingPlace) {
  struct stat status;
  if (meetingPlace.empty() || stat(meetingPlace.c_str(), &status) != 0)
    return job::hostKey();
  return fmt::format("{} {}:{}", job::hostKey(), status.st_dev, status.st_ino);
}

void Connection::joinJob() {
  job::Key token = job::tokenKey(job::readToken(processEnvironment()));
  job::Endpoint place = job::parseEndpoint(identity.server, "the address where the ranks meet");
  bool serves = !identity.hasServer && identity.rank == 0;
  std::string interface = processEnvironment()("DTC_INTERFACE").value_or("");
  if (serves) {
    job::ServerOptions serving;
    serving.listen = place = job::reachableEndpoint(place, interface, "");
    serving.token = token;
    serving.world = identity.world;
    serving.generation = identity.generation;
    serving.patience = options.patience;
    serving.describe = placesOf(manifest);
    server = std::make_unique<job::Server>(std::move(serving));
  }
  job::MemberOptions member;
  member.server = place;
  member.token = token;
  member.rank = identity.rank;
  member.world = identity.world;
  member.generation = identity.generation;
  member.program = options.program;
  member.host = hostOf(meetingPlace);
  member.interface = interface;
  member.patience = options.patience;
  member.serverRank = identity.hasServer ? -1 : 0;
  membership = job::joinJob(member);
  if (meetingPlace.empty())
    meetingPlace = fmt::format("{}/{}-{}", JobFile::directoryIn("/dev/shm"), membership->name(),
                               membership->hosts()[identity.rank]);
}

std::unique_ptr<Communicator> Connection::join(Arena &arena) {
  if (identity.world == 1)
    return alone.join(0, arena);
  if (membership)
    return joinHosts(arena);
  SharedMemoryOptions local;
  local.path = meetingPlace;
  local.rank = identity.rank;
  local.size = identity.world;
  local.connectTimeout = options.patience.start;
  local.heart = {options.patience.watchdog, placesOf(manifest)};
  return connectSharedMemory(local, arena);
}

std::unique_ptr<Communicator> Connection::joinHosts(Arena &arena) {
  SharedMemoryOptions local;
  local.path = meetingPlace; // the job's server decides about silent ranks
  HostsOptions transport;
  if (options.verifyTransfers)
    transport.hashedUpTo = std::numeric_limits<double>::infinity();
  std::unique_ptr<Communicator> result =
      connectHosts(membership, local, arena, groupsOf(manifest, identity.rank), transport);
  membership->show(&result->whereabouts());
  return result;
}

void Connection::join(CudaDevice &gpu) {
  if (options.shareGpu || identity.world == 1)
    return;
  hosts = join(stage.emplace(0, 0));
  requireOwnGpus(*hosts, gpu.getGpu());
  auto joined =
      std::make_unique<NcclCommunicator>(*hosts, gpu, manifest, NcclCommunicator::Options{.onFailure = options.end});
  nccl = joined.get();
  communicator = std::move(joined);
}

void Connection::connect(CudaDevice *gpu, Memory &memory) {
  if (!gpu) {
    communicator = join(*memory.host());
  } else if (nccl) {
    nccl->show(memory);
  } else {
    Arena &shown = stage.emplace(memory.bytes(), memory.sharedBegin());
    communicator = std::make_unique<StagedCommunicator>(*gpu, memory, shown, join(shown));
  }
}

} // namespace dtc
