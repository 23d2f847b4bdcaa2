// What of a layer's forward pass to keep for its backward pass, as plain numbers.
//
// The backward pass reads some values. Each is kept, which takes its bytes for all the time between, or made again,
// which takes seconds and needs the values that it is made of, kept or made again in turn. What is least for a price of
// a byte is a minimum cut of this network, where a node on the source's side means yes:
//
//   source ---> needed(v)             v is read by the backward pass: unbounded
//   needed(v) ---> again(v)           needed and not made again, so kept: price * bytes(v)
//   again(v) ---> needed(u)           v is made of u: unbounded
//   again(v) ---> sink                seconds(v)
//
// This is exact, unlike a cut that counts bytes alone and forbids what is dear (min_cut_rematerialization_partition of
// PyTorch's AOTAutograd).
#pragma once

#include <string>
#include <vector>

namespace dtc {

struct KeepProblem {
  /// What one operation of the forward pass makes.
  struct Value {
    std::string name;
    double bytes = 0;
    double seconds = 0;         ///< to make it again, where what it is made of is there
    std::vector<size_t> madeOf; ///< earlier values; what is there anyway, as the layer's input, is not among them
    bool isRead = false;        ///< by the backward pass
    bool isStored = true;       ///< else it is computed where it is read, and cannot be kept
  };
  std::vector<Value> values;
};

struct KeptSet {
  std::vector<size_t> kept, again; ///< values, in their order
  double bytes = 0;                ///< of what is kept
  double seconds = 0;              ///< of what is made again
};

/// The set of least seconds + bytes * `secondsPerByte`.
KeptSet keepAtPrice(const KeepProblem &problem, double secondsPerByte);

/// All sets that are the best at some price, those that keep most first.
std::vector<KeptSet> keptSets(const KeepProblem &problem);

} // namespace dtc
