#include "tools/verify/Subject.h"

#include "dialect/IR/Names.h"

using namespace mlir::dt;

namespace dtc::verify {

HostTensors Subject::cut(const TensorKey &key, const HostTensor &whole, ShardingAttr sharding, MeshAttr mesh) {
  return scatter(whole, sharding, mesh, key.isState() ? 0 : poisonValue);
}

} // namespace dtc::verify
