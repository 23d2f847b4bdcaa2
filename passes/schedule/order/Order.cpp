// An order of commands from rules that move them.
#include "passes/schedule/order/Order.h"
#include "runtime/support/suggest.h"

#include "llvm/Support/GlobPattern.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

namespace dtc {

OrderRules::OrderRules(const std::vector<OrderRule> &rules) : rules(rules), uses(rules.size()) {}

namespace {

/// The commands of a function as a chain, in which each can be moved.
class Chain {
public:
  explicit Chain(const FlatFunction &function)
      : function(function), next(function.commands.size() + 1), previous(function.commands.size() + 1) {
    int end = static_cast<int>(function.commands.size()); // closes the circle
    for (int i = 0; i <= end; ++i) {
      next[i] = i == end ? 0 : i + 1;
      previous[i] = i == 0 ? end : i - 1;
    }
    for (int i = 0; i < end; ++i)
      if (const FlatCommand &command = function.commands[i]; !command.name.empty())
        named[command.name][command.layer] = i;
  }

  bool has(const std::string &name) const { return named.count(name) > 0; }

  void apply(const OrderRule &rule) {
    auto anchors = named.find(rule.anchor);
    std::vector<std::pair<int, int>> moves; // a command and its anchor
    for (int i : order())
      if (function.commands[i].name == rule.move)
        if (int anchor = anchorFor(function.commands[i], rule.layer, anchors->second); anchor >= 0 && anchor != i)
          moves.push_back({i, anchor});
    // What goes to one anchor keeps its order.
    if (!rule.isBefore)
      std::reverse(moves.begin(), moves.end());
    for (auto [command, anchor] : moves)
      rule.isBefore ? move(command, previous[anchor] == command ? previous[command] : previous[anchor])
                    : move(command, anchor);
  }

  FlatOrder order() const {
    int end = static_cast<int>(function.commands.size());
    FlatOrder all;
    for (int i = next[end]; i != end; i = next[i])
      all.push_back(i);
    return all;
  }

private:
  using ByLayer = std::map<int64_t, int>;

  int anchorFor(const FlatCommand &command, int64_t layer, const ByLayer &anchors) const {
    const FlatCommand &first = function.commands[anchors.begin()->second];
    if (first.layers.empty())
      return anchors.begin()->second;
    if (first.layers == command.layers) {
      auto found = anchors.find(command.layer + layer);
      return found == anchors.end() ? -1 : found->second;
    }
    auto count = static_cast<int64_t>(anchors.size());
    int64_t index = layer < 0 ? count + layer : layer;
    return index < 0 || index >= count ? -1 : std::next(anchors.begin(), index)->second;
  }

  void move(int command, int behind) {
    next[previous[command]] = next[command];
    previous[next[command]] = previous[command];
    next[command] = next[behind];
    previous[command] = behind;
    previous[next[command]] = command;
    next[behind] = command;
  }

  const FlatFunction &function;
  std::vector<int> next, previous;
  std::unordered_map<std::string, ByLayer> named;
};

/// Puts views after all that they show, and before their readers.
class FloatingViews {
public:
  explicit FloatingViews(const FlatFunction &function) : function(function), done(function.commands.size()) {}

  FlatOrder place(const FlatOrder &order) {
    for (int number : order) {
      const FlatCommand &command = function.commands[number];
      if (command.isView()) {
        placeView(number);
        continue;
      }
      for (int before : command.after)
        if (function.commands[before].isView())
          placeView(before);
      add(number);
    }
    for (int number : order) // views that nothing reads, or that were read too early
      if (!done[number])
        add(number);
    return std::move(placed);
  }

private:
  void add(int number) {
    done[number] = true;
    placed.push_back(number);
  }

  void placeView(int number) {
    const std::vector<int> &after = function.commands[number].after;
    for (int before : after)
      if (function.commands[before].isView())
        placeView(before);
    if (!done[number] && std::all_of(after.begin(), after.end(), [&](int before) { return done[before]; }))
      add(number);
  }

  const FlatFunction &function;
  std::vector<bool> done;
  FlatOrder placed;
};

} // namespace

FlatOrder OrderRules::apply(const FlatFunction &function) {
  functions.push_back(&function);
  std::optional<Chain> chain;
  bool isMoved = false;
  for (size_t i = 0; i < rules.size(); ++i) {
    const OrderRule &rule = rules[i];
    llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(rule.list);
    if (!pattern) {
      llvm::consumeError(pattern.takeError());
      continue;
    }
    if (!pattern->match(function.name))
      continue;
    if (!chain)
      chain.emplace(function);
    uses[i].list = true;
    bool hasMoved = chain->has(rule.move), hasAnchor = chain->has(rule.anchor);
    uses[i].moved |= hasMoved;
    uses[i].anchor |= hasMoved && hasAnchor;
    if (hasMoved && hasAnchor) {
      chain->apply(rule);
      isMoved = true;
    }
  }
  return isMoved ? FloatingViews(function).place(chain->order()) : foundOrder(function);
}

std::string OrderRules::findUnknown() const {
  std::set<std::string> lists, names;
  auto isAll = [](const Use &use) { return use.moved && use.anchor; };
  if (std::all_of(uses.begin(), uses.end(), isAll))
    return "";
  for (const FlatFunction *function : functions) {
    lists.insert(function->name);
    for (const FlatCommand &command : function->commands)
      names.insert(command.name);
  }
  for (size_t i = 0; i < rules.size(); ++i) {
    const OrderRule &rule = rules[i];
    std::string where = rule.where.empty() ? "order" : rule.where;
    if (!uses[i].list)
      return where + ": no list is called '" + rule.list + "'" + didYouMean(rule.list, lists);
    std::string in = rule.list == "*" ? "" : " in list '" + rule.list + "'";
    if (!uses[i].moved)
      return where + ": no command is called '" + rule.move + "'" + in + didYouMean(rule.move, names);
    names.erase(rule.anchor); // which may be in another list
    if (!uses[i].anchor)
      return where + ": no command" + (in.empty() ? " of a list with '" + rule.move + "'" : in) + " is called '" +
             rule.anchor + "'" + didYouMean(rule.anchor, names);
  }
  return "";
}

std::string applyOrder(const std::vector<OrderRule> &rules, const std::vector<const FlatRole *> &roles,
                       std::vector<std::vector<FlatOrder>> &orders) {
  orders.assign(roles.size(), {});
  OrderRules applied(rules);
  for (size_t role = 0; role < roles.size(); ++role)
    for (const FlatFunction &function : roles[role]->functions)
      orders[role].push_back(applied.apply(function));
  if (std::string problem = applied.findUnknown(); !problem.empty())
    return problem;
  for (size_t role = 0; role < roles.size(); ++role)
    for (size_t function = 0; function < roles[role]->functions.size(); ++function)
      if (std::string problem = findOrderProblem(roles[role]->functions[function], orders[role][function]);
          !problem.empty())
        return "order: " + problem;
  std::string problem = findSharedOrderProblem(roles, orders);
  return problem.empty() ? "" : "order: " + problem;
}

} // namespace dtc
