#include "tools/verify/Subject.h"

#include "dialect/IR/Names.h"

using namespace mlir::dt;

namespace dtc::verify {

HostTensors Subject::cut(const TensorKey &key, const HostTensor &whole, ShardingAttr sharding, MeshAttr mesh) {
  return scatter(whole, sharding, mesh, key.isState() ? 0 : poisonValue);
}

void Subject::run(const ExpectedRun &whole, Done done) {
  for (const ExpectedList &part : whole.parts) {
    for (const auto &[key, value] : part.provided)
      provide(key, value);
    run(part.list);
    if (!done(part))
      return;
  }
}

} // namespace dtc::verify
