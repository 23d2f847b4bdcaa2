// Which values of a layer's forward pass to keep for its backward pass, as a problem in plain numbers.
//
// The backward pass reads some values. Each is kept, which takes its bytes for all the time between, or recomputed,
// which takes seconds and needs the values that it is made from, kept or recomputed in turn. The cheapest choice for a
// given price of a byte is a minimum cut of this network, where a node on the source's side means yes:
//
//   source ---> needed(v)             v is read by the backward pass: unbounded
//   needed(v) ---> again(v)           needed and not recomputed, so kept: price * bytes(v)
//   again(v) ---> needed(u)           v is made from u: unbounded
//   again(v) ---> sink                seconds(v)
//
// This is exact, unlike a cut that counts only bytes and forbids what is expensive (min_cut_rematerialization_partition
// of PyTorch's AOTAutograd).
#pragma once

#include <string>
#include <vector>

namespace dtc {

struct KeepProblem {
  /// What one operation of the forward pass makes.
  struct Value {
    std::string name;
    double bytes = 0;
    double seconds = 0;         ///< to recompute it when what it is made from is there
    std::vector<size_t> madeOf; ///< earlier values; what is there anyway, such as the layer's input, is not included
    bool isRead = false;        ///< by the backward pass
    bool isStored = true;       ///< otherwise it is computed where it is read, and cannot be kept
  };
  std::vector<Value> values;
};

struct KeptSet {
  std::vector<size_t> kept, again; ///< values, in their order
  double bytes = 0;                ///< of the kept values
  double seconds = 0;              ///< to recompute the others
};

/// The set with the smallest seconds + bytes * `secondsPerByte`.
KeptSet keepAtPrice(const KeepProblem &problem, double secondsPerByte);

/// All sets that are the best at some price, ordered from the one that keeps most.
std::vector<KeptSet> keptSets(const KeepProblem &problem);

} // namespace dtc
