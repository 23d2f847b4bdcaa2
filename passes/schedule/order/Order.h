// An order of commands from rules that move them.
#pragma once

#include "passes/choices/Choices.h"
#include "passes/schedule/FlatStep.h"

namespace dtc {

/// Applies rules to the functions of all roles, one after the other, and remembers what they found.
class OrderRules {
public:
  explicit OrderRules(const std::vector<OrderRule> &rules);

  /// The order in which the commands were found, with what the rules move. Views go where they are read. Whether the
  /// order is possible is another question: findOrderProblem. `function` must outlive this object.
  FlatOrder apply(const FlatFunction &function);

  /// Once all functions have been seen: the first rule that names a list or a command that does not exist, or an empty
  /// string.
  std::string findUnknown() const;

private:
  /// What a rule has found until now.
  struct Use {
    bool list = false, moved = false, anchor = false;
  };
  const std::vector<OrderRule> &rules;
  std::vector<Use> uses;
  std::vector<const FlatFunction *> functions; ///< that have been seen
};

/// The orders of all roles' functions by these rules. Returns why there are none, or an empty string: a rule names what
/// does not exist, a command would come before another that it needs, or stages start what they share in different
/// orders.
std::string applyOrder(const std::vector<OrderRule> &rules, const std::vector<const FlatRole *> &roles,
                       std::vector<std::vector<FlatOrder>> &orders);

} // namespace dtc
