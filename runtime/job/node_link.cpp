#include "runtime/job/node_link.h"

#include "runtime/job/roster.h"
#include "runtime/support/error.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <thread>
#include <utility>

namespace dtc::job {

using namespace std::chrono_literals;

NodeLink::NodeLink(Endpoint server, Key token, const NodePlace &self, Patience patience)
    : server(std::move(server)), token(token), patience(patience) {
  utsname names = {};
  uname(&names);
  hello.set_version(ProtocolVersion);
  hello.set_node(self.node);
  hello.set_nodes(self.nodes);
  hello.set_ranks(self.ranks);
  hello.set_program(self.program);
  hello.set_host_name(names.nodename);
  hello.set_launcher(std::string(textOf(randomKey())));
  try {
    session.emplace(connect(Clock::now() + patience.start));
  } catch (const Error &error) {
    throw Error(error.exitCode(),
                fmt::format("cannot join the job at {} (node 0): {}", this->server.text(), error.what()));
  }
}

Session NodeLink::connect(Clock::time_point deadline) const {
  auto words = [&](const std::string &) { return NodeWords + hello.SerializeAsString(); };
  Session made = call(server, "", token, words, deadline);
  configure(made.socket(), patience.watchdog);
  return made;
}

void NodeLink::connectAgain() {
  try {
    session.emplace(connect(Clock::now() + 1s));
    for (const Message &message : said)
      session->send(message);
  } catch (const Error &error) {
    why = error.what();
    std::this_thread::sleep_for(20ms);
  }
}

std::optional<Message> NodeLink::receive(std::chrono::milliseconds most) {
  if (!session) {
    connectAgain();
    return std::nullopt;
  }
  try {
    std::optional<Message> message = session->await(Clock::now() + most);
    if (message && message->has_order() && !message->order().job().empty())
      hello.set_job(message->order().job());
    return message;
  } catch (const Error &error) {
    session.reset();
    lost = Clock::now();
    why = error.what();
    return std::nullopt;
  }
}

void NodeLink::say(const Message &message) {
  said.push_back(message);
  if (session)
    session->send(message);
}

std::chrono::milliseconds NodeLink::lostFor() const {
  return session ? 0ms : std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - lost);
}

} // namespace dtc::job
