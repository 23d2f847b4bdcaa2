// TCP for jobs. All sockets are non-blocking, closed on exec, and bound to one address of this machine. All errors are
// Error with a message for the user.
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

/// Throws Error (BadInput) naming `what` if the text is not an endpoint.
Endpoint parseEndpoint(std::string_view text, std::string_view what);

/// A listening socket at this address of this machine; port 0: any. Throws Error (BadInput) when the address is not
/// this machine's, and Error (Runtime) when the port is taken.
Descriptor listenAt(const Endpoint &endpoint);

/// Where a job's server must listen so that other hosts can reach it: `endpoint`, unless its host is a name that only
/// on this machine means the machine itself (Debian's /etc/hosts: "127.0.1.1 node1"). In that case the address of
/// `interface` if given, else the address with a route to `other`, another host, if given. Throws Error (BadInput)
/// saying what to do if neither is given.
Endpoint reachableEndpoint(const Endpoint &endpoint, const std::string &interface, const std::string &other);

/// Connects, from the address `from` if one is given; retries until the deadline, because the listener may start later.
/// Throws Error (Runtime) with the last reason.
Descriptor connectTo(const Endpoint &endpoint, const std::string &from, Clock::time_point deadline);

/// The numeric addresses of this end and of the other.
Endpoint localEndpoint(int socket);
Endpoint remoteEndpoint(int socket);

/// An address of this machine: the given address, or the first one of the interface of that name. Throws Error
/// (BadInput).
std::string addressOf(const std::string &interfaceOrAddress);

/// Makes small messages go out at once, and probes the other end every second. The connection breaks when the peer has
/// been silent for somewhat longer than `patience`, so that the watchdogs, which know more, report first.
void configure(int socket, std::chrono::milliseconds patience);

/// Keeps a connection retransmitting, so that it survives every network outage shorter than `patience`.
///
/// The system retransmits unacknowledged data, but waits twice as long each time: after an outage of 30 s it is silent
/// for 21 more. From Linux 6.15 on, configure() limits the wait to a second (TCP_RTO_MAX_MS). Older systems never wait
/// beyond the time at which they would give up (TCP_USER_TIMEOUT, from 4.19 on), so moving that time forward in small
/// steps controls when they try next.
class Persistence {
public:
  explicit Persistence(std::chrono::milliseconds patience) : patience(patience) {}

  /// Call it several times a second, for a socket that was configured with the same patience.
  void look(int socket, Clock::time_point now);
  /// How long the system has been retransmitting unacknowledged data, even if the peer's data arrives, as it may when a
  /// link is cut in one direction.
  std::chrono::milliseconds inVainFor(Clock::time_point now) const;

private:
  std::chrono::milliseconds patience;
  Clock::time_point answered = Clock::now(); ///< when data was last acknowledged in time
  bool isTrying = false, isResending = false;
};

/// Waits until the socket can be read (or written) or the deadline has passed. Returns whether it can.
bool awaitReadable(int socket, Clock::time_point deadline);
bool awaitWritable(int socket, Clock::time_point deadline);

/// How long ago anything came from the peer's operating system, if known: it answers even while the process is stopped,
/// but not across a broken link.
std::chrono::milliseconds silenceOfSystem(int socket);

} // namespace dtc::job
