#include "timing/plans/prefer.h"

#include "timing/timetables/named.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

namespace dtc::plans {

namespace {

constexpr std::array<std::string_view, 5> stateOrder = {"ddp", "zero1", "zero2", "zero3", "hsdp"};
constexpr std::array<std::string_view, 5> recomputeOrder = {"none", "cheap", "regather", "selective", "full"};

/// How far back a name is in a list; what is not in it comes last.
template <typename List> int64_t placeIn(const List &list, std::string_view name) {
  return std::ranges::find(list, name) - std::ranges::begin(list);
}

int64_t stateRank(const Candidate &candidate) {
  return placeIn(stateOrder, std::string_view(candidate.state).substr(0, candidate.state.find(':')));
}

/// 1f1b, then the others as the table has them. Without a pipeline there is none to compare.
int64_t timetableRank(const Candidate &candidate) {
  if (candidate.sizeOf("pp") == 1 || candidate.timetable == Candidate().timetable)
    return 0;
  auto all = timetables::allNamed();
  return 1 + (std::ranges::find(all, std::string_view(candidate.timetable), &timetables::Named::name) - all.begin());
}

struct Parallelism {
  std::string_view axis, name;
};
constexpr std::array<Parallelism, 3> parallelisms = {
    {{"pp", "a pipeline"}, {"tp", "tensor parallelism"}, {"cp", "context parallelism"}}};

/// Those that `one` has, and `other` has not.
std::vector<std::string_view> kindsBeyond(const Candidate &one, const Candidate *other) {
  std::vector<std::string_view> kinds;
  for (const Parallelism &each : parallelisms)
    if (one.sizeOf(each.axis) > 1 && (!other || other->sizeOf(each.axis) == 1))
      kinds.push_back(each.name);
  return kinds;
}

std::string_view withoutArticle(std::string_view name) { return name.substr(name.starts_with("a ") ? 2 : 0); }

/// Whether any tensor-parallel group has ranks on several nodes.
bool crossesNodes(const Problem &problem, const Candidate &candidate) {
  int64_t tp = candidate.sizeOf("tp"), stride = 1;
  if (tp == 1)
    return false;
  abi::Mesh mesh;
  bool isInside = false;
  for (const MeshAxis &each : candidate.mesh) {
    abi::Axis &axis = *mesh.add_axes();
    axis.set_name(each.name);
    axis.set_size(each.size);
    stride *= isInside ? each.size : 1; // ranks are row-major
    isInside |= each.name == "tp";
  }
  timing::Layout layout(problem.cluster, mesh);
  for (int64_t rank = 0; rank < layout.ranks(); ++rank) {
    int64_t first = rank - rank / stride % tp * stride;
    if (layout.nodeOf(rank) != layout.nodeOf(first))
      return true;
  }
  return false;
}

/// What the rules compare, in their order; less is simpler. The length of the step comes after all of it.
using Ideas = std::array<int64_t, 7>;

Ideas ideasOf(const Problem &problem, const Candidate &candidate) {
  return {static_cast<int64_t>(kindsBeyond(candidate, nullptr).size()),
          crossesNodes(problem, candidate),
          stateRank(candidate),
          placeIn(recomputeOrder, candidate.recompute),
          timetableRank(candidate),
          candidate.splitsSequence,
          candidate.microBatches};
}

/// "a", "a and b", "a, b and c".
std::string listed(const std::vector<std::string_view> &words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == words.size() ? " and " : ", ", words[i]);
  return text;
}

std::string fewerKinds(const Candidate &first, const Candidate &second) {
  std::vector<std::string_view> missing = kindsBeyond(second, &first), added = kindsBeyond(first, &second);
  if (added.empty()) {
    std::ranges::transform(missing, missing.begin(), withoutArticle);
    return fmt::format("it has no {}", fmt::join(missing, " and no "));
  }
  return fmt::format("it has {} instead of {}", listed(added), listed(missing));
}

/// Why the first is simpler by a rule, which is one of Ideas.
std::string simplerBy(size_t rule, const Candidate &first, const Candidate &second) {
  switch (rule) {
  case 0:
    return fewerKinds(first, second);
  case 1:
    return "its tensor parallelism stays within nodes";
  case 2:
    return fmt::format("it splits less of the state ({} instead of {})", first.state, second.state);
  case 3:
    return fmt::format("it recomputes less ({} instead of {})", first.recompute, second.recompute);
  case 4:
    return fmt::format("its timetable is simpler ({} instead of {})", first.timetable, second.timetable);
  case 5:
    return "it does not split the sequence";
  default:
    return fmt::format("it has fewer micro-batches ({} instead of {})", first.microBatches, second.microBatches);
  }
}

/// "12%", "1.2%".
std::string percent(double share) {
  double value = 100 * share;
  return value < 9.95 ? fmt::format("{:.1f}%", value) : fmt::format("{:.0f}%", value);
}

/// How long the first's step is compared with the second's: "12% shorter".
std::string comparedWith(double first, double second) {
  double share = second > 0 ? first / second - 1 : 0;
  if (std::abs(share) < 0.0005)
    return "equally long";
  return fmt::format("{} {}", percent(std::abs(share)), share < 0 ? "shorter" : "longer");
}

} // namespace

std::vector<size_t> ranked(const Problem &problem, std::span<const Evaluated> evaluated, double within) {
  std::vector<size_t> order;
  for (size_t i = 0; i < evaluated.size(); ++i)
    if (evaluated[i].fits())
      order.push_back(i);
  std::ranges::sort(order, {}, [&](size_t i) { return std::pair(evaluated[i].seconds, i); });
  if (order.empty())
    return order;
  double most = evaluated[order.front()].seconds * (1 + within);
  size_t best = 0;
  Ideas least = ideasOf(problem, evaluated[order.front()].candidate);
  for (size_t place = 1; place < order.size() && evaluated[order[place]].seconds <= most; ++place)
    if (Ideas ideas = ideasOf(problem, evaluated[order[place]].candidate); ideas < least) { // of equals the shorter
      least = ideas;
      best = place;
    }
  std::rotate(order.begin(), order.begin() + static_cast<ptrdiff_t>(best),
              order.begin() + static_cast<ptrdiff_t>(best) + 1);
  return order;
}

std::string whyBefore(const Problem &problem, const Evaluated &first, const Evaluated &second) {
  if (!second.problem.empty())
    return "the other cannot be compiled: " + second.problem;
  if (!second.fits())
    return fmt::format("the other does not fit: it lacks {:.3g} GB", second.lack / 1e9);
  std::string compared = comparedWith(first.seconds, second.seconds);
  bool isAsLong = compared == "equally long", isLonger = first.seconds > second.seconds;
  std::string bySeconds = fmt::format("its step is {}", compared);
  auto [shorter, longer] = std::minmax(first.seconds, second.seconds);
  if (longer > shorter * (1 + aboutEqual))
    return bySeconds;
  Ideas simpler = ideasOf(problem, first.candidate), other = ideasOf(problem, second.candidate);
  auto [one, two] = std::ranges::mismatch(simpler, other);
  if (one == simpler.end() || *one > *two) // by its time, or because neither is proposed
    return isAsLong ? "their steps are equally long, and it was found first" : bySeconds;
  std::string reason = simplerBy(static_cast<size_t>(one - simpler.begin()), first.candidate, second.candidate);
  return fmt::format("{}, and its step is {}{}", reason, isLonger && !isAsLong ? "only " : "", compared);
}

} // namespace dtc::plans
