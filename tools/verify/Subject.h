// A compiled form of a program that is held against an expectation.
#pragma once

#include "dialect/reference/Shards.h"
#include "tools/verify/Expectation.h"

#include <string>

namespace dtc::verify {

/// What all ranks hold of one tensor.
struct Pieces {
  mlir::dt::HostTensors ofRanks;
  mlir::dt::ShardingAttr sharding;
  mlir::dt::MeshAttr mesh;
};

class Subject {
public:
  virtual ~Subject() = default;

  /// Writes every rank's piece of a tensor that the host provides; nothing when the program does not read it.
  virtual void provide(const TensorKey &key, const mlir::dt::HostTensor &whole) = 0;
  /// Runs a list on all ranks. Throws ProgramFault.
  virtual void run(const std::string &list) = 0;
  /// Is told what has been done, in the order of the parts, when what it leaves can be read. False: no more is wanted.
  using Done = llvm::function_ref<bool(const ExpectedList &part)>;
  /// Walks through a timetable; here one part after the other, all ranks together.
  virtual void run(const ExpectedRun &run, Done done);
  /// The last list has run. Throws ProgramFault when something is still under way.
  virtual void finish() {}
  /// Throws Error (BadInput) when the program keeps no such tensor.
  virtual Pieces read(const TensorKey &key) const = 0;
  /// Where a wrong value of this tensor, as of now, may have come from; a sentence's end.
  virtual std::string explain(const TensorKey &key) const = 0;

protected:
  /// What the host writes: padding of state is zero and stays so, that of inputs is undefined.
  static mlir::dt::HostTensors cut(const TensorKey &key, const mlir::dt::HostTensor &whole,
                                   mlir::dt::ShardingAttr sharding, mlir::dt::MeshAttr mesh);
};

} // namespace dtc::verify
