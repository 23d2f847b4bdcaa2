// What may hide a collective for which ranks wait: rules that move other commands, for a search to try.
#pragma once

#include "passes/choices/Choices.h"
#include "passes/schedule/FlatStep.h"

#include <functional>
#include <vector>

namespace dtc {

/// A start, and how long ranks wait for it in a step, over all layers that have it.
struct ExposedStart {
  int command = -1;   ///< in the function: one of those that share its name
  double seconds = 0; ///< of a step
  int64_t times = 1;  ///< how often it is waited for in this time
};

/// Finds the candidates of one function in one order; both must outlive it.
class OrderCandidates {
public:
  /// `secondsOf`: what a launch takes.
  OrderCandidates(const FlatFunction &function, const FlatOrder &order,
                  std::function<double(const FlatCommand &)> secondsOf);

  /// Sets of rules, each of which may hide the start, or some of it, the most promising first:
  ///   the start moved before work that it does not need, with the little that it needs (the gather of a parameter);
  ///   work that stands before it and that it does not need, moved behind it (a weight's gradient);
  ///   work that stands behind its wait and does not need it, moved before that;
  ///   its wait, with what reads the result alone, moved to where the result is needed;
  ///   what is started before it and waited for after it, moved behind it (a small critical one goes first).
  /// Such an order may still be impossible (findOrderProblem), and none has to help.
  std::vector<std::vector<OrderRule>> of(const ExposedStart &start) const;

private:
  struct Candidate {
    double promise = 0; ///< seconds of work that it puts between the start and its wait
    std::vector<OrderRule> rules;
  };
  using Commands = std::vector<int>;

  int waitOf(int start) const;
  bool addRule(int move, bool isBefore, int anchor, std::vector<OrderRule> &rules) const;
  bool addRules(const Commands &moved, bool isBefore, int anchor, std::vector<OrderRule> &rules) const;
  Commands dependentsBetween(int command, int until) const;
  Commands sourcesBetween(int command, int from) const;
  double secondsOf(const Commands &commands) const;
  void addEarlierStart(int start, double wanted, std::vector<Candidate> &all) const;
  void addIfFew(const Commands &moved, bool isBefore, int anchor, std::vector<Candidate> &found) const;
  void addWorkBefore(int start, double wanted, std::vector<Candidate> &all) const;
  void addWorkBehind(int wait, double wanted, std::vector<Candidate> &all) const;
  void addLaterWait(int wait, std::vector<Candidate> &all) const;
  void addPrecedence(int start, int wait, std::vector<Candidate> &all) const;
  void addTogether(std::vector<Candidate> found, double wanted, std::vector<Candidate> &all) const;

  const FlatFunction &function;
  const FlatOrder &order;
  std::function<double(const FlatCommand &)> launchSeconds;
  std::vector<int> positions;               ///< of commands in the order
  std::vector<std::vector<int>> dependents; ///< of each command, views looked through
  std::vector<std::vector<int>> sources;    ///< likewise
};

} // namespace dtc
