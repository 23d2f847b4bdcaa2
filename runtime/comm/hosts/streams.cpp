#include "runtime/comm/hosts/streams.h"

#include "runtime/support/error.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <linux/tcp.h> // the C library's header lacks the minimum round-trip time
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/uio.h>

namespace dtc {

/// The most that one system call moves: more would keep the other direction waiting.
static constexpr int64_t CallBytes = int64_t(1) << 20;
/// The most pieces in one call.
static constexpr size_t CallPieces = 128;
/// Milliseconds between two checks that the ranks of this host are alive.
static constexpr int LookInterval = 100;

/// The speed of a network faster than most: data in flight may be delayed longer than the shortest round trip.
static constexpr int64_t BytesPerMicrosecond = int64_t(16) << 10;
static constexpr int64_t LeastUnderWay = int64_t(128) << 10, MostUnderWay = int64_t(2) << 20;

/// The thread is not woken for fewer bytes than this while more are to come: it shares a core with kernels, which each
/// packet would interrupt. It is half of the least amount in flight, so that sender and receiver work at the same time.
static constexpr int64_t WakeBytes = LeastUnderWay / 2;
/// With so few bytes left it is not worth setting the wake threshold.
static constexpr int64_t FewBytes = int64_t(16) << 10;

std::optional<int> bytesUnderWay(std::chrono::microseconds roundTrip) {
  int64_t bytes = std::max(LeastUnderWay, roundTrip.count() * BytesPerMicrosecond);
  return bytes > MostUnderWay ? std::nullopt : std::optional(static_cast<int>(bytes));
}

/// Sets the size of the send buffer; the system may grant less.
void limitBytesUnderWay(int socket) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
    return;
  if (std::optional<int> bytes = bytesUnderWay(std::chrono::microseconds(info.tcpi_min_rtt)))
    setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &*bytes, sizeof(*bytes));
}

Strided::Strided(std::byte *base, int64_t piece, int64_t count, int64_t stride)
    : base(base), bytes(piece * count), piece(std::max<int64_t>(count == 1 || stride == piece ? bytes : piece, 1)),
      stride(stride) {}

Strided Strided::ring(std::byte *base, int64_t ringBytes, int64_t bytes) {
  Strided result(base, bytes);
  result.piece = std::max<int64_t>(ringBytes, 1);
  return result;
}

namespace {

/// The pieces that are passed to one system call.
class Pieces {
public:
  bool add(void *data, int64_t bytes) {
    parts[count++] = {data, static_cast<size_t>(bytes)};
    total += bytes;
    return count < CallPieces && total < CallBytes;
  }
  /// Adds as much as may be moved now.
  void add(Direction &direction, bool sends) {
    if (!direction.hasHeader())
      add(direction.header, direction.headerMoved);
    int64_t before = total;
    bool areAll = addRuns(direction);
    if (!direction.isHashed() || !(sends || direction.hasHeader()))
      return;
    if (sends)
      direction.own.advance(direction.runs, direction.movedBytes() + total - before);
    if (!areAll)
      return;
    if (sends)
      direction.hash = direction.own.value();
    add(direction.hash, direction.hashMoved);
  }

  int64_t bytes() const { return total; }
  msghdr message() {
    msghdr message = {};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    return message;
  }

private:
  void add(uint64_t &word, int64_t moved) { add(reinterpret_cast<std::byte *>(&word) + moved, sizeof(word) - moved); }
  /// Returns whether all of the direction's runs were added and there is room for more.
  bool addRuns(const Direction &direction) {
    for (size_t index = direction.at; index < direction.runs.size(); ++index) {
      const Run &run = direction.runs[index];
      for (int64_t at = run.moved; at < run.allowed;) {
        int64_t piece = std::min({run.data.contiguous(at), run.allowed - at, CallBytes - total});
        if (!add(run.data.at(at), piece))
          return false;
        at += piece;
      }
      if (run.allowed < run.data.bytes)
        return false;
    }
    return true;
  }

  std::array<iovec, CallPieces> parts;
  size_t count = 0;
  int64_t total = 0;
};

} // namespace

bool Direction::hasWork() const {
  return !hasHeader() || (at < runs.size() ? runs[at].moved < runs[at].allowed : !isDone());
}

int64_t Direction::movedBytes() const {
  int64_t bytes = 0;
  for (const Run &run : runs)
    bytes += run.moved;
  return bytes;
}

void Direction::note(int64_t bytes) {
  int64_t ofHeader = std::min<int64_t>(bytes, sizeof(uint64_t) - headerMoved);
  headerMoved += ofHeader;
  bytes -= ofHeader;
  for (; hasHeader() && at < runs.size(); ++at) {
    int64_t ofRun = std::min(bytes, runs[at].data.bytes - runs[at].moved);
    runs[at].moved += ofRun;
    bytes -= ofRun;
    if (runs[at].moved < runs[at].data.bytes)
      return;
  }
  hashMoved += bytes;
}

bool Streams::moveOne(const Link &link, Direction &direction, bool sends) const {
  if (direction.blocked || !direction.hasWork())
    return false;
  Pieces pieces;
  pieces.add(direction, sends);
  msghdr message = pieces.message();
  ssize_t count = sends ? sendmsg(link.socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT)
                        : recvmsg(link.socket, &message, MSG_DONTWAIT);
  if (count < 0 && errno != EAGAIN && errno != EINTR)
    membership.lost(link.peer, std::string("its connection broke: ") + std::strerror(errno));
  if (count == 0 && !sends)
    membership.lost(link.peer, "it ended while its peers went on");
  direction.blocked = count < pieces.bytes();
  direction.note(std::max<ssize_t>(count, 0));
  return count > 0;
}

bool Streams::send(Link &link) const { return moveOne(link, link.out, /*sends=*/true); }

bool Streams::receive(Link &link) const {
  if (!moveOne(link, link.in, /*sends=*/false))
    return false;
  if (link.in.hasHeader() && link.in.isHashed())
    link.in.own.advance(link.in.runs, link.in.movedBytes()); // before anybody writes over it
  return true;
}

/// Counts only up to the end of a run: what follows may depend on this rank's results.
int64_t leastWorthWaking(const Direction &in) {
  if (!in.hasHeader() || in.at == in.runs.size())
    return 1;
  int64_t left = in.runs[in.at].allowed - in.runs[in.at].moved;
  return left < FewBytes ? 1 : std::min(left, WakeBytes);
}

/// Makes the system wake this thread only once this many bytes are available.
static void wakeFor(Link &link, int64_t bytes) {
  int least = static_cast<int>(bytes);
  if (link.in.leastAwaited == least)
    return;
  setsockopt(link.socket, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least));
  link.in.leastAwaited = least;
}

void Streams::move(std::span<Link> links, const std::function<void()> &advance, const Complaint &disagree,
                   const Complaint &damaged) const {
  for (Link &link : links)
    for (Direction *direction : {&link.out, &link.in})
      direction->note(0); // skips empty runs
  advance();
  auto isDone = [](const Link &link) { return link.out.isDone() && link.in.isDone(); };
  while (!std::all_of(links.begin(), links.end(), isDone)) {
    bool moved = false;
    for (Link &link : links) {
      moved |= send(link);
      bool wasKnown = link.in.hasHeader(), wasDone = link.in.isDone();
      moved |= receive(link);
      if (!wasKnown && link.in.hasHeader() && !link.isAgreed())
        disagree(link);
      if (!wasDone && link.in.isDone() && link.in.isHashed() && link.in.hash != link.in.own.value())
        damaged(link);
    }
    if (moved)
      advance();
    awaitAny(links);
  }
  for (Link &link : links)
    wakeFor(link, 1);
}

/// Returns when some link may be able to make progress.
void Streams::awaitAny(std::span<Link> links) const {
  bool canGoOn = false, isBlocked = false, isDone = true;
  for (const Link &link : links)
    for (const Direction *direction : {&link.out, &link.in}) {
      (direction->blocked ? isBlocked : canGoOn) |= direction->hasWork();
      isDone &= direction->isDone();
    }
  if (isDone)
    return;
  if (canGoOn && !isBlocked)
    return;
  while (!poll(links, canGoOn ? 0 : LookInterval) && !canGoOn)
    lookAround();
}

/// Asks the system which links can make progress; returns whether any can.
bool Streams::poll(std::span<Link> links, int milliseconds) const {
  std::vector<pollfd> files;
  files.reserve(links.size() + 2);
  files.push_back({membership.failureSignal(), POLLIN, 0});
  files.push_back({leaving, POLLIN, 0});
  for (Link &link : links) {
    bool out = link.out.blocked && link.out.hasWork(), in = link.in.blocked && link.in.hasWork();
    if (in)
      wakeFor(link, leastWorthWaking(link.in));
    files.push_back({out || in ? link.socket : -1, static_cast<short>((out ? POLLOUT : 0) | (in ? POLLIN : 0)), 0});
  }
  int ready = ::poll(files.data(), files.size(), milliseconds);
  if (ready < 0 && errno != EINTR)
    throw Error(std::string("cannot wait for other hosts: ") + std::strerror(errno));
  if (ready <= 0)
    return false;
  if (files[1].revents)
    throw Error("this rank ends its communication");
  if (files[0].revents)
    throwFailure(membership);
  for (size_t i = 0; i < links.size(); ++i) {
    constexpr int Broken = POLLERR | POLLHUP; // the next call reports the error
    links[i].out.blocked &= (files[i + 2].revents & (POLLOUT | Broken)) == 0;
    links[i].in.blocked &= (files[i + 2].revents & (POLLIN | Broken)) == 0;
  }
  return true;
}

void throwFailure(const Membership &membership) {
  if (std::optional<FailureNotice> notice = membership.failure())
    throw PeerLostError(notice->rank, describeFailure(*notice));
}

} // namespace dtc
