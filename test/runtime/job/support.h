// Connections of the machine to itself.
#pragma once

#include "runtime/job/server.h"
#include "runtime/support/error.h"

#include <chrono>
#include <functional>
#include <gmock/gmock.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>

namespace dtc::test {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

using namespace std::chrono_literals;

inline job::Clock::time_point in(std::chrono::milliseconds time) { return job::Clock::now() + time; }

/// "code: words" of the error that `work` throws; "" where it throws none.
inline std::string errorOf(const std::function<void()> &work) {
  try {
    work();
    return "";
  } catch (const Error &error) {
    return std::to_string(static_cast<int>(error.exitCode())) + ": " + error.what();
  }
}

/// A server on this machine for this many ranks.
inline job::ServerOptions serverOptions(const job::Key &key, int world) {
  job::ServerOptions options;
  options.listen = {"127.0.0.1", 0};
  options.token = key;
  options.world = world;
  return options;
}

inline job::Gate gateWith(const job::Key &key) { return job::Gate(job::listenAt({"127.0.0.1", 0}), key); }

inline Descriptor connectionTo(const job::Endpoint &endpoint) { return job::connectTo(endpoint, "", in(5s)); }

inline void sendText(int socket, std::string_view text) {
  [[maybe_unused]] ssize_t sent = send(socket, text.data(), text.size(), MSG_NOSIGNAL);
}

/// All that arrives until the other end closes or nothing has come for a while.
inline std::string receiveText(int socket, std::chrono::milliseconds patience = 200ms) {
  std::string text;
  char buffer[4096];
  while (job::awaitReadable(socket, in(patience))) {
    ssize_t count = recv(socket, buffer, sizeof(buffer), 0);
    if (count <= 0)
      break;
    text.append(buffer, static_cast<size_t>(count));
  }
  return text;
}

/// Runs the gate until a client is admitted, or none is.
inline std::vector<job::Gate::Guest> admitWithin(job::Gate &gate, std::chrono::milliseconds time) {
  for (auto end = in(time); job::Clock::now() < end;) {
    if (std::vector<job::Gate::Guest> guests = gate.admit(); !guests.empty())
      return guests;
    std::vector<pollfd> files;
    gate.addTo(files);
    poll(files.data(), files.size(), 5);
  }
  return {};
}

} // namespace dtc::test
