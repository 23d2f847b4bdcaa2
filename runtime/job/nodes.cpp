#include "runtime/job/nodes.h"

#include "runtime/job/roster.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

namespace dtc::job {

using namespace std::chrono_literals;

Nodes::Nodes(NodePlace self) : self(std::move(self)), job(textOf(randomKey())) {}

std::string Nodes::objection(const NodeHello &hello) const {
  if (hello.version() != ProtocolVersion)
    return fmt::format("it is of another version of dtc (protocol {}, the job's is {})", hello.version(),
                       ProtocolVersion);
  if (hello.nodes() != self.nodes)
    return fmt::format("it was started with --nnodes {}, the first node with {}", hello.nodes(), self.nodes);
  if (hello.node() < 1 || hello.node() >= self.nodes)
    return fmt::format("its --node-rank {} is not one of 1 to {}", hello.node(), self.nodes - 1);
  if (!hello.job().empty() && hello.job() != job)
    return "it belongs to another start of the job, which is over";
  auto other = nodes.find(hello.node());
  bool isAnother =
      other != nodes.end() && (hello.launcher().empty() || other->second.hello.launcher() != hello.launcher());
  if (isAnother && !other->second.gone)
    return fmt::format("node {} has already joined, from {}; give each its own --node-rank", hello.node(),
                       other->second.hello.host_name());
  if (isAnother && other->second.hello.ranks() != hello.ranks())
    return fmt::format("it starts {} ranks, the launcher whose place it takes started {}; start it with the same -n",
                       hello.ranks(), other->second.hello.ranks());
  if (hello.program() != self.program)
    return fmt::format("its program ({}) is not the first node's ({}); give all hosts the same file", hello.program(),
                       self.program);
  return "";
}

void Nodes::greet(Gate::Guest guest, const NodeHello &hello) {
  std::lock_guard lock(mutex);
  std::string refused = objection(hello);
  if (!refused.empty()) {
    Message message;
    message.set_refusal(refused);
    guest.session.send(message);
    return;
  }
  Node &node = nodes[hello.node()];
  bool isSame = node.hello.launcher() == hello.launcher() && !hello.launcher().empty();
  node.hello = hello;
  node.session.emplace(std::move(guest.session));
  node.gone = false;
  node.isStarted &= isSame;
  if (node.isStarted) { // it may have missed some of these messages
    node.session->send(startOf(node));
    for (const Message &message : standing)
      node.session->send(message);
  }
  came.notify_all();
}

void Nodes::addTo(std::vector<pollfd> &files) const {
  std::lock_guard lock(mutex);
  for (const auto &[number, node] : nodes)
    if (node.session)
      files.push_back({node.session->socket(), short(POLLIN | (node.session->hasUnsent() ? POLLOUT : 0)), 0});
}

void Nodes::hear(Node &node, std::vector<FailureNotice> &failures) {
  try {
    node.session->flush();
    while (std::optional<Message> message = node.session->receive())
      if (message->has_report())
        node.report = message->report();
      else if (message->has_failure() && message->failure().generation() == generation)
        failures.push_back({message->failure().rank(), message->failure().reason()});
  } catch (const Error &error) {
    node.session.reset();
    node.lost = Clock::now();
    node.reason = error.what();
  }
}

std::vector<FailureNotice> Nodes::hear() {
  std::lock_guard lock(mutex);
  std::vector<FailureNotice> failures;
  for (auto &[number, node] : nodes) {
    if (node.session)
      hear(node, failures);
    if (node.session || node.gone || Clock::now() - node.lost < RejoinTime)
      continue;
    node.gone = true;
    if (node.isStarted)
      failures.push_back({node.firstRank, fmt::format("its launcher on {} (node {}) is gone ({})",
                                                      node.hello.host_name(), number, node.reason)});
  }
  return failures;
}

std::vector<int> Nodes::absent() const {
  std::vector<int> numbers;
  for (int number = 1; number < self.nodes; ++number)
    if (auto node = nodes.find(number); node == nodes.end() || !node->second.session)
      numbers.push_back(number);
  return numbers;
}

std::vector<int> Nodes::awaitAll(Clock::time_point deadline,
                                 const std::function<void(const std::vector<int> &absent)> &meanwhile) {
  std::unique_lock lock(mutex);
  for (std::vector<int> missing; !(missing = absent()).empty(); came.wait_for(lock, 20ms)) {
    if (Clock::now() > deadline)
      throw Error(
          fmt::format("of {} nodes, these did not join in time: {}; start 'dtc run --nnodes {} --node-rank N' there",
                      self.nodes, fmt::join(missing, ", "), self.nodes));
    lock.unlock();
    meanwhile(missing);
    lock.lock();
  }
  std::vector<int> ranks = {self.ranks};
  for (const auto &[number, node] : nodes)
    ranks.push_back(node.hello.ranks());
  return ranks;
}

void Nodes::broadcast(const Message &message) {
  std::lock_guard lock(mutex);
  standing.push_back(message);
  for (auto &[number, node] : nodes)
    if (node.session)
      node.session->send(message);
}

void Nodes::tellAll(const Order &order) {
  Message message;
  *message.mutable_order() = order;
  broadcast(message);
}

Message Nodes::startOf(const Node &node) const {
  Message message;
  Order &order = *message.mutable_order();
  order.set_kind(Order::START);
  order.set_generation(generation);
  order.set_first_rank(node.firstRank);
  order.set_world(world);
  order.set_job(job);
  return message;
}

void Nodes::start(uint32_t number) {
  std::lock_guard lock(mutex);
  generation = number;
  standing.clear();
  world = self.ranks;
  for (auto &[other, node] : nodes) {
    node.firstRank = world;
    world += node.hello.ranks();
  }
  for (auto &[other, node] : nodes) {
    node.report.reset();
    node.isStarted = true;
    if (node.session)
      node.session->send(startOf(node));
  }
}

void Nodes::dropSilent(uint32_t number) {
  std::lock_guard lock(mutex);
  for (auto &[other, node] : nodes)
    if (!node.report || node.report->generation() != number) {
      node.session.reset();
      node.gone = true;
    }
}

std::optional<std::vector<NodeResult>> Nodes::results(uint32_t generation) const {
  std::lock_guard lock(mutex);
  std::vector<NodeResult> results;
  for (const auto &[number, node] : nodes) {
    if (node.report && node.report->generation() == generation)
      results.push_back({node.report->exit_code(), node.report->words()});
    else if (node.gone || !node.isStarted)
      results.push_back({static_cast<int>(ExitCode::PeerLost), ""});
    else
      return std::nullopt;
  }
  return results;
}

} // namespace dtc::job
