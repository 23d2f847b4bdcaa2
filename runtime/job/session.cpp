#include "runtime/job/session.h"

#include "runtime/support/error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>

namespace dtc::job {

static constexpr std::string_view Greeting = "dtc job 1\n";
static constexpr size_t HashBytes = 16; // of each message
static constexpr uint32_t LongestMessage = 64 << 20;
static constexpr char Enter = '+', Refused = '-';

static std::string numberText(uint64_t value, size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i)
    text[i] = static_cast<char>(value >> (8 * i));
  return text;
}

static uint32_t readNumber(std::string_view text) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i)
    value |= uint32_t(static_cast<unsigned char>(text[i])) << (8 * i);
  return value;
}

/// Appends what has arrived to `text`, which grows to at most `most` bytes. Returns why no more will come, or an empty
/// string.
static std::string readInto(std::string &text, int socket, size_t most) {
  char buffer[65536];
  while (text.size() < most) {
    ssize_t count = recv(socket, buffer, std::min(sizeof(buffer), most - text.size()), 0);
    if (count > 0)
      text.append(buffer, static_cast<size_t>(count));
    else if (count == 0)
      return "the connection was closed";
    else if (errno == EAGAIN || errno == EWOULDBLOCK)
      return "";
    else if (errno != EINTR)
      return std::strerror(errno);
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Session
//===----------------------------------------------------------------------===//

Session::Session(Descriptor socket, const Key &key, std::string_view nonces, bool isCaller) : file(std::move(socket)) {
  Key fromCaller = keyedHash(key, "from the caller", nonces), toCaller = keyedHash(key, "to the caller", nonces);
  sendKey = isCaller ? fromCaller : toCaller;
  receiveKey = isCaller ? toCaller : fromCaller;
}

static std::string messageHash(const Key &key, uint64_t number, std::string_view body) {
  Key hash = keyedHash(key, "message " + std::to_string(number), body);
  return std::string(textOf(hash).substr(0, HashBytes));
}

void Session::send(const Message &message) {
  std::string body = message.SerializeAsString();
  outgoing += numberText(body.size(), 4) + messageHash(sendKey, sent++, body) + body;
  flush();
}

void Session::flush() {
  while (!outgoing.empty()) {
    ssize_t count = ::send(file.get(), outgoing.data(), outgoing.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0) // receive() reports a broken connection, after messages that arrived before
      return;
    outgoing.erase(0, static_cast<size_t>(count));
  }
}

std::optional<Message> Session::takeWhole() {
  if (incoming.size() < 4 + HashBytes)
    return std::nullopt;
  uint32_t size = readNumber(incoming);
  if (size > LongestMessage)
    throw Error(fmt::format("a message of {} bytes was announced; at most {} are", size, LongestMessage));
  if (incoming.size() < 4 + HashBytes + size)
    return std::nullopt;
  std::string_view hash = std::string_view(incoming).substr(4, HashBytes),
                   body = std::string_view(incoming).substr(4 + HashBytes, size);
  Message message;
  if (!areEqual(hash, messageHash(receiveKey, received++, body)) || !message.ParseFromString(std::string(body)))
    throw Error("a message came damaged or from somebody else");
  incoming.erase(0, 4 + HashBytes + size);
  return message;
}

std::optional<Message> Session::receive() {
  if (std::optional<Message> message = takeWhole())
    return message;
  std::string end = readInto(incoming, file.get(), 4 + HashBytes + LongestMessage);
  if (std::optional<Message> message = takeWhole())
    return message;
  if (!end.empty())
    throw Error(end);
  return std::nullopt;
}

std::optional<Message> Session::await(Clock::time_point deadline) {
  while (true) {
    flush();
    if (std::optional<Message> message = receive())
      return message;
    if (!awaitReadable(file.get(), deadline))
      return std::nullopt;
  }
}

//===----------------------------------------------------------------------===//
// Connecting
//===----------------------------------------------------------------------===//

/// Reads exactly `bytes` bytes.
static std::string readExactly(int socket, size_t bytes, Clock::time_point deadline) {
  std::string text;
  while (true) {
    std::string end = readInto(text, socket, bytes);
    if (text.size() == bytes)
      return text;
    if (!end.empty())
      throw Error(end);
    if (!awaitReadable(socket, deadline))
      throw Error("no answer came in time");
  }
}

static void writeAll(int socket, std::string_view text, Clock::time_point deadline) {
  while (!text.empty()) {
    ssize_t count = send(socket, text.data(), text.size(), MSG_NOSIGNAL);
    if (count > 0)
      text.remove_prefix(static_cast<size_t>(count));
    else if (errno != EINTR && errno != EAGAIN)
      throw Error(std::strerror(errno));
    else if (!awaitWritable(socket, deadline))
      throw Error("the other end does not read");
  }
}

Session knock(Descriptor socket, const Key &key, std::string_view words, Clock::time_point deadline) {
  std::string greeting = readExactly(socket.get(), 1, deadline);
  if (greeting[0] == Greeting[0])
    greeting += readExactly(socket.get(), Greeting.size() - 1, deadline);
  if (greeting != Greeting)
    throw Error(ExitCode::BadInput, "what listens there is not a job of this version of dtc");
  std::string theirs = readExactly(socket.get(), KeyBytes, deadline);
  Key own = randomKey();
  std::string ours(textOf(own)), said(words);
  Key proof = keyedHash(key, "knock", theirs + ours + said);
  writeAll(socket.get(), numberText(words.size(), 4) + ours + said + std::string(textOf(proof)), deadline);
  if (readExactly(socket.get(), 1, deadline)[0] != Enter)
    throw Error(ExitCode::BadInput,
                "the job there has another token; give all ranks the same DTC_TOKEN_FILE or DTC_TOKEN");
  Key expected = keyedHash(key, "enter", ours + theirs);
  if (!areEqual(readExactly(socket.get(), KeyBytes, deadline), textOf(expected)))
    throw Error(ExitCode::BadInput, "what listens there does not know the job's token");
  return Session(std::move(socket), key, theirs + ours, /*isCaller=*/true);
}

Session call(const Endpoint &endpoint, const std::string &from, const Key &key,
             const std::function<std::string(const std::string &address)> &words, Clock::time_point deadline) {
  using namespace std::chrono_literals;
  while (true)
    try {
      Descriptor socket = connectTo(endpoint, from, deadline);
      std::string said = words(localEndpoint(socket.get()).host);
      return knock(std::move(socket), key, said, deadline);
    } catch (const Error &error) {
      if (error.exitCode() != ExitCode::Runtime || Clock::now() + 1s > deadline)
        throw;
      std::this_thread::sleep_for(10ms + std::chrono::milliseconds(randomKey()[0] % 64));
    }
}

//===----------------------------------------------------------------------===//
// Gate
//===----------------------------------------------------------------------===//

void Gate::addTo(std::vector<pollfd> &files) const {
  files.push_back({listening.get(), POLLIN, 0});
  for (const Waiting &each : waiting)
    files.push_back({each.socket.get(), POLLIN, 0});
}

void Gate::acceptAll() {
  while (true) {
    Descriptor socket(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket && errno == EINTR)
      continue;
    if (!socket) {
      if ((errno == EMFILE || errno == ENFILE) && !waiting.empty())
        waiting.pop_front(); // accepted next time
      return;
    }
    if (waiting.size() >= MostWaiting)
      waiting.pop_front();
    Key nonce = randomKey();
    std::string greeting = std::string(Greeting) + std::string(textOf(nonce));
    // A new connection accepts this little data at once, or it is no loss.
    if (send(socket.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL) == ssize_t(greeting.size()))
      waiting.push_back({std::move(socket), nonce, "", Clock::now()});
  }
}

bool Gate::listen(Waiting &each, std::vector<Guest> &guests) const {
  constexpr size_t Before = 4 + KeyBytes, After = KeyBytes;
  std::string end = readInto(each.heard, each.socket.get(), Before + MostWords + After);
  bool mayCome = end.empty() && Clock::now() - each.since < Patience;
  if (each.heard.size() < 4)
    return mayCome;
  uint32_t size = readNumber(each.heard);
  if (size > MostWords)
    return false;
  if (each.heard.size() < Before + size + After)
    return mayCome;
  std::string_view heard = each.heard, theirs = heard.substr(4, KeyBytes), words = heard.substr(Before, size),
                   proof = heard.substr(Before + size);
  std::string ours(textOf(each.nonce));
  Key expected = keyedHash(key, "knock", ours + std::string(theirs) + std::string(words));
  if (!areEqual(proof, textOf(expected))) {
    static_cast<void>(send(each.socket.get(), &Refused, 1, MSG_NOSIGNAL));
    return false;
  }
  Key welcome = keyedHash(key, "enter", std::string(theirs) + ours);
  std::string answer = Enter + std::string(textOf(welcome));
  std::string from = remoteEndpoint(each.socket.get()).text();
  if (send(each.socket.get(), answer.data(), answer.size(), MSG_NOSIGNAL) == ssize_t(answer.size()))
    guests.push_back({Session(std::move(each.socket), key, ours + std::string(theirs), /*isCaller=*/false),
                      std::string(words), from});
  return false;
}

std::vector<Gate::Guest> Gate::admit() {
  acceptAll();
  std::vector<Guest> guests;
  std::erase_if(waiting, [&](Waiting &each) { return !listen(each, guests); });
  return guests;
}

} // namespace dtc::job
