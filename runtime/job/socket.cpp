#include "runtime/job/socket.h"

#include "runtime/support/error.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <utility>

namespace dtc::job {

static constexpr int WaitingConnections = 512; // the listen backlog
/// How much longer connections last than the watchdogs' patience.
static constexpr std::chrono::milliseconds GraceForWatchdogs{5000};
/// Time between two retransmissions over a broken link: an upper limit if the system lets us set it, a lower limit if
/// not.
static constexpr std::chrono::milliseconds LongestPause{1000}, ShortestPause{500};
static constexpr int LongestPauseOption = 44; // TCP_RTO_MAX_MS, which the C library lacks

std::string Endpoint::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

Endpoint parseEndpoint(std::string_view text, std::string_view what) {
  size_t colon = text.rfind(':');
  Endpoint endpoint;
  const char *end = text.data() + text.size();
  bool ok = colon != std::string_view::npos && colon > 0;
  if (ok) {
    auto [stop, problem] = std::from_chars(text.data() + colon + 1, end, endpoint.port);
    ok = problem == std::errc() && stop == end && endpoint.port > 0 && endpoint.port < 65536;
    std::string_view host = text.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']'))
      host = host.substr(1, host.size() - 2);
    else
      ok = ok && host.find(':') == std::string_view::npos;
    endpoint.host = host;
  }
  if (!ok || endpoint.host.empty())
    throw Error(ExitCode::BadInput, fmt::format("{} is '{}'; write it as host:port", what, text));
  return endpoint;
}

namespace {
using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;
}

/// The addresses of a host; null with the reason in `problem` if there are none.
static Addresses resolve(const Endpoint &endpoint, std::string &problem) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  std::string port = std::to_string(endpoint.port);
  if (int code = getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &found))
    problem = code == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(code);
  return {found, freeaddrinfo};
}

static Descriptor makeSocket(int family) {
  Descriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket)
    throw Error(fmt::format("cannot make a socket: {}", std::strerror(errno)));
  return socket;
}

Descriptor listenAt(const Endpoint &endpoint) {
  std::string problem;
  Addresses addresses = resolve(endpoint, problem);
  if (!addresses)
    throw Error(ExitCode::BadInput, fmt::format("cannot listen at {}: {}", endpoint.text(), problem));
  Descriptor socket = makeSocket(addresses->ai_family);
  int yes = 1; // allows reusing an ended job's port at once
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (bind(socket.get(), addresses->ai_addr, addresses->ai_addrlen) != 0 || listen(socket.get(), WaitingConnections)) {
    int number = errno;
    if (number == EADDRNOTAVAIL)
      throw Error(ExitCode::BadInput,
                  fmt::format("cannot listen at {}: it is no address of this machine; give one that "
                              "'ip address' shows",
                              endpoint.text()));
    if (number == EADDRINUSE)
      throw Error(fmt::format("cannot listen at {}: the port is taken, perhaps by another job; choose another",
                              endpoint.text()));
    throw Error(fmt::format("cannot listen at {}: {}", endpoint.text(), std::strerror(number)));
  }
  return socket;
}

static Endpoint describe(const sockaddr_storage &address, socklen_t size) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getnameinfo(reinterpret_cast<const sockaddr *>(&address), size, host, sizeof(host), port, sizeof(port),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return {"?", 0};
  return {host, std::atoi(port)};
}

Endpoint localEndpoint(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getsockname(socket, reinterpret_cast<sockaddr *>(&address), &size);
  return describe(address, size);
}

Endpoint remoteEndpoint(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getpeername(socket, reinterpret_cast<sockaddr *>(&address), &size) != 0)
    return {"?", 0};
  return describe(address, size);
}

static bool await(int socket, short what, Clock::time_point deadline) {
  while (true) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd entry{socket, what, 0};
    int count = poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 3600'000)));
    if (count > 0)
      return true;
    if (count == 0 && left <= 0)
      return false;
  }
}

bool awaitReadable(int socket, Clock::time_point deadline) { return await(socket, POLLIN, deadline); }
bool awaitWritable(int socket, Clock::time_point deadline) { return await(socket, POLLOUT, deadline); }

static bool isLoopback(const sockaddr *address) {
  if (address->sa_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in *>(address)->sin_addr.s_addr) >> 24 == 127;
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6 *>(address)->sin6_addr);
}

/// The local address from which packets to a host would be sent; empty if there is no route. Sends nothing.
static std::string addressTowards(const std::string &host) {
  std::string ignored;
  Addresses addresses = resolve({host, 9}, ignored);
  if (!addresses)
    return "";
  Descriptor socket(::socket(addresses->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || connect(socket.get(), addresses->ai_addr, addresses->ai_addrlen) != 0)
    return "";
  return localEndpoint(socket.get()).host;
}

Endpoint reachableEndpoint(const Endpoint &endpoint, const std::string &interface, const std::string &other) {
  std::string problem;
  Addresses addresses = resolve(endpoint, problem);
  unsigned char bytes[sizeof(in6_addr)];
  bool isMeant = endpoint.host == "localhost" || inet_pton(AF_INET, endpoint.host.c_str(), bytes) == 1 ||
                 inet_pton(AF_INET6, endpoint.host.c_str(), bytes) == 1;
  if (isMeant || !addresses || !isLoopback(addresses->ai_addr))
    return endpoint;
  if (!interface.empty())
    return {addressOf(interface), endpoint.port};
  if (std::string address = other.empty() ? "" : addressTowards(other); !address.empty())
    return {address, endpoint.port};
  throw Error(
      ExitCode::BadInput,
      fmt::format("cannot listen at {}: here the name stands for {}, which no other host can reach (see /etc/hosts); "
                  "give an address of this host that 'ip address' shows, or the interface (DTC_INTERFACE)",
                  endpoint.text(),
                  describe(*reinterpret_cast<sockaddr_storage *>(addresses->ai_addr), addresses->ai_addrlen).host));
}

/// One attempt at one address; returns a socket, or none and the reason.
static Descriptor tryConnect(const addrinfo &address, const addrinfo *from, Clock::time_point deadline,
                             std::string &problem) {
  Descriptor socket = makeSocket(address.ai_family);
  int yes = 1; // otherwise each bind takes a port that no other connection uses, and they run out
  if (from)
    setsockopt(socket.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof(yes));
  if (from && bind(socket.get(), from->ai_addr, from->ai_addrlen) != 0) {
    problem = fmt::format("cannot use that local address: {}", std::strerror(errno));
    return Descriptor();
  }
  int number = connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  if (number == EINPROGRESS) {
    number = ETIMEDOUT;
    socklen_t size = sizeof(number);
    if (awaitWritable(socket.get(), deadline))
      getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &number, &size);
  }
  if (number == 0)
    return socket;
  problem = std::strerror(number);
  return Descriptor();
}

Descriptor connectTo(const Endpoint &endpoint, const std::string &from, Clock::time_point deadline) {
  using namespace std::chrono_literals;
  std::string problem = "no time was left";
  std::string ignored;
  Addresses local(nullptr, freeaddrinfo);
  if (!from.empty())
    local = resolve({from, 0}, ignored);
  for (auto pause = 10ms; Clock::now() < deadline; pause = std::min(pause * 2, 500ms)) {
    Addresses addresses = resolve(endpoint, problem);
    for (addrinfo *at = addresses.get(); at; at = at->ai_next)
      if (Descriptor socket = tryConnect(*at, local.get(), std::min(deadline, Clock::now() + 5s), problem))
        return socket;
    std::this_thread::sleep_for(pause);
  }
  throw Error(problem);
}

std::string addressOf(const std::string &interfaceOrAddress) {
  unsigned char bytes[sizeof(in6_addr)];
  if (inet_pton(AF_INET, interfaceOrAddress.c_str(), bytes) == 1 ||
      inet_pton(AF_INET6, interfaceOrAddress.c_str(), bytes) == 1)
    return interfaceOrAddress;
  ifaddrs *list = nullptr;
  if (getifaddrs(&list) != 0)
    throw Error(fmt::format("cannot ask for this machine's interfaces: {}", std::strerror(errno)));
  std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::string names;
  for (const ifaddrs *at = list; at; at = at->ifa_next) {
    if (!at->ifa_addr || (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6))
      continue;
    if (interfaceOrAddress == at->ifa_name) {
      sockaddr_storage address = {};
      socklen_t size = at->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      std::memcpy(&address, at->ifa_addr, size);
      return describe(address, size).host;
    }
    if (names.find(at->ifa_name) == std::string::npos)
      names += fmt::format("{}{}", names.empty() ? "" : ", ", at->ifa_name);
  }
  throw Error(ExitCode::BadInput, fmt::format("there is no interface '{}' with an address; there are {}",
                                              interfaceOrAddress, names.empty() ? "none" : names));
}

static tcp_info infoOf(int socket) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size); // leaves zeros on failure
  return info;
}

static void set(int socket, int level, int name, int value) { setsockopt(socket, level, name, &value, sizeof(value)); }

static void giveUpAfter(int socket, std::chrono::milliseconds time) {
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(time.count()));
}

void configure(int socket, std::chrono::milliseconds patience) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  giveUpAfter(socket, patience + GraceForWatchdogs);
  set(socket, IPPROTO_TCP, LongestPauseOption, static_cast<int>(LongestPause.count()));
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1); // an end that only receives probes from time to time
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
}

/// Whether the system itself limits the time between retransmissions.
static bool isSteady(int socket) {
  int milliseconds = 0;
  socklen_t size = sizeof(milliseconds);
  return getsockopt(socket, IPPROTO_TCP, LongestPauseOption, &milliseconds, &size) == 0 &&
         milliseconds <= LongestPause.count();
}

/// Tells the system that the peer's neighbour entry in the local network is still valid. Otherwise, after half a minute
/// the system would notice that nobody answers at that address, and the connection would return to its own
/// retransmission times (RFC 6069). Sends nothing.
static void confirmNeighbour(int socket) {
  constexpr int Probe = 0x10; // MSG_PROBE, which the C library lacks
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getpeername(socket, reinterpret_cast<sockaddr *>(&address), &size) != 0)
    return;
  Descriptor datagrams(::socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sendto(datagrams.get(), nullptr, 0, MSG_CONFIRM | Probe, reinterpret_cast<sockaddr *>(&address), size);
}

/// If the system limits the retransmission interval, the connection breaks once the peer has been silent for
/// `patience`. Otherwise the next attempt comes after a quarter of the remaining time: often near the end and rarely
/// before, because an attempt while this process is held up and does not look would be the last. A peer that answers
/// but has no room for more is probed rarely.
void Persistence::look(int socket, Clock::time_point now) {
  tcp_info info = infoOf(socket);
  isResending = info.tcpi_retransmits > 0;
  if (!info.tcpi_retransmits && !info.tcpi_probes && !info.tcpi_backoff) {
    answered = now;
    if (std::exchange(isTrying, false))
      giveUpAfter(socket, patience + GraceForWatchdogs);
    return;
  }
  isTrying = true;
  auto silence = silenceOfSystem(socket);
  if (silence >= patience + GraceForWatchdogs)
    return;
  auto tried = std::chrono::duration_cast<std::chrono::milliseconds>(now - answered);
  if (isSteady(socket))
    return giveUpAfter(socket, tried + patience + GraceForWatchdogs - silence);
  confirmNeighbour(socket);
  giveUpAfter(socket, tried + std::max(ShortestPause, (patience - (info.tcpi_retransmits ? tried : silence)) / 4));
}

std::chrono::milliseconds Persistence::inVainFor(Clock::time_point now) const {
  using std::chrono::milliseconds;
  return isResending ? std::chrono::duration_cast<milliseconds>(now - answered) : milliseconds(0);
}

std::chrono::milliseconds silenceOfSystem(int socket) {
  tcp_info info = infoOf(socket);
  return std::chrono::milliseconds(std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv));
}

} // namespace dtc::job
