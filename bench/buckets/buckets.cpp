// One rank of a measurement of many small all-reduces: each with a start of its own, and all as parts of one,
// alternately in one run. `run` starts the ranks, on one host or in namespaces of the network.
//
//   bench_buckets DIRECTORY RANK RANKS_PER_HOST ADDRESS...     an address for each host; the token is in DTC_TOKEN
//
// Prints a line of a Markdown table for each size. A time is the median over the rounds of the slowest rank's.
#include "bench/timing.h"
#include "runtime/abi/commands.h"
#include "runtime/comm/hosts/hosts.h"
#include "runtime/job/member.h"
#include "runtime/job/secret.h"
#include "runtime/support/error.h"

#include <cstdio>
#include <cstdlib>

using namespace dtc;

namespace {

constexpr int Rounds = 101;
constexpr int Port = 29400;
constexpr int Parts = abi::MaximumParts;

struct Ranks {
  std::string directory;
  int rank, perHost;
  std::vector<std::string> addresses;

  int ranks() const { return perHost * static_cast<int>(addresses.size()); }
};

Group everybody(const Ranks &place) {
  Group group;
  for (int rank = 0; rank < place.ranks(); ++rank)
    group.ranks.push_back(rank);
  group.self = place.rank;
  return group;
}

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

void measure(const Ranks &place, Communicator &communicator, int64_t bytes) {
  Group group = everybody(place);
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

int runRank(const Ranks &place) {
  job::Key token = job::tokenKey(job::readToken(processEnvironment()));
  job::Endpoint endpoint = {place.addresses[0], Port};
  std::unique_ptr<job::Server> server;
  if (place.rank == 0) {
    job::ServerOptions options;
    options.listen = endpoint;
    options.token = token;
    options.world = place.ranks();
    server = std::make_unique<job::Server>(std::move(options));
  }
  job::MemberOptions options;
  options.server = endpoint;
  options.token = token;
  options.rank = place.rank;
  options.world = place.ranks();
  options.program = "bench_buckets";
  options.serverRank = 0;
  std::shared_ptr<Membership> membership = job::joinJob(options);
  Arena arena(uint64_t(16) << 20, 0);
  std::string meeting = place.directory + "/host" + std::to_string(place.rank / place.perHost);
  auto communicator = connectHosts(membership, {.path = meeting}, arena, {everybody(place)});
  for (int64_t bytes : {256, 3072, 49152})
    measure(place, *communicator, bytes);
  communicator->barrier();
  return 0;
}

} // namespace

int main(int count, char **arguments) {
  if (count < 5) {
    std::fprintf(stderr, "usage: bench_buckets DIRECTORY RANK RANKS_PER_HOST ADDRESS...\n");
    return 2;
  }
  try {
    return runRank(
        {arguments[1], std::atoi(arguments[2]), std::atoi(arguments[3]), {arguments + 4, arguments + count}});
  } catch (const Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
