// Forms 2 and 3: the functions of one rank, with collectives between them, before they become command lists. Separates
// the errors of partitioning from those of lowering.
#pragma once

#include "tools/verify/Subject.h"

namespace dtc::verify {

class PartitionedSubject : public Subject {
public:
  /// Throws Error (BadInput) when the module has no mesh, or an argument or result has no placement.
  explicit PartitionedSubject(mlir::ModuleOp module);

  void provide(const TensorKey &key, const mlir::dt::HostTensor &whole) override;
  void run(const std::string &list) override;
  Pieces read(const TensorKey &key) const override;
  /// Names the function after which the value went wrong.
  std::string explain(const TensorKey &key) const override;

private:
  struct Function {
    mlir::func::FuncOp op;
    std::vector<TensorKey> arguments, results;
  };
  void run(Function &function);
  TensorKey addPort(mlir::func::FuncOp function, mlir::dt::PortAttr port);

  mlir::dt::MeshAttr mesh;
  std::map<std::string, Function> functions;
  std::map<TensorKey, mlir::dt::ShardingAttr> shardings;
  std::map<TensorKey, mlir::dt::HostTensors> tensors; ///< pieces on all ranks
  std::string lastRun;
};

} // namespace dtc::verify
