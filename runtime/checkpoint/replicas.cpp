#include "runtime/checkpoint/replicas.h"

#include "runtime/checkpoint/checksums.h"
#include "runtime/checkpoint/step_news.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <optional>
#include <set>
#include <unistd.h>
#include <utility>

namespace dtc {

using Clock = std::chrono::steady_clock;

/// The number of comparisons that measure their cost.
static constexpr size_t Trials = 3;

static bool isStored(const std::vector<int64_t> &pieces, size_t rank) { return pieces[rank] != Pieces::None; }

ReplicaCheck::ReplicaCheck(const RankState &state, Communicator &communicator)
    : state(state), communicator(communicator), mesh(state.manifest().mesh()), pieces(state.manifest(), mesh) {
  for (const auto *tensors : {&state.allParameters(), &state.allMoments()})
    for (const StateTensor &tensor : *tensors)
      add(tensor);
}

void ReplicaCheck::add(const StateTensor &tensor) {
  const std::vector<int64_t> &owners = pieces.of(*tensor.tensor);
  std::multiset<int64_t> held(owners.begin(), owners.end());
  held.erase(Pieces::None);
  if (std::set<int64_t>(held.begin(), held.end()).size() == held.size())
    return;
  auto same = std::ranges::find(stored, &owners, &Tensors::pieces);
  if (same == stored.end())
    same = stored.insert(stored.end(), {&owners, {}, {}});
  same->all.push_back(&tensor);
  ++copies;
}

std::string ReplicaCheck::describe() const {
  size_t all = state.allParameters().size() + state.allMoments().size();
  constexpr const char *Once = "stored once, where nothing would notice a wrong bit";
  if (communicator.size() == 1)
    return "";
  if (copies == 0)
    return fmt::format("replicas: no parameter or optimizer slot is compared between ranks: each is {}", Once);
  return fmt::format(
      "replicas: {} of {} parameters and optimizer slots are compared between the ranks that store them{}", copies, all,
      copies == all ? "" : fmt::format("; the others are {}", Once));
}

/// The lowest rank whose copy of a piece has a different hash from a lower rank's copy; nullopt if there is none.
static std::optional<size_t> firstOther(const std::vector<int64_t> &pieces, const std::vector<int64_t> &hashes) {
  std::map<int64_t, int64_t> known; // by piece
  for (size_t rank = 0; rank < hashes.size(); ++rank)
    if (isStored(pieces, rank) && known.emplace(pieces[rank], hashes[rank]).first->second != hashes[rank])
      return rank;
  return std::nullopt;
}

void ReplicaCheck::compare(int64_t step) {
  if (copies == 0 || lastCompared == step)
    return;
  auto begin = Clock::now();
  for (Tensors &tensors : stored) {
    tensors.hashes.clear();
    for (const StateTensor *tensor : tensors.all)
      tensors.hashes.push_back(isStored(*tensors.pieces, communicator.rank()) ? state.hash(*tensor) : 0);
  }
  for (const Tensors &tensors : stored) {
    auto mine = static_cast<int64_t>(checksum(std::as_bytes(std::span(tensors.hashes))));
    if (firstOther(*tensors.pieces, communicator.exchange(mine)))
      blame(tensors, step);
  }
  lastCompared = step;
  double taken = std::chrono::duration<double>(Clock::now() - begin).count();
  untoldSeconds += taken;
  if (seconds.size() < Trials)
    seconds.push_back(taken);
}

namespace {
/// The ranks that store one piece of a tensor.
struct Dissent {
  std::vector<int> odd; ///< those that differ from the majority; all if there is no majority
  std::vector<int> even;
};
} // namespace

static Dissent dissentOf(const std::vector<int64_t> &pieces, const std::vector<int64_t> &hashes, size_t rank) {
  std::map<int64_t, std::vector<int>> byHash;
  size_t members = 0;
  for (size_t other = 0; other < pieces.size(); ++other)
    if (pieces[other] == pieces[rank]) {
      byHash[hashes[other]].push_back(static_cast<int>(other));
      ++members;
    }
  Dissent found;
  for (const auto &[hash, ranks] : byHash) {
    std::vector<int> &side = 2 * ranks.size() > members ? found.even : found.odd;
    side.insert(side.end(), ranks.begin(), ranks.end());
  }
  std::ranges::sort(found.odd);
  return found;
}

static std::string nameOf(const std::vector<int> &ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

static std::string hostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "?";
}

/// All ranks know that there is a difference; now the hash of each tensor shows where.
void ReplicaCheck::blame(const Tensors &tensors, int64_t step) const {
  Dissent dissent;
  std::string name;
  int64_t others = -1;
  for (size_t i = 0; i < tensors.all.size(); ++i) {
    std::vector<int64_t> hashes = communicator.exchange(static_cast<int64_t>(tensors.hashes[i]));
    std::optional<size_t> rank = firstOther(*tensors.pieces, hashes);
    if (!rank)
      continue;
    if (++others > 0)
      continue;
    name = state.fileName(*tensors.all[i]);
    dissent = dissentOf(*tensors.pieces, hashes, *rank);
  }
  if (dissent.odd.front() != communicator.rank())
    throw Error(ExitCode::Corrupted, "");
  bool isClear = !dissent.even.empty();
  throw Error(
      ExitCode::Corrupted,
      fmt::format("after step {}: '{}'{} is not the same on all ranks that store it: {}; {}. Memory or a processor "
                  "failed there. Nothing of it was saved: test {}, and go on from the last checkpoint by --resume",
                  step, name, others > 0 ? fmt::format(" (and {} more)", others) : "",
                  isClear ? fmt::format("{} {} from {}", nameOf(dissent.odd),
                                        dissent.odd.size() == 1 ? "differs" : "differ", nameOf(dissent.even))
                          : nameOf(dissent.odd) + " differ, and no majority says which is right",
                  lastCompared < 0 ? "they were not compared before"
                                   : fmt::format("after step {} all were equal", lastCompared),
                  isClear ? "the host " + hostName() : "their hosts"));
}

//===----------------------------------------------------------------------===//
// How often
//===----------------------------------------------------------------------===//

bool ReplicaCheck::isDue(int64_t step) const { return interval == 0 || step % interval == 0; }

void ReplicaCheck::noteStep(double taken) { shortestStep = shortestStep > 0 ? std::min(shortestStep, taken) : taken; }

int64_t ReplicaCheck::wantedInterval() const {
  if (interval > 0 || seconds.size() < Trials || shortestStep <= 0)
    return interval;
  // A comparison takes the allowed share of this many steps. Using the slowest comparison and the shortest step makes
  // it an upper bound.
  double steps = std::ceil(*std::ranges::max_element(seconds) / (Share * shortestStep));
  return static_cast<int64_t>(std::clamp(steps, 1.0, static_cast<double>(StepNews::MostInterval)));
}

double ReplicaCheck::takeSeconds() { return std::exchange(untoldSeconds, 0); }

} // namespace dtc
