// A launcher's connection to the first launcher, which reconnects when it breaks.
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
  /// Connects. Throws Error like call(), naming the server.
  NodeLink(Endpoint server, Key token, const NodePlace &self, Patience patience);

  /// The next message, waiting for at most `most`; nullopt if none arrives. If the connection is broken, it tries once
  /// to reconnect instead, which takes at most a second.
  std::optional<Message> receive(std::chrono::milliseconds most = std::chrono::milliseconds(0));
  /// Sends a message, and sends it again after each reconnection until forget().
  void say(const Message &message);
  void forget() { said.clear(); }

  /// How long there has been no connection; zero: there is one.
  std::chrono::milliseconds lostFor() const;
  /// Why there is no connection.
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
