// Moves the bytes of one command over the connections between hosts.
//
// Each connection is a link with runs of bytes in two directions, out and in. Each direction begins with a header: a
// rank that reads a header different from its own knows that the command lists differ. The sender's header says whether
// a hash of the bytes follows them, which the receiver compares with its own: TCP's 16-bit checksum misses one in 65536
// of the errors that network cards and switches make. Bytes go directly from source to destination. Code that processes
// bytes in between (adding, for example) decides how far a run may advance; it is called whenever something has moved.
//
// The thread that needs the bytes moves them, on all links at once: there is no other thread. It sleeps in poll(),
// which also wakes it when any rank fails, and checks the ranks of its own host from time to time.
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

/// Bytes in pieces at regular distances, indexed as if they were contiguous. With a distance of zero, a ring.
struct Strided {
  Strided() = default;
  Strided(std::byte *base, int64_t bytes) : Strided(base, bytes, 1, 0) {}
  /// `count` pieces; pieces without gaps between them count as one.
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
  /// How many bytes from `offset` on are contiguous.
  int64_t contiguous(int64_t offset) const { return std::min(piece - (skipped + offset) % piece, bytes - offset); }

  std::byte *base = nullptr;
  int64_t bytes = 0, piece = 1, stride = 0;
  int64_t skipped = 0; ///< bytes before the first one that counts
};

/// Bytes that go in one direction.
struct Run {
  /// A run without further processing: all of it may go at once.
  explicit Run(Strided data) : data(data), allowed(data.bytes) {}
  Run(Strided data, int64_t allowed) : data(data), allowed(allowed) {}

  Strided data;
  int64_t allowed;
  int64_t moved = 0;
};

/// One direction of a connection in one command.
struct Direction {
  /// Header bit: a hash follows the runs.
  static constexpr uint64_t Hashed = 1;

  uint64_t header = 0; ///< sent before the runs, or received
  std::vector<Run> runs;

  bool isDone() const { return areRunsDone() && (!isHashed() || hashMoved == sizeof(hash)); }
  bool areRunsDone() const { return hasHeader() && at == runs.size(); }
  /// Whether something may be moved now.
  bool hasWork() const;
  bool hasHeader() const { return headerMoved == sizeof(header); }
  bool isHashed() const { return header & Hashed; }
  /// Records what the system has moved.
  void note(int64_t bytes);
  /// The bytes moved so far, over all runs.
  int64_t movedBytes() const;

  size_t at = 0; ///< index of the first unfinished run
  int64_t headerMoved = 0, hashMoved = 0;
  RunHash own;          ///< of the local bytes
  uint64_t hash = 0;    ///< the hash that is sent or received
  bool blocked = false; ///< the system can take or give nothing more for now
  int leastAwaited = 1; ///< the number of bytes for which the system wakes this thread
};

/// What one command moves over one connection.
struct Link {
  /// `signature`: the command's signatureOf. `hashed`: whether outgoing data is hashed.
  Link(int socket, int peer, uint64_t signature, bool hashed) : socket(socket), peer(peer) {
    out.header = (signature & ~Direction::Hashed) | (hashed ? Direction::Hashed : 0);
  }

  /// Whether both ends run the same command.
  bool isAgreed() const { return (in.header | Direction::Hashed) == (out.header | Direction::Hashed); }

  int socket;
  int peer; ///< the rank at its other end
  Direction out, in;
};

/// The best limit on bytes in flight for a connection with this round-trip time; nullopt: leave it to the system. With
/// little in flight, data stays in the processor's cache between the copy into the kernel and the copy out of it or to
/// the network card, which doubles the speed between namespaces of one machine (bench/hosts.md). But the limit must
/// suffice for the fastest networks, and for a distant peer even the system's default is small.
std::optional<int> bytesUnderWay(std::chrono::microseconds roundTrip);

/// Applies that limit to a new connection.
void limitBytesUnderWay(int socket);

/// The bytes that are still to come and may be received, at most `WakeBytes`: the thread need not wake for fewer.
int64_t leastWorthWaking(const Direction &in);

/// Throws PeerLostError if a failure is known.
void throwFailure(const Membership &membership);

/// Moves bytes; shared by all commands.
class Streams {
public:
  using Complaint = std::function<void(const Link &)>;

  /// `leaving`: readable once this rank's communicator is being destroyed. All arguments outlive it.
  Streams(Membership &membership, int leaving, std::function<void()> lookAround)
      : membership(membership), leaving(leaving), lookAround(std::move(lookAround)) {}

  /// Returns when all runs are done. Calls `advance` at the start and whenever bytes have moved: it may allow more.
  /// Calls `disagree` for a peer with a different header and `damaged` for one with a different hash; both throw.
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
