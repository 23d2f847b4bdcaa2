// What users fix and forbid, and what that leaves.
#include "timing/plans/dimensions.h"

#include "runtime/support/error.h"
#include "runtime/support/suggest.h"

#include <algorithm>
#include <bit>
#include <fmt/ranges.h>
#include <optional>

namespace dtc::plans {

static std::string optionText(const std::string &text, bool isFixed) {
  return (isFixed ? "--fix " : "--forbid ") + text;
}

static std::vector<std::string> namesOfDimensions() {
  std::vector<std::string> names;
  for (const Dimension &dimension : dimensions())
    names.emplace_back(dimension.name);
  return names;
}

static std::vector<std::string> wordsOf(const Dimension &dimension) {
  return dimension.words ? dimension.words() : std::vector<std::string>();
}

/// What is wrong with a value that a dimension does not have.
static std::string describeUnknownValue(const Dimension &dimension, const std::string &value) {
  std::vector<std::string> words = wordsOf(dimension);
  std::string takes = words.empty() ? std::string(dimension.form) : fmt::format("one of {}", fmt::join(words, ", "));
  return fmt::format("'{}' is no value of '{}' ({}): it takes {}{}", value, dimension.name, dimension.meaning, takes,
                     didYouMean(value, words));
}

static Constraint parseAssignment(const std::string &text, size_t equals, bool isFixed) {
  std::string option = optionText(text, isFixed), name = text.substr(0, equals), value = text.substr(equals + 1);
  for (const Dimension &dimension : dimensions()) {
    if (dimension.name != name)
      continue;
    std::string known = dimension.read(value);
    if (known.empty())
      throw Error(ExitCode::Usage, fmt::format("{}: {}", option, describeUnknownValue(dimension, value)));
    return {isFixed, name, known, option};
  }
  std::vector<std::string> names = namesOfDimensions();
  throw Error(ExitCode::Usage, fmt::format("{}: a plan has no '{}', only {}{}", option, name, fmt::join(names, ", "),
                                           didYouMean(name, names)));
}

Constraint parseConstraint(const std::string &text, bool isFixed) {
  if (size_t equals = text.find('='); equals != std::string::npos)
    return parseAssignment(text, equals, isFixed);
  std::string option = optionText(text, isFixed);
  std::vector<std::string> known = namesOfDimensions(), having;
  if (std::find(known.begin(), known.end(), text) != known.end())
    throw Error(ExitCode::Usage, fmt::format("{}: say which value, as in {}=VALUE", option, option));
  std::vector<Constraint> found;
  for (const Dimension &dimension : dimensions()) {
    if (std::string value = dimension.read(text); !value.empty()) {
      found.push_back({isFixed, std::string(dimension.name), value, option});
      having.emplace_back(dimension.name);
    }
    std::vector<std::string> words = wordsOf(dimension);
    known.insert(known.end(), words.begin(), words.end());
  }
  if (found.size() == 1)
    return found.front();
  if (!found.empty())
    throw Error(ExitCode::Usage,
                fmt::format("{}: {} have such a value; say which is meant, as in {}", option, fmt::join(having, ", "),
                            optionText(having.front() + "=" + text, isFixed)));
  auto firstWord = known.begin() + static_cast<ptrdiff_t>(dimensions().size());
  throw Error(ExitCode::Usage,
              fmt::format("{}: no part of a plan has this value; write NAME=VALUE, where NAME is one of {}, or one of "
                          "the words {}{}",
                          option, fmt::join(known.begin(), firstWord, ", "), fmt::join(firstWord, known.end(), ", "),
                          didYouMean(text, known)));
}

namespace {

/// "hsdp" stands for "hsdp:8", too.
bool isMeant(const std::string &wanted, std::string_view value) {
  return value.starts_with(wanted) && (value.size() == wanted.size() || value[wanted.size()] == ':');
}

/// A set of constraints, by their numbers.
using ConstraintSet = uint64_t;
constexpr size_t mostConstraints = 64;

/// The smaller set; of two that are equally large, the one with the first constraint that they do not share.
bool isBefore(ConstraintSet a, ConstraintSet b) {
  if (int difference = std::popcount(a) - std::popcount(b); difference != 0)
    return difference < 0;
  ConstraintSet differing = a ^ b;
  return (a & differing & (~differing + 1)) != 0;
}

/// Goes through the candidates of a problem, one dimension after the other.
class CandidateWalk {
public:
  CandidateWalk(const Problem &problem, const std::vector<Constraint> &constraints)
      : problem(problem), constraints(constraints), ofDimension(dimensions().size()) {
    for (size_t depth = 0; depth < ofDimension.size(); ++depth)
      for (size_t i = 0; i < constraints.size(); ++i)
        if (constraints[i].dimension == dimensions()[depth].name)
          ofDimension[depth].push_back(i);
  }

  void visitAll(const Candidate &decided, size_t depth, const std::function<void(const Candidate &)> &visit) const {
    if (depth == ofDimension.size())
      return visit(decided);
    Candidate next = decided;
    for (const std::string &value : valuesOf(decided, depth)) {
      if (isViolated(value, depth))
        continue;
      dimensions()[depth].set(next, value);
      visitAll(next, depth + 1, visit);
    }
  }

  /// What the candidate violates whose set is the first of all, if that is before `bound`; nullopt: there is none.
  std::optional<ConstraintSet> leastViolated(std::optional<ConstraintSet> bound) {
    best = bound;
    found = false;
    least.assign(ofDimension.size() + 1, 0);
    for (size_t depth = ofDimension.size(); depth-- > 0;)
      least[depth] = least[depth + 1] | leastOfDimension(depth);
    descend({}, 0, 0);
    return found ? best : std::nullopt;
  }

private:
  /// With those that are alike where a user fixes them.
  std::vector<std::string> valuesOf(const Candidate &decided, size_t depth) const {
    const Dimension &dimension = dimensions()[depth];
    std::vector<std::string> values = dimension.values(problem, decided);
    for (size_t i : ofDimension[depth])
      if (const Constraint &given = constraints[i];
          dimension.isAlike && given.isFixed && std::find(values.begin(), values.end(), given.value) == values.end() &&
          dimension.isAlike(problem, decided, given.value))
        values.push_back(given.value);
    return values;
  }

  bool violates(const std::string &value, size_t constraint) const {
    return isMeant(constraints[constraint].value, value) != constraints[constraint].isFixed;
  }
  bool isViolated(const std::string &value, size_t depth) const {
    return std::any_of(ofDimension[depth].begin(), ofDimension[depth].end(),
                       [&](size_t constraint) { return violates(value, constraint); });
  }
  ConstraintSet violatedBy(const std::string &value, size_t depth) const {
    ConstraintSet set = 0;
    for (size_t constraint : ofDimension[depth])
      if (violates(value, constraint))
        set |= ConstraintSet(1) << constraint;
    return set;
  }

  /// What any value of a dimension violates at least: of the values that are named, or of all words.
  ConstraintSet leastOfDimension(size_t depth) const {
    std::vector<std::string> values;
    if (auto words = dimensions()[depth].words)
      values = words();
    else
      values.emplace_back(); // any other
    for (size_t constraint : ofDimension[depth])
      values.push_back(constraints[constraint].value);
    ConstraintSet first = ~ConstraintSet(0);
    for (const std::string &value : values)
      if (ConstraintSet set = violatedBy(value, depth); isBefore(set, first))
        first = set;
    return first;
  }

  /// Branch and bound: dimensions that follow add what they violate at least. Constraints of different dimensions are
  /// different, so the union of their first sets is the first of all unions.
  void descend(const Candidate &decided, size_t depth, ConstraintSet violated) {
    if (best && !isBefore(violated | least[depth], *best))
      return;
    if (depth == ofDimension.size()) {
      best = violated;
      found = true;
      return;
    }
    Candidate next = decided;
    for (const std::string &value : valuesOf(decided, depth)) {
      dimensions()[depth].set(next, value);
      descend(next, depth + 1, violated | violatedBy(value, depth));
    }
  }

  const Problem &problem;
  const std::vector<Constraint> &constraints;
  std::vector<std::vector<size_t>> ofDimension; ///< numbers of constraints
  std::vector<ConstraintSet> least;             ///< that each dimension and those behind it violate
  std::optional<ConstraintSet> best;
  bool found = false;
};

void requireFew(const std::vector<Constraint> &constraints) {
  if (constraints.size() > mostConstraints)
    throw Error(ExitCode::Usage, fmt::format("there are {} options --fix and --forbid, and there may be {}: leave out "
                                             "some",
                                             constraints.size(), mostConstraints));
}

} // namespace

void forEachCandidate(const Problem &problem, const std::vector<Constraint> &constraints,
                      const std::function<void(const Candidate &)> &visit) {
  CandidateWalk(problem, constraints).visitAll({}, 0, visit);
}

bool isEmpty(const Problem &problem, const std::vector<Constraint> &constraints) {
  requireFew(constraints);
  // Only the empty set is before that of the first constraint.
  return !CandidateWalk(problem, constraints).leastViolated(ConstraintSet(1));
}

std::vector<Constraint> smallestConflict(const Problem &problem, const std::vector<Constraint> &constraints) {
  requireFew(constraints);
  ConstraintSet conflict = CandidateWalk(problem, constraints).leastViolated(std::nullopt).value_or(0);
  std::vector<Constraint> given;
  for (size_t i = 0; i < constraints.size(); ++i)
    if ((conflict >> i) & 1)
      given.push_back(constraints[i]);
  return given;
}

} // namespace dtc::plans
