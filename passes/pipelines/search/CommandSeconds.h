// How long commands take without a simulation: kernels one after the other, and what is sent with nothing hidden.
#pragma once

#include "passes/pipelines/search/Planner.h"
#include "timing/cluster/cluster.h"

namespace dtc {

class CommandSeconds {
public:
  /// `device`: a rank's; `layout`: where ranks are, or null if that is not known. What is sent then takes as long as if
  /// it were written to memory and read: only differences count. Both must outlive this object.
  CommandSeconds(const timing::Device &device, const timing::Layout *layout, const abi::Mesh &mesh);

  double ofLaunch(const abi::Work &work, abi::DataType type) const;
  double ofMove(const FlatMove &move) const;
  /// Of a launch or a start; anything else takes no time.
  double ofCommand(const FlatRole &role, const FlatCommand &command) const;
  /// The seconds of a training step of the role.
  double ofStep(const FlatRole &role) const;

private:
  const timing::Device &device;
  std::function<double(const FlatMove &)> secondsOf;
};

/// How often each function runs for a micro-batch of a training step, on average.
std::vector<double> runsOfFunctions(const FlatRole &role);

/// Bytes that a training step makes in its forward pass and reads in its backward pass; in a pipeline, what a
/// micro-batch hands on within its stage.
uint64_t keptBytes(const FlatRole &role);

} // namespace dtc
