// The launchers of a job's other hosts, as seen by the first one. It tells them when to start and stop their ranks, and
// they report how the ranks ended.
#pragma once

#include "runtime/job/session.h"

#include "runtime/liveness/failure_record.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace dtc::job {

/// The first byte of a guest's opening message: its kind.
constexpr char RankWords = 'R', NodeWords = 'N';

/// One of several launchers. The first is number 0 and has the server.
struct NodePlace {
  int node = 0, nodes = 1;
  int ranks = 1;       ///< number of ranks that this node starts
  std::string program; ///< hash of the program file
};

/// How the ranks of a node ended.
struct NodeResult {
  int exitCode = 0;
  std::string words; ///< its launcher's message
};

/// How long a launcher whose connection broke may take to reconnect before it counts as gone.
constexpr std::chrono::seconds RejoinTime{3};

/// A launcher whose connection breaks can reconnect without consequences: missed messages are sent again. A launcher
/// that is gone may be replaced by another in the same place, which takes part from the next start on.
class Nodes {
public:
  /// `self`: the first node's place.
  explicit Nodes(NodePlace self);

  // Called by the server's thread.
  void greet(Gate::Guest guest, const NodeHello &hello);
  void addTo(std::vector<pollfd> &files) const;
  void broadcast(const Message &message);
  /// Reads the nodes' messages. Returns failures: those reported, and nodes that are gone.
  std::vector<FailureNotice> hear();

  // Called by the launcher's thread.
  /// Waits until all nodes have joined; returns the number of ranks of each, by node. Calls `meanwhile` several times a
  /// second with the numbers of the missing nodes. Throws Error (Runtime) naming these at the deadline.
  std::vector<int> awaitAll(
      Clock::time_point deadline,
      const std::function<void(const std::vector<int> &absent)> &meanwhile = [](const auto &) {});
  void tellAll(const Order &order);
  /// Tells each node to start its ranks.
  void start(uint32_t generation);
  /// How the ranks of all other nodes ended in this generation; nullopt while some run.
  std::optional<std::vector<NodeResult>> results(uint32_t generation) const;
  /// Closes the connections of nodes that have not reported results for this generation: they cannot be reached.
  void dropSilent(uint32_t generation);

private:
  struct Node {
    std::optional<Session> session{}; ///< nullopt: its connection broke
    NodeHello hello{};
    int firstRank = 0;
    bool isStarted = false; ///< it takes part in the current generation
    std::optional<Report> report{};
    bool gone = false;
    Clock::time_point lost{}; ///< when the connection broke, and why
    std::string reason{};
  };

  std::string objection(const NodeHello &hello) const;
  std::vector<int> absent() const;
  Message startOf(const Node &node) const;
  void hear(Node &node, std::vector<FailureNotice> &failures);

  NodePlace self;
  std::string job; ///< distinguishes this start of `dtc run` from others
  mutable std::mutex mutex;
  std::condition_variable came;
  std::map<int, Node> nodes;
  uint32_t generation = 0;
  int world = 0;
  std::vector<Message> standing; ///< messages sent to all nodes in this generation
};

} // namespace dtc::job
