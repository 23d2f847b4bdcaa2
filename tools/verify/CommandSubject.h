// What Form 5 becomes: a manifest's command lists.
#pragma once

#include "runtime/program/batch_inputs.h"
#include "tools/verify/CommandInterpreter.h"
#include "tools/verify/Subject.h"

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
  void finish() override { commands.requireAllWaited(); }
  Pieces read(const TensorKey &key) const override;
  /// As CommandInterpreter does.
  int64_t commandsIn(std::string_view list) { return commands.commandsIn(list); }
  void onCommand(std::function<void()> tell) { commands.onCommand = std::move(tell); }
  /// Names the collective behind the tensor.
  std::string explain(const TensorKey &key) const override;

private:
  mlir::dt::ShardingAttr shardingOf(const abi::Tensor &tensor) const;
  const BatchInput *findBatchInput(int64_t rank, const abi::Tensor &tensor) const;

  const abi::Tensor *tensorOn(int64_t rank, const TensorKey &key) const;

  const abi::Manifest &manifest;
  CommandInterpreter commands;
  std::vector<std::vector<BatchInput>> batchInputs; ///< of each rank: what the runtime fills
  std::vector<std::string> executed;                ///< lists, in order
};

} // namespace dtc::verify
