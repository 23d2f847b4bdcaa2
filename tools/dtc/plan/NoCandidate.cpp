#include "tools/dtc/plan/NoCandidate.h"

#include "runtime/support/error.h"
#include "tools/dtc/plan/ClusterSize.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace dtc {

using plans::Constraint;
using plans::Problem;

std::string sizesText(const plans::ModelFacts &model) {
  std::vector<std::string> sizes;
  auto add = [&](int64_t count, const char *one, const char *several) {
    if (count > 0)
      sizes.push_back(fmt::format("{} {}", count, count == 1 ? one : several));
  };
  add(model.layers, "layer", "layers");
  add(model.heads, "head", "heads");
  if (model.keyHeads != model.heads)
    add(model.keyHeads, "head of keys", "heads of keys");
  std::string batch = fmt::format("a global batch of {} sample{}", model.batch, model.batch == 1 ? "" : "s");
  return sizes.empty() ? batch : fmt::format("{} and {}", fmt::join(sizes, ", "), batch);
}

static bool isPossible(const Problem &problem, int64_t devices, const std::vector<Constraint> &constraints) {
  Problem other = problem;
  other.devices = devices;
  return !plans::isEmpty(other, constraints);
}

/// The nearest numbers of devices below and above that have candidates: "6 or 8".
static std::string nearbyNumbers(const Problem &problem, const std::vector<Constraint> &constraints) {
  std::vector<int64_t> numbers;
  auto look = [&](int64_t from, int64_t to, int64_t step) {
    for (int64_t number = from; number != to; number += step)
      if (isPossible(problem, number, constraints)) {
        numbers.push_back(number);
        return;
      }
  };
  look(problem.devices - 1, 0, -1);
  int64_t most = std::min(deviceCount(problem.cluster), 2 * problem.devices);
  look(problem.devices + 1, std::max(most, problem.devices) + 1, 1);
  return fmt::format("{}", fmt::join(numbers, " or "));
}

static std::string quoted(const std::vector<Constraint> &constraints) {
  std::vector<std::string> texts;
  texts.reserve(constraints.size());
  for (const Constraint &constraint : constraints)
    texts.push_back(constraint.text);
  return fmt::format("{}", fmt::join(texts, " and "));
}

/// For a fixed number that nothing fits: "; with tp 1, 2 or 4 there are plans".
static std::string otherValues(const Problem &problem, std::vector<Constraint> constraints,
                               const Constraint &conflicting) {
  bool isNumber =
      !conflicting.value.empty() && std::ranges::all_of(conflicting.value, [](char c) { return c >= '0' && c <= '9'; });
  if (!conflicting.isFixed || !isNumber)
    return "";
  auto its = std::ranges::find(constraints, conflicting.text, &Constraint::text);
  std::vector<int64_t> values;
  for (int64_t value = 1; its != constraints.end() && value <= std::max(problem.devices, problem.model.batch);
       ++value) {
    if (problem.devices % value != 0 && problem.model.batch % value != 0)
      continue; // axes divide the devices, micro-batches the batch
    its->value = std::to_string(value);
    if (!plans::isEmpty(problem, constraints))
      values.push_back(value);
  }
  if (values.empty())
    return "";
  return fmt::format("; it may be {}", fmt::join(values, ", "));
}

void requireCandidates(const Problem &problem, const std::vector<Constraint> &constraints) {
  if (!plans::isEmpty(problem, constraints))
    return;
  if (plans::isEmpty(problem, {})) {
    std::string nearby = nearbyNumbers(problem, constraints);
    throw Error(ExitCode::BadInput,
                fmt::format("--devices {}: no mesh divides {}, which has {}, among {} devices{}", problem.devices,
                            problem.model.name, sizesText(problem.model), problem.devices,
                            nearby.empty() ? "; another batch might (--set global_batch=N)"
                                           : fmt::format(": say --devices {}", nearby)));
  }
  std::vector<Constraint> conflict = plans::smallestConflict(problem, constraints);
  if (conflict.size() == 1)
    throw Error(ExitCode::BadInput,
                fmt::format("{}: no plan of {}, which has {}, for {} devices is like that{}{}", quoted(conflict),
                            problem.model.name, sizesText(problem.model), problem.devices,
                            constraints.size() > 1 ? ", given the other constraints" : "",
                            otherValues(problem, constraints, conflict.front())));
  throw Error(ExitCode::BadInput,
              fmt::format("{}: together they leave no plan for {} devices; leave {} out", quoted(conflict),
                          problem.devices, conflict.size() == 2 ? "one of them" : "some of them"));
}

} // namespace dtc
