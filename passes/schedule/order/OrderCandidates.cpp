// Candidates for an order in which less is waited for.
#include "passes/schedule/order/OrderCandidates.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
#include <set>

namespace dtc {

using Kind = FlatCommand::Kind;

namespace {
/// How far from a start or a wait to look for work: more than two layers have, and small enough for long lists.
constexpr int nearby = 160;
/// Work that is shorter than this share of the waiting is not worth a rule of its own.
constexpr double leastShare = 0.02;
/// A candidate with more rules moves a layer's work around the start; moving the start around that work is simpler.
constexpr size_t mostRules = 6;

/// Of equal ones the earlier one comes first.
template <typename Of> void mostFirst(std::vector<Of> &all, llvm::function_ref<double(const Of &)> amount) {
  std::multimap<double, Of, std::greater<>> sorted;
  for (Of &each : all) {
    double key = amount(each);
    sorted.emplace(key, std::move(each));
  }
  all.clear();
  for (auto &[key, each] : sorted)
    all.push_back(std::move(each));
}
} // namespace

OrderCandidates::OrderCandidates(const FlatFunction &function, const FlatOrder &order,
                                 std::function<double(const FlatCommand &)> secondsOf)
    : function(function), order(order), launchSeconds(std::move(secondsOf)), positions(order.size()),
      dependents(order.size()), sources(order.size()) {
  for (size_t at = 0; at < order.size(); ++at) {
    int number = order[at];
    positions[number] = static_cast<int>(at);
    std::set<int> all;
    for (int before : function.commands[number].after)
      if (function.commands[before].isView())
        all.insert(sources[before].begin(), sources[before].end());
      else
        all.insert(before);
    sources[number].assign(all.begin(), all.end());
    if (!function.commands[number].isView())
      for (int source : sources[number])
        dependents[source].push_back(number);
  }
}

int OrderCandidates::waitOf(int start) const {
  for (int user : dependents[start])
    if (function.commands[user].kind == Kind::Wait)
      return user;
  return -1;
}

/// Returns false if no rule can say it in terms of layers.
bool OrderCandidates::addRule(int move, bool isBefore, int anchor, std::vector<OrderRule> &rules) const {
  const FlatCommand &moved = function.commands[move], &fixed = function.commands[anchor];
  if (moved.name.empty() || fixed.name.empty() || moved.name == fixed.name)
    return false;
  OrderRule rule;
  rule.move = moved.name;
  rule.isBefore = isBefore;
  rule.anchor = fixed.name;
  if (moved.layers != fixed.layers) {
    if (!moved.layers.empty()) // those of all layers would go to one place
      return false;
    std::set<int64_t> layers;
    for (const FlatCommand &each : function.commands)
      if (each.name == fixed.name)
        layers.insert(each.layer);
    auto index = std::distance(layers.begin(), layers.find(fixed.layer)), count = std::ssize(layers);
    rule.layer = index < count - index ? index : index - count;
  } else if (!fixed.layers.empty()) {
    rule.layer = fixed.layer - moved.layer;
  }
  if (!llvm::is_contained(rules, rule))
    rules.push_back(rule);
  return true;
}

/// Adds rules for `moved`, keeping their order. What goes right after an anchor later ends up before what went there
/// earlier.
bool OrderCandidates::addRules(const Commands &moved, bool isBefore, int anchor, std::vector<OrderRule> &rules) const {
  if (isBefore)
    return llvm::all_of(moved, [&](int each) { return addRule(each, true, anchor, rules); });
  return llvm::all_of(llvm::reverse(moved), [&](int each) { return addRule(each, false, anchor, rules); });
}

/// A command and all later ones that need it, up to a position; in their order.
OrderCandidates::Commands OrderCandidates::dependentsBetween(int command, int until) const {
  std::set<std::pair<int, int>> found = {{positions[command], command}};
  for (auto next = found.begin(); next != found.end(); ++next)
    for (int user : dependents[next->second])
      if (positions[user] < until)
        found.insert({positions[user], user});
  Commands all;
  for (auto [position, each] : found)
    all.push_back(each);
  return all;
}

/// A command and all earlier ones that it needs, from after a position on; in their order.
OrderCandidates::Commands OrderCandidates::sourcesBetween(int command, int from) const {
  std::set<std::pair<int, int>, std::greater<>> found = {{positions[command], command}};
  for (auto next = found.begin(); next != found.end(); ++next)
    for (int source : sources[next->second])
      if (positions[source] > from)
        found.insert({positions[source], source});
  Commands all;
  for (auto [position, each] : llvm::reverse(found))
    all.push_back(each);
  return all;
}

double OrderCandidates::secondsOf(const Commands &commands) const {
  double seconds = 0;
  for (int each : commands)
    if (function.commands[each].kind == Kind::Launch)
      seconds += launchSeconds(function.commands[each]);
  return seconds;
}

/// Adds all of them together if one is not enough, then each alone.
void OrderCandidates::addTogether(std::vector<Candidate> found, double wanted, std::vector<Candidate> &all) const {
  mostFirst<Candidate>(found, [](const Candidate &each) { return each.promise; });
  Candidate together;
  for (const Candidate &each : found) {
    if (together.promise >= wanted)
      break;
    together.promise += each.promise;
    for (const OrderRule &rule : each.rules)
      if (!llvm::is_contained(together.rules, rule))
        together.rules.push_back(rule);
  }
  if (!found.empty() && together.rules != found.front().rules)
    all.push_back(std::move(together));
  llvm::move(found, std::back_inserter(all));
}

/// A start that needs nothing made nearby, such as the gather of a parameter, goes before as much work as the wait is
/// long, half as much, or twice as much.
void OrderCandidates::addEarlierStart(int start, double wanted, std::vector<Candidate> &all) const {
  Commands moved = sourcesBetween(start, std::max(-1, positions[start] - nearby));
  int first = positions[moved.front()];
  double between = 0;
  auto share = {0.5, 1.0, 2.0};
  const auto *next = share.begin();
  for (int at = positions[start] - 1; at >= std::max(0, positions[start] - nearby) && next != share.end(); --at) {
    const FlatCommand &command = function.commands[order[at]];
    if (command.kind != Kind::Launch || llvm::is_contained(moved, order[at]))
      continue;
    between += launchSeconds(command);
    if (at > first || between < *next * wanted)
      continue;
    Candidate candidate{between, {}};
    if (addRules(moved, /*isBefore=*/true, order[at], candidate.rules))
      all.push_back(std::move(candidate));
    next = std::find_if(next, share.end(), [&](double each) { return between < each * wanted; });
  }
}

/// The candidate that moves these commands to an anchor, unless it needs many rules.
void OrderCandidates::addIfFew(const Commands &moved, bool isBefore, int anchor, std::vector<Candidate> &found) const {
  Candidate candidate;
  candidate.promise = secondsOf(moved);
  if (addRules(moved, isBefore, anchor, candidate.rules) && candidate.rules.size() <= mostRules)
    found.push_back(std::move(candidate));
}

void OrderCandidates::addWorkBefore(int start, double wanted, std::vector<Candidate> &all) const {
  Commands needed = sourcesBetween(start, std::max(-1, positions[start] - nearby));
  std::set<int> isNeeded(needed.begin(), needed.end());
  std::vector<Candidate> found;
  for (int at = positions[start] - 1; at >= std::max(0, positions[start] - nearby); --at) {
    const FlatCommand &command = function.commands[order[at]];
    if (command.kind == Kind::Start && command.name == function.commands[start].name)
      break; // what is before that must be hidden by that
    if (command.kind != Kind::Launch || isNeeded.count(order[at]) || launchSeconds(command) < leastShare * wanted)
      continue;
    addIfFew(dependentsBetween(order[at], positions[start]), /*isBefore=*/false, start, found);
  }
  addTogether(std::move(found), wanted, all);
}

void OrderCandidates::addWorkBehind(int wait, double wanted, std::vector<Candidate> &all) const {
  int until = std::min(static_cast<int>(order.size()), positions[wait] + nearby);
  Commands needing = dependentsBetween(wait, until);
  std::set<int> needs(needing.begin(), needing.end());
  std::vector<Candidate> found;
  for (int at = positions[wait] + 1; at < until; ++at) {
    const FlatCommand &command = function.commands[order[at]];
    if (command.kind == Kind::Wait && command.name == function.commands[wait].name)
      break;
    if (command.kind != Kind::Launch || needs.count(order[at]) || launchSeconds(command) < leastShare * wanted)
      continue;
    addIfFew(sourcesBetween(order[at], positions[wait]), /*isBefore=*/true, wait, found);
  }
  addTogether(std::move(found), wanted, all);
}

void OrderCandidates::addLaterWait(int wait, std::vector<Candidate> &all) const {
  std::set<int> moved = {wait};
  Commands inOrder = {wait};
  double between = 0;
  for (int at = positions[wait] + 1; at < static_cast<int>(order.size()); ++at) {
    int number = order[at];
    const FlatCommand &command = function.commands[number];
    if (command.isView())
      continue;
    bool needs = llvm::any_of(sources[number], [&](int source) { return moved.count(source); });
    if (!needs) {
      if (command.kind == Kind::Launch)
        between += launchSeconds(command);
      continue;
    }
    bool alone = command.kind == Kind::Launch && between == 0 &&
                 llvm::all_of(sources[number], [&](int source) { return moved.count(source); });
    if (alone) {
      moved.insert(number);
      inOrder.push_back(number);
      continue;
    }
    Candidate candidate{between, {}};
    if (between > 0 && addRules(inOrder, /*isBefore=*/true, number, candidate.rules))
      all.push_back(std::move(candidate));
    return;
  }
}

void OrderCandidates::addPrecedence(int start, int wait, std::vector<Candidate> &all) const {
  std::set<std::string> seen;
  for (int at = positions[start] - 1; at >= std::max(0, positions[start] - nearby); --at) {
    const FlatCommand &command = function.commands[order[at]];
    if (command.kind != Kind::Start || command.name == function.commands[start].name || command.sent <= 0 ||
        !seen.insert(command.name).second)
      continue;
    int other = waitOf(order[at]);
    if (other < 0 || positions[other] < positions[wait])
      continue;
    Candidate candidate;
    if (addRule(order[at], /*isBefore=*/false, start, candidate.rules))
      all.push_back(std::move(candidate));
  }
}

std::vector<std::vector<OrderRule>> OrderCandidates::of(const ExposedStart &exposed) const {
  int wait = waitOf(exposed.command);
  if (wait < 0)
    return {};
  double wanted = exposed.seconds / static_cast<double>(exposed.times);
  std::vector<Candidate> all;
  addEarlierStart(exposed.command, wanted, all);
  addWorkBefore(exposed.command, wanted, all);
  addWorkBehind(wait, wanted, all);
  addLaterWait(wait, all);
  addPrecedence(exposed.command, wait, all);
  // Work as long as the wait is enough; what is only moved before others promises nothing that can be predicted.
  mostFirst<Candidate>(all, [&](const Candidate &each) { return std::min(each.promise, wanted); });
  std::vector<std::vector<OrderRule>> sets;
  for (Candidate &each : all)
    sets.push_back(std::move(each.rules));
  return sets;
}

} // namespace dtc
