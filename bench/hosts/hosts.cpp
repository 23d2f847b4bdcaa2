// One rank of a measurement of all-reduce between hosts: ours and Gloo's, alternately in one run, next to a probe of
// the connection. `run` starts the ranks in network namespaces.
//
//   bench_hosts DIRECTORY RANK RANKS_PER_HOST ADDRESS...     an address for each host; the token is in DTC_TOKEN
//
// Prints a line of a Markdown table for each size. Of Gloo's algorithms the one with the best median counts. A time is
// the median over the rounds of the slowest rank's time. Ours is measured without hashes of the messages, and with
// them. The probe sends and receives, between a rank of the first and one of the last host, as many bytes as each rank
// must in an all-reduce between these two.
#include "runtime/comm/hosts/hosts.h"
#include "bench/host_ranks.h"
#include "bench/timing.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <cstdio>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <limits>
#include <poll.h>
#include <sys/socket.h>
#include <thread>

using namespace dtc;

namespace {

constexpr int Rounds = 11;

/// Moves bytes one way, with no other work.
void pump(int socket, std::byte *data, uint64_t bytes, bool sends) {
  for (uint64_t at = 0; at < bytes;) {
    size_t piece = std::min<uint64_t>(bytes - at, 1 << 20);
    ssize_t count = sends ? send(socket, data + at, piece, MSG_NOSIGNAL) : recv(socket, data + at, piece, 0);
    if (count > 0) {
      at += static_cast<uint64_t>(count);
      continue;
    }
    if (errno != EAGAIN)
      throw Error("the probe's connection broke");
    pollfd file = {socket, static_cast<short>(sends ? POLLOUT : POLLIN), 0};
    poll(&file, 1, -1);
  }
}

/// Gloo's versions of what `run` does.
struct Peer {
  const char *name;
  std::function<void()> run;
};

class Gloo {
public:
  Gloo(const HostRank &place, int64_t elements) : values(elements, 0.5F) {
    context = std::make_shared<gloo::rendezvous::Context>(place.rank, place.ranks());
    gloo::transport::tcp::attr address;
    address.hostname = place.addresses[place.host()];
    auto device = gloo::transport::tcp::CreateDevice(address);
    gloo::rendezvous::FileStore store(place.directory + "/" + std::to_string(elements));
    context->connectFullMesh(store, device);
    using Algorithm = gloo::AllreduceOptions::Algorithm;
    for (auto [name, algorithm] : {std::pair{"ring", Algorithm::RING}, std::pair{"bcube", Algorithm::BCUBE}})
      peers.push_back({name, [this, algorithm = algorithm, elements] {
                         gloo::AllreduceOptions options(context);
                         options.setOutput(values.data(), elements);
                         options.setReduceFunction(
                             static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<float>));
                         options.setAlgorithm(algorithm);
                         gloo::allreduce(options);
                       }});
    std::vector<float *> pointers = {values.data()};
    halving = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(context, pointers, elements);
    chunked = std::make_unique<gloo::AllreduceRingChunked<float>>(context, pointers, elements);
    peers.push_back({"halving-doubling", [this] { halving->run(); }});
    peers.push_back({"ring, chunked", [this] { chunked->run(); }});
  }

  std::vector<Peer> peers;

private:
  std::vector<float> values;
  std::shared_ptr<gloo::rendezvous::Context> context;
  std::unique_ptr<gloo::Algorithm> halving, chunked;
};

void measure(const HostRank &place, Communicator &communicator, Communicator &hashing, Arena &arena, int probe,
             uint64_t bytes) {
  auto elements = static_cast<int64_t>(bytes / sizeof(float));
  auto *ours = reinterpret_cast<float *>(arena.base());
  std::fill(ours, ours + elements, 0.5F);
  abi::Command command;
  command.mutable_start()->set_outer(1);
  command.mutable_start()->set_chunk(elements);
  Group group = place.everybody(0);
  Gloo gloo(place, elements);

  std::vector<double> ourTimes, hashedTimes, probeTimes;
  std::vector<std::vector<double>> theirTimes(gloo.peers.size());
  for (int round = 0; round < Rounds; ++round) {
    probeTimes.push_back(timeOf(communicator, [&] {
      if (probe < 0)
        return;
      std::vector<std::byte> other(bytes);
      std::thread sender([&] { pump(probe, arena.base(), bytes, /*sends=*/true); });
      pump(probe, other.data(), bytes, /*sends=*/false);
      sender.join();
    }));
    ourTimes.push_back(timeOf(communicator, [&] { communicator.run(group, command); }));
    hashedTimes.push_back(timeOf(hashing, [&] { hashing.run(group, command); }));
    for (size_t i = 0; i < gloo.peers.size(); ++i)
      theirTimes[i].push_back(timeOf(communicator, gloo.peers[i].run));
  }
  if (place.rank != 0)
    return;
  size_t best = 0;
  for (size_t i = 0; i < gloo.peers.size(); ++i) {
    if (median(theirTimes[i]) < median(theirTimes[best]))
      best = i;
    std::fprintf(stderr, "  %.3g MiB, Gloo, %s: %.2f ms\n", bytes / double(1 << 20), gloo.peers[i].name,
                 median(theirTimes[i]) * 1e3);
  }
  double our = median(ourTimes), their = median(theirTimes[best]);
  std::printf("| %zu x %d | %.3g | %.3f | %.3f | %.2f | %s | %.2f | %.2f |\n", place.addresses.size(), place.perHost,
              bytes / double(1 << 20), our * 1e3, median(hashedTimes) * 1e3, their * 1e3, gloo.peers[best].name,
              their / our, median(probeTimes) * 1e3);
  std::fflush(stdout);
}

void runRank(const HostRank &place, const JoinedJob &job) {
  Arena arena(uint64_t(100) << 20, 0);
  std::string meeting = place.directory + "/host" + std::to_string(place.host());
  auto communicator =
      connectHosts(job.membership, {.path = meeting}, arena, {place.everybody(0)}, HostsOptions{.hashedUpTo = 0});
  auto hashing = connectHosts(job.membership, {.path = meeting + "-hashing"}, arena, {place.everybody(0)},
                              HostsOptions{.hashedUpTo = std::numeric_limits<double>::infinity()});

  // The probe runs between the first rank and the first rank of the last host.
  int other = place.ranks() - place.perHost;
  std::vector<SharedDescriptor> probe(2);
  if (place.rank == 0 || place.rank == other)
    probe = job.membership->connect({{0, other}, place.rank == 0 ? 0 : 1, 1});
  for (uint64_t kibibytes : {64, 1024, 25 * 1024, 100 * 1024})
    measure(place, *communicator, *hashing, arena,
            probe[0]   ? probe[0]->get()
            : probe[1] ? probe[1]->get()
                       : -1,
            kibibytes << 10);
  communicator->barrier();
}

} // namespace

int main(int count, char **arguments) { return runHostRank(count, arguments, "bench_hosts", runRank); }
