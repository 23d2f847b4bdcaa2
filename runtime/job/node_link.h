// A launcher's connection to the first one, made again when it breaks.
#pragma once

#include "runtime/job/nodes.h"
#include "runtime/job/server.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace dtc::job {

class NodeLink {
public:
  /// Connects. Throws Error as call() does, naming the server.
  NodeLink(Endpoint server, Key token, const NodePlace &self, Patience patience);

  /// What has come, waiting for at most so long; none where nothing has. Where the connection is broken, tries once to
  /// make it again instead, which takes at most a second.
  std::optional<Message> receive(std::chrono::milliseconds most = std::chrono::milliseconds(0));
  /// Says it now and, where the connection breaks, once more: until forget().
  void say(const Message &message);
  void forget() { said.clear(); }

  /// Since when there is no connection; zero: there is one.
  std::chrono::milliseconds lostFor() const;
  /// Why there is none.
  const std::string &reason() const { return why; }

private:
  Session connect(Clock::time_point deadline) const;
  void connectAgain();

  Endpoint server;
  Key token;
  Patience patience;
  NodeHello hello;
  std::optional<Session> session;
  Clock::time_point lost;
  std::string why;
  std::vector<Message> said;
};

} // namespace dtc::job
