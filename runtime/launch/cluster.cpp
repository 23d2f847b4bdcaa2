#include "runtime/launch/cluster.h"

#include "runtime/abi/error.h"
#include "runtime/abi/escape.h"
#include "runtime/job/roster.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <optional>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace dtc {

using namespace std::chrono_literals;
using job::Clock;

/// Starts in a row that may end without a newer checkpoint.
static constexpr int FruitlessStarts = 2;
/// For the other nodes' ranks to end after those of the first have.
static constexpr auto NodeGrace = 5s;

//===----------------------------------------------------------------------===//
// Again and again
//===----------------------------------------------------------------------===//

/// Runs `start` until it ends well, or with what another start would not mend, or too often.
template <typename Start> static int restart(int most, Start start) {
  uint64_t checkpoint = 0;
  int fruitless = 0;
  for (uint32_t generation = 0;; ++generation) {
    SupervisorResult result = start(generation);
    if (!result.words.empty())
      sayAsLauncher(result.words);
    if (!result.record.empty())
      sayAsLauncher("what each rank did last: " + result.record);
    if (result.exitCode == 0 || !result.isLoss || most == 0)
      return result.exitCode;
    fruitless = result.checkpoint > checkpoint ? 0 : fruitless + 1;
    checkpoint = std::max(checkpoint, result.checkpoint);
    if (fruitless >= FruitlessStarts) {
      sayAsLauncher(fmt::format("{} starts in a row ended without a newer checkpoint; not starting again. Look at what "
                                "the ranks said, or checkpoint more often (--set checkpoint_every=N)",
                                fruitless));
      return static_cast<int>(ExitCode::NoProgress);
    }
    if (generation >= uint32_t(most)) {
      sayAsLauncher(fmt::format("not starting again: it was started {} times", generation + 1));
      return result.exitCode;
    }
    sayAsLauncher(fmt::format("starting again ({} of {}){}", generation + 1, most,
                              checkpoint ? fmt::format(" from the checkpoint after step {}", checkpoint)
                                         : "; there is no checkpoint of this run yet"));
  }
}

//===----------------------------------------------------------------------===//
// Launchers on other hosts
//===----------------------------------------------------------------------===//

namespace {
/// Children through which launchers of other hosts are started. They end with us, and with their connections.
class RemoteLaunchers {
public:
  explicit RemoteLaunchers(const ClusterOptions &options) {
    for (size_t i = 0; i < options.hosts.size(); ++i)
      start(options, options.hosts[i], static_cast<int>(i) + 1);
  }
  /// Their launchers have been told to end.
  ~RemoteLaunchers() {
    auto deadline = Clock::now() + 2s;
    for (pid_t child : children) {
      while (waitpid(child, nullptr, WNOHANG) == 0 && Clock::now() < deadline)
        std::this_thread::sleep_for(10ms);
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }
  RemoteLaunchers(const RemoteLaunchers &) = delete;
  RemoteLaunchers &operator=(const RemoteLaunchers &) = delete;

private:
  void start(const ClusterOptions &options, const RemoteHost &host, int node);

  std::vector<pid_t> children;
};
} // namespace

/// The token goes through the child's input: a command line can be read by everybody.
void RemoteLaunchers::start(const ClusterOptions &options, const RemoteHost &host, int node) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error(fmt::format("cannot start a launcher on {}: {}", host.name, std::strerror(errno)));
  std::string command = options.remoteCommand(node, host.ranks);
  pid_t parent = getpid(), child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
      _exit(1);
    setpgid(0, 0); // a Ctrl-C reaches it through us
    dup2(ends[0], STDIN_FILENO);
    std::vector<char *> arguments;
    for (const std::string &word : options.remoteShell)
      arguments.push_back(const_cast<char *>(word.c_str()));
    arguments.push_back(const_cast<char *>(host.name.c_str()));
    arguments.push_back(command.data());
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    tell(stderr, fmt::format("dtc run: cannot run '{}': {}\n", arguments[0], std::strerror(errno)));
    _exit(1);
  }
  close(ends[0]);
  std::string line = options.token + "\n";
  [[maybe_unused]] ssize_t written = write(ends[1], line.data(), line.size());
  close(ends[1]);
  if (child < 0)
    throw Error(fmt::format("cannot start a launcher on {}: {}", host.name, std::strerror(errno)));
  children.push_back(child);
}

//===----------------------------------------------------------------------===//
// The first node
//===----------------------------------------------------------------------===//

static void requireRanks(const std::vector<int> &ranks, int world) {
  int sum = std::accumulate(ranks.begin(), ranks.end(), 0);
  if (sum != world)
    throw Error(ExitCode::BadInput, fmt::format("the program was compiled for {} ranks, but the nodes start {} ({}); "
                                                "say how many each starts with -n",
                                                world, sum, fmt::join(ranks, " + ")));
}

/// How the ranks of other nodes have ended. Those that do not end are left to their launchers, which kill them.
static std::vector<job::NodeResult> awaitNodes(const job::Nodes &nodes, uint32_t generation,
                                               std::chrono::milliseconds grace) {
  for (auto deadline = Clock::now() + grace + NodeGrace; Clock::now() < deadline; std::this_thread::sleep_for(5ms))
    if (std::optional<std::vector<job::NodeResult>> results = nodes.results(generation))
      return *results;
  return {{static_cast<int>(ExitCode::PeerLost), "some nodes do not say how their ranks ended"}};
}

/// What all nodes' results amount to.
static SupervisorResult combine(SupervisorResult result, const std::vector<job::NodeResult> &others,
                                const std::optional<FailureNotice> &first) {
  auto isConsequence = [](int code) { return code == 0 || code == static_cast<int>(ExitCode::PeerLost); };
  for (const job::NodeResult &other : others)
    if (result.exitCode == 0 || (isConsequence(result.exitCode) && !isConsequence(other.exitCode))) {
      result.exitCode = other.exitCode;
      result.words = other.words;
    }
  result.isLoss =
      result.exitCode == static_cast<int>(ExitCode::PeerLost) || result.exitCode == static_cast<int>(ExitCode::Runtime);
  if (first && result.exitCode != 0)
    result.words = fmt::format("{} failed first: {}",
                               first->rank < 0 ? "a launcher" : fmt::format("rank {}", first->rank), first->reason);
  return result;
}

static int runFirstNode(const ClusterOptions &options) {
  job::ServerOptions serving;
  serving.listen = options.server;
  serving.token = job::tokenKey(options.token);
  serving.world = options.world;
  serving.patience = options.patience;
  serving.node = options.node;
  serving.describe = options.describe;
  job::Server server(serving);
  RemoteLaunchers remote(options);
  job::Nodes &nodes = *server.nodes();
  job::Order end;
  end.set_kind(job::Order::END);
  try {
    requireRanks(nodes.awaitAll(Clock::now() + options.patience.start), options.world);
  } catch (const Error &error) {
    end.set_exit_code(static_cast<int>(error.exitCode()));
    nodes.tellAll(end);
    throw;
  }
  int code = restart(options.maxRestarts, [&](uint32_t generation) {
    SupervisorOptions local = options.local;
    local.place = {0, options.world, server.endpoint().text()};
    local.generation = generation;
    bool isStopping = false;
    local.onSignal = [&](int signal) {
      isStopping = true;
      job::Order stop;
      stop.set_kind(job::Order::STOP);
      stop.set_signal(signal);
      nodes.tellAll(stop);
    };
    local.onFailure = [&](const FailureNotice &notice) { server.fail(notice.rank, notice.reason); };
    local.hasFailed = [&] { return server.failure().has_value(); };
    server.begin(generation);
    nodes.start(generation);
    SupervisorResult own = superviseRanks(local);
    SupervisorResult all =
        combine(own, awaitNodes(nodes, generation, isStopping ? local.stopGrace : local.grace), server.failure());
    all.isLoss &= !isStopping;
    return all;
  });
  end.set_exit_code(code);
  nodes.tellAll(end);
  return code;
}

//===----------------------------------------------------------------------===//
// Other nodes
//===----------------------------------------------------------------------===//

namespace {
/// A launcher that does what the first one says.
class Follower {
public:
  explicit Follower(const ClusterOptions &options) : options(options), session(introduce()) {}

  int run();

private:
  job::Session introduce() const;
  void startRanks(const job::Order &order);
  int awaitSignal();

  const ClusterOptions &options;
  job::Session session;
  bool isAbandoned = false;
  bool hasStarted = false; // ranks, ever
  bool hasFailed = false;  // a rank of the job, anywhere
};
} // namespace

job::Session Follower::introduce() const {
  auto deadline = Clock::now() + options.patience.start;
  utsname names = {};
  uname(&names);
  job::NodeHello hello;
  hello.set_version(job::ProtocolVersion);
  hello.set_node(options.node.node);
  hello.set_nodes(options.node.nodes);
  hello.set_ranks(options.node.ranks);
  hello.set_program(options.node.program);
  hello.set_host_name(names.nodename);
  try {
    auto words = [&](const std::string &) { return job::NodeWords + hello.SerializeAsString(); };
    job::Session joined = job::call(options.server, "", job::tokenKey(options.token), words, deadline);
    job::configure(joined.socket(), options.patience.watchdog);
    return joined;
  } catch (const Error &error) {
    throw Error(error.exitCode(),
                fmt::format("cannot join the job at {} (node 0): {}", options.server.text(), error.what()));
  }
}

/// While ranks run: what the first launcher wants of them.
int Follower::awaitSignal() {
  if (isAbandoned)
    return SIGKILL;
  try {
    session.flush();
    while (std::optional<job::Message> message = session.receive())
      if (message->has_order() && message->order().kind() == job::Order::STOP)
        return message->order().signal();
      else if (message->has_failure())
        hasFailed = true;
    return 0;
  } catch (const Error &) { // the first launcher is gone, and nobody needs the ranks any more
    isAbandoned = true;
    return SIGKILL;
  }
}

void Follower::startRanks(const job::Order &order) {
  SupervisorOptions local = options.local;
  local.place = {order.first_rank(), order.world(), options.server.text()};
  local.generation = order.generation();
  local.awaitedSignal = [this] { return awaitSignal(); };
  hasStarted = true;
  hasFailed = false;
  local.hasFailed = [this] { return hasFailed; };
  local.onFailure = [this](const FailureNotice &notice) {
    job::Message message;
    message.mutable_failure()->set_rank(notice.rank);
    message.mutable_failure()->set_reason(notice.reason);
    session.send(message);
  };
  SupervisorResult result = superviseRanks(local);
  job::Message message;
  job::Report &report = *message.mutable_report();
  report.set_generation(order.generation());
  report.set_exit_code(result.exitCode);
  report.set_words(result.words);
  session.send(message);
}

int Follower::run() {
  while (true) {
    std::optional<job::Message> message;
    try {
      message = isAbandoned ? throw Error("the connection was closed") : session.await(Clock::now() + 1h);
    } catch (const Error &error) {
      throw Error(ExitCode::PeerLost,
                  fmt::format("the launcher of node 0 at {} is gone ({}); this node's ranks were ended",
                              options.server.text(), error.what()));
    }
    if (message && message->has_refusal())
      throw Error(ExitCode::BadInput,
                  fmt::format("the job at {} does not take this node: {}", options.server.text(), message->refusal()));
    if (message && message->has_order() && message->order().kind() == job::Order::END) {
      if (message->order().exit_code() != 0 && !hasStarted)
        sayAsLauncher(fmt::format("node 0 at {} ended the job before it began; look at what it says there",
                                  options.server.text()));
      return message->order().exit_code();
    }
    if (message && message->has_order() && message->order().kind() == job::Order::START)
      startRanks(message->order());
  }
}

int runCluster(const ClusterOptions &options) {
  if (options.node.nodes > 1) {
    setenv("DTC_TOKEN", options.token.c_str(), 1); // for the ranks
    unsetenv("DTC_TOKEN_FILE");
    return options.node.node == 0 ? runFirstNode(options) : Follower(options).run();
  }
  return restart(options.maxRestarts, [&](uint32_t generation) {
    SupervisorOptions local = options.local;
    local.generation = generation;
    return superviseRanks(local);
  });
}

} // namespace dtc
