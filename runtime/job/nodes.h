// The launchers of a job's other hosts, as the first one sees them: it tells them when to start their ranks and when to
// stop, and they tell how these ended.
#pragma once

#include "runtime/job/session.h"

#include "runtime/comm/control_block.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace dtc::job {

/// What kind of guest words are from: their first byte.
constexpr char RankWords = 'R', NodeWords = 'N';

/// One launcher of several, the first being number 0, which has the server.
struct NodePlace {
  int node = 0, nodes = 1;
  int ranks = 1;       ///< that this node starts
  std::string program; ///< hash of the program file
};

/// How the ranks of a node ended.
struct NodeResult {
  int exitCode = 0;
  std::string words; ///< what its launcher has to say of it
};

class Nodes {
public:
  /// `self`: the first node's place.
  explicit Nodes(NodePlace self) : self(std::move(self)) {}

  // By the server's thread.
  void greet(Gate::Guest guest, const NodeHello &hello);
  void addTo(std::vector<pollfd> &files) const;
  void broadcast(const Message &message);
  /// Reads what the nodes say. Returns the failures that follow: those they tell of, and that one of them is gone.
  std::vector<FailureNotice> hear();

  // By the launcher's.
  /// Waits until all have come; the ranks of each, by node. Throws Error (Runtime) naming those that have not come by
  /// the deadline.
  std::vector<int> awaitAll(Clock::time_point deadline);
  void tellAll(const Order &order);
  /// Each starts its own ranks.
  void start(uint32_t generation);
  /// How the ranks of all other nodes have ended in this generation; none while some run.
  std::optional<std::vector<NodeResult>> results(uint32_t generation) const;

private:
  struct Node {
    Session session;
    NodeHello hello;
    int firstRank = 0;
    std::optional<Report> report;
    bool gone = false;
  };

  std::string objection(const NodeHello &hello) const;

  NodePlace self;
  mutable std::mutex mutex;
  std::condition_variable came;
  std::map<int, Node> nodes;
};

} // namespace dtc::job
