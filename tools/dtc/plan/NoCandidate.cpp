#include "tools/dtc/plan/NoCandidate.h"

#include "runtime/support/error.h"
#include "tools/dtc/plan/ClusterSize.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

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
  if (model.sequence > 0)
    sizes.push_back(fmt::format("sequences of {} token{}", model.sequence, model.sequence == 1 ? "" : "s"));
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

/// "a", "a and b", "a, b and c".
static std::string listed(const std::vector<std::string> &words, std::string_view last) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? fmt::format(" {} ", last) : ", ") + words[i];
  return text;
}

static std::string quoted(const std::vector<Constraint> &constraints) {
  std::vector<std::string> texts;
  texts.reserve(constraints.size());
  for (const Constraint &constraint : constraints)
    texts.push_back(constraint.text);
  return listed(texts, "and");
}

/// Constraints that leave nothing together, and of which any other is needed for that.
static std::vector<Constraint> contradiction(const Problem &problem, std::vector<Constraint> constraints) {
  for (size_t i = 0; i < constraints.size();) {
    std::vector<Constraint> others = constraints;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    if (plans::isEmpty(problem, others))
      constraints = std::move(others);
    else
      ++i;
  }
  return constraints;
}

/// For a fixed number that must give way: ", or take tp 1, 2 or 4".
static std::string otherValues(const Problem &problem, std::vector<Constraint> constraints,
                               const Constraint &conflicting) {
  bool isNumber =
      !conflicting.value.empty() && std::ranges::all_of(conflicting.value, [](char c) { return c >= '0' && c <= '9'; });
  if (!conflicting.isFixed || !isNumber)
    return "";
  auto its = std::ranges::find(constraints, conflicting.text, &Constraint::text);
  std::vector<std::string> values;
  for (int64_t value = 1; its != constraints.end() && value <= std::max(problem.devices, problem.model.batch);
       ++value) {
    if (problem.devices % value != 0 && problem.model.batch % value != 0)
      continue; // axes divide the devices, micro-batches the batch
    its->value = std::to_string(value);
    if (!plans::isEmpty(problem, constraints))
      values.push_back(its->value);
  }
  if (values.empty())
    return "";
  return fmt::format(", or take {} {}", conflicting.dimension, listed(values, "or"));
}

void requireCandidates(const Problem &problem, const std::vector<Constraint> &constraints) {
  if (!plans::isEmpty(problem, constraints))
    return;
  const plans::ModelFacts &model = problem.model;
  std::string devices = fmt::format("{} device{}", problem.devices, problem.devices == 1 ? "" : "s");
  if (plans::isEmpty(problem, {})) {
    std::string nearby = nearbyNumbers(problem, constraints);
    throw Error(ExitCode::BadInput,
                fmt::format("--devices {}: no mesh of {} divides {}, which has {}; {}", problem.devices, devices,
                            model.name, sizesText(model),
                            nearby.empty() ? "try another batch, as in --set global_batch=N"
                                           : fmt::format("try --devices {}", nearby)));
  }
  std::vector<Constraint> givesWay = plans::smallestConflict(problem, constraints);
  // Where several must give way, there are several contradictions.
  std::vector<Constraint> conflict = givesWay.size() == 1 ? contradiction(problem, constraints) : constraints;
  std::string values = givesWay.size() == 1 ? otherValues(problem, constraints, givesWay.front()) : "";
  if (conflict.size() == 1)
    throw Error(ExitCode::BadInput, fmt::format("{}: no plan for {} meets that, because {} has {}; leave it out{}",
                                                quoted(conflict), devices, model.name, sizesText(model), values));
  throw Error(ExitCode::BadInput,
              fmt::format("{}: no plan for {} meets {}; leave out {}{}", quoted(conflict), devices,
                          conflict.size() == 2 ? "both" : "all of them", quoted(givesWay), values));
}

} // namespace dtc
