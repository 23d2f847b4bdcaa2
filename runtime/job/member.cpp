#include "runtime/job/member.h"

#include "runtime/comm/link_text.h"
#include "runtime/job/roster.h"
#include "runtime/job/wake.h"
#include "runtime/liveness/heart.h"
#include "runtime/support/error.h"

#include <atomic>
#include <condition_variable>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <thread>
#include <utility>

namespace dtc::job {

using namespace std::chrono_literals;

/// How long a rank whose connection broke waits to learn why.
static constexpr auto VerdictTime = 3s;

std::string hostKey() {
  std::string key;
  if (std::FILE *file = std::fopen("/proc/sys/kernel/random/boot_id", "re")) {
    char text[64] = {};
    if (std::fgets(text, sizeof(text), file))
      key = std::string(text).substr(0, 36);
    std::fclose(file);
  }
  struct stat network = {}, memory = {};
  stat("/proc/self/ns/net", &network);
  stat("/dev/shm", &memory);
  return fmt::format("{} {}:{} {}", key, network.st_dev, network.st_ino, memory.st_dev);
}

static std::string hostName() {
  utsname names = {};
  uname(&names);
  return names.nodename;
}

namespace {

class Member final : public Membership {
public:
  explicit Member(const MemberOptions &options);
  ~Member() override;

  int rank() const override { return options.rank; }
  int size() const override { return options.world; }
  const std::vector<int> &hosts() const override { return hostOfRank; }
  const std::string &name() const override { return jobName; }
  void show(Whereabouts *place) override {
    Lock lock(mutex);
    whereabouts = place;
  }
  std::vector<SharedDescriptor> connect(const Group &group) override;
  std::vector<int64_t> exchange(int64_t value) override;
  void fail(int rank, std::string_view reason) noexcept override;
  std::optional<FailureNotice> failure() const override;
  void onFailure(std::function<void(const FailureNotice &)> tell) override;
  int failureSignal() const override { return failed.file(); }
  [[noreturn]] void lost(int peer, std::string_view what) override;

private:
  using Lock = std::unique_lock<std::mutex>;

  Session introduce();
  void awaitTable();
  void run();
  void obey(const Message &message);
  void admitLinks();
  Descriptor dial(int peer, uint32_t channel) const;
  Descriptor awaitLink(int peer, uint32_t channel);
  void keepConnections(Clock::time_point now);
  void sendPulse();
  void checkServer(Clock::time_point now);
  void record(const FailureNotice &notice);
  void tellOnce();
  std::string serverName() const {
    return options.serverRank < 0 ? "the launcher" : fmt::format("rank {}", options.serverRank);
  }
  [[noreturn]] void throwFailure() const;

  MemberOptions options;
  std::string address; // for this rank's data connections
  std::optional<Gate> gate;
  Table table;
  std::vector<int> hostOfRank;
  std::string jobName;
  Wake wake, failed;

  mutable std::mutex mutex; // protects everything below
  std::condition_variable news;
  std::optional<Session> session;
  std::optional<FailureNotice> notice;
  std::function<void(const FailureNotice &)> tellFailure;
  std::optional<Numbers> answer;
  uint64_t round = 0;
  Whereabouts *whereabouts = nullptr;
  std::map<std::pair<int, uint32_t>, Descriptor> links; // that have arrived, by rank and channel
  Persistence ofSession;
  struct Kept {
    int peer;
    std::weak_ptr<const Descriptor> socket;
    Persistence persistence;
  };
  std::vector<Kept> kept; // connections that have been handed out
  Silence silence;        // the longest over these connections
  Clock::time_point heard = Clock::now(), ticked = heard;
  std::atomic<bool> ending = false;
  std::thread thread;
};

} // namespace

//===----------------------------------------------------------------------===//
// Joining
//===----------------------------------------------------------------------===//

Member::Member(const MemberOptions &given) : options(given), ofSession(given.patience.watchdog) {
  session.emplace(introduce());
  awaitTable();
  std::map<std::string, int> numbers;
  for (const Seat &seat : table.seats())
    hostOfRank.push_back(numbers.emplace(seat.host(), numbers.size()).first->second);
  for (unsigned char byte : table.nonce().substr(0, 16))
    jobName += fmt::format("{:02x}", byte);
  configure(session->socket(), options.patience.watchdog);
  thread = std::thread([this] { run(); });
}

/// Connects to the server, which may not be up yet, and introduces this rank.
Session Member::introduce() {
  auto deadline = Clock::now() + options.patience.start;
  std::string local = options.interface.empty() ? "" : addressOf(options.interface);
  auto words = [&](const std::string &own) {
    address = own;
    gate.emplace(listenAt({address, 0}), options.token);
    Hello hello;
    hello.set_version(ProtocolVersion);
    hello.set_generation(options.generation);
    hello.set_rank(options.rank);
    hello.set_world(options.world);
    hello.set_program(options.program);
    hello.set_host(options.host.empty() ? hostKey() : options.host);
    hello.set_host_name(hostName());
    hello.set_process(getpid());
    hello.set_watchdog(options.patience.watchdog.count());
    hello.set_links(gate->endpoint().text());
    return RankWords + hello.SerializeAsString();
  };
  try {
    return call(options.server, local, options.token, words, deadline);
  } catch (const Error &error) {
    throw Error(error.exitCode(),
                fmt::format("cannot join the job at {} ({}): {}", options.server.text(), serverName(), error.what()));
  }
}

/// Waits for the table of ranks. The server decides when it has waited long enough for the others.
void Member::awaitTable() {
  auto deadline = Clock::now() + 2 * options.patience.start;
  while (true) {
    std::optional<Message> message;
    try {
      message = session->await(deadline);
    } catch (const Error &error) {
      throw PeerLostError(options.serverRank, fmt::format("{}, where the ranks meet, ended before all had come: {}",
                                                          serverName(), error.what()));
    }
    if (!message)
      throw Error(
          fmt::format("{} at {} does not say whether all ranks have come", serverName(), options.server.text()));
    if (message->has_refusal())
      throw Error(ExitCode::BadInput,
                  fmt::format("the job at {} does not take this rank: {}", options.server.text(), message->refusal()));
    if (message->has_failure())
      throw PeerLostError(message->failure().rank(),
                          describeFailure({message->failure().rank(), message->failure().reason()}));
    if (message->has_table()) {
      table = message->table();
      return;
    }
  }
}

/// Says goodbye, so that its end does not count as a failure.
Member::~Member() {
  {
    Lock lock(mutex);
    Message message;
    message.mutable_leave();
    session->send(message);
  }
  ending = true;
  wake.ring();
  thread.join();
}

//===----------------------------------------------------------------------===//
// The listening thread
//===----------------------------------------------------------------------===//

void Member::run() {
  pthread_setname_np(pthread_self(), "dtc member"); // for debuggers, and for the test of a rank that hangs
  auto farewell = Clock::time_point::max();
  while (true) {
    std::vector<pollfd> files = {{wake.file(), POLLIN, 0}};
    {
      Lock lock(mutex);
      if (ending && farewell == Clock::time_point::max())
        farewell = Clock::now() + 1s;
      if (ending && (!session->hasUnsent() || Clock::now() > farewell))
        return;
      files.push_back({session->socket(), short(POLLIN | (session->hasUnsent() ? POLLOUT : 0)), 0});
    }
    gate->addTo(files);
    poll(files.data(), files.size(), 100);
    wake.clear();
    admitLinks();
    tellOnce();
    Lock lock(mutex);
    try {
      session->flush();
      while (std::optional<Message> message = session->receive()) {
        heard = Clock::now();
        obey(*message);
      }
    } catch (const Error &error) {
      if (ending)
        return;
      record({options.serverRank, fmt::format("its process, where the ranks meet, is gone ({})", error.what())});
      lock.unlock();
      std::this_thread::sleep_for(20ms); // the end of the connection stays readable
      continue;
    }
    auto now = Clock::now();
    if (now - ticked >= Heart::Interval) {
      keepConnections(now);
      checkServer(now);
      ticked = now;
      sendPulse();
    }
  }
}

void Member::obey(const Message &message) {
  if (message.has_numbers()) {
    answer = message.numbers();
    news.notify_all();
  } else if (message.has_failure()) {
    record({message.failure().rank(), message.failure().reason()});
  }
}

void Member::keepConnections(Clock::time_point now) {
  ofSession.look(session->socket(), now);
  silence.Clear();
  std::erase_if(kept, [](const Kept &each) { return each.socket.expired(); });
  for (Kept &each : kept)
    if (SharedDescriptor socket = each.socket.lock()) {
      each.persistence.look(socket->get(), now);
      auto silent = silenceOfSystem(socket->get());
      if (silent < options.patience.watchdog / 4 || silent.count() <= silence.milliseconds())
        continue;
      silence.set_rank(each.peer);
      silence.set_milliseconds(silent.count());
      silence.set_link(linkText(socket->get()));
    }
}

void Member::sendPulse() {
  Message message;
  *message.mutable_pulse()->mutable_silence() = silence;
  Position &position = *message.mutable_pulse()->mutable_position();
  if (const Whereabouts *at = whereabouts) {
    position.set_progress(at->countProgress());
    position.set_waiting(at->isWaiting());
    CommandPlace place = at->last().place;
    position.set_list(place.list);
    position.set_command(place.command);
  } else {
    position.set_list(CommandPlace::NoList);
  }
  session->send(message);
}

/// The server monitors the ranks; each rank monitors the server.
void Member::checkServer(Clock::time_point now) {
  if (now - ticked > Heart::OwnSilence)
    heard = now;
  auto silent = std::chrono::duration_cast<std::chrono::milliseconds>(now - heard);
  // If it can, the server reports first, because all ranks then get the same report.
  if (silent < options.patience.watchdog + 2s)
    return;
  Signs signs;
  signs.rank = options.serverRank;
  signs.silent = silent;
  signs.systemSilent = std::max(silenceOfSystem(session->socket()), ofSession.inVainFor(now));
  signs.link = linkText(session->socket());
  if (std::optional<FailureNotice> verdict = judge({signs}, options.patience.watchdog))
    record(*verdict);
}

//===----------------------------------------------------------------------===//
// Connections to other ranks
//===----------------------------------------------------------------------===//

void Member::admitLinks() {
  for (Gate::Guest &guest : gate->admit()) {
    LinkHello hello;
    if (!hello.ParseFromString(guest.words) || hello.to() != options.rank || hello.job() != table.nonce())
      continue; // from another job with the same token
    Lock lock(mutex);
    links.insert_or_assign({hello.from(), hello.channel()}, guest.session.takeSocket());
    news.notify_all();
  }
}

Descriptor Member::dial(int peer, uint32_t channel) const {
  const std::string &there = table.seats(peer).links();
  auto deadline = Clock::now() + options.patience.start;
  LinkHello hello;
  hello.set_job(table.nonce());
  hello.set_from(options.rank);
  hello.set_to(peer);
  hello.set_channel(channel);
  try {
    auto words = [&](const std::string &) { return hello.SerializeAsString(); };
    return call(parseEndpoint(there, "a rank's address"), address, options.token, words, deadline).takeSocket();
  } catch (const Error &error) {
    throw Error(fmt::format("cannot connect to rank {} at {} on {}: {}; is a firewall between the hosts, or the wrong "
                            "interface chosen?",
                            peer, there, table.seats(peer).host_name(), error.what()));
  }
}

Descriptor Member::awaitLink(int peer, uint32_t channel) {
  Lock lock(mutex);
  auto link = links.end();
  bool came = news.wait_for(lock, options.patience.start, [&] {
    link = links.find({peer, channel});
    return link != links.end() || notice;
  });
  if (link == links.end() && came)
    throwFailure();
  if (link == links.end())
    throw Error(fmt::format("rank {} on {} did not connect to {} within {:.0f} s; is a firewall between the hosts?",
                            peer, table.seats(peer).host_name(), address,
                            std::chrono::duration<double>(options.patience.start).count()));
  Descriptor socket = std::move(link->second);
  links.erase(link);
  return socket;
}

/// The lower of two ranks connects to the higher.
std::vector<SharedDescriptor> Member::connect(const Group &group) {
  std::vector<SharedDescriptor> result(group.ranks.size());
  auto isHere = [&](int peer) { return hostOfRank[peer] == hostOfRank[options.rank]; };
  // Each rank begins with a different peer: if all called the same one first, it would answer them one after the other.
  for (size_t step = 0; step < result.size(); ++step)
    if (size_t i = (step + options.rank) % result.size(); !isHere(group.ranks[i]) && options.rank < group.ranks[i])
      result[i] = std::make_shared<Descriptor>(dial(group.ranks[i], group.channel));
  for (size_t i = 0; i < result.size(); ++i)
    if (int peer = group.ranks[i]; !isHere(peer) && options.rank > peer)
      result[i] = std::make_shared<Descriptor>(awaitLink(peer, group.channel));
  Lock lock(mutex);
  for (size_t i = 0; i < result.size(); ++i)
    if (result[i]) {
      configure(result[i]->get(), options.patience.watchdog);
      kept.push_back({group.ranks[i], result[i], Persistence(options.patience.watchdog)});
    }
  return result;
}

//===----------------------------------------------------------------------===//
// What all ranks know
//===----------------------------------------------------------------------===//

std::vector<int64_t> Member::exchange(int64_t value) {
  Lock lock(mutex);
  std::optional<WaitingNote> waits;
  if (whereabouts)
    waits.emplace(*whereabouts);
  Message message;
  message.mutable_number()->set_round(round);
  message.mutable_number()->set_value(value);
  answer.reset();
  session->send(message);
  if (session->hasUnsent())
    wake.ring();
  news.wait(lock, [&] { return answer || notice; });
  if (!answer)
    throwFailure();
  if (answer->round() != round++ || answer->values_size() != options.world)
    throw Error("the ranks disagree about how often they met; start all ranks from one program file");
  return {answer->values().begin(), answer->values().end()};
}

void Member::record(const FailureNotice &first) {
  if (notice)
    return;
  notice = first;
  failed.ring();
  news.notify_all();
  wake.ring();
}

/// Calls the callback without the lock, because it may call back.
void Member::tellOnce() {
  Lock lock(mutex);
  if (!notice || !tellFailure)
    return;
  auto tell = std::exchange(tellFailure, nullptr);
  FailureNotice first = *notice;
  lock.unlock();
  tell(first);
}

void Member::fail(int rank, std::string_view reason) noexcept {
  try {
    Lock lock(mutex);
    Message message;
    message.mutable_failure()->set_rank(rank);
    message.mutable_failure()->set_reason(std::string(reason));
    session->send(message);
    wake.ring();
  } catch (const std::exception &) { // the others notice that this rank ends
  }
}

std::optional<FailureNotice> Member::failure() const {
  Lock lock(mutex);
  return notice;
}

void Member::onFailure(std::function<void(const FailureNotice &)> tell) {
  Lock lock(mutex);
  tellFailure = std::move(tell);
  wake.ring();
}

void Member::throwFailure() const { throw PeerLostError(notice->rank, describeFailure(*notice)); }

void Member::lost(int peer, std::string_view what) {
  Lock lock(mutex);
  auto isTold = [&] { return notice.has_value(); };
  if (!news.wait_for(lock, VerdictTime, isTold)) {
    lock.unlock();
    fail(peer, what);
    lock.lock();
    if (!news.wait_for(lock, VerdictTime, isTold))
      record({peer, std::string(what)});
  }
  throwFailure();
}

std::unique_ptr<Membership> joinJob(const MemberOptions &options) { return std::make_unique<Member>(options); }

} // namespace dtc::job
