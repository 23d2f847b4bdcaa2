// Measures all-reduce between ranks of one host: ours through shared memory and Gloo's over loopback, alternately in
// one run, next to a probe of the machine's copy bandwidth.
//
// Prints a Markdown table. Bus bandwidth is 2 (p - 1) / p * bytes / time, the field's convention: the load of each
// rank's link in a ring. A time is the median over the rounds of the slowest rank's time. The probe copies between
// buffers of 64 MiB in all ranks at once and counts the bytes that all of them read and write.
#include "bench/forked_ranks.h"
#include "bench/timing.h"
#include "runtime/comm/local/reduce.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

using namespace dtc;

namespace {

constexpr int Rounds = 15;
constexpr uint64_t ProbeBytes = uint64_t(64) << 20;

std::shared_ptr<gloo::rendezvous::Context> connectGloo(Communicator &communicator, const std::string &directory) {
  auto context = std::make_shared<gloo::rendezvous::Context>(communicator.rank(), communicator.size());
  gloo::transport::tcp::attr address;
  address.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(address);
  gloo::rendezvous::FileStore store(directory);
  context->connectFullMesh(store, device);
  return context;
}

void measure(Communicator &communicator, Arena &arena, uint64_t bytes, const std::string &directory) {
  int64_t elements = static_cast<int64_t>(bytes / 4);
  auto *ours = reinterpret_cast<float *>(arena.base());
  std::vector<float> theirs(elements, 0.5f), probe(2 * ProbeBytes / 4, 1.0f);
  std::fill(ours, ours + elements, 0.5f);

  abi::Command command;
  abi::Collective &collective = *command.mutable_start();
  collective.set_outer(1);
  collective.set_chunk(elements);
  Group group;
  group.self = communicator.rank();
  for (int rank = 0; rank < communicator.size(); ++rank)
    group.ranks.push_back(rank);

  auto context = connectGloo(communicator, directory);
  gloo::AllreduceOptions options(context);
  options.setOutput(theirs.data(), elements);
  options.setReduceFunction(static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<float>));

  std::vector<double> ourTimes, theirTimes, probeTimes;
  for (int round = 0; round < Rounds; ++round) {
    auto *buffer = reinterpret_cast<std::byte *>(probe.data());
    probeTimes.push_back(
        timeOf(communicator, [&] { copyBytes(buffer + ProbeBytes, buffer, ProbeBytes, /*bypassCache=*/true); }));
    ourTimes.push_back(timeOf(communicator, [&] { communicator.run(group, command); }));
    theirTimes.push_back(timeOf(communicator, [&] { gloo::allreduce(options); }));
  }
  if (communicator.rank() != 0)
    return;
  int ranks = communicator.size();
  double bus = 2.0 * (ranks - 1) / ranks * bytes / 1e9;
  double our = bus / median(ourTimes), their = bus / median(theirTimes);
  double copy = 2.0 * ranks * ProbeBytes / 1e9 / median(probeTimes);
  std::printf("| %d | %.3g | %.3g | %.1f | %.2f | %.0f | %.1f |\n", ranks, bytes / double(1 << 20),
              median(ourTimes) * 1e3, our, their, our / their, copy);
  std::fflush(stdout);
}

bool runJob(int ranks, uint64_t bytes) {
  std::string directory = (std::filesystem::temp_directory_path() / "dtc-allreduce-XXXXXX").string();
  if (!mkdtemp(directory.data()))
    throw Error("cannot make a directory for Gloo's rendezvous");
  bool succeeded = runForked(ranks, [&](const std::string &path, int rank) {
    Arena arena(bytes, 0);
    auto communicator = connectSharedMemory({path, rank, ranks}, arena);
    measure(*communicator, arena, bytes, directory);
  });
  std::filesystem::remove_all(directory);
  return succeeded;
}

} // namespace

int main() {
  std::printf("| ranks | MiB | dtc ms | dtc bus GB/s | Gloo bus GB/s | ratio | copy probe GB/s |\n"
              "|---|---|---|---|---|---|---|\n");
  std::fflush(stdout);
  bool succeeded = true;
  for (int ranks : {2, 4})
    for (uint64_t kibibytes : {4, 64, 1024, 25 * 1024, 100 * 1024})
      succeeded &= runJob(ranks, kibibytes << 10);
  return succeeded ? 0 : 1;
}
