#include "test/conformance/ranks.h"

#include "runtime/comm/local/in_process.h"
#include "runtime/comm/local/shared_memory.h"
#include "runtime/comm/staged.h"
#include "runtime/device/cpu_device.h"
#include "runtime/job/member.h"
#include "runtime/job/secret.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <memory>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace dtc::test {

std::ostream &operator<<(std::ostream &stream, Bootstrap bootstrap) {
  constexpr const char *Names[] = {"Threads", "Processes", "NamedProcesses", "Staged",
                                   "Gpus",    "Hosts",     "TwoHosts",       "JobProcesses"};
  return stream << Names[static_cast<int>(bootstrap)];
}

static std::string describe(const std::function<void()> &run) {
  try {
    run();
    return "";
  } catch (const Error &error) {
    return "exit code " + std::to_string(static_cast<int>(error.exitCode())) + ": " + error.what();
  } catch (const std::exception &error) {
    return error.what();
  }
}

//===----------------------------------------------------------------------===//
// Processes
//===----------------------------------------------------------------------===//

ProcessJob::ProcessJob(const JobShape &shape, const RankBody &body, const Join &join) {
  for (int rank = 0; rank < shape.ranks; ++rank) {
    int ends[2];
    if (pipe(ends) != 0)
      throw Error("no pipe");
    pid_t child = fork();
    if (child == 0) {
      std::string failure = describe([&] {
        Arena arena(shape.arenaBytes, shape.sharedBegin);
        auto communicator = join(rank, arena);
        body(*communicator, arena);
      });
      ssize_t written = write(ends[1], failure.data(), failure.size());
      _exit(written < 0);
    }
    close(ends[1]);
    children.push_back(child);
    pipes.push_back(ends[0]);
  }
}

ProcessJob::ProcessJob(const JobShape &shape, const RankBody &body, const std::string &path, int milliseconds)
    : ProcessJob(shape, body, [&](int rank, Arena &arena) {
        return connectSharedMemory({path, rank, shape.ranks, std::chrono::milliseconds(milliseconds)}, arena);
      }) {}

void ProcessJob::kill(int rank) const { ::kill(children[rank], SIGKILL); }

std::vector<std::string> ProcessJob::join() {
  std::vector<std::string> failures;
  // All reports first: no child is reaped while others still run, as under a launcher that is busy elsewhere.
  for (int end : pipes) {
    std::string text;
    char buffer[512];
    for (ssize_t count; (count = read(end, buffer, sizeof(buffer))) > 0;)
      text.append(buffer, count);
    close(end);
    failures.push_back(text);
  }
  for (size_t rank = 0; rank < children.size(); ++rank) {
    int status = 0;
    waitpid(children[rank], &status, 0);
    if (WIFSIGNALED(status))
      failures[rank] = "signal " + std::to_string(WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0 && failures[rank].empty()) // a rank that ended without a report
      failures[rank] = "exit code " + std::to_string(WEXITSTATUS(status));
  }
  children.clear();
  return failures;
}

ProcessJob::~ProcessJob() {
  if (children.empty())
    return;
  for (size_t rank = 0; rank < children.size(); ++rank)
    kill(static_cast<int>(rank));
  join();
}

std::string freshName() {
  static int count = 0;
  return "/dev/shm/dtc-test-" + std::to_string(getpid()) + "/" + std::to_string(count++);
}

/// The server starts after the ranks, which get its port: no rank may be forked from a process that has threads.
HostsJob::HostsJob(const std::vector<int> &hosts, const JobShape &shape, const RankBody &body) {
  std::atomic<int> *port = sharedFlags();
  job::MemberOptions options;
  options.token = job::randomKey();
  options.world = shape.ranks;
  options.program = "conformance";
  std::string meeting = freshName();
  ranks = std::make_unique<ProcessJob>(shape, body, [&](int rank, Arena &arena) {
    while (*port == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    options.server = {"127.0.0.1", *port};
    options.rank = rank;
    options.host = "host " + std::to_string(hosts[rank]);
    SharedMemoryOptions local;
    local.path = meeting + "-" + std::to_string(hosts[rank]);
    std::vector<Group> groups(abi::MaximumChannels); // all ranks, as a body may use any of them
    for (uint32_t channel = 0; channel < groups.size(); ++channel) {
      for (int member = 0; member < shape.ranks; ++member)
        groups[channel].ranks.push_back(member);
      groups[channel].self = rank;
      groups[channel].channel = channel;
    }
    return connectHosts(job::joinJob(options), local, arena, groups);
  });
  job::ServerOptions serving;
  serving.listen = {"127.0.0.1", 0};
  serving.token = options.token;
  serving.world = options.world;
  server = std::make_unique<job::Server>(std::move(serving));
  *port = server->endpoint().port;
}

HostsJob::~HostsJob() { ranks.reset(); }

//===----------------------------------------------------------------------===//
// Any bootstrap
//===----------------------------------------------------------------------===//

static std::vector<std::string> runThreads(const JobShape &shape, const RankBody &body, const Join &join) {
  std::vector<std::string> failures(shape.ranks);
  // An arena outlives all ranks: when one fails, others may still be reading it.
  std::vector<std::unique_ptr<Arena>> arenas;
  for (int rank = 0; rank < shape.ranks; ++rank)
    arenas.push_back(std::make_unique<Arena>(shape.arenaBytes, shape.sharedBegin));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < shape.ranks; ++rank)
    threads.emplace_back([&, rank] {
      failures[rank] = describe([&] {
        auto communicator = join(rank, *arenas[rank]);
        body(*communicator, *arenas[rank]);
      });
    });
  for (std::thread &thread : threads)
    thread.join();
  return failures;
}

static std::vector<std::string> runStaged(const JobShape &shape, const RankBody &body) {
  CpuDevice device(1);
  std::vector<std::unique_ptr<Arena>> stages;
  for (int rank = 0; rank < shape.ranks; ++rank)
    stages.push_back(std::make_unique<Arena>(shape.arenaBytes, shape.sharedBegin));
  InProcessJob job(shape.ranks);
  return runThreads(shape, body, [&](int rank, Arena &arena) {
    return std::make_unique<StagedCommunicator>(device, arena, *stages[rank], job.join(rank, *stages[rank]));
  });
}

std::vector<std::string> runHosts(const FakeJob &job, const std::vector<int> &hosts, const JobShape &shape,
                                  const HostsOptions &options, const RankBody &body) {
  std::vector<std::vector<int>> ranks(hosts.size()); // of each host
  for (int rank = 0; rank < shape.ranks; ++rank)
    ranks[hosts[rank]].push_back(rank);
  std::vector<std::unique_ptr<InProcessJob>> locals;
  for (const std::vector<int> &names : ranks)
    locals.push_back(std::make_unique<InProcessJob>(static_cast<int>(names.size()), names));
  return runThreads(shape, body, [&](int rank, Arena &arena) {
    const std::vector<int> &names = ranks[hosts[rank]];
    auto place = static_cast<int>(std::find(names.begin(), names.end(), rank) - names.begin());
    return std::make_unique<HostsCommunicator>(job.join(rank), locals[hosts[rank]]->joinArenas(place, arena), options);
  });
}

/// Segments are small, so that large operands span many.
static std::vector<std::string> runHosts(const std::vector<int> &hosts, const JobShape &shape, const RankBody &body) {
  return runHosts(FakeJob(hosts), hosts, shape, {.segmentBytes = 12 << 10}, body);
}

std::vector<std::string> runRanks(Bootstrap bootstrap, const JobShape &shape, const RankBody &body) {
  if (bootstrap == Bootstrap::Threads) {
    InProcessJob job(shape.ranks);
    return runThreads(shape, body, [&](int rank, Arena &arena) { return job.join(rank, arena); });
  }
  if (bootstrap == Bootstrap::Hosts)
    return runHosts(hostOfItsOwn(shape.ranks), shape, body);
  if (bootstrap == Bootstrap::TwoHosts)
    return runHosts(twoHosts(shape.ranks), shape, body);
  if (bootstrap == Bootstrap::Staged)
    return runStaged(shape, body);
  if (bootstrap == Bootstrap::JobProcesses)
    return HostsJob(twoHosts(shape.ranks), shape, body).processes().join();
  if (bootstrap == Bootstrap::NamedProcesses)
    return ProcessJob(shape, body, freshName()).join();
  Rendezvous rendezvous(shape.ranks);
  return ProcessJob(shape, body, rendezvous.path()).join();
}

std::atomic<int> *sharedFlags() {
  void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return static_cast<std::atomic<int> *>(page);
}

} // namespace dtc::test
