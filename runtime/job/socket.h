// TCP as the job needs it. All sockets are non-blocking, closed on exec, and bound to one address of this machine. All
// errors are Error with a text for the user.
#pragma once

#include "runtime/comm/descriptor.h"

#include <chrono>
#include <string>
#include <string_view>

namespace dtc::job {

using Clock = std::chrono::steady_clock;

/// "host:port", "1.2.3.4:80" or "[::1]:80".
struct Endpoint {
  std::string host;
  int port = 0;

  std::string text() const;
};

/// Throws Error (BadInput) naming `what` for a text that is no endpoint.
Endpoint parseEndpoint(std::string_view text, std::string_view what);

/// A listening socket at this address of this machine; port 0: any. Throws Error (BadInput) when the address is not
/// this machine's, and Error (Runtime) when the port is taken.
Descriptor listenAt(const Endpoint &endpoint);

/// Connects, from the address `from` where one is given; tries again until the deadline, as whoever listens may start
/// later. Throws Error (Runtime) with the last reason.
Descriptor connectTo(const Endpoint &endpoint, const std::string &from, Clock::time_point deadline);

/// Numeric, of this end and of the other.
Endpoint localEndpoint(int socket);
Endpoint remoteEndpoint(int socket);

/// An address of this machine: itself, or the first of the interface of that name. Throws Error (BadInput).
std::string addressOf(const std::string &interfaceOrAddress);

/// Small messages go out at once; a peer that does not acknowledge for so long is lost.
void configure(int socket, std::chrono::milliseconds timeout);

/// Waits until the socket can be read (or written) or the deadline has passed. Returns whether it can.
bool awaitReadable(int socket, Clock::time_point deadline);
bool awaitWritable(int socket, Clock::time_point deadline);

/// How long ago the system of the other end last acknowledged anything of ours, if that is known: it does so for a
/// process that is stopped, and not across a link that is down.
std::chrono::milliseconds silenceOfSystem(int socket);

} // namespace dtc::job
