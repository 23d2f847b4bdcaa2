// TCP as the job needs it. All sockets are non-blocking, closed on exec, and bound to one address of this machine. All
// errors are Error with a text for the user.
#pragma once

#include "runtime/meeting/descriptor.h"

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

/// Where a job's server is to listen so that other hosts reach it: `endpoint`, unless its host is a name which here,
/// and here alone, stands for the machine itself (Debian's /etc/hosts: "127.0.1.1 node1"). Then at the address of
/// `interface`, if one is given, else at the one from which there is a way to `other`, another host, if one is given.
/// Throws Error (BadInput) saying what to do where neither is.
Endpoint reachableEndpoint(const Endpoint &endpoint, const std::string &interface, const std::string &other);

/// Connects, from the address `from` where one is given; tries again until the deadline, as whoever listens may start
/// later. Throws Error (Runtime) with the last reason.
Descriptor connectTo(const Endpoint &endpoint, const std::string &from, Clock::time_point deadline);

/// Numeric, of this end and of the other.
Endpoint localEndpoint(int socket);
Endpoint remoteEndpoint(int socket);

/// An address of this machine: itself, or the first of the interface of that name. Throws Error (BadInput).
std::string addressOf(const std::string &interfaceOrAddress);

/// Small messages go out at once, and the other end is asked for a sign of life each second. Its connection breaks when
/// it has given none for somewhat longer than `patience`: whoever watches over ranks speaks first, and knows more.
void configure(int socket, std::chrono::milliseconds patience);

/// Keeps a connection trying, so that it outlives every cut of the network that is shorter than `patience`.
///
/// What has not been acknowledged the system sends again, but waits twice as long each time: after a cut of 30 s it is
/// silent for 21 more. From Linux 6.15 on configure() limits that to a second (TCP_RTO_MAX_MS). Before, something else
/// does: the system never waits beyond the time at which it would give up (TCP_USER_TIMEOUT, from 4.19 on), and moving
/// that on, a little at a time, says when it tries next.
class Persistence {
public:
  explicit Persistence(std::chrono::milliseconds patience) : patience(patience) {}

  /// To be called several times a second, for a socket that was configured with the same patience.
  void look(int socket, Clock::time_point now);
  /// How long the system has sent again what the other end did not acknowledge, whatever came from there: where a link
  /// is cut in one direction, something may.
  std::chrono::milliseconds inVainFor(Clock::time_point now) const;

private:
  std::chrono::milliseconds patience;
  Clock::time_point answered = Clock::now(); ///< when nothing was waiting for an answer for too long
  bool isTrying = false, isResending = false;
};

/// Waits until the socket can be read (or written) or the deadline has passed. Returns whether it can.
bool awaitReadable(int socket, Clock::time_point deadline);
bool awaitWritable(int socket, Clock::time_point deadline);

/// How long ago anything came from the system of the other end, if that is known: it answers for a process that is
/// stopped, and not across a link that is down.
std::chrono::milliseconds silenceOfSystem(int socket);

} // namespace dtc::job
