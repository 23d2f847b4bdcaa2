#include "tools/verify/Subject.h"

#include "dialect/IR/Roles.h"

using namespace mlir::dt;

namespace dtc::verify {

bool isState(const TensorKey &key) {
  return key.first == role::parameter || key.first == role::moment1 || key.first == role::moment2;
}

HostTensors Subject::cut(const TensorKey &key, const HostTensor &whole, ShardingAttr sharding, MeshAttr mesh) {
  return scatter(whole, sharding, mesh, isState(key) ? 0 : poisonValue);
}

} // namespace dtc::verify
