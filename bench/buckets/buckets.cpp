// One rank of a measurement of many small all-reduces: each started on its own, and all as parts of one start,
// alternately in one run. `run` starts the ranks, on one host or in network namespaces.
//
//   bench_buckets DIRECTORY RANK RANKS_PER_HOST ADDRESS...     an address for each host; the token is in DTC_TOKEN
//
// Prints a line of a Markdown table for each size. A time is the median over the rounds of the slowest rank's time.
#include "bench/host_ranks.h"
#include "bench/timing.h"
#include "runtime/abi/commands.h"
#include "runtime/comm/hosts/hosts.h"

#include <cstdio>

using namespace dtc;

namespace {

constexpr int Rounds = 101;
constexpr int Parts = abi::MaximumParts;

std::vector<abi::Command> reductions(int64_t bytes, bool areParts) {
  std::vector<abi::Command> commands(Parts);
  for (int i = 0; i < Parts; ++i) {
    abi::Collective &collective = *commands[i].mutable_start();
    collective.set_outer(1);
    collective.set_chunk(bytes / 4);
    collective.set_input(static_cast<uint64_t>(i * bytes));
    collective.set_output(collective.input());
    collective.set_more(areParts && i + 1 < Parts);
  }
  return commands;
}

/// Starts all, and waits for all, as a list does that has gradients to reduce.
void runAll(Communicator &communicator, const Group &group, const std::vector<abi::Command> &commands) {
  std::vector<CommandHandle> handles;
  for (const abi::Command &command : commands)
    handles.push_back(communicator.start(group, command));
  communicator.handOver();
  for (const CommandHandle &handle : handles)
    communicator.wait(handle);
}

void measure(const HostRank &place, Communicator &communicator, int64_t bytes) {
  Group group = place.everybody();
  std::vector<abi::Command> alone = reductions(bytes, false), parts = reductions(bytes, true);
  std::vector<double> aloneTimes, partsTimes;
  for (int round = 0; round < Rounds; ++round) {
    aloneTimes.push_back(timeOf(communicator, [&] { runAll(communicator, group, alone); }));
    partsTimes.push_back(timeOf(communicator, [&] { runAll(communicator, group, parts); }));
  }
  if (place.rank != 0)
    return;
  std::printf("| %zu x %d | %lld | %.3f | %.3f | %.1f |\n", place.addresses.size(), place.perHost,
              static_cast<long long>(bytes), median(aloneTimes) * 1e3, median(partsTimes) * 1e3,
              median(aloneTimes) / median(partsTimes));
  std::fflush(stdout);
}

void runRank(const HostRank &place, const JoinedJob &job) {
  Arena arena(uint64_t(16) << 20, 0);
  std::string meeting = place.directory + "/host" + std::to_string(place.host());
  auto communicator = connectHosts(job.membership, {.path = meeting}, arena, {place.everybody()});
  for (int64_t bytes : {256, 3072, 49152})
    measure(place, *communicator, bytes);
  communicator->barrier();
}

} // namespace

int main(int count, char **arguments) { return runHostRank(count, arguments, "bench_buckets", runRank); }
