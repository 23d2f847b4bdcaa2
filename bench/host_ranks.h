// The ranks of a measurement between hosts, each started with its place, and how they meet.
#pragma once

#include "runtime/job/member.h"
#include "runtime/job/secret.h"
#include "runtime/job/server.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dtc {

/// A rank's place: DIRECTORY RANK RANKS_PER_HOST ADDRESS..., an address for each host.
struct HostRank {
  std::string directory;
  int rank, perHost;
  std::vector<std::string> addresses;

  /// `words` are a program's arguments, its name first; there are at least five.
  static HostRank of(int count, char **words) {
    return {words[1], std::atoi(words[2]), std::atoi(words[3]), {words + 4, words + count}};
  }

  int ranks() const { return perHost * static_cast<int>(addresses.size()); }
  int host() const { return rank / perHost; }

  Group everybody(uint32_t channel = 0) const {
    Group group;
    for (int each = 0; each < ranks(); ++each)
      group.ranks.push_back(each);
    group.self = rank;
    group.channel = channel;
    return group;
  }
};

/// A job that a rank has joined, served by the first rank.
struct JoinedJob {
  std::unique_ptr<job::Server> server;
  std::shared_ptr<Membership> membership;
};

/// The token is in DTC_TOKEN.
inline JoinedJob joinAs(const HostRank &place, const std::string &program) {
  constexpr int port = 29400;
  JoinedJob joined;
  job::Key token = job::tokenKey(job::readToken(processEnvironment()));
  job::Endpoint endpoint = {place.addresses[0], port};
  if (place.rank == 0) {
    job::ServerOptions options;
    options.listen = endpoint;
    options.token = token;
    options.world = place.ranks();
    joined.server = std::make_unique<job::Server>(std::move(options));
  }
  job::MemberOptions options;
  options.server = endpoint;
  options.token = token;
  options.rank = place.rank;
  options.world = place.ranks();
  options.program = program;
  options.serverRank = 0;
  joined.membership = job::joinJob(options);
  return joined;
}

/// A measurement's main: runs `work` as the rank that its arguments name, and returns the exit code.
template <typename Work> int runHostRank(int count, char **words, const char *program, const Work &work) {
  if (count < 5) {
    std::fprintf(stderr, "usage: %s DIRECTORY RANK RANKS_PER_HOST ADDRESS...\n", program);
    return 2;
  }
  HostRank place = HostRank::of(count, words);
  try {
    work(place, joinAs(place, program));
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "rank %d: %s\n", place.rank, error.what());
    return 1;
  }
}

} // namespace dtc
