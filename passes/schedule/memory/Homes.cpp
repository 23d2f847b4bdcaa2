// Gives the values of a role's functions homes.
#include "passes/schedule/memory/Homes.h"

#include <algorithm>

namespace dtc {

Homes::Homes(const FlatRole &role) : role(role), ofFunctions(role.functions.size()) {}

void Homes::moveInto(int port, int other) {
  int owner = ownerOf(other);
  if (ownerOf(port) == owner)
    return;
  if (owners[port] >= 0)
    std::erase(tenants[owners[port]], port);
  std::vector<int> moving = std::exchange(tenants[port], {});
  moving.push_back(port);
  for (int tenant : moving)
    owners[tenant] = owner;
  tenants[owner].insert(tenants[owner].end(), moving.begin(), moving.end());
}

/// Plans the homes of one function.
class HomePlanner {
public:
  HomePlanner(Homes &all, size_t number, const FlatOrder &order, const Positions &positions)
      : all(all), function(all.role.functions[number]), order(order), positions(positions),
        own(all.ofFunctions[number]), lastRead(function.valueBytes.size(), -1),
        firstPart(function.valueBytes.size(), INT_MAX), boundTo(function.valueBytes.size(), -1),
        argumentOf(all.role.ports.size(), -1) {
    own.homes.assign(function.valueBytes.size(), noHome);
    own.temporaries.assign(function.valueBytes.size(), {});
    for (size_t number = 0; number < function.commands.size(); ++number) {
      const FlatCommand &command = function.commands[number];
      for (FlatOperand operand : command.operands)
        lastRead[operand.value] = std::max(lastRead[operand.value], positions.at[number]);
      for (const FlatResult &result : command.results)
        if (!result.isRoot && writes(command))
          firstPart[result.value] = std::min(firstPart[result.value], positions.at[number]);
    }
    for (FlatReturn result : function.returned)
      lastRead[result.value] = positions.end;
  }

  void run() {
    for (size_t value = 0; value < function.arguments.size(); ++value) {
      own.homes[value] = function.arguments[value];
      argumentOf[function.arguments[value]] = static_cast<int>(value);
    }
    for (FlatReturn result : function.returned) {
      if (!function.isArgument(result.value))
        bindResult(result.value, result.port);
      else if (own.homes[result.value] != result.port)
        all.moveInto(result.port, own.homes[result.value]);
    }
    for (int command : order)
      assign(command);
  }

private:
  static bool writes(const FlatCommand &command) {
    using Kind = FlatCommand::Kind;
    return command.kind != Kind::View && command.kind != Kind::Wait && command.kind != Kind::Await;
  }

  /// The result that makes a value.
  const FlatResult &resultOf(int value) const {
    const std::vector<FlatResult> &results = function.commands[function.definedBy[value]].results;
    return *std::find_if(results.begin(), results.end(),
                         [&](const FlatResult &each) { return each.isRoot && each.value == value; });
  }

  void bindResult(int value, int port);
  void takeOverGradient(int value, int port);
  void bindSource(int value, int port);
  bool mayOverwrite(int value, int port) const;
  bool readsOldContents(int argument, int value) const;
  bool canTakeOver(int command, FlatOperand operand, uint64_t bytes, const std::vector<int> &inPlace) const;
  Home chooseHome(int command, const FlatResult &result);
  Home newTemporary(int value, int position);
  void markShared(int value);
  void keepUntil(int value, int position);
  void assign(int command);

  Homes &all;
  const FlatFunction &function;
  const FlatOrder &order;
  const Positions &positions;
  FunctionHomes &own;
  std::vector<int> lastRead;   ///< positions; -1: never
  std::vector<int> firstPart;  ///< positions where the first part of a value is written; INT_MAX: it is written at once
  std::vector<int> boundTo;    ///< the port that a value is returned as, or -1
  std::vector<int> argumentOf; ///< by port: the value that it comes in as, or -1
  std::vector<Home> taken;     ///< homes that results of the current command have taken
};

/// Lets the value, and what it must be written in place of, be written straight into the port's memory.
void HomePlanner::bindResult(int value, int port) {
  boundTo[value] = port;
  const FlatCommand &command = function.commands[function.definedBy[value]];
  if (const FlatResult &result = resultOf(value); result.written >= 0) {
    if (int operand = command.operands[result.written].value; !function.isArgument(operand))
      bindResult(operand, port);
    return;
  }
  takeOverGradient(value, port);
  if (command.kind == FlatCommand::Kind::Start)
    bindSource(value, port);
}

/// Lets a reduced gradient take over the gradient's memory if nothing else reads that.
void HomePlanner::takeOverGradient(int value, int port) {
  int gradient = all.role.ports[port].gradient;
  if (gradient >= 0 && all.owners[port] < 0 && all.role.ports[gradient].bytes == function.valueBytes[value] &&
      mayOverwrite(value, gradient))
    all.moveInto(port, gradient);
}

/// Lets what a collective reduces in place be computed where its result is.
void HomePlanner::bindSource(int value, int port) {
  int number = function.definedBy[value];
  const FlatCommand &command = function.commands[number];
  for (int index : resultOf(value).inPlace) {
    auto [source, isWhole] = command.operands[index];
    if (isWhole && !function.isArgument(source) && boundTo[source] < 0 && lastRead[source] <= positions.at[number] &&
        mayOverwrite(source, port))
      bindResult(source, port);
  }
}

/// Whether a port's memory is free when a value is written: no argument that is there is read later.
bool HomePlanner::mayOverwrite(int value, int port) const {
  auto isRead = [&](int other) {
    int argument = argumentOf[other];
    return argument >= 0 && readsOldContents(argument, value);
  };
  int owner = all.ownerOf(port);
  return !isRead(owner) && std::none_of(all.tenants[owner].begin(), all.tenants[owner].end(), isRead);
}

/// Whether the argument's contents are still needed when, or after, a value is written over them.
bool HomePlanner::readsOldContents(int argument, int value) const {
  if (firstPart[value] != INT_MAX)
    return lastRead[argument] >= firstPart[value];
  int number = function.definedBy[value];
  if (lastRead[argument] != positions.at[number])
    return lastRead[argument] > positions.at[number];
  const std::vector<FlatOperand> &operands = function.commands[number].operands;
  const std::vector<int> &inPlace = resultOf(value).inPlace;
  for (size_t index = 0; index < operands.size(); ++index)
    if (operands[index].value == argument && std::find(inPlace.begin(), inPlace.end(), index) == inPlace.end())
      return true;
  return false;
}

Home HomePlanner::newTemporary(int value, int position) {
  own.temporaries[value] = {function.valueBytes[value], position, position, Part::Private};
  return -1 - value;
}

bool HomePlanner::canTakeOver(int command, FlatOperand operand, uint64_t bytes, const std::vector<int> &inPlace) const {
  Home home = own.homes[operand.value];
  if (home == noHome || home >= 0 || std::find(taken.begin(), taken.end(), home) != taken.end() || !operand.isWhole ||
      function.valueBytes[operand.value] != bytes)
    return false;
  const std::vector<FlatOperand> &operands = function.commands[command].operands;
  for (size_t index = 0; index < operands.size(); ++index)
    if (operands[index].value == operand.value && std::find(inPlace.begin(), inPlace.end(), index) == inPlace.end())
      return false;
  return own.temporaries[-1 - home].last <= positions.at[command];
}

Home HomePlanner::chooseHome(int command, const FlatResult &result) {
  if (int port = boundTo[result.value]; port >= 0)
    return port;
  const std::vector<FlatOperand> &operands = function.commands[command].operands;
  for (int index : result.inPlace)
    if (canTakeOver(command, operands[index], function.valueBytes[result.value], result.inPlace))
      return own.homes[operands[index].value];
  return newTemporary(result.value, positions.at[command]);
}

void HomePlanner::markShared(int value) {
  Home home = own.homes[value];
  if (home >= 0)
    all.shared[all.ownerOf(home)] = true;
  else
    own.temporaries[-1 - home].part = Part::Shared;
}

void HomePlanner::keepUntil(int value, int position) {
  if (Home home = own.homes[value]; home < 0) {
    int &last = own.temporaries[-1 - home].last;
    last = std::max(last, position);
  }
}

void HomePlanner::assign(int number) {
  const FlatCommand &command = function.commands[number];
  taken.clear();
  for (const FlatResult &result : command.results) {
    if (own.homes[result.value] != noHome)
      continue; // a view, or a further part of something being assembled
    Home home = result.isRoot                ? chooseHome(number, result)
                : boundTo[result.value] >= 0 ? boundTo[result.value]
                                             : newTemporary(result.value, positions.at[number]);
    own.homes[result.value] = home;
    taken.push_back(home);
    if (home < 0) {
      Temporary &temporary = own.temporaries[-1 - home];
      temporary.last = std::max({temporary.last, positions.at[number], lastRead[result.value]});
    }
  }
  using Kind = FlatCommand::Kind;
  if (command.kind == Kind::Start || command.kind == Kind::Send)
    markShared(command.operands.front().value);
  if (command.kind == Kind::Start || command.kind == Kind::Receive)
    markShared(command.results.front().value);
  if (command.kind == Kind::Copy && command.isToHost)
    own.temporaries[-1 - own.homes[command.results.front().value]].part = Part::Host;
  for (int user : command.users)
    keepUntil(command.operands.front().value, user == FlatCommand::theEnd ? positions.end : positions.at[user]);
}

void Homes::assign(const std::vector<FlatOrder> &orders, const std::vector<Positions> &positions) {
  owners.assign(role.ports.size(), -1);
  tenants.assign(role.ports.size(), {});
  shared.assign(role.ports.size(), false);
  for (size_t function = 0; function < role.functions.size(); ++function)
    HomePlanner(*this, function, orders[function], positions[function]).run();
}

} // namespace dtc
