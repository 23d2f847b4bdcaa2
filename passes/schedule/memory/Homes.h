// Which values share memory because one takes it over from another, and how long each piece is needed.
//
// A value is in the memory of a tensor that functions hand to each other (a port), or in a temporary's. An operation
// writes in place of an operand that is read for the last time; what is returned is computed where its port is; what a
// collective reduces in place is computed where its result is.
#pragma once

#include "passes/schedule/FlatStep.h"
#include "passes/schedule/Spaces.h"

#include <climits>

namespace dtc {

/// When each command of a function runs: numbers that grow with the order, from 0, and one after all of them.
struct Positions {
  std::vector<int> at; ///< of each command
  int end = 0;
};

/// A temporary: memory for its bytes from one position to another, both included.
struct Temporary {
  uint64_t bytes = 0; ///< 0: there is none
  int first = 0, last = 0;
  Part part = Part::Private;
};

/// Where a value is: in a port's memory (>= 0), or in the memory of its function's temporary for value -1 - home.
using Home = int;
constexpr Home noHome = INT_MIN;

struct FunctionHomes {
  std::vector<Home> homes;             ///< of each value
  std::vector<Temporary> temporaries;  ///< of each value that opens one
};

class Homes {
public:
  explicit Homes(const FlatRole &role);

  /// Gives the values of all functions homes. Each runs in its order, at these positions.
  void assign(const std::vector<FlatOrder> &orders, const std::vector<Positions> &positions);

  const FunctionHomes &of(size_t function) const { return ofFunctions[function]; }
  /// The port in whose memory a port is: itself, or another.
  int ownerOf(int port) const { return owners[port] < 0 ? port : owners[port]; }
  bool isShared(int port) const { return shared[ownerOf(port)]; }

private:
  friend class HomePlanner;
  /// Moves `port`, and the ports in its memory, into the memory of `other`.
  void moveInto(int port, int other);

  const FlatRole &role;
  std::vector<int> owners;               ///< -1: it has its own
  std::vector<std::vector<int>> tenants; ///< of an owner: the ports in its memory
  std::vector<bool> shared;              ///< of owners
  std::vector<FunctionHomes> ofFunctions;
};

} // namespace dtc
