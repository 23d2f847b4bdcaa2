// The result of Form 5: a manifest's command lists.
#pragma once

#include "runtime/program/train/batch_inputs.h"
#include "tools/verify/CommandInterpreter.h"
#include "tools/verify/Subject.h"

#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace dtc::verify {

/// A role's tensor of that kind and name, or null.
const abi::Tensor *findTensor(const abi::Role &role, const TensorKey &key);
/// Of the first role that has one.
const abi::Tensor *findTensor(const abi::Manifest &manifest, const TensorKey &key);

class CommandSubject : public Subject {
public:
  /// `manifest` outlives the subject. Throws ProgramFault as CommandInterpreter does.
  CommandSubject(const abi::Manifest &manifest, mlir::MLIRContext &context);

  void provide(const TensorKey &key, const mlir::dt::HostTensor &whole) override;
  void run(const std::string &list) override;
  /// Each rank walks the timetable of its role. What an entry writes for its micro-batch is saved right after the
  /// entry.
  void run(const ExpectedRun &run, Done done) override;
  /// Values of what entries read, by step: the same for all entries of a step.
  using Inputs = std::vector<std::vector<std::pair<TensorKey, mlir::dt::HostTensor>>>;
  /// Runs as many steps in a row as there are inputs of, overlapping as the timetables say. `left` is called when a
  /// rank has run an entry.
  void runSteps(std::string_view timetable, const Inputs &inputs, CommandInterpreter::Visit left = {});
  /// A rank's own piece; the rank must have the tensor.
  mlir::dt::HostTensor readOn(int64_t rank, const TensorKey &key) const;
  void finish() override { commands.requireAllWaited(); }
  Pieces read(const TensorKey &key) const override;
  /// Commands of all ranks together.
  int64_t commandsIn(const ExpectedRun &run);
  void onCommand(std::function<void()> tell) { commands.onCommand = std::move(tell); }
  /// Names the collective that produced the tensor.
  std::string explain(const TensorKey &key) const override;

private:
  mlir::dt::ShardingAttr shardingOf(const abi::Tensor &tensor) const;
  const BatchInput *findBatchInput(int64_t rank, const abi::Tensor &tensor) const;

  const abi::Tensor *tensorOn(int64_t rank, const TensorKey &key) const;
  /// Of a gradient, the summands of all stages that the rank has.
  std::vector<const abi::Tensor *> tensorsOn(int64_t rank, const TensorKey &key) const;
  bool isExchange(const abi::TimetableEntry &entry) const;
  const ExpectedList *partOf(const ExpectedRun &run, const abi::TimetableEntry &entry) const;
  void provideOn(int64_t rank, const abi::Tensor &tensor, const TensorKey &key, const mlir::dt::HostTensor &whole);
  void provide(int64_t rank, const ExpectedList &part, bool onlyState);
  const ExpectedList *endOfSums(const ExpectedRun &run) const;
  CommandInterpreter::Watch watch(const ExpectedRun &run);
  void keepWritten(int64_t rank, const abi::TimetableEntry &entry, const ExpectedList &part);
  std::optional<int64_t> holderFor(int64_t rank, const TensorKey &key) const;
  mlir::dt::HostTensor pieceOn(int64_t rank, const abi::Tensor *tensor) const;

  const abi::Manifest &manifest;
  CommandInterpreter commands;
  std::vector<std::vector<BatchInput>> batchInputs; ///< of each rank: what the runtime fills
  std::vector<std::vector<std::string>> executed;   ///< lists of each rank, in order
  /// What entries have left of a part's results, by rank.
  std::map<const ExpectedList *, std::map<std::pair<const abi::Tensor *, int64_t>, mlir::dt::HostTensor>> kept;
  std::set<std::pair<int64_t, const ExpectedList *>> begun;           ///< ranks, and parts whose state they have got
  const ExpectedList *current = nullptr;                              ///< the part whose results are read
  std::map<const mlir::dt::HostTensor *, mlir::dt::HostTensors> cuts; ///< of the tensors that are provided in a run
};

} // namespace dtc::verify
