#include "runtime/launch/follower.h"

#include "runtime/job/node_link.h"
#include "runtime/support/error.h"
#include "runtime/support/log_line.h"

#include <csignal>
#include <fmt/format.h>
#include <optional>
#include <utility>

namespace dtc {

using namespace std::chrono_literals;
using job::Order;

namespace {
class Follower {
public:
  explicit Follower(const ClusterOptions &options)
      : options(options), link(options.server, job::tokenKey(options.token), options.node, options.patience) {}

  int run();

private:
  void listen(std::chrono::milliseconds most);
  void obey(const Order &order);
  int awaitSignal();
  void startRanks(const Order &order);
  void requireFirstNode() const;

  const ClusterOptions &options;
  job::NodeLink link;
  std::optional<Order> next;          // the order to obey when no ranks run
  std::optional<uint32_t> generation; // of the ranks that are running or ran last
  int stop = 0;                       // the signal to send to the ranks
  bool isStopping = false;            // the signal was sent
  bool isAbandoned = false;           // ranks are being ended because node 0 cannot be reached
  bool hasFailed = false;             // a rank of the job has failed, on any host
  bool wasStopped = false;            // by a signal to this process
};
} // namespace

/// The first launcher repeats its orders after a reconnection; each is obeyed only once.
void Follower::obey(const Order &order) {
  if (order.kind() == Order::STOP)
    stop = order.signal();
  else if (order.kind() == Order::END || !generation || order.generation() > *generation)
    next = order;
}

void Follower::listen(std::chrono::milliseconds most) {
  while (std::optional<job::Message> message = link.receive(std::exchange(most, 0ms))) {
    if (message->has_refusal())
      throw Error(ExitCode::BadInput,
                  fmt::format("the job at {} does not take this node: {}", options.server.text(), message->refusal()));
    if (message->has_failure())
      hasFailed = true;
    if (message->has_order())
      obey(message->order());
  }
}

/// Called while ranks run: the signal to send them, which is returned only once.
int Follower::awaitSignal() {
  listen(0ms);
  if (!isAbandoned && link.lostFor() > job::RejoinTime) {
    isAbandoned = true;
    logWarning(fmt::format("node 0 at {} cannot be reached ({}); this node's ranks are ended, and it is tried again",
                           options.server.text(), link.reason()));
  }
  if (next || isAbandoned)
    return SIGKILL;
  return stop && !std::exchange(isStopping, true) ? stop : 0;
}

void Follower::startRanks(const Order &order) {
  link.forget();
  generation = order.generation();
  stop = 0;
  isStopping = isAbandoned = hasFailed = false;
  SupervisorOptions local = options.local;
  local.part = {order.first_rank(), order.world(), options.server.text()};
  local.generation = order.generation();
  local.awaitedSignal = [this] { return awaitSignal(); };
  local.hasFailed = [this] { return hasFailed; };
  local.onSignal = [this](int) { wasStopped |= !isStopping; };
  local.onFailure = [&](const FailureNotice &notice) {
    job::Message message;
    message.mutable_failure()->set_rank(notice.rank);
    message.mutable_failure()->set_reason(notice.reason);
    message.mutable_failure()->set_generation(order.generation());
    link.say(message);
  };
  SupervisorResult result = superviseRanks(local);
  job::Message message;
  job::Report &report = *message.mutable_report();
  report.set_generation(order.generation());
  report.set_exit_code(result.exitCode);
  report.set_words(result.words);
  link.say(message);
}

void Follower::requireFirstNode() const {
  if (link.lostFor() > (wasStopped ? 0ms : options.patience.start))
    throw Error(ExitCode::PeerLost,
                fmt::format("the launcher of node 0 at {} is gone ({}); this node's ranks were ended",
                            options.server.text(), link.reason()));
}

int Follower::run() {
  while (true) {
    listen(200ms);
    requireFirstNode();
    std::optional<Order> order = std::exchange(next, std::nullopt);
    if (order && order->kind() == Order::START)
      startRanks(*order);
    if (!order || order->kind() != Order::END)
      continue;
    if (order->exit_code() != 0 && !generation)
      logError(
          fmt::format("node 0 at {} ended the job before it began; look at what it says there", options.server.text()));
    return order->exit_code();
  }
}

int followFirstNode(const ClusterOptions &options) { return Follower(options).run(); }

} // namespace dtc
