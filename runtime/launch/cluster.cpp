#include "runtime/launch/cluster.h"

#include "runtime/launch/follower.h"
#include "runtime/launch/remote_launchers.h"
#include "runtime/support/error.h"
#include "runtime/support/log_line.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

namespace dtc {

using namespace std::chrono_literals;
using job::Clock;

/// How many consecutive starts may end without a newer checkpoint.
static constexpr int FruitlessStarts = 2;
/// How long the other nodes' ranks may take to end after the first node's.
static constexpr auto NodeGrace = 5s;

//===----------------------------------------------------------------------===//
// Restarts
//===----------------------------------------------------------------------===//

/// Runs `start` until it succeeds, fails in a way that a restart would not fix, or has run too often.
template <typename Start> static int restart(int most, Start start) {
  uint64_t checkpoint = 0;
  int fruitless = 0;
  for (uint32_t generation = 0;; ++generation) {
    SupervisorResult result = start(generation);
    if (!result.words.empty())
      logError(result.words);
    if (!result.record.empty())
      logNews("what each rank did last: " + result.record);
    if (result.exitCode == 0 || !result.isLoss || most == 0)
      return result.exitCode;
    fruitless = result.checkpoint > checkpoint ? 0 : fruitless + 1;
    checkpoint = std::max(checkpoint, result.checkpoint);
    if (fruitless >= FruitlessStarts) {
      logError(fmt::format("{} starts in a row ended without a newer checkpoint; not starting again. Look at what "
                           "the ranks said, or checkpoint more often (--set checkpoint_every=N)",
                           fruitless));
      return static_cast<int>(ExitCode::NoProgress);
    }
    if (generation >= uint32_t(most)) {
      logError(fmt::format("not starting again: it was started {} times", generation + 1));
      return result.exitCode;
    }
    logNews(fmt::format("starting again ({} of {}){}", generation + 1, most,
                        checkpoint ? fmt::format(" from the checkpoint after step {}", checkpoint)
                                   : "; there is no checkpoint of this run yet"));
  }
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

/// How the other nodes' ranks ended. Ranks that do not end are left to their launchers, which kill them.
static std::vector<job::NodeResult> awaitNodes(const job::Nodes &nodes, uint32_t generation,
                                               std::chrono::milliseconds grace) {
  for (auto deadline = Clock::now() + grace + NodeGrace; Clock::now() < deadline; std::this_thread::sleep_for(5ms))
    if (std::optional<std::vector<job::NodeResult>> results = nodes.results(generation))
      return *results;
  return {{static_cast<int>(ExitCode::PeerLost), "some nodes do not say how their ranks ended"}};
}

/// Combines all nodes' results.
static SupervisorResult combine(SupervisorResult result, const std::vector<job::NodeResult> &others,
                                const std::optional<FailureNotice> &first, const SupervisorOptions &options) {
  auto isConsequence = [](int code) { return code == 0 || code == static_cast<int>(ExitCode::PeerLost); };
  for (const job::NodeResult &other : others)
    if (result.exitCode == 0 || (isConsequence(result.exitCode) && !isConsequence(other.exitCode))) {
      result.exitCode = other.exitCode;
      result.words = other.words;
    }
  result.isLoss = isMendedByRestart(static_cast<ExitCode>(result.exitCode));
  if (first && result.exitCode != 0)
    result.words = withDuty(
        options, first->rank,
        fmt::format("{} failed first: {}", first->rank < 0 ? "a launcher" : fmt::format("rank {}", first->rank),
                    first->reason));
  return result;
}

namespace {
class FirstNode {
public:
  explicit FirstNode(const ClusterOptions &options)
      : options(options), server(optionsOfServer(options)), nodes(*server.nodes()), remote(options) {}

  int run();

private:
  static job::ServerOptions optionsOfServer(const ClusterOptions &options);
  void awaitOthers();
  void awaitOthersAgain(uint32_t generation);
  SupervisorResult start(uint32_t generation);
  void end(int code);

  const ClusterOptions &options;
  job::Server server;
  job::Nodes &nodes;
  RemoteLaunchers remote;
};
} // namespace

job::ServerOptions FirstNode::optionsOfServer(const ClusterOptions &options) {
  job::ServerOptions serving;
  serving.listen = job::reachableEndpoint(options.server, processEnvironment()("DTC_INTERFACE").value_or(""),
                                          options.hosts.empty() ? "" : options.hosts.front().name);
  serving.token = job::tokenKey(options.token);
  serving.world = options.world;
  serving.patience = options.patience;
  serving.node = options.node;
  serving.describe = options.describe;
  return serving;
}

void FirstNode::awaitOthers() {
  requireRanks(nodes.awaitAll(Clock::now() + options.patience.start,
                              [&](const std::vector<int> &absent) { remote.requireRunning(absent); }),
               options.world);
}

/// A lost launcher is restarted, here or by whatever started it, or reconnects by itself.
void FirstNode::awaitOthersAgain(uint32_t generation) {
  nodes.dropSilent(generation - 1);
  bool isSaid = false;
  auto meanwhile = [&](const std::vector<int> &absent) {
    if (!std::exchange(isSaid, true))
      logNews(fmt::format("waiting for {} {}, for {:.3g} s at most (--start-timeout)",
                          absent.size() == 1 ? "node" : "nodes", fmt::join(absent, ", "),
                          std::chrono::duration<double>(options.patience.start).count()));
    remote.startAgain(absent);
  };
  try {
    nodes.awaitAll(Clock::now() + options.patience.start, meanwhile);
  } catch (const Error &error) {
    throw Error(ExitCode::PeerLost, fmt::format("cannot start again: {}", error.what()));
  }
}

SupervisorResult FirstNode::start(uint32_t generation) {
  if (generation > 0)
    awaitOthersAgain(generation);
  SupervisorOptions local = options.local;
  local.part = {0, options.world, server.endpoint().text()};
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
      combine(own, awaitNodes(nodes, generation, isStopping ? local.stopGrace : local.grace), server.failure(), local);
  all.isLoss &= !isStopping;
  return all;
}

void FirstNode::end(int code) {
  job::Order order;
  order.set_kind(job::Order::END);
  order.set_exit_code(code);
  nodes.tellAll(order);
}

int FirstNode::run() {
  try {
    awaitOthers();
    int code = restart(options.maxRestarts, [&](uint32_t generation) { return start(generation); });
    end(code);
    return code;
  } catch (const Error &error) {
    end(static_cast<int>(error.exitCode()));
    throw;
  }
}

int runCluster(const ClusterOptions &options) {
  if (options.node.nodes > 1) {
    setenv("DTC_TOKEN", options.token.c_str(), 1); // for the ranks
    unsetenv("DTC_TOKEN_FILE");
    return options.node.node == 0 ? FirstNode(options).run() : followFirstNode(options);
  }
  return restart(options.maxRestarts, [&](uint32_t generation) {
    SupervisorOptions local = options.local;
    local.generation = generation;
    return superviseRanks(local);
  });
}

} // namespace dtc
