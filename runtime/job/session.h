// How two peers that share a key authenticate each other and communicate afterwards.
//
//   the listener    "dtc job 1\n", then 32 random bytes L
//   the caller      the length of its words; 32 random bytes C; its words; H(key, "knock", L C words)
//   the listener    "+", then H(key, "enter", C L); or "-" where the hash is wrong, and closes
//
// H is the keyed hash of secret.h. Replaying another session is useless, because L and C are new each time. Afterwards
// each message is its length (4 bytes, little-endian), 16 bytes of H(k, number of the message, message) and the
// message; k is H(key, direction, L C). Nothing is encrypted: others may eavesdrop, but cannot take part.
#pragma once

#include "runtime/job/job.pb.h"
#include "runtime/job/secret.h"
#include "runtime/job/socket.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct pollfd;

namespace dtc::job {

/// An authenticated connection.
class Session {
public:
  /// `isCaller`: whether this end connected.
  Session(Descriptor socket, const Key &key, std::string_view nonces, bool isCaller);

  int socket() const { return file.get(); }
  Descriptor takeSocket() { return std::move(file); }

  /// Queues a message and sends as much as the system accepts.
  void send(const Message &message);
  /// Sends more of what is queued. Does not wait.
  void flush();
  bool hasUnsent() const { return !outgoing.empty(); }
  /// The next complete message. Does not wait. When the connection has ended or is broken, throws Error with the
  /// reason, after all messages have been returned.
  std::optional<Message> receive();
  /// Waits for the next message; nullopt after the deadline.
  std::optional<Message> await(Clock::time_point deadline);

private:
  std::optional<Message> takeWhole();

  Descriptor file;
  Key sendKey, receiveKey;
  uint64_t sent = 0, received = 0;
  std::string incoming, outgoing;
};

/// Authenticates with the listener at the other end of `socket` and sends `words`. Throws Error (BadInput) when the
/// listener is not a dtc job or has a different token; Error (Runtime) when the connection ends or the deadline passes.
Session knock(Descriptor socket, const Key &key, std::string_view words, Clock::time_point deadline);

/// Connects, from the address `from` if one is given, and knocks. With very many callers at once, a gate turns some
/// away; the call is then retried until the deadline. `words` is called when this end's address is known. Throws like
/// connectTo and knock.
Session call(const Endpoint &endpoint, const std::string &from, const Key &key,
             const std::function<std::string(const std::string &address)> &words, Clock::time_point deadline);

/// A listening socket that accepts peers that know the key. Strangers cannot disturb it: it keeps a bounded number of
/// unauthenticated connections for a bounded time, and reads a bounded number of bytes from each.
class Gate {
public:
  static constexpr size_t MostWaiting = 128;  ///< connections; a new one replaces the oldest
  static constexpr uint32_t MostWords = 8192; ///< bytes
  static constexpr std::chrono::seconds Patience{10};

  Gate(Descriptor listening, const Key &key) : listening(std::move(listening)), key(key) {}

  Endpoint endpoint() const { return localEndpoint(listening.get()); }

  struct Guest {
    Session session;
    std::string words;
    std::string from; ///< address, for messages
  };

  /// Adds the files to poll.
  void addTo(std::vector<pollfd> &files) const;
  /// Accepts the peers that have authenticated. Does not wait.
  std::vector<Guest> admit();

private:
  struct Waiting {
    Descriptor socket;
    Key nonce;
    std::string heard;
    Clock::time_point since;
  };
  void acceptAll();
  /// Returns whether to keep `waiting`; adds an authenticated peer to `guests`.
  bool listen(Waiting &waiting, std::vector<Guest> &guests) const;

  Descriptor listening;
  Key key;
  std::deque<Waiting> waiting; // the oldest first
};

} // namespace dtc::job
