#include "runtime/job/server.h"

#include "runtime/comm/link_text.h"
#include "runtime/job/roster.h"
#include "runtime/job/wake.h"
#include "runtime/liveness/heart.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <fmt/format.h>
#include <mutex>
#include <poll.h>
#include <thread>

namespace dtc::job {

using namespace std::chrono_literals;

/// How long ranks may take to leave; after a failure, to learn of it.
static constexpr std::chrono::milliseconds Farewell = 5s, FarewellInFailure = 500ms;

static std::chrono::milliseconds since(Clock::time_point time, Clock::time_point now) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(now - time);
}

/// One thread does all the work; the server's functions pass messages to it.
class Server::Loop {
public:
  explicit Loop(ServerOptions given)
      : options(std::move(given)), gate(listenAt(options.listen), options.token), place(gate.endpoint()),
        roster(options.world), generation(options.generation) {
    if (options.node)
      nodes.emplace(*options.node);
    thread = std::thread([this] { run(); });
  }
  ~Loop() {
    ending = true;
    wake.ring();
    thread.join();
  }

  Endpoint endpoint() const { return place; }
  void fail(int rank, const std::string &reason);
  std::optional<FailureNotice> failure() const;
  void begin(uint32_t number);
  Nodes *getNodes() { return nodes ? &*nodes : nullptr; }

private:
  void run();
  bool isOver();
  void startOver();
  void admit(Gate::Guest guest);
  void greet(Gate::Guest guest, Hello hello);
  void hear(int rank);
  void noteSilence(std::chrono::milliseconds ended);
  void obey(int rank, const Message &message);
  void takeNumber(int rank, const Number &number);
  void look();
  void watch(Clock::time_point now);
  void pulse();
  void tellFailure();
  void broadcast(const Message &message);

  ServerOptions options;
  Gate gate;
  Endpoint place;
  Wake wake;
  Roster roster;
  uint32_t generation; // the expected or running generation; written under the mutex
  std::optional<Nodes> nodes;
  Clock::time_point begun = Clock::now(), lastTick = begun, ended;
  bool open = false; // all ranks have joined and have the table
  bool told = false; // whether the failure was announced
  uint64_t round = 0;

  mutable std::mutex mutex; // protects what other threads access
  std::optional<FailureNotice> first;
  std::optional<uint32_t> next; // the generation to begin
  std::condition_variable hasBegun;
  std::atomic<bool> ending = false;
  std::thread thread; // last member: it uses everything above
};

//===----------------------------------------------------------------------===//
// Other threads
//===----------------------------------------------------------------------===//

void Server::Loop::fail(int rank, const std::string &reason) {
  {
    std::lock_guard lock(mutex);
    if (!first)
      first = {rank, reason};
  }
  wake.ring();
}

std::optional<FailureNotice> Server::Loop::failure() const {
  std::lock_guard lock(mutex);
  return first;
}

void Server::Loop::begin(uint32_t number) {
  std::unique_lock lock(mutex);
  next = number;
  wake.ring();
  hasBegun.wait(lock, [&] { return generation == number; });
}

//===----------------------------------------------------------------------===//
// The loop
//===----------------------------------------------------------------------===//

/// Whether the server is no longer needed.
bool Server::Loop::isOver() {
  if (!ending)
    return false;
  if (ended == Clock::time_point())
    ended = Clock::now();
  bool someStay = std::ranges::any_of(roster.all(), [](const Attendee &rank) { return rank.isTaken() && !rank.left; });
  return !someStay || Clock::now() - ended > (told ? FarewellInFailure : Farewell);
}

void Server::Loop::run() {
  while (!isOver()) {
    std::vector<pollfd> files = {{wake.file(), POLLIN, 0}};
    gate.addTo(files);
    for (const Attendee &rank : roster.all())
      if (rank.isTaken() && !rank.left)
        files.push_back({rank.session->socket(), short(POLLIN | (rank.session->hasUnsent() ? POLLOUT : 0)), 0});
    if (nodes)
      nodes->addTo(files);
    poll(files.data(), files.size(), 100);
    wake.clear();
    startOver();
    for (Gate::Guest &guest : gate.admit())
      admit(std::move(guest));
    for (int rank = 0; rank < roster.world(); ++rank)
      hear(rank);
    if (nodes)
      for (const FailureNotice &notice : nodes->hear())
        fail(notice.rank, notice.reason);
    look();
  }
}

/// Starts a new generation if the launcher has asked for it.
void Server::Loop::startOver() {
  std::lock_guard lock(mutex);
  if (!next || *next == generation)
    return;
  generation = *next;
  roster = Roster(options.world);
  begun = Clock::now();
  open = told = false;
  round = 0;
  first.reset();
  hasBegun.notify_all();
}

static Message failureMessage(const FailureNotice &notice) {
  Message message;
  message.mutable_failure()->set_rank(notice.rank);
  message.mutable_failure()->set_reason(notice.reason);
  return message;
}

void Server::Loop::admit(Gate::Guest guest) {
  std::string body = guest.words.empty() ? "" : guest.words.substr(1);
  NodeHello node;
  Hello rank;
  if (guest.words.starts_with(NodeWords) && nodes && node.ParseFromString(body))
    nodes->greet(std::move(guest), node);
  else if (guest.words.starts_with(RankWords) && rank.ParseFromString(body))
    greet(std::move(guest), std::move(rank));
}

void Server::Loop::greet(Gate::Guest guest, Hello hello) {
  std::string objection = roster.objection(hello, generation);
  if (objection.empty()) {
    Attendee &rank = roster.at(hello.rank());
    rank.hello = std::move(hello);
    rank.from = guest.from;
    rank.session.emplace(std::move(guest.session));
    rank.heard = rank.moved = Clock::now();
    options.patience.watchdog = std::chrono::milliseconds(rank.hello.watchdog()); // from the user, through the ranks
    configure(rank.session->socket(), options.patience.watchdog);
    rank.persistence.emplace(options.patience.watchdog);
    if (told)
      rank.session->send(failureMessage(*failure()));
    return;
  }
  Message message;
  message.set_refusal(objection);
  guest.session.send(message);
  // While ranks are joining, such a rank takes the place of one that will never come. Once the job is complete, no rank
  // is missing.
  if (!open && hello.version() == ProtocolVersion && hello.generation() == generation && roster.isMixed(hello))
    fail(hello.rank(), fmt::format("{} ({}): {}", hello.host_name(), guest.from, objection));
}

/// Handles a rank's messages, or its loss.
void Server::Loop::hear(int number) {
  Attendee &rank = roster.at(number);
  if (!rank.isTaken() || rank.left)
    return;
  try {
    rank.session->flush();
    while (std::optional<Message> message = rank.session->receive()) {
      noteSilence(since(rank.heard, Clock::now()));
      rank.heard = Clock::now();
      obey(number, *message);
      if (rank.left)
        return;
    }
  } catch (const Error &error) {
    rank.left = true;
    fail(number, fmt::format("its process on {} is gone ({})", rank.hello.host_name(), error.what()));
  }
}

/// A link that was silent for `ended` works again. Retransmitting what was stuck takes a while, so all ranks' timeouts
/// restart. Otherwise a cut just shorter than the watchdog would end a healthy job.
void Server::Loop::noteSilence(std::chrono::milliseconds ended) {
  if (ended < options.patience.watchdog / 2)
    return;
  for (Attendee &rank : roster.all())
    rank.moved = Clock::now();
}

void Server::Loop::obey(int number, const Message &message) {
  Attendee &rank = roster.at(number);
  switch (message.kind_case()) {
  case Message::kNumber:
    return takeNumber(number, message.number());
  case Message::kPulse:
    if (message.pulse().position().progress() != rank.position.progress())
      rank.moved = Clock::now();
    rank.position = message.pulse().position();
    if (message.pulse().silence().milliseconds() < rank.silence.milliseconds())
      noteSilence(std::chrono::milliseconds(rank.silence.milliseconds()));
    rank.silence = message.pulse().silence();
    return;
  case Message::kFailure:
    return fail(message.failure().rank(), message.failure().reason());
  case Message::kLeave:
    rank.left = true;
    // Ranks that wait for its number would wait in vain.
    if (std::ranges::any_of(roster.all(), [](const Attendee &other) { return other.number && !other.left; }))
      fail(number, "it ended while its peers went on");
    return;
  default:
    return;
  }
}

void Server::Loop::takeNumber(int number, const Number &message) {
  roster.at(number).number = message.value();
  if (message.round() != round)
    return fail(number, fmt::format("it asks for exchange {} of the job, which is at {}", message.round(), round));
  for (int rank = 0; rank < roster.world(); ++rank)
    if (roster.at(rank).left && !roster.at(rank).number)
      return fail(rank, "it ended while its peers went on");
  if (!std::ranges::all_of(roster.all(), [](const Attendee &rank) { return rank.number.has_value(); }))
    return;
  Message answer;
  answer.mutable_numbers()->set_round(round++);
  for (Attendee &rank : roster.all()) {
    answer.mutable_numbers()->add_values(*rank.number);
    rank.number.reset();
  }
  broadcast(answer);
}

void Server::Loop::broadcast(const Message &message) {
  for (Attendee &rank : roster.all())
    if (rank.isTaken() && !rank.left)
      rank.session->send(message);
}

//===----------------------------------------------------------------------===//
// Monitoring the ranks
//===----------------------------------------------------------------------===//

void Server::Loop::look() {
  auto now = Clock::now();
  if (!open && roster.isComplete()) {
    open = true;
    for (Attendee &rank : roster.all())
      rank.heard = rank.moved = now;
    Message message;
    *message.mutable_table() = roster.table();
    broadcast(message);
  }
  if (!open && now - begun > options.patience.start && std::ranges::any_of(roster.all(), &Attendee::isTaken))
    fail(roster.firstMissing(),
         fmt::format("{} of {} did not come within {:.0f} s; look at what was started on the other hosts",
                     roster.missing(), roster.world(), std::chrono::duration<double>(options.patience.start).count()));
  if (now - lastTick >= Heart::Interval) {
    if (now - lastTick > Heart::OwnSilence)
      for (Attendee &rank : roster.all())
        rank.heard = rank.moved = now;
    lastTick = now;
    for (Attendee &rank : roster.all())
      if (rank.isTaken() && !rank.left)
        rank.persistence->look(rank.session->socket(), now);
    watch(now);
    pulse();
  }
  tellFailure();
}

void Server::Loop::watch(Clock::time_point now) {
  if (!open || failure())
    return;
  std::vector<Signs> signs;
  for (int number = 0; number < roster.world(); ++number) {
    const Attendee &rank = roster.at(number);
    if (rank.left)
      continue;
    CommandPlace place{rank.position.list(), rank.position.command()};
    auto silent = std::max(silenceOfSystem(rank.session->socket()), rank.persistence->inVainFor(now));
    signs.push_back(
        {number,
         since(rank.heard, now),
         silent,
         since(rank.moved, now),
         place.isInList(),
         rank.position.waiting(),
         options.describe && place.isInList() ? options.describe(number, place) : "",
         linkText(rank.session->socket()),
         {rank.silence.rank(), std::chrono::milliseconds(rank.silence.milliseconds()), rank.silence.link()}});
  }
  if (std::optional<FailureNotice> notice = judge(signs, options.patience.watchdog))
    fail(notice->rank, notice->reason);
}

void Server::Loop::pulse() {
  Message message;
  message.mutable_pulse();
  broadcast(message);
}

void Server::Loop::tellFailure() {
  std::optional<FailureNotice> notice = failure();
  if (!notice || told)
    return;
  told = true;
  broadcast(failureMessage(*notice));
  if (nodes)
    nodes->broadcast(failureMessage(*notice));
}

//===----------------------------------------------------------------------===//
// Server
//===----------------------------------------------------------------------===//

Server::Server(ServerOptions options) : loop(std::make_unique<Loop>(std::move(options))) {}
Server::~Server() = default;
Endpoint Server::endpoint() const { return loop->endpoint(); }
void Server::fail(int rank, const std::string &reason) { loop->fail(rank, reason); }
std::optional<FailureNotice> Server::failure() const { return loop->failure(); }
void Server::begin(uint32_t generation) { loop->begin(generation); }
Nodes *Server::nodes() { return loop->getNodes(); }

} // namespace dtc::job
