// What must hold for an order.
#include "passes/schedule/FlatStep.h"

#include <numeric>

namespace dtc {

std::string FlatCommand::fullName() const {
  std::string text = name.empty() ? "a view" : "'" + name + "'";
  return layers.empty() ? text : text + " of " + layers + "." + std::to_string(layer);
}

FlatOrder foundOrder(const FlatFunction &function) {
  FlatOrder order(function.commands.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/// What a command really waits for if `number` is a view: what the view shows.
static const FlatCommand &behindViews(const FlatFunction &function, int number, const std::vector<bool> &isDone) {
  const FlatCommand &command = function.commands[number];
  if (command.isView())
    for (int before : command.after)
      if (!isDone[before])
        return behindViews(function, before, isDone);
  return command;
}

std::string findOrderProblem(const FlatFunction &function, const FlatOrder &order) {
  const std::vector<FlatCommand> &commands = function.commands;
  std::vector<bool> isDone(commands.size());
  for (int number : order) {
    if (number < 0 || number >= static_cast<int>(commands.size()) || isDone[number])
      return "list '" + function.name + "': an order names each of its commands once";
    for (int before : commands[number].after)
      if (!isDone[before])
        return "list '" + function.name + "': " + commands[number].fullName() + " cannot come before " +
               behindViews(function, before, isDone).fullName() + ", which must be done first";
    isDone[number] = true;
  }
  if (order.size() != commands.size())
    return "list '" + function.name + "': an order names each of its commands once";
  return "";
}

/// What a role starts together with others, in its order.
static std::vector<const FlatCommand *> sharedStarts(const FlatRole &role, const std::vector<FlatOrder> &orders) {
  std::vector<std::vector<const FlatCommand *>> ofFunctions(role.functions.size());
  for (size_t function = 0; function < role.functions.size(); ++function)
    for (int number : orders[function])
      if (const FlatCommand &command = role.functions[function].commands[number]; !command.stages.isEmpty())
        ofFunctions[function].push_back(&command);
  std::vector<const FlatCommand *> starts;
  for (const FlatEntry &entry : role.step)
    starts.insert(starts.end(), ofFunctions[entry.function].begin(), ofFunctions[entry.function].end());
  return starts;
}

static std::vector<const FlatCommand *> startsWith(size_t other, const std::vector<const FlatCommand *> &all) {
  std::vector<const FlatCommand *> starts;
  for (const FlatCommand *command : all)
    if (command->stages.contains(static_cast<int64_t>(other)))
      starts.push_back(command);
  return starts;
}

std::string findSharedOrderProblem(const std::vector<const FlatRole *> &roles,
                                   const std::vector<std::vector<FlatOrder>> &orders) {
  std::vector<std::vector<const FlatCommand *>> shared;
  for (size_t stage = 0; stage < roles.size(); ++stage) {
    shared.push_back(sharedStarts(*roles[stage], orders[stage]));
    for (size_t other = 0; other < stage; ++other) {
      auto own = startsWith(other, shared[stage]), theirs = startsWith(stage, shared[other]);
      for (size_t i = 0; i < std::max(own.size(), theirs.size()); ++i)
        if (i >= own.size() || i >= theirs.size() || own[i]->meeting != theirs[i]->meeting ||
            own[i]->sent != theirs[i]->sent || own[i]->stages != theirs[i]->stages)
          return "stages " + std::to_string(other) + " and " + std::to_string(stage) +
                 " would start what they share in different orders: " +
                 (i < theirs.size() ? theirs[i]->fullName() : "nothing") + " on the one where the other has " +
                 (i < own.size() ? own[i]->fullName() : "nothing");
    }
  }
  return "";
}

} // namespace dtc
