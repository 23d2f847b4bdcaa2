// How two that know a key recognise each other, and how they talk afterwards.
//
//   the one that listens    "dtc job 1\n", then 32 fresh bytes L
//   the one that connects   the length of its words; 32 fresh bytes C; its words; H(key, "knock", L C words)
//   the one that listens    "+", then H(key, "enter", C L); or "-" where the hash is wrong, and closes
//
// H is the keyed hash of secret.h. What was recorded of another session is worth nothing, since L and C are fresh.
// Afterwards each message is its length (4 bytes, little-endian), 16 bytes of H(k, number of the message, message) and
// the message; k is H(key, direction, L C). Nothing is encrypted: others may read along, but not join in.
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

  /// Queues a message and sends what the system takes of it.
  void send(const Message &message);
  /// Sends more of what is queued. Does not wait.
  void flush();
  bool hasUnsent() const { return !outgoing.empty(); }
  /// The next message that has arrived whole. Does not wait. Throws Error when the connection has ended or is broken,
  /// with the reason, after the last message has been returned.
  std::optional<Message> receive();
  /// Waits for it; none after the deadline.
  std::optional<Message> await(Clock::time_point deadline);

private:
  std::optional<Message> takeWhole();

  Descriptor file;
  Key sendKey, receiveKey;
  uint64_t sent = 0, received = 0;
  std::string incoming, outgoing;
};

/// Knocks at whoever listens behind `socket` with these words. Throws Error (BadInput) when what answers is no job's,
/// or when it does not know the same token; Error (Runtime) when the connection ends or the deadline passes.
Session knock(Descriptor socket, const Key &key, std::string_view words, Clock::time_point deadline);

/// Connects, from the address `from` where one is given, and knocks. Of very many that come at once, a gate makes some
/// come again: that is done until the deadline. `words` are asked for when this end's address is known. Throws as
/// connectTo and knock.
Session call(const Endpoint &endpoint, const std::string &from, const Key &key,
             const std::function<std::string(const std::string &address)> &words, Clock::time_point deadline);

/// A listening socket that lets in who knows the key. Strangers cannot disturb it: of connections that have not proven
/// anything it keeps a bounded number for a bounded time, and reads a bounded number of bytes.
class Gate {
public:
  static constexpr size_t MostWaiting = 128;  ///< connections; the oldest makes room for one more
  static constexpr uint32_t MostWords = 8192; ///< bytes
  static constexpr std::chrono::seconds Patience{10};

  Gate(Descriptor listening, const Key &key) : listening(std::move(listening)), key(key) {}

  Endpoint endpoint() const { return localEndpoint(listening.get()); }

  struct Guest {
    Session session;
    std::string words;
    std::string from; ///< address, for messages
  };

  /// What to poll for.
  void addTo(std::vector<pollfd> &files) const;
  /// Lets in who has come. Does not wait.
  std::vector<Guest> admit();

private:
  struct Waiting {
    Descriptor socket;
    Key nonce;
    std::string heard;
    Clock::time_point since;
  };
  void acceptAll();
  /// Whether `waiting` is to be kept; a guest is added to `guests`.
  bool listen(Waiting &waiting, std::vector<Guest> &guests) const;

  Descriptor listening;
  Key key;
  std::deque<Waiting> waiting; // the oldest first
};

} // namespace dtc::job
