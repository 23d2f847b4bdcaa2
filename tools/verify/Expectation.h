// What a training step should give, computed once by the logical program.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "tools/verify/LogicalProgram.h"

#include <optional>
#include <set>
#include <vector>

namespace dtc::verify {

/// A tensor that a list should leave behind, and the size of error that counts as all of it.
struct ExpectedResult {
  LogicalProgram::Port port;
  mlir::dt::HostTensor value;
  double scale;
};

/// What is done for one micro-batch, or once.
struct ExpectedList {
  std::string list; ///< of a program of one stage
  std::optional<int64_t> microBatch;
  /// What the host writes before: inputs of this micro-batch, state that no earlier list of this draw had, in every
  /// second draw a norm of the gradients that is large enough to be clipped, and at last an infinite one.
  std::vector<std::pair<TensorKey, mlir::dt::HostTensor>> provided;
  std::vector<ExpectedResult> results;
};

/// One walk through a timetable.
struct ExpectedRun {
  std::string timetable;
  std::vector<ExpectedList> parts;
  bool onceAlone = false; ///< without what is done for micro-batches
};

class Expectation {
public:
  /// How many steps, each on data and state of its own, one after the other in the same memory: the second reads what
  /// the first may have left behind, and what one draw happens to hide (StepData.h) the other shows.
  static constexpr uint64_t draws = 2;

  /// Runs `module` (Form 1) as the timetables of a step and of an evaluation say (the latter where the module has what
  /// it names) on the values of each draw, at last the update of a step that overflowed; tokens stay below
  /// `vocabulary`. What makes copies of parameters runs when they have been written, and is seen by what reads them.
  /// Scales: see Comparison in Verify.h. Throws as LogicalProgram does.
  Expectation(mlir::ModuleOp module, const abi::Role &timetable, int64_t vocabulary);

  /// All draws' in their order.
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
