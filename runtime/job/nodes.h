// The launchers of a job's other hosts, as the first one sees them: it tells them when to start their ranks and when to
// stop, and they tell how these ended.
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

/// How long a launcher whose connection broke may take to come again before it counts as gone.
constexpr std::chrono::seconds RejoinTime{3};

/// A launcher whose connection breaks comes again and nothing has happened: what it has missed is said once more. One
/// that is gone may be replaced by another with the same place, which takes part from the next start on.
class Nodes {
public:
  /// `self`: the first node's place.
  explicit Nodes(NodePlace self);

  // By the server's thread.
  void greet(Gate::Guest guest, const NodeHello &hello);
  void addTo(std::vector<pollfd> &files) const;
  void broadcast(const Message &message);
  /// Reads what the nodes say. Returns the failures that follow: those they tell of, and that one of them is gone.
  std::vector<FailureNotice> hear();

  // By the launcher's.
  /// Waits until all are there; the ranks of each, by node. `meanwhile` is called several times a second with those
  /// that are not, by number. Throws Error (Runtime) naming these at the deadline.
  std::vector<int> awaitAll(
      Clock::time_point deadline,
      const std::function<void(const std::vector<int> &absent)> &meanwhile = [](const auto &) {});
  void tellAll(const Order &order);
  /// Each starts its own ranks.
  void start(uint32_t generation);
  /// How the ranks of all other nodes have ended in this generation; none while some run.
  std::optional<std::vector<NodeResult>> results(uint32_t generation) const;
  /// Those that have not said how their ranks ended in this generation cannot be reached: their connections are closed.
  void dropSilent(uint32_t generation);

private:
  struct Node {
    std::optional<Session> session{}; ///< none: its connection broke
    NodeHello hello{};
    int firstRank = 0;
    bool isStarted = false; ///< it takes part in the generation under way
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
  std::string job; ///< tells this start of `dtc run` from others
  mutable std::mutex mutex;
  std::condition_variable came;
  std::map<int, Node> nodes;
  uint32_t generation = 0;
  int world = 0;
  std::vector<Message> standing; ///< what was said to all in this generation
};

} // namespace dtc::job
