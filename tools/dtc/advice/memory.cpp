// Lints about memory: state that ranks hold several times, and what is recomputed though there is room for it.
#include "runtime/abi/element_type.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/tensors.h"
#include "runtime/abi/volume.h"
#include "runtime/abi/written.h"
#include "timing/cost/cost.h"
#include "timing/events/step.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/advice/DataAxes.h"
#include "tools/dtc/advice/Lints.h"
#include "tools/dtc/forecast/ForecastText.h"
#include "tools/dtc/forecast/Room.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

//===----------------------------------------------------------------------===//
// needless-recomputation
//===----------------------------------------------------------------------===//

static constexpr std::string_view recomputationName = "needless-recomputation";

/// Of a step. Plans whose steps differ by less count as equally long (timing/plans/prefer.h).
static constexpr double leastRecomputed = 0.03;
/// Of a device's memory, which stays free: for the driver and the communication library, and because what keeping needs
/// is an estimate.
static constexpr double spareMemory = 0.05;

namespace {

/// What a rank's backward passes recompute.
struct Recomputed {
  double seconds = 0; ///< of a step: its kernels; what it sends again is not counted
  double bytes = 0;   ///< that keeping it would take at most, for all micro-batches in flight
};

} // namespace

/// Each micro-batch in flight has a place of its own in the spaces of what is kept.
static double placesInFlight(const abi::Role &role) {
  uint32_t most = 1;
  for (const abi::Space &space : role.spaces())
    most = std::max(most, space.places());
  return most;
}

static Recomputed recomputedBy(const AdviceFacts &facts, const abi::Role &role) {
  Recomputed sum;
  const timing::Device &device = facts.layout->deviceOf(abi::firstRankOf(role));
  for (const abi::CommandList &list : abi::Resolver(facts.program, role).all()) {
    auto runs = static_cast<double>(timesInStep(role, list));
    for (const abi::Command &command : list.commands()) {
      if (runs == 0 || !command.is_again())
        continue;
      if (command.has_start()) {
        const abi::Group &group = facts.program.groups(static_cast<int>(command.start().group()));
        sum.bytes += runs * abi::payloadBytes(command.start(), abi::membersOf(group));
      } else if (command.has_launch() || command.has_copy()) {
        sum.bytes += runs * static_cast<double>(command.work().bytes_written());
        sum.seconds += runs * timing::kernelSeconds(device, timing::workOf(command));
      }
    }
  }
  auto microBatches = static_cast<double>(std::max<int64_t>(facts.program.training().accumulation(), 1));
  sum.bytes *= placesInFlight(role) / microBatches;
  return sum;
}

/// What `recompute` should be instead: what cheap recomputes hardly takes time, so that is tried first.
static std::string lessRecomputation(const abi::Manifest &program, double limit) {
  std::string word = program.training().recompute() == "cheap" ? "none" : "cheap";
  std::string text = fmt::format("--set recompute={}, or recompute=auto with --memory-limit {:.0f}", word, limit);
  if (program.choices().find("[recompute]") != std::string::npos)
    text += ", and without [recompute] in the choices";
  return text;
}

static std::optional<Finding> needlessRecomputation(const AdviceFacts &facts) {
  if (!facts.layout || !facts.forecast || facts.forecast->seconds <= 0)
    return std::nullopt;
  Recomputed most; // by time and by bytes, each by itself
  for (const abi::Role &role : facts.program.roles()) {
    Recomputed its = recomputedBy(facts, role);
    most = {std::max(most.seconds, its.seconds), std::max(most.bytes, its.bytes)};
  }
  double share = most.seconds / facts.forecast->seconds;
  std::vector<Room> rooms = roomOf(facts.program, *facts.layout);
  if (!(share > leastRecomputed) || rooms.empty())
    return std::nullopt;
  const Room *tightest = nullptr;
  double least = 0; // bytes that stay free for each rank
  for (const Room &room : rooms) {
    auto ranks = static_cast<double>(std::max<int64_t>(room.sharing, 1));
    double left = ((1 - spareMemory) * room.has - room.needs) / ranks;
    if (!tightest || left < least) {
      tightest = &room;
      least = left;
    }
  }
  if (most.bytes > least)
    return std::nullopt;
  auto sharing = static_cast<double>(std::max<int64_t>(tightest->sharing, 1));
  Finding finding;
  finding.name = recomputationName;
  finding.text = fmt::format("recomputing takes {} of a step of {} ({}, more than {}) though memory is free: {}, and "
                             "keeping all of it takes at most {} more for each rank",
                             secondsText(most.seconds), secondsText(facts.forecast->seconds), percentText(share),
                             percentText(leastRecomputed), roomText(*tightest), bytesText(most.bytes));
  finding.remedy = lessRecomputation(facts.program, (1 - spareMemory) * tightest->has / sharing);
  finding.share = share;
  return finding;
}

//===----------------------------------------------------------------------===//
// data-parallel-does-not-fit
//===----------------------------------------------------------------------===//

/// Of what a rank needs: if less than that is state that others hold, too, splitting it is not what would help.
static constexpr double leastReplicated = 0.05;

namespace {

/// Bytes of a rank's state that data-parallel ranks hold alike, and of all its state.
struct Replicated {
  double parameters = 0, copies = 0, slots = 0, gradients = 0;
  double all = 0;
  double sum() const { return parameters + copies + slots + gradients; }
};

/// A way to split it, and what a rank needs then.
struct Split {
  std::string_view strategy;
  double needs = 0;
};

} // namespace

static Replicated replicatedBy(const abi::Role &role, const DataAxes &axes) {
  Replicated state;
  std::set<uint64_t> counted; // what takes over another's memory is at its address
  for (const abi::Tensor &tensor : role.tensors()) {
    if (!abi::isOfParameter(tensor) || !counted.insert(tensor.address()).second)
      continue;
    auto bytes = static_cast<double>(abi::bytesOf(tensor));
    state.all += bytes;
    if (!axes.split(tensor.sharding()))
      (tensor.kind() == abi::Tensor::PARAMETER ? state.parameters
       : abi::isCopy(tensor)                   ? state.copies
       : tensor.kind() == abi::Tensor::SLOT    ? state.slots
                                               : state.gradients) += bytes;
  }
  return state;
}

/// Of the parameters that are gathered together: a layer's, or one outside the layers. In the type that computes.
static double largestGather(const abi::Manifest &program, const abi::Role &role) {
  std::map<int64_t, double> elements;
  for (const abi::Tensor &tensor : role.tensors())
    if (tensor.kind() == abi::Tensor::PARAMETER) {
      const abi::Parameter &parameter = program.parameters(tensor.parameter());
      int64_t unit = parameter.has_layer() ? static_cast<int64_t>(parameter.layer()) : -1 - tensor.parameter();
      elements[unit] += static_cast<double>(abi::elementsOf(tensor));
    }
  double most = 0;
  for (const auto &[unit, count] : elements)
    most = std::max(most, count);
  auto type = std::ranges::find(abi::ElementTypes, program.training().compute(), &abi::ElementType::name);
  return most * (type == abi::ElementTypes.end() ? abi::elementType(abi::F32) : *type).bytes;
}

/// What the ZeRO stages would need, by the table of docs/placement.md (Rajbhandari et al., arXiv:1910.02054), those
/// that split more than the program does. zero3 also holds what is gathered: for one layer, and for the next one, which
/// comes meanwhile.
static std::vector<Split> splitsOf(const abi::Manifest &program, const abi::Role &role, const Replicated &state,
                                   double needs, double ranks) {
  double rest = needs - state.sum(), kept = state.parameters + state.copies;
  double reduced = state.gradients / ranks;
  double accumulated = program.training().accumulation() > 1 ? state.gradients : 0;
  std::vector<Split> splits;
  if (state.slots > 0)
    splits.push_back({"zero1", rest + kept + state.slots / ranks + accumulated + reduced});
  if (state.slots > 0 || state.gradients > 0)
    splits.push_back({"zero2", rest + kept + state.slots / ranks + reduced});
  splits.push_back({"zero3", rest + state.sum() / ranks + 2 * largestGather(program, role)});
  return splits;
}

/// The program's preset with another way to split state: "megatron-sp+cp" gets "+zero1", "ddp+zero1" becomes "zero2".
static std::string strategyWith(const abi::Manifest &program, std::string_view split) {
  if (!program.strategy_text().empty())
    return fmt::format("annotations that split state as {} does", split);
  static constexpr std::array<std::string_view, 6> ofState = {"ddp", "zero1", "zero2", "zero3", "fsdp", ""};
  std::string text, rest = program.strategy();
  while (!rest.empty()) {
    size_t end = std::min(rest.find('+'), rest.size());
    std::string part = rest.substr(0, end);
    rest.erase(0, std::min(end + 1, rest.size()));
    if (std::ranges::find(ofState, part) == ofState.end() && !part.starts_with("hsdp:"))
      text += part + "+";
  }
  return fmt::format("--strategy {}{}", text, split);
}

/// Ranks that share a node's memory have equal parts of it.
static std::optional<Finding> adviseSplit(const AdviceFacts &facts, const Room &room, const DataAxes &axes) {
  auto sharing = static_cast<double>(std::max<int64_t>(room.sharing, 1)), ranks = static_cast<double>(axes.ranks());
  const abi::Role &role = abi::roleOf(facts.program, room.rank);
  Replicated state = replicatedBy(role, axes);
  double needs = room.needs / sharing, has = room.has / sharing;
  if (!(state.sum() > leastReplicated * needs))
    return std::nullopt;
  std::vector<std::string> texts;
  std::string_view first;
  for (const Split &split : splitsOf(facts.program, role, state, needs, ranks)) {
    texts.push_back(fmt::format("{} about {}", split.strategy, bytesText(split.needs)));
    if (first.empty() && split.needs <= has)
      first = split.strategy;
  }
  Finding finding;
  finding.name = doesNotFitName;
  finding.text =
      fmt::format("{}, and {} of it are state that each of {} data-parallel ranks holds: a rank has {}, and "
                  "would need with {}",
                  roomText(room), bytesText(state.sum()), axes.ranks(), bytesText(has), fmt::join(texts, ", "));
  finding.remedy = !first.empty()
                       ? strategyWith(facts.program, first)
                       : fmt::format("{}, and in addition a larger tp, a pipeline, smaller micro-batches or more ranks",
                                     strategyWith(facts.program, "zero3"));
  finding.share = std::min(1.0, 1 - has / needs);
  return finding;
}

static std::optional<Finding> dataParallelDoesNotFit(const AdviceFacts &facts) {
  DataAxes axes = dataAxesOf(facts.program);
  if (!facts.layout || axes.ranks() < 2)
    return std::nullopt;
  std::optional<Finding> worst;
  for (const Room &room : roomOf(facts.program, *facts.layout))
    if (!room.isEnough())
      if (std::optional<Finding> finding = adviseSplit(facts, room, axes))
        if (!worst || finding->share > worst->share)
          worst = finding;
  return worst;
}

//===----------------------------------------------------------------------===//

std::span<const Lint> memoryLints() {
  static constexpr std::array<Lint, 2> all = {{
      {recomputationName,
       "recomputing takes over 3% of a step, and what is recomputed would fit into every device's memory with 5% of it "
       "to spare",
       needlessRecomputation},
      {doesNotFitName,
       "the program needs more memory than a device has, and over 5% of what a rank needs is state that other "
       "data-parallel ranks hold, too",
       dataParallelDoesNotFit},
  }};
  return all;
}

} // namespace dtc
