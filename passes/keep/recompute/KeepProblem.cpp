// Minimum cuts over prices of a byte.
#include "passes/keep/recompute/KeepProblem.h"
#include "passes/keep/recompute/MinimumCut.h"

#include <algorithm>
#include <cmath>

namespace dtc {

namespace {

/// Turns seconds into capacities: all of them together are 2^50, so sums are exact and stay far below unbounded ones.
class Scale {
public:
  explicit Scale(double sum) : factor(sum > 0 ? std::ldexp(1, 50) / sum : 0) {}
  int64_t operator()(double seconds) const { return std::llround(seconds * factor); }

private:
  double factor;
};

/// The line through two sets gives the price at which they cost the same; a set that costs less there is between them.
class Sweep {
public:
  explicit Sweep(const KeepProblem &problem) : problem(problem) {}

  void between(const KeptSet &more, const KeptSet &less) {
    double bytes = more.bytes - less.bytes, seconds = less.seconds - more.seconds;
    if (bytes <= 0 || seconds <= 0)
      return;
    double price = seconds / bytes;
    KeptSet middle = keepAtPrice(problem, price);
    auto costOf = [&](const KeptSet &set) { return set.seconds + price * set.bytes; };
    constexpr double rounding = 1e-9;
    if (costOf(middle) >= costOf(more) * (1 - rounding))
      return;
    between(more, middle);
    found.push_back(middle);
    between(middle, less);
  }

  std::vector<KeptSet> found;

private:
  const KeepProblem &problem;
};

} // namespace

KeptSet keepAtPrice(const KeepProblem &problem, double secondsPerByte) {
  const std::vector<KeepProblem::Value> &values = problem.values;
  double sum = 0;
  for (const KeepProblem::Value &value : values)
    sum += value.seconds + value.bytes * secondsPerByte;
  Scale scaled(sum);
  size_t source = 2 * values.size(), sink = source + 1;
  auto needed = [](size_t value) { return 2 * value; };
  auto again = [](size_t value) { return 2 * value + 1; };
  FlowNetwork network(sink + 1);
  for (size_t number = 0; number < values.size(); ++number) {
    const KeepProblem::Value &value = values[number];
    if (value.isRead)
      network.addEdge(source, needed(number), FlowNetwork::unbounded);
    network.addEdge(needed(number), again(number),
                    value.isStored ? scaled(value.bytes * secondsPerByte) : FlowNetwork::unbounded);
    for (size_t operand : value.madeOf)
      network.addEdge(again(number), needed(operand), FlowNetwork::unbounded);
    network.addEdge(again(number), sink, scaled(value.seconds));
  }
  std::vector<bool> isYes = network.cut(source, sink);
  KeptSet set;
  for (size_t number = 0; number < values.size(); ++number)
    if (isYes[again(number)]) {
      set.again.push_back(number);
      set.seconds += values[number].seconds;
    } else if (isYes[needed(number)]) {
      set.kept.push_back(number);
      set.bytes += values[number].bytes;
    }
  return set;
}

std::vector<KeptSet> keptSets(const KeepProblem &problem) {
  double seconds = 0, bytes = 0, fewest = 0;
  for (const KeepProblem::Value &value : problem.values) {
    seconds += value.seconds;
    bytes += value.bytes;
    if (value.bytes > 0 && (fewest == 0 || value.bytes < fewest))
      fewest = value.bytes;
  }
  if (bytes == 0 || seconds == 0)
    return {keepAtPrice(problem, 1)};
  // A price at which all bytes cost next to nothing, and one at which everything is recomputed.
  constexpr double nothing = 1e-6;
  KeptSet most = keepAtPrice(problem, nothing * seconds / bytes), least = keepAtPrice(problem, 2 * seconds / fewest);
  Sweep sweep(problem);
  sweep.found = {most};
  sweep.between(most, least);
  if (least.bytes < most.bytes)
    sweep.found.push_back(least);
  return std::move(sweep.found);
}

} // namespace dtc
