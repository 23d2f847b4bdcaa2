#include "test/conformance/fake_membership.h"

#include "runtime/support/error.h"

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <numeric>
#include <stdexcept>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <tuple>

namespace dtc::test {

/// Both ends of a connection.
static std::pair<Descriptor, Descriptor> makeConnection() {
  Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), client(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto *generic = reinterpret_cast<sockaddr *>(&address);
  if (bind(listener.get(), generic, length) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), generic, &length) != 0 || connect(client.get(), generic, length) != 0)
    throw std::runtime_error("no connection over loopback");
  Descriptor server(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  for (const Descriptor *end : {&client, &server}) {
    int on = 1;
    setsockopt(end->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    fcntl(end->get(), F_SETFL, O_NONBLOCK);
  }
  return {std::move(client), std::move(server)};
}

namespace {
/// A relay between the two ends of a connection.
class Interposed {
public:
  Interposed(Descriptor first, Descriptor second, std::atomic<bool> &damages)
      : ends{std::move(first), std::move(second)}, damages(damages) {
    for (int from : {0, 1})
      threads.emplace_back([this, from] { pass(ends[from].get(), ends[1 - from].get()); });
  }
  /// Ranks have closed their ends, or nobody has accepted them.
  ~Interposed() {
    for (const Descriptor &end : ends)
      shutdown(end.get(), SHUT_RDWR);
    for (std::thread &thread : threads)
      thread.join();
  }

private:
  void pass(int from, int to) {
    std::vector<char> piece(64 << 10);
    for (int socket : {from, to})
      fcntl(socket, F_SETFL, 0); // blocking
    for (ssize_t count; (count = recv(from, piece.data(), piece.size(), 0)) > 0;) {
      if (count > 1000 && damages.exchange(false))
        piece[count / 2] ^= 0x40;
      for (ssize_t sent = 0, more; sent < count; sent += more)
        if ((more = send(to, piece.data() + sent, count - sent, MSG_NOSIGNAL)) <= 0)
          return;
    }
    shutdown(to, SHUT_WR);
  }

  Descriptor ends[2];
  std::atomic<bool> &damages;
  std::vector<std::thread> threads;
};
} // namespace

struct FakeJob::State {
  /// A channel, the rank of this end and the rank of the other.
  using Key = std::tuple<uint32_t, int, int>;

  void fail(int rank, std::string_view reason);
  std::pair<Descriptor, Descriptor> makeConnection(int first, int second);

  std::vector<int> hosts;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<FailureNotice> failure;
  std::vector<Descriptor> signals; // of each rank
  std::vector<std::function<void(const FailureNotice &)>> tell;
  std::vector<bool> gone;
  std::map<Key, Descriptor> waiting; // ends that nobody has accepted yet
  std::multimap<std::pair<int, int>, int> taken;
  std::pair<int, int> interposed = {-1, -1};
  std::atomic<bool> damages = false;
  std::vector<std::unique_ptr<Interposed>> between;
  std::vector<int64_t> brought, values;
  uint64_t round = 0;
  size_t present = 0;
};

std::pair<Descriptor, Descriptor> FakeJob::State::makeConnection(int first, int second) {
  if (std::pair<int, int>(std::minmax(first, second)) != interposed)
    return test::makeConnection();
  auto [end, inside] = test::makeConnection();
  auto [otherInside, otherEnd] = test::makeConnection();
  between.push_back(std::make_unique<Interposed>(std::move(inside), std::move(otherInside), damages));
  return {std::move(end), std::move(otherEnd)};
}

void FakeJob::State::fail(int rank, std::string_view reason) {
  std::lock_guard lock(mutex);
  if (failure)
    return;
  failure = FailureNotice{rank, std::string(reason)};
  for (const Descriptor &signal : signals)
    eventfd_write(signal.get(), 1);
  for (const auto &each : tell)
    if (each)
      each(*failure);
  changed.notify_all();
}

class FakeJob::Member final : public Membership {
public:
  Member(std::shared_ptr<State> state, int rank) : state(std::move(state)), ownRank(rank) {}
  ~Member() override {
    std::lock_guard lock(state->mutex);
    state->gone[ownRank] = true;
    state->tell[ownRank] = nullptr;
    std::erase_if(state->waiting, [&](const auto &entry) { return std::get<1>(entry.first) == ownRank; });
    state->changed.notify_all();
  }

  int rank() const override { return ownRank; }
  int size() const override { return static_cast<int>(state->hosts.size()); }
  const std::vector<int> &hosts() const override { return state->hosts; }
  const std::string &name() const override {
    static const std::string name = "fake";
    return name;
  }

  std::vector<SharedDescriptor> connect(const Group &group) override {
    std::lock_guard lock(state->mutex);
    std::vector<SharedDescriptor> connections(group.size());
    for (int member = 0; member < group.size(); ++member) {
      int peer = group.ranks[member];
      if (state->hosts[peer] == state->hosts[ownRank])
        continue;
      auto own = state->waiting.find({group.channel, ownRank, peer});
      if (own != state->waiting.end()) {
        connections[member] = std::make_shared<Descriptor>(std::move(own->second));
        state->waiting.erase(own);
      } else {
        auto [first, second] = state->makeConnection(ownRank, peer);
        connections[member] = std::make_shared<Descriptor>(std::move(first));
        if (!state->gone[peer])
          state->waiting[{group.channel, peer, ownRank}] = std::move(second);
      }
      state->taken.emplace(std::pair(ownRank, peer), connections[member]->get());
    }
    return connections;
  }

  std::vector<int64_t> exchange(int64_t value) override {
    std::unique_lock lock(state->mutex);
    throwIfFailed();
    state->brought[ownRank] = value;
    uint64_t round = state->round;
    if (++state->present == state->hosts.size()) {
      state->values = state->brought;
      state->present = 0;
      ++state->round;
      state->changed.notify_all();
    }
    while (state->round == round) {
      throwIfFailed();
      auto left = std::find(state->gone.begin(), state->gone.end(), true);
      if (left != state->gone.end()) {
        lock.unlock();
        fail(static_cast<int>(left - state->gone.begin()), "it ended while its peers went on");
        lock.lock();
        continue;
      }
      state->changed.wait(lock);
    }
    return state->values;
  }

  void fail(int rank, std::string_view reason) noexcept override { state->fail(rank, reason); }
  std::optional<FailureNotice> failure() const override {
    std::lock_guard lock(state->mutex);
    return state->failure;
  }
  void onFailure(std::function<void(const FailureNotice &)> tell) override {
    std::lock_guard lock(state->mutex);
    if (state->failure)
      tell(*state->failure);
    state->tell[ownRank] = std::move(tell);
  }
  int failureSignal() const override { return state->signals[ownRank].get(); }

  [[noreturn]] void lost(int peer, std::string_view what) override {
    {
      std::unique_lock lock(state->mutex);
      state->changed.wait_for(lock, std::chrono::milliseconds(100), [&] { return state->failure.has_value(); });
    }
    fail(peer, what);
    std::lock_guard lock(state->mutex);
    throwIfFailed();
    std::abort();
  }

private:
  void throwIfFailed() const {
    if (state->failure)
      throw PeerLostError(state->failure->rank,
                          "rank " + std::to_string(state->failure->rank) + " was lost: " + state->failure->reason);
  }

  std::shared_ptr<State> state;
  int ownRank;
};

FakeJob::FakeJob(std::vector<int> hosts) : state(std::make_shared<State>()) {
  size_t ranks = hosts.size();
  state->hosts = std::move(hosts);
  for (size_t rank = 0; rank < ranks; ++rank)
    state->signals.emplace_back(eventfd(0, EFD_CLOEXEC));
  state->tell.resize(ranks);
  state->gone.resize(ranks);
  state->brought.resize(ranks);
}

FakeJob::~FakeJob() = default;

std::shared_ptr<Membership> FakeJob::join(int rank) const { return std::make_shared<Member>(state, rank); }

void FakeJob::fail(int rank, std::string_view reason) const { state->fail(rank, reason); }

int FakeJob::connections(int first, int second) const {
  std::lock_guard lock(state->mutex);
  return static_cast<int>(state->taken.count({first, second}));
}

void FakeJob::interpose(int first, int second) const { state->interposed = std::minmax(first, second); }

void FakeJob::damage() const { state->damages = true; }

void FakeJob::disconnect(int first, int second) const {
  std::lock_guard lock(state->mutex);
  auto [begin, end] = state->taken.equal_range({first, second});
  for (auto each = begin; each != end; ++each)
    shutdown(each->second, SHUT_RDWR);
}

std::vector<int> hostOfItsOwn(int ranks) {
  std::vector<int> hosts(ranks);
  std::iota(hosts.begin(), hosts.end(), 0);
  return hosts;
}

std::vector<int> twoHosts(int ranks) {
  std::vector<int> hosts(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    hosts[rank] = rank >= (ranks + 1) / 2;
  return hosts;
}

} // namespace dtc::test
