// The expected result of a training step, computed once by the logical program.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "tools/verify/LogicalProgram.h"

#include <optional>
#include <set>
#include <vector>

namespace dtc::verify {

/// A tensor that a list should write, and the size of error that counts as all of it.
struct ExpectedResult {
  LogicalProgram::Port port;
  mlir::dt::HostTensor value;
  double scale;
};

/// The work of one micro-batch, or work that is done once.
struct ExpectedList {
  std::string list; ///< as in a program of one stage
  std::optional<int64_t> microBatch;
  /// What the host writes before: inputs of this micro-batch, state that no earlier list of this draw had, in every
  /// second draw a norm of the gradients that is large enough to be clipped, and finally an infinite one.
  std::vector<std::pair<TensorKey, mlir::dt::HostTensor>> provided;
  std::vector<ExpectedResult> results;
};

/// One walk through a timetable.
struct ExpectedRun {
  std::string timetable;
  std::vector<ExpectedList> parts;
  bool onceAlone = false; ///< without the work of micro-batches
};

class Expectation {
public:
  /// How many steps, each with its own data and state, one after the other in the same memory: the second step reads
  /// what the first may have left there, and errors that one draw happens to hide (StepData.h) show in the other.
  static constexpr uint64_t draws = 2;

  /// Runs `module` (Form 1) as the timetables of a step and of an evaluation say (the latter where the module has the
  /// functions that it names) on the values of each draw, and finally the update of a step that overflowed; tokens stay
  /// below `vocabulary`. Functions that copy parameters run when these have been written, and their readers see the
  /// copies. Scales: see Comparison in Verify.h. Throws as LogicalProgram does.
  Expectation(mlir::ModuleOp module, const abi::Role &timetable, int64_t vocabulary);

  /// Of all draws, in their order.
  const std::vector<ExpectedRun> &runs() const { return expected; }
  mlir::ModuleOp logicalModule() const { return module; }
  mlir::MLIRContext &context() const { return *module.getContext(); }

private:
  void generate(const abi::Role &timetable);
  void begin(const abi::Role &timetable);
  void evaluate(const abi::Role &timetable);
  bool readsNorm(std::string_view function) const;
  ExpectedRun &add(std::string_view timetable);
  void runList(const abi::TimetableEntry &each, ExpectedRun &run);
  void provide(const LogicalProgram::Port &port, int64_t microBatch, ExpectedList &entry);
  bool provideNorm(const LogicalProgram::Port &port, ExpectedList &entry);
  double gradientScale(std::string_view function) const;

  mutable mlir::ModuleOp module;
  LogicalProgram logical;
  int64_t vocabulary, samples; ///< `samples` of a micro-batch
  uint64_t draw = 0;
  bool overflows = false;
  std::set<TensorKey> initialised;
  std::vector<ExpectedRun> expected;
};

} // namespace dtc::verify
