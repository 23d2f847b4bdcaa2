// Measures two all-reduces on different channels at once against the same two one after the other, between processes of
// one host through shared memory.
//
// Prints a Markdown table. A time is the slowest rank's, from the first start to the last wait. Both ways are measured
// alternately; the ratio is the median over the pairs of (one after the other / at once).
#include "bench/forked_ranks.h"
#include "bench/timing.h"

#include <algorithm>
#include <cstdio>

using namespace dtc;

namespace {

constexpr int Pairs = 41;

abi::Command allReduce(uint64_t offset, uint64_t bytes) {
  abi::Command command;
  abi::Collective &collective = *command.mutable_start();
  collective.set_input(offset);
  collective.set_output(offset);
  collective.set_outer(1);
  collective.set_chunk(static_cast<int64_t>(bytes / 4));
  return command;
}

/// The ranks that differ from this one in the digit of that stride.
Group pairOf(int rank, int stride, uint32_t channel) {
  Group group;
  int first = rank / stride % 2 == 0 ? rank : rank - stride;
  group.ranks = {first, first + stride};
  group.self = rank == first ? 0 : 1;
  group.channel = channel;
  return group;
}

void measure(Communicator &communicator, Arena &arena, uint64_t bytes) {
  // Two ranks meet twice; in a square of four, each rank meets one neighbour on each channel, as with dp and tp.
  int rank = communicator.rank(), ranks = communicator.size();
  Group one = pairOf(rank, 1, 0), two = pairOf(rank, ranks == 2 ? 1 : 2, 1);
  abi::Command first = allReduce(0, bytes), second = allReduce(bytes, bytes);
  std::fill_n(reinterpret_cast<float *>(arena.base()), bytes / 2, 0.5F);
  auto oneByOne = [&] {
    communicator.wait(communicator.start(one, first));
    communicator.wait(communicator.start(two, second));
  };
  auto atOnce = [&] {
    CommandHandle early = communicator.start(one, first), late = communicator.start(two, second);
    communicator.wait(early);
    communicator.wait(late);
  };
  std::vector<double> apart, together, ratios;
  for (int pair = -3; pair < Pairs; ++pair) { // the first ones warm up
    double before = timeOf(communicator, oneByOne), after = timeOf(communicator, atOnce);
    if (pair < 0)
      continue;
    apart.push_back(before);
    together.push_back(after);
    ratios.push_back(before / after);
  }
  if (rank != 0)
    return;
  std::printf("| %d | %.3g | %.4g | %.4g | %.2f |\n", ranks, double(bytes) / double(1 << 20), median(apart) * 1e3,
              median(together) * 1e3, median(ratios));
  std::fflush(stdout);
}

bool runJob(int ranks, uint64_t bytes) {
  return runForked(ranks, [&](const std::string &path, int rank) {
    Arena arena(2 * bytes, 0);
    auto communicator = connectSharedMemory({path, rank, ranks}, arena);
    measure(*communicator, arena, bytes);
  });
}

} // namespace

int main() {
  std::printf("| ranks | MiB each | one after the other, ms | at once, ms | ratio |\n|---|---|---|---|---|\n");
  std::fflush(stdout);
  bool succeeded = true;
  for (int ranks : {2, 4})
    for (uint64_t kibibytes : {4, 64, 1024, 25 * 1024})
      succeeded &= runJob(ranks, kibibytes << 10);
  return succeeded ? 0 : 1;
}
