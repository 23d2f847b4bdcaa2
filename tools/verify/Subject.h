// A compiled form of a program that is compared with an expectation.
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
  /// Called after each part, in order, when its results can be read. False: stop here.
  using Done = llvm::function_ref<bool(const ExpectedList &part)>;
  /// Walks through a timetable; here one part after the other, all ranks together.
  virtual void run(const ExpectedRun &run, Done done);
  /// Called after the last list. Throws ProgramFault when something is still in progress.
  virtual void finish() {}
  /// Throws Error (BadInput) when the program keeps no such tensor.
  virtual Pieces read(const TensorKey &key) const = 0;
  /// Where a wrong value of this tensor may have come from, as of now; the end of a sentence.
  virtual std::string explain(const TensorKey &key) const = 0;

protected:
  /// What the host writes: the padding of state is zero and stays zero, that of inputs is undefined.
  static mlir::dt::HostTensors cut(const TensorKey &key, const mlir::dt::HostTensor &whole,
                                   mlir::dt::ShardingAttr sharding, mlir::dt::MeshAttr mesh);
};

} // namespace dtc::verify
