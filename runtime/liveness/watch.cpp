#include "runtime/liveness/watch.h"

#include <algorithm>
#include <fmt/format.h>

namespace dtc {

/// File work may take this many times as long as a command.
static constexpr int PatienceWithHosts = 10;

static double seconds(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

/// What the ranks that have waited longest are waiting for.
static std::string whatWaits(const std::vector<Signs> &signs, int rank) {
  const Signs *longest = nullptr;
  for (const Signs &other : signs)
    if (other.rank != rank && other.waiting && !other.place.empty() && (!longest || other.still > longest->still))
      longest = &other;
  return longest ? fmt::format("; rank {} waits for it at {}", longest->rank, longest->place) : "";
}

static std::string between(const std::string &link) {
  return link.empty() ? "" : fmt::format(" over the link between {}", link);
}

/// The failure of a rank whose process is silent.
static FailureNotice silentRank(const Signs &rank, const std::vector<Signs> &signs, std::chrono::milliseconds timeout) {
  std::string last = rank.place.empty() ? "" : fmt::format("; it was last seen at {}", rank.place);
  if (rank.systemSilent >= timeout / 2)
    return {rank.rank, fmt::format("its host is unreachable: nothing has come from there for {:.0f} s{}{}{}",
                                   seconds(rank.silent), between(rank.link), last, whatWaits(signs, rank.rank))};
  return {rank.rank, fmt::format("its process is stopped: its host answers, but the process has not run for {:.0f} s "
                                 "(SIGSTOP, a debugger, or no memory?){}{}",
                                 seconds(rank.silent), last, whatWaits(signs, rank.rank))};
}

std::optional<FailureNotice> judge(const std::vector<Signs> &signs, std::chrono::milliseconds timeout) {
  auto silent = std::ranges::max_element(signs, {}, &Signs::silent);
  if (silent == signs.end())
    return std::nullopt;
  if (silent->silent >= timeout)
    return silentRank(*silent, signs, timeout);
  if (silent->silent >= timeout / 2) // the cause is known and will be reported soon
    return std::nullopt;

  // No rank is blamed for being slow while no rank waits.
  auto isStill = [&](const Signs &rank) { return rank.inList && rank.still >= timeout; };
  if (std::ranges::none_of(signs, [&](const Signs &rank) { return rank.waiting && rank.still >= timeout; }))
    return std::nullopt;
  auto hung = std::ranges::find_if(signs, [&](const Signs &rank) { return isStill(rank) && !rank.waiting; });
  if (hung != signs.end())
    return FailureNotice{hung->rank, fmt::format("it hangs: it lives, but has not got past {} for {:.0f} s, and others "
                                                 "wait for it",
                                                 hung->place, seconds(hung->still))};
  // A rank between lists reads data or writes a checkpoint, which may take long.
  auto busy = std::ranges::find_if(signs, [&](const Signs &rank) { return !rank.inList && !rank.waiting; });
  if (busy != signs.end() && busy->still >= PatienceWithHosts * timeout)
    return FailureNotice{busy->rank,
                         fmt::format("it hangs between command lists, reading or writing files: it has done "
                                     "nothing else for {:.0f} s, and others wait for it",
                                     seconds(busy->still))};
  if (!std::ranges::all_of(signs, [&](const Signs &rank) { return rank.waiting && rank.still >= timeout; }))
    return std::nullopt;
  auto cut = std::ranges::max_element(signs, {}, [](const Signs &rank) { return rank.silentPeer.time; });
  if (cut->silentPeer.time >= timeout / 2)
    return FailureNotice{cut->silentPeer.rank,
                         fmt::format("its host is unreachable for rank {}: nothing has come from there for {:.0f} s{}",
                                     cut->rank, seconds(cut->silentPeer.time), between(cut->silentPeer.link))};
  std::string all;
  constexpr size_t Most = 8;
  for (size_t i = 0; i < std::min(signs.size(), Most); ++i)
    all += fmt::format("{}rank {} at {}", i ? ", " : "", signs[i].rank,
                       signs[i].place.empty() ? "an exchange between command lists" : signs[i].place);
  return FailureNotice{signs.front().rank,
                       fmt::format("all ranks have waited for each other for {:.0f} s: {}{}",
                                   seconds(signs.front().still), all, signs.size() > Most ? ", ..." : "")};
}

} // namespace dtc
