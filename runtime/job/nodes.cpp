#include "runtime/job/nodes.h"

#include "runtime/abi/error.h"
#include "runtime/job/roster.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <poll.h>

namespace dtc::job {

std::string Nodes::objection(const NodeHello &hello) const {
  if (hello.version() != ProtocolVersion)
    return fmt::format("it is of another version of dtc (protocol {}, the job's is {})", hello.version(),
                       ProtocolVersion);
  if (hello.nodes() != self.nodes)
    return fmt::format("it was started with --nnodes {}, the first node with {}", hello.nodes(), self.nodes);
  if (hello.node() < 1 || hello.node() >= self.nodes)
    return fmt::format("its --node-rank {} is none of 1 to {}", hello.node(), self.nodes - 1);
  if (auto other = nodes.find(hello.node()); other != nodes.end())
    return fmt::format("node {} has come already, from {}; give each another --node-rank", hello.node(),
                       other->second.hello.host_name());
  if (hello.program() != self.program)
    return fmt::format("its program ({}) is not the first node's ({}); give all hosts the same file", hello.program(),
                       self.program);
  return "";
}

void Nodes::greet(Gate::Guest guest, const NodeHello &hello) {
  std::lock_guard lock(mutex);
  std::string refused = objection(hello);
  if (refused.empty()) {
    nodes.emplace(hello.node(), Node{std::move(guest.session), hello, 0, {}, false});
    came.notify_all();
    return;
  }
  Message message;
  message.set_refusal(refused);
  guest.session.send(message);
}

void Nodes::addTo(std::vector<pollfd> &files) const {
  std::lock_guard lock(mutex);
  for (const auto &[number, node] : nodes)
    if (!node.gone)
      files.push_back({node.session.socket(), short(POLLIN | (node.session.hasUnsent() ? POLLOUT : 0)), 0});
}

std::vector<FailureNotice> Nodes::hear() {
  std::lock_guard lock(mutex);
  std::vector<FailureNotice> failures;
  for (auto &[number, node] : nodes) {
    if (node.gone)
      continue;
    try {
      node.session.flush();
      while (std::optional<Message> message = node.session.receive())
        if (message->has_report())
          node.report = message->report();
        else if (message->has_failure())
          failures.push_back({message->failure().rank(), message->failure().reason()});
    } catch (const Error &error) {
      node.gone = true;
      failures.push_back({node.firstRank, fmt::format("its launcher on {} (node {}) is gone ({})",
                                                      node.hello.host_name(), number, error.what())});
    }
  }
  return failures;
}

std::vector<int> Nodes::awaitAll(Clock::time_point deadline) {
  std::unique_lock lock(mutex);
  auto isComplete = [&] { return nodes.size() + 1 == size_t(self.nodes); };
  if (!came.wait_until(lock, deadline, isComplete)) {
    std::string missing;
    for (int number = 1; number < self.nodes; ++number)
      if (!nodes.contains(number))
        missing += fmt::format("{}{}", missing.empty() ? "" : ", ", number);
    throw Error(
        fmt::format("of {} nodes, these did not come in time: {}; start 'dtc run --nnodes {} --node-rank N' there",
                    self.nodes, missing, self.nodes));
  }
  std::vector<int> ranks = {self.ranks};
  for (const auto &[number, node] : nodes)
    ranks.push_back(node.hello.ranks());
  return ranks;
}

void Nodes::broadcast(const Message &message) {
  std::lock_guard lock(mutex);
  for (auto &[number, node] : nodes)
    if (!node.gone)
      node.session.send(message);
}

void Nodes::tellAll(const Order &order) {
  Message message;
  *message.mutable_order() = order;
  broadcast(message);
}

void Nodes::start(uint32_t generation) {
  std::lock_guard lock(mutex);
  int world = self.ranks;
  for (const auto &[number, node] : nodes)
    world += node.hello.ranks();
  int first = self.ranks;
  for (auto &[number, node] : nodes) {
    node.report.reset();
    node.firstRank = first;
    Message message;
    Order &order = *message.mutable_order();
    order.set_kind(Order::START);
    order.set_generation(generation);
    order.set_first_rank(first);
    order.set_world(world);
    node.session.send(message);
    first += node.hello.ranks();
  }
}

std::optional<std::vector<NodeResult>> Nodes::results(uint32_t generation) const {
  std::lock_guard lock(mutex);
  std::vector<NodeResult> results;
  for (const auto &[number, node] : nodes) {
    if (node.report && node.report->generation() == generation)
      results.push_back({node.report->exit_code(), node.report->words()});
    else if (node.gone)
      results.push_back({static_cast<int>(ExitCode::PeerLost), ""});
    else
      return std::nullopt;
  }
  return results;
}

} // namespace dtc::job
