// Moving bytes over the connections of one command between hosts.
//
// Each connection is a link with two runs of bytes in a row, one out and one in, which begin with a header: whoever
// reads a header that is not its own knows that the command lists differ. The sender's header says whether a hash of
// the bytes follows them, which the receiver holds against its own: TCP's checksum of 16 bits lets one in 65536 of the
// errors through that cards and switches make. Bytes go straight from where they lie to where they belong. How far a
// run may go by now is said by whoever has something to do with the bytes on the way (adding them up, say); that is
// asked after everything that has moved.
//
// The thread that wants the bytes moves them, all links at once: there is no other thread. It sleeps in poll(), also
// for a failure of any rank, and looks after the ranks of its own host once in a while.
#pragma once

#include "runtime/comm/hosts/run_hash.h"
#include "runtime/liveness/failure_record.h"
#include "runtime/meeting/descriptor.h"
#include "runtime/meeting/membership.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace dtc {

/// Bytes in pieces at regular distances, counted as if they lay in one. Where the distance is zero, a ring.
struct Strided {
  Strided() = default;
  Strided(std::byte *base, int64_t bytes) : Strided(base, bytes, 1, 0) {}
  /// `count` pieces; those that follow each other without a gap are one.
  Strided(std::byte *base, int64_t piece, int64_t count, int64_t stride);
  static Strided ring(std::byte *base, int64_t ringBytes, int64_t bytes);

  /// `count` of them from `begin` on.
  Strided within(int64_t begin, int64_t count) const {
    Strided result = *this;
    result.skipped += begin;
    result.bytes = count;
    return result;
  }

  std::byte *at(int64_t offset) const {
    return base + (skipped + offset) / piece * stride + (skipped + offset) % piece;
  }
  /// How many bytes from there on lie in one.
  int64_t contiguous(int64_t offset) const { return std::min(piece - (skipped + offset) % piece, bytes - offset); }

  std::byte *base = nullptr;
  int64_t bytes = 0, piece = 1, stride = 0;
  int64_t skipped = 0; ///< of what is counted, before the first
};

/// Bytes that go one way.
struct Run {
  /// With nothing else to do about them, all may go at once.
  explicit Run(Strided data) : data(data), allowed(data.bytes) {}
  Run(Strided data, int64_t allowed) : data(data), allowed(allowed) {}

  Strided data;
  int64_t allowed;
  int64_t moved = 0;
};

/// One direction of a connection in one command.
struct Direction {
  /// In a header: a hash follows the runs.
  static constexpr uint64_t Hashed = 1;

  uint64_t header = 0; ///< sent before the runs, or received
  std::vector<Run> runs;

  bool isDone() const { return areRunsDone() && (!isHashed() || hashMoved == sizeof(hash)); }
  bool areRunsDone() const { return hasHeader() && at == runs.size(); }
  /// Whether something may go by now.
  bool hasWork() const;
  bool hasHeader() const { return headerMoved == sizeof(header); }
  bool isHashed() const { return header & Hashed; }
  /// Counts what the system has moved.
  void note(int64_t bytes);
  /// Of all runs together.
  int64_t movedBytes() const;

  size_t at = 0; ///< the first run that is not done
  int64_t headerMoved = 0, hashMoved = 0;
  RunHash own;          ///< of what lies here
  uint64_t hash = 0;    ///< that is sent or received
  bool blocked = false; ///< the system takes or has nothing more by now
  int leastAwaited = 1; ///< bytes that the system wakes this thread for
};

/// What one command moves over one connection.
struct Link {
  /// `signature`: signatureOf the command. `hashed`: whether what is sent is.
  Link(int socket, int peer, uint64_t signature, bool hashed) : socket(socket), peer(peer) {
    out.header = (signature & ~Direction::Hashed) | (hashed ? Direction::Hashed : 0);
  }

  /// Whether both ends carry out the same command.
  bool isAgreed() const { return (in.header | Direction::Hashed) == (out.header | Direction::Hashed); }

  int socket;
  int peer; ///< the rank at its other end
  Direction out, in;
};

/// How many bytes on their way a connection with this time for a trip there and back is best limited to; none: the
/// system knows better. Little stays in the processor's cache from the copy into the system to the copy out of it or
/// the network card, which doubles the speed between namespaces of one machine (bench/hosts.md). But it must suffice
/// for the fastest of networks, and where the other end is far away, what the system allows is little.
std::optional<int> bytesUnderWay(std::chrono::microseconds roundTrip);

/// Limits a new connection to that.
void limitBytesUnderWay(int socket);

/// What is still to come and may be taken, of at most `WakeBytes`: for fewer bytes nobody needs to be woken.
int64_t leastWorthWaking(const Direction &in);

/// Throws PeerLostError when a failure is known.
void throwFailure(const Membership &membership);

/// How bytes are moved, the same for all commands.
class Streams {
public:
  using Complaint = std::function<void(const Link &)>;

  /// `leaving`: readable when this rank's communicator is being destroyed. All outlive it.
  Streams(Membership &membership, int leaving, std::function<void()> lookAround)
      : membership(membership), leaving(leaving), lookAround(std::move(lookAround)) {}

  /// Returns when all runs are done. `advance` is called at first and whenever bytes have moved: it may allow more.
  /// `disagree` is told of a peer whose header is another, `damaged` of one whose hash is, and both throw.
  /// Throws PeerLostError when a connection ends or a failure is known.
  void move(std::span<Link> links, const std::function<void()> &advance, const Complaint &disagree,
            const Complaint &damaged) const;

private:
  /// What the system takes or has by now of one direction, and whether that is anything.
  bool moveOne(const Link &link, Direction &direction, bool sends) const;
  bool send(Link &link) const;
  bool receive(Link &link) const;
  void awaitAny(std::span<Link> links) const;
  bool poll(std::span<Link> links, int milliseconds) const;

  Membership &membership;
  int leaving;
  std::function<void()> lookAround;
};

} // namespace dtc
