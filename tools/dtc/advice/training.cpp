// Lints about what training learns, and how much of it a failure costs.
#include "runtime/abi/element_type.h"
#include "runtime/abi/optimizers.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/tensors.h"
#include "runtime/abi/written.h"
#include "runtime/support/product.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/advice/CheckpointInterval.h"
#include "tools/dtc/advice/DataAxes.h"
#include "tools/dtc/advice/Lints.h"
#include "tools/dtc/advice/Sequences.h"
#include "tools/dtc/forecast/ForecastText.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

namespace dtc {

//===----------------------------------------------------------------------===//
// learning-rate-not-scaled
//===----------------------------------------------------------------------===//

static constexpr std::string_view rateName = "learning-rate-not-scaled";

/// By how much the rate may differ from the rule's. The rules themselves hold within about that.
static constexpr double mostRateFactor = 1.5;

/// Whether the optimizer divides by the root of a second moment, as Adam does: then a gradient's noise, not its size,
/// says how long a step is.
static bool isAdaptive(const abi::Training &training) {
  const abi::Optimizer *optimizer = abi::findOptimizer(training.optimizer());
  return optimizer && optimizer->find("beta2");
}

/// Goyal et al., arXiv:1706.02677: with k times the batch, SGD takes k times the rate. Malladi et al.,
/// arXiv:2205.10287: Adam takes sqrt(k) times the rate.
static std::optional<Finding> rateNotScaled(const AdviceFacts &facts) {
  const abi::Training &training = facts.program.training();
  if (facts.referenceBatch <= 0 || facts.referenceRate <= 0 || training.learning_rate() <= 0)
    return std::nullopt;
  double times = static_cast<double>(training.global_batch()) / facts.referenceBatch;
  bool adaptive = isAdaptive(training);
  double right = facts.referenceRate * (adaptive ? std::sqrt(times) : times);
  double off = std::fmax(training.learning_rate() / right, right / training.learning_rate());
  if (!(off > mostRateFactor))
    return std::nullopt;
  Finding finding;
  finding.name = rateName;
  finding.text = fmt::format(
      "the learning rate is {:.3g}; {:.3g} was right for a batch of {:.6g}, and this one is {}, {:.3g} times that: "
      "with {} the rate grows with {}, to {:.3g}, and {:.3g} is off by a factor of {:.3g}, more than {:.3g}",
      training.learning_rate(), facts.referenceRate, facts.referenceBatch, training.global_batch(), times,
      training.optimizer(), adaptive ? "the square root of the batch" : "the batch", right, training.learning_rate(),
      off, mostRateFactor);
  finding.remedy = fmt::format("--set learning_rate={:.3g}", right);
  if (times > 1)
    finding.remedy += adaptive ? "; 1 - beta1 and 1 - beta2 grow as the batch does (arXiv:2205.10287)"
                               : "; raise it gradually, by warmup_steps (arXiv:1706.02677)";
  finding.share = 1 - 1 / off; // of the progress of a step, about
  return finding;
}

//===----------------------------------------------------------------------===//
// sums-in-16-bits
//===----------------------------------------------------------------------===//

static constexpr std::string_view sumsName = "sums-in-16-bits";

/// Relative, of the sum.
static constexpr double mostSumError = 0.01;

/// The root of the mean square of the relative error of a sum over p ranks whose partial sums are rounded one after the
/// other, at most. Let u be the type's unit roundoff and all terms g: the k-th partial sum, k g, gets an error of at
/// most u k g / sqrt(3) in the mean square (Higham and Mary, "A new approach to probabilistic rounding error analysis",
/// 2019, take them as independent, as here). The sum of their squares is u^2 g^2 p^3 / 9, and the sum is p g.
static double errorOfSum(abi::DataType type, int64_t ranks) {
  double unit = std::ldexp(1.0, -(abi::elementType(type).fractionBits + 1));
  return ranks < 2 ? 0 : unit * std::sqrt(static_cast<double>(ranks)) / 3;
}

namespace {
struct NarrowSum {
  double error = 0;
  int64_t ranks = 0;
  abi::DataType type = abi::F32;
  const abi::Group *group = nullptr;
};
} // namespace

static NarrowSum leastExactSum(const abi::Manifest &program) {
  NarrowSum worst;
  for (const abi::CommandList &list : program.lists())
    for (const abi::Command &command : list.commands()) {
      const abi::Collective &start = command.start();
      bool isSum = command.has_start() && start.reduction() == abi::SUM &&
                   (start.kind() == abi::Collective::ALL_REDUCE || start.kind() == abi::Collective::REDUCE_SCATTER);
      bool isOfParameter = command.direction() == abi::WEIGHT_GRADIENT || command.direction() == abi::UPDATE;
      if (!isSum || !isOfParameter || !abi::elementType(start.type()).isFloating())
        continue;
      const abi::Group &group = program.groups(static_cast<int>(start.group()));
      int64_t ranks = abi::membersOf(group);
      if (double error = errorOfSum(start.type(), ranks); error > worst.error)
        worst = {error, ranks, start.type(), &group};
    }
  return worst;
}

bool isSumExact(const abi::Manifest &program, std::string_view type, int64_t ranks) {
  auto found = std::ranges::find(abi::ElementTypes, type, &abi::ElementType::name);
  return !abi::isForGpus(program) || found == abi::ElementTypes.end() || errorOfSum(found->type, ranks) <= mostSumError;
}

/// dtc's own transports add elements of 16 bits in f32 and round once, however many ranks there are
/// (runtime/comm/local/reduce.h, runtime/comm/hosts/spanning_group.h). NCCL's rings round each partial sum.
static std::optional<Finding> sumsInSixteenBits(const AdviceFacts &facts) {
  if (!abi::isForGpus(facts.program))
    return std::nullopt;
  NarrowSum worst = leastExactSum(facts.program);
  if (!(worst.error > mostSumError))
    return std::nullopt;
  Finding finding;
  finding.name = sumsName;
  finding.text = fmt::format("gradients are summed in {} over {} ranks ({}): NCCL's rings round each partial sum, so a "
                             "gradient is off by about {}, more than {}, and the error grows with the root of "
                             "the number of ranks",
                             abi::nameOf(worst.type), worst.ranks, groupText(*worst.group, facts.program.mesh()),
                             percentText(worst.error), percentText(mostSumError));
  finding.remedy = "--set gradients=f32, which sends twice the bytes; or fewer data-parallel ranks";
  finding.share = std::fmin(worst.error, 1.0);
  return finding;
}

//===----------------------------------------------------------------------===//
// checkpoint-interval
//===----------------------------------------------------------------------===//

static constexpr std::string_view intervalName = "checkpoint-interval";

/// Of a run's time, that another interval would save.
static constexpr double mostTimeLost = 0.01;
/// Bytes that a node writes in a second, an assumption: bench/checkpoint.md measured 0.85e9 to 1.3e9 with one disk.
static constexpr double writeRate = 1e9;
/// As cluster.proto has it, where the file does not say.
static constexpr double defaultHostBandwidth = 25e9;

/// Of all ranks together: each element of a parameter and of a slot is written once, as it is stored.
static double checkpointBytes(const abi::Manifest &program) {
  std::map<std::tuple<int, int, std::string>, double> bytes;
  for (const abi::Role &role : program.roles())
    for (const abi::Tensor &tensor : role.tensors())
      if (abi::isState(tensor))
        bytes[{tensor.kind(), tensor.parameter(), tensor.slot()}] =
            static_cast<double>(abi::bytesOf(tensor.type(), static_cast<uint64_t>(productOf(tensor.global_shape()))));
  double sum = 0;
  for (const auto &[key, each] : bytes)
    sum += each;
  return sum;
}

static int64_t nodesInUse(const timing::Layout &layout) {
  std::set<int64_t> nodes;
  for (int64_t rank = 0; rank < layout.ranks(); ++rank)
    nodes.insert(layout.nodeOf(rank));
  return static_cast<int64_t>(nodes.size());
}

/// A GPU stops for the copy to its host. On processors, writing takes the cores that would compute.
static CheckpointCost checkpointCost(const AdviceFacts &facts, int64_t nodes) {
  double bytes = checkpointBytes(facts.program), write = bytes / static_cast<double>(nodes) / writeRate;
  const timing::Device &device = facts.layout->deviceOf(0);
  if (device.threads() > 0)
    return {write, 0};
  double rate = device.host_bandwidth() > 0 ? device.host_bandwidth() : defaultHostBandwidth;
  return {bytes / static_cast<double>(facts.layout->ranks()) / rate, write};
}

/// "12 s", "3.4 h", "264 days".
static std::string timeSpanText(double seconds) {
  if (seconds < 600)
    return secondsText(seconds);
  return seconds < 2 * 86400 ? fmt::format("{:.3g} h", seconds / 3600) : fmt::format("{:.3g} days", seconds / 86400);
}

static std::optional<Finding> checkpointInterval(const AdviceFacts &facts) {
  const abi::Training &training = facts.program.training();
  if (!facts.layout || !facts.forecast || facts.layout->cluster().failure_seconds() <= 0 || training.steps() < 1)
    return std::nullopt;
  int64_t nodes = nodesInUse(*facts.layout), steps = training.steps();
  double between = facts.layout->cluster().failure_seconds() / static_cast<double>(nodes);
  double step = facts.forecast->seconds;
  CheckpointCost cost = checkpointCost(facts, nodes);
  if (step <= 0 || cost.stop <= 0)
    return std::nullopt;
  auto time = [&](int64_t every) { return timeWithFailures(static_cast<double>(every) * step, cost, between); };
  // The last step has a checkpoint anyway.
  int64_t every = training.checkpoint_every() > 0 ? std::min(training.checkpoint_every(), steps) : steps;
  double interval =
      std::fmin(std::fmax(bestInterval(cost.stop, between), cost.write), static_cast<double>(steps) * step);
  int64_t best = std::clamp<int64_t>(std::llround(std::ceil(interval / step)), 1, steps);
  double lost = 1 - time(best) / time(every);
  if (!(lost > mostTimeLost))
    return std::nullopt;
  Finding finding;
  finding.name = intervalName;
  finding.text = fmt::format(
      "there is a checkpoint {} ({}), and a failure every {} ({}): one after every {} steps ({}) makes the run {} "
      "shorter, more than {} (Young 1974, Daly 2006; {} of state stop training for {}, and a node is assumed to write "
      "{} a second)",
      training.checkpoint_every() > 0 ? fmt::format("after every {} steps", every) : "only at the end",
      timeSpanText(static_cast<double>(every) * step), timeSpanText(between),
      nodes == 1 ? std::string("1 node")
                 : fmt::format("{} nodes, each of which fails once in {}", nodes,
                               timeSpanText(facts.layout->cluster().failure_seconds())),
      best, timeSpanText(static_cast<double>(best) * step), percentText(lost), percentText(mostTimeLost),
      bytesText(checkpointBytes(facts.program)), timeSpanText(cost.stop), bytesText(writeRate));
  finding.remedy = fmt::format("--set checkpoint_every={}, which 'dtc run' takes, too", best);
  finding.share = lost;
  return finding;
}

//===----------------------------------------------------------------------===//
// uneven-sequences
//===----------------------------------------------------------------------===//

static constexpr std::string_view sequencesName = "uneven-sequences";

/// Coefficient of variation of the ranks' attention, the mean over steps.
static constexpr double mostAttentionVariation = 0.05;

/// Of a step: by its kernels' times where they were simulated, otherwise by operations.
static double attentionShare(const AdviceFacts &facts) {
  if (facts.forecast && facts.forecast->seconds > 0) {
    auto found = facts.forecast->kernels.find(abi::Work::ATTENTION);
    return found == facts.forecast->kernels.end() ? 0 : found->second / facts.forecast->seconds;
  }
  double attention = 0, all = 0;
  for (const abi::CommandList &list : facts.program.lists())
    for (const abi::Command &command : list.commands()) {
      all += command.work().flops();
      attention += command.work().kind() == abi::Work::ATTENTION ? command.work().flops() : 0;
    }
  return all > 0 ? attention / all : 0;
}

/// What packing can do, by the same simulation; what it cannot, more samples on each rank do: the spread falls with the
/// root of their number.
static std::string evenerSequences(const AdviceFacts &facts, BatchShape shape, double present) {
  shape.heldOut = 0; // a packed corpus is evaluated on another file (docs/data.md)
  double packed = attentionSpread(packedByAttention(facts.sampleTokens, shape.sequence), shape).variation;
  std::string pack = fmt::format("pack by attention: dtc data pack --tokenizer ... --sequence-length {} --balance "
                                 "attention",
                                 shape.sequence);
  auto isTooLong = [&](double length) { return length > static_cast<double>(shape.sequence); };
  if (int64_t tooLong = std::ranges::count_if(facts.sampleTokens, isTooLong))
    pack += fmt::format(", once {} document{} of more tokens {} cut", tooLong, tooLong == 1 ? "" : "s",
                        tooLong == 1 ? "is" : "are");
  if (packed <= mostAttentionVariation)
    return pack;
  std::string_view more = "more samples on each rank, by a larger global_batch or fewer data-parallel ranks";
  constexpr double hardlyLess = 0.9;
  if (packed > hardlyLess * present)
    return fmt::format("{}; packing by attention cannot help, because long documents fill samples alone", more);
  return fmt::format("{}, which leaves {:.2g}, because long documents fill samples alone; and {}", pack, packed, more);
}

static std::optional<Finding> unevenSequences(const AdviceFacts &facts) {
  const abi::Training &training = facts.program.training();
  int64_t ranks = dataAxesOf(facts.program).rowRanks();
  // Where documents see each other, every sample costs the same.
  if (!training.separate_documents() || facts.sampleTokens.empty() || ranks < 2 || training.sequence_length() < 1)
    return std::nullopt;
  BatchShape shape{
      training.sequence_length(),     training.global_batch(), std::max<int64_t>(training.accumulation(), 1), ranks,
      training.validation_fraction(), training.seed()};
  AttentionSpread spread = attentionSpread(facts.sampleTokens, shape);
  if (!(spread.variation > mostAttentionVariation))
    return std::nullopt;
  double share = attentionShare(facts);
  Finding finding;
  finding.name = sequencesName;
  finding.text =
      fmt::format("documents of uneven length load the {} data-parallel ranks unevenly with attention: over {} "
                  "step{} its coefficient of variation is {:.2g}, more than {:.2g}, and the busiest rank has "
                  "{} more than the mean; attention is {} of a step",
                  ranks, spread.steps, spread.steps == 1 ? "" : "s", spread.variation, mostAttentionVariation,
                  percentText(spread.excess), percentText(share));
  finding.remedy = evenerSequences(facts, shape, spread.variation);
  finding.share = std::fmin(spread.excess * share, 1.0);
  return finding;
}

//===----------------------------------------------------------------------===//

std::span<const Lint> trainingLints() {
  static constexpr std::array<Lint, 4> all = {{
      {rateName,
       "given a reference: the rate differs from the scaled one (SGD: by the batch, Adam: by its root) by a "
       "factor of more than 1.5",
       rateNotScaled},
      {sumsName,
       "NCCL sums gradients in 16 bits over so many ranks p that u sqrt(p) / 3 is more than 1%, where u is the "
       "type's unit roundoff: bf16 from 59 ranks on, f16 from 3775",
       sumsInSixteenBits},
      {intervalName,
       "given failure_seconds of the cluster: the best interval between checkpoints would make the run more "
       "than 1% shorter",
       checkpointInterval},
      {sequencesName,
       "given data, with separate_documents: the attention of data-parallel ranks has a coefficient of "
       "variation of more than 0.05",
       unevenSequences},
  }};
  return all;
}

} // namespace dtc
