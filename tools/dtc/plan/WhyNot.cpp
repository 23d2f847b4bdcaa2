#include "tools/dtc/plan/WhyNot.h"

#include "timing/plans/bounds.h"
#include "timing/plans/holding.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/forecast/ForecastText.h"
#include "tools/dtc/plan/ClusterSize.h"
#include "tools/dtc/plan/NoCandidate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <span>

namespace dtc {

using plans::Candidate;
using plans::Evaluated;
using plans::Problem;

namespace {

struct PartOfStep {
  const char *name;
  double Evaluated::*seconds;
};
constexpr PartOfStep parts[] = {{"compute", &Evaluated::compute},
                                {"exposed communication", &Evaluated::exposed},
                                {"bubble", &Evaluated::bubble},
                                {"the host", &Evaluated::host}};

/// The parts, those that differ most first.
std::vector<PartOfStep> byDifference(const Evaluated &other, const Evaluated &proposed) {
  std::vector<PartOfStep> sorted(std::begin(parts), std::end(parts));
  std::ranges::sort(sorted, std::greater<>(), [&](const PartOfStep &part) {
    return std::abs(other.*part.seconds - proposed.*part.seconds);
  });
  return sorted;
}

/// A layout by its name.
struct Family {
  std::string_view name;
  bool (*contains)(const Problem &problem, const Candidate &candidate);
  /// Why it has no candidate; empty: for no reason that can be named.
  std::string (*misfit)(const Problem &problem);
};

/// Devices of the smallest node, which tensor parallelism stays within.
int64_t devicesOfNode(const Problem &problem) {
  int64_t least = problem.devices;
  for (const timing::Nodes &nodes : problem.cluster.nodes())
    least = std::min(least, devicesOf(nodes));
  return least;
}

bool isDataParallel(const Problem &problem, const Candidate &candidate) {
  return candidate.sizeOf("dp") == problem.devices;
}

std::string undividedBatch(const Problem &problem, int64_t ranks) {
  if (ranks < 1 || problem.model.batch % ranks == 0)
    return "";
  return fmt::format("a global batch of {} sample{} does not divide among {} ranks", problem.model.batch,
                     problem.model.batch == 1 ? "" : "s", ranks);
}

std::string misfitOfDataParallel(const Problem &problem) { return undividedBatch(problem, problem.devices); }

std::string misfitOfTensorParallel(const Problem &problem) {
  int64_t ranks = devicesOfNode(problem);
  for (auto [count, what] : {std::pair{problem.model.heads, "heads"}, {problem.model.keyHeads, "heads of keys"}})
    if (count % ranks != 0)
      return fmt::format("{} {} do not divide among the {} devices of a node", count, what, ranks);
  return undividedBatch(problem, problem.devices / ranks);
}

std::string misfitOfPipeline(const Problem &problem) {
  if (problem.model.layers >= problem.devices)
    return "";
  return fmt::format("{} layer{} are not enough for {} stages", problem.model.layers,
                     problem.model.layers == 1 ? "" : "s", problem.devices);
}

constexpr Family families[] = {
    {"plain data parallelism",
     [](const Problem &problem, const Candidate &candidate) {
       return isDataParallel(problem, candidate) && candidate.state == "ddp";
     },
     misfitOfDataParallel},
    {"ZeRO-3 (FSDP) over all",
     [](const Problem &problem, const Candidate &candidate) {
       return isDataParallel(problem, candidate) && candidate.state == "zero3";
     },
     misfitOfDataParallel},
    {"tensor parallel in a node, data parallel outside",
     [](const Problem &problem, const Candidate &candidate) {
       int64_t inNode = devicesOfNode(problem);
       return inNode > 1 && candidate.sizeOf("tp") == inNode &&
              candidate.sizeOf("tp") * candidate.sizeOf("dp") == problem.devices;
     },
     misfitOfTensorParallel},
    {"Megatron-LM's tensor x pipeline x data",
     [](const Problem &problem, const Candidate &candidate) {
       int64_t tensor = candidate.sizeOf("tp"), stages = candidate.sizeOf("pp"), data = candidate.sizeOf("dp");
       return tensor > 1 && stages > 1 && data > 1 && tensor * stages * data == problem.devices &&
              (candidate.state == "ddp" || candidate.state == "zero1");
     },
     [](const Problem &problem) {
       return problem.devices < 8 ? fmt::format("{} devices are too few for three axes", problem.devices)
                                  : std::string();
     }},
    {"a pipeline alone",
     [](const Problem &problem, const Candidate &candidate) { return candidate.sizeOf("pp") == problem.devices; },
     misfitOfPipeline},
};

/// Which candidates will probably not fit, by what was evaluated.
class ProbableMisfits {
public:
  ProbableMisfits(const plans::BoundContext &context, std::span<const Evaluated> evaluated)
      : room(context.roomOfAll()) {
    plans::BoundInputs inputs(context);
    for (const Evaluated &each : evaluated)
      if (each.problem.empty()) {
        inputs.set(each.candidate);
        estimates[inputs.tp].learn(plans::Holding(inputs), each.bytes);
      }
  }

  bool contains(const plans::BoundInputs &inputs) const {
    auto estimate = estimates.find(inputs.tp);
    return room > 0 && estimate != estimates.end() && estimate->second.bytesOf(plans::Holding(inputs)) > room;
  }

private:
  double room;
  std::map<int64_t, plans::HoldingEstimate> estimates; ///< by tensor-parallel ranks
};

/// The most promising candidates of a family: those that will probably fit and are expected to take least, and the one
/// with the least bound of bytes.
struct Promising {
  struct Figures {
    Candidate candidate;
    double bytes = 0, seconds = 0;
  };
  std::vector<Figures> fastest; ///< ascending
  std::optional<Figures> smallest;

  void add(const plans::BoundInputs &inputs, const ProbableMisfits &misfits) {
    constexpr size_t most = 3;
    Figures its{inputs.candidate(), plans::leastOf(inputs).bytes, plans::expectedSeconds(inputs)};
    bool isFast = fastest.size() < most || its.seconds < fastest.back().seconds;
    if (isFast && (inputs.room == 0 || its.bytes <= inputs.room) && !misfits.contains(inputs)) {
      fastest.insert(std::ranges::upper_bound(fastest, its.seconds, {}, &Figures::seconds), its);
      fastest.resize(std::min(fastest.size(), most));
    }
    if (!smallest || its.bytes < smallest->bytes)
      smallest = std::move(its);
  }
};

/// The fastest that fits; otherwise the one that lacks least; otherwise one that is impossible.
const Evaluated &bestOf(const std::vector<Evaluated> &all) {
  auto rank = [](const Evaluated &each) {
    int kind = each.fits() ? 0 : each.problem.empty() ? 1 : 2;
    return std::pair(kind, kind == 1 ? each.lack : each.seconds);
  };
  return *std::ranges::min_element(all, {}, rank);
}

} // namespace

std::string differencesText(const Evaluated &other, const Evaluated &proposed) {
  double hardly = 0.005 * std::min(other.seconds, proposed.seconds);
  std::vector<std::string> texts;
  for (const PartOfStep &part : byDifference(other, proposed))
    if (double its = other.*part.seconds, mine = proposed.*part.seconds; std::abs(its - mine) >= hardly)
      texts.push_back(fmt::format("{} {} instead of {}", part.name, secondsText(its), secondsText(mine)));
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// "12.0% longer", "2.21 times as long".
static std::string lengthText(double ratio) {
  constexpr double times = 2, hardly = 0.0005;
  if (ratio >= times)
    return fmt::format("{:.3g} times as long", ratio);
  if (std::abs(ratio - 1) < hardly)
    return "as long";
  return fmt::format("{:.1f}% {}", 100 * std::abs(ratio - 1), ratio < 1 ? "shorter" : "longer");
}

std::string verdictOn(const Problem &problem, const Evaluated &other, const Evaluated &proposed) {
  if (!other.problem.empty())
    return "not possible: " + other.problem;
  if (other.lack > 0)
    return fmt::format("out of memory: a rank needs {}, and {} are lacking", bytesText(other.bytes),
                       bytesText(other.lack));
  if (other.candidate == proposed.candidate)
    return "it is the plan that is proposed";
  std::string text = "its step is " + lengthText(other.seconds / proposed.seconds);
  if (std::string differences = differencesText(other, proposed); !differences.empty())
    text += ": " + differences;
  if (other.seconds <= proposed.seconds * (1 + plans::aboutEqual))
    text += "; the one proposed is preferred: " + plans::whyBefore(problem, proposed, other);
  return text;
}

PopularPlans evaluatePopular(PlanSearch &search, const PlannedNumber &planned) {
  const Problem &problem = planned.problem;
  if (problem.devices == 1)
    return {};
  plans::BoundContext context(problem);
  plans::BoundInputs inputs(context);
  ProbableMisfits misfits(context, planned.outcome.evaluated);
  std::vector<Promising> found(std::size(families));
  plans::forEachCandidate(problem, search.constraints(), [&](const Candidate &candidate) {
    for (size_t i = 0; i < std::size(families); ++i)
      if (families[i].contains(problem, candidate)) {
        inputs.set(candidate);
        found[i].add(inputs, misfits);
      }
  });
  PopularPlans all;
  for (size_t i = 0; i < std::size(families); ++i) {
    std::vector<Candidate> candidates;
    if (found[i].smallest)
      candidates.push_back(found[i].smallest->candidate);
    for (const Promising::Figures &each : found[i].fastest)
      candidates.push_back(each.candidate);
    all.push_back(search.evaluate(problem, candidates));
    for (const Evaluated &each : planned.outcome.evaluated)
      if (each.fits() && families[i].contains(problem, each.candidate))
        all.back().push_back(each);
  }
  return all;
}

std::vector<Popular> popularVerdicts(const PlanSearch &search, const PlannedNumber &planned,
                                     const PopularPlans &evaluated) {
  const Problem &problem = planned.problem;
  std::vector<Popular> all;
  for (size_t i = 0; i < evaluated.size(); ++i) {
    Popular &its = all.emplace_back();
    its.name = families[i].name;
    std::vector<Evaluated> known = evaluated[i];
    for (const PlanRow &row : planned.rows) // which may have been refined
      if (families[i].contains(problem, row.plan.candidate))
        known.push_back(row.plan);
    if (known.empty()) {
      std::string misfit = families[i].misfit(problem);
      its.verdict = !misfit.empty()                ? "not possible: " + misfit
                    : search.constraints().empty() ? "not possible with " + sizesText(problem.model)
                                                   : "what was fixed or forbidden excludes it";
      continue;
    }
    const Evaluated &best = bestOf(known);
    its.text = best.candidate.text();
    its.verdict = verdictOn(problem, best, planned.best());
    its.seconds = best.problem.empty() ? best.seconds : 0;
    its.lack = best.lack;
  }
  return all;
}

void addToTable(PlannedNumber &planned, const PopularPlans &evaluated, size_t rows) {
  std::vector<Evaluated> all;
  std::set<Candidate> has;
  auto add = [&](const Evaluated &each) {
    if (has.insert(each.candidate).second)
      all.push_back(each);
  };
  for (const PlanRow &row : planned.rows)
    add(row.plan);
  for (const std::vector<Evaluated> &layout : evaluated)
    std::ranges::for_each(layout, add);
  planned.rows.clear();
  for (size_t index : plans::ranked(planned.problem, all))
    if (planned.rows.size() < rows)
      planned.rows.push_back({all[index], ""});
}

} // namespace dtc
