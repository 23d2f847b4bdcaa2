// A step as plain numbers: what is ordered and laid out, without MLIR.
//
// A planner asks for the memory of thousands of orders of the same operations. The IR is read once (ReadStep.h) into
// this: lists of commands, each with the values that it reads and makes, the commands that it must follow, and its
// work. Another order is a list of numbers. StepPlanner.h lays any of them out, and dt-plan-memory asks the same
// planner.
#pragma once

#include "passes/analysis/StageSet.h"
#include "passes/schedule/memory/MemoryUse.h"
#include "runtime/abi/manifest.pb.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace dtc {

/// A tensor that functions hand to each other.
struct FlatPort {
  std::string name; ///< "h.0.w": what it belongs to, whatever its kind
  uint64_t bytes = 0;
  Holds holds = Holds::Interface;
  bool isOfMicroBatch = false;             ///< it is in a space of several places
  std::array<uint32_t, 2> spaces = {0, 0}; ///< its space where peers do not see it, and where they do
  int gradient = -1;                       ///< for a reduced gradient: the gradient's port, whose memory it may take
  StageSet stages = {};                    ///< whose micro-batches it belongs to
  int rank = 0;                            ///< its rank by place in the arena, among those that live for the whole run
};

/// An operand: a value, and whether it is all of the value or a part.
struct FlatOperand {
  int value;
  bool isWhole;
};

/// A tensor of a launch that may be joined to others (JoinLaunches.h): a part of a value.
struct FlatBuffer {
  int value;
  uint64_t offset; ///< bytes from the value's beginning
  uint64_t bytes;
  bool isScalar, isDense, isWritten;
};

/// What a start, a send or a receive moves.
struct FlatMove {
  std::string purpose; ///< the same ranks use another channel for another purpose
  abi::Group group;    ///< without its channel
  abi::Collective::Kind kind = abi::Collective::ALL_REDUCE;
  abi::DataType type = abi::F32; ///< of a collective's elements
  double payload = 0;            ///< bytes, as abi::payloadBytes counts them; for a transfer, sent
  int64_t shift = 0;             ///< of a transfer: how many places after this rank in the group the other one is
  abi::Reduction reduction = abi::SUM; ///< of a collective that reduces
};

struct FlatResult {
  int value;
  bool isRoot;              ///< it has memory of its own; otherwise it shares `value`'s, or makes a part of it
  int written = -1;         ///< the operand that must be overwritten
  std::vector<int> inPlace; ///< operands whose memory it may take over, each element read before it is written
};

struct FlatCommand {
  static constexpr int theEnd = -1; ///< as a user: the function's return
  enum class Kind { View, Launch, Start, Wait, Send, Receive, Await, Copy };
  Kind kind = Kind::Launch;
  /// Its name in orders: "input_gradient contract contract_backward h.*.mlp.c_fc". If several in a layer have one name,
  /// the second ends in " #2". Empty: orders cannot name it.
  std::string name;
  std::string layers; ///< the list of layers that its layer is in: "h"; empty outside the layers
  int64_t layer = -1; ///< its number there
  std::vector<FlatOperand> operands;
  std::vector<FlatResult> results;
  std::vector<int> after; ///< commands whose results it reads, or that must have finished with what it overwrites
  std::vector<int> users; ///< of a start or a copy: the commands until which the operand must stay
  abi::Direction direction = abi::UNKNOWN_DIRECTION;
  abi::Work work;
  abi::DataType type = abi::F32;   ///< of a launch: the narrowest floating-point type that it touches
  unsigned formula = 0;            ///< of a launch: equal ones may be joined; 0: never joined
  bool isLibrary = false;          ///< of a launch: nothing is joined across it
  std::vector<FlatBuffer> buffers; ///< of a launch with a formula: operands, then results
  int move = -1;                   ///< of a start, a send or a receive: index into FlatRole::moves
  int port = -1;                   ///< of a send, a receive or an await: the port of the transfer
  bool isAwaited = false;          ///< of a start: it is awaited at once
  bool isEmitted = true;           ///< otherwise it yields no command: its operands are written straight into place
  double sent = 0;                 ///< bytes to other ranks
  StageSet stages = {};            ///< of a start that other ranks along the pipeline take part in: all these ranks
  std::string meeting;             ///< of such a start: what it is for, the same on all of them
  bool mayJoin = false;            ///< of a start: it may be in a bucket, as gradients and gathered parameters may
  int bucket = -1;                 ///< of a start: the bucket that it belongs to (JoinStarts.h); -1: none
  bool isToHost = false;           ///< of a copy: to the host's memory, otherwise from there
  bool isAgain = false;            ///< it recomputes for the backward pass what the forward pass did not keep

  bool isView() const { return kind == Kind::View; }
  std::string fullName() const; ///< with the layer's number
};

/// A value that is returned.
struct FlatReturn {
  int value;
  int port;
};

struct FlatFunction {
  std::string name;
  int64_t stage = 0;
  std::vector<int> arguments;        ///< ports; argument i is value i
  std::vector<uint64_t> valueBytes;  ///< of each value that has memory of its own: arguments, then results
  std::vector<int> definedBy;        ///< of each value: the command, or -1
  std::vector<FlatCommand> commands; ///< in the order in which they were found
  std::vector<FlatReturn> returned;

  bool isArgument(int value) const { return value < static_cast<int>(arguments.size()); }
};

/// Runs a function once.
struct FlatEntry {
  int function; ///< in FlatRole::functions
  int64_t microBatch;
  std::vector<uint32_t> places; ///< of each space
};

/// What ranks of the same stages do.
struct FlatRole {
  std::string name; ///< as in the manifest
  std::vector<FlatPort> ports; ///< in the order in which the functions mention them
  std::vector<FlatFunction> functions;
  std::vector<FlatMove> moves;
  std::vector<FlatEntry> step;  ///< the timetable of a step
  std::vector<uint32_t> places; ///< of each space, as the timetables say
  uint64_t unit = 1;            ///< places in memory begin at multiples of it
};

/// An order of a function's commands: their numbers, first to last.
using FlatOrder = std::vector<int>;

/// The order in which they were found.
FlatOrder foundOrder(const FlatFunction &function);

/// Why a function's commands cannot be in this order, or an empty string. Names the two that are in the wrong order.
std::string findOrderProblem(const FlatFunction &function, const FlatOrder &order);

/// Why ranks of different stages would wait for each other for ever: they start what they share in different orders. Or
/// an empty string. `orders`: those of each role's functions.
std::string findSharedOrderProblem(const std::vector<const FlatRole *> &roles,
                                   const std::vector<std::vector<FlatOrder>> &orders);

} // namespace dtc
