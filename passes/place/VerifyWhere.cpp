// dt-verify-where: what the phases after this one rely on.
#include "dialect/IR/Roles.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/place/Attributes.h"
#include "passes/place/Passes.h"

namespace dtc {
#define GEN_PASS_DEF_VERIFYWHERE
#include "passes/place/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;

namespace {

class VerifyWherePass : public dtc::impl::VerifyWhereBase<VerifyWherePass> {
public:
  using VerifyWhereBase::VerifyWhereBase;

  void runOnOperation() override {
    mesh = getOperation()->getAttrOfType<MeshAttr>(module_attr::mesh);
    if (!mesh) {
      getOperation().emitError() << "has no " << module_attr::mesh << " (W1)";
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isDeclaration() && failed(verify(function)))
        return signalPassFailure();
  }

private:
  LogicalResult verify(func::FuncOp function) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (failed(verifyBoundary(function, "argument", i, function.getArgumentTypes()[i], function.getArgAttrDict(i))))
        return failure();
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (failed(verifyBoundary(function, "result", i, function.getResultTypes()[i], function.getResultAttrDict(i))) ||
          failed(verifyOutput(function, i)))
        return failure();
    return verifyBody(function);
  }

  LogicalResult verifyBoundary(func::FuncOp function, StringRef what, unsigned i, Type type,
                               DictionaryAttr attributes) {
    auto get = [&](StringRef name) { return attributes ? attributes.get(name) : Attribute(); };
    auto sharding = dyn_cast_or_null<ShardingAttr>(get(shardingAttr));
    auto storage = dyn_cast_or_null<ShardingAttr>(get(storageAttr));
    auto global = dyn_cast_or_null<TypeAttr>(get(globalAttr));
    auto whole = global ? dyn_cast<RankedTensorType>(global.getValue()) : RankedTensorType();
    auto fail = [&]() { return function.emitError() << what << " " << i << " "; };
    if (!sharding || !whole)
      return fail() << "lacks " << shardingAttr << " or " << globalAttr << " (W2)";
    ShardingAttr lies = storage ? storage : sharding;
    for (ShardingAttr each : {sharding, lies})
      if (std::optional<std::string> problem = each.findProblem(whole.getRank(), mesh))
        return fail() << "is placed impossibly: " << *problem << " (W2)";
    if (type != lies.getLocalType(whole, mesh))
      return fail() << "has type " << type << " where " << lies << " makes " << lies.getLocalType(whole, mesh) << " of "
                    << whole << " (W2)";
    auto [entry, isNew] = placed.try_emplace({get(roleAttr), get(nameAttr)}, lies);
    if (!isNew && entry->second != lies)
      return fail() << "(" << get(roleAttr) << " " << get(nameAttr) << ") is placed as " << lies << ", elsewhere as "
                    << entry->second << " (W3)";
    return success();
  }

  LogicalResult verifyOutput(func::FuncOp function, unsigned i) {
    auto name = function.getResultAttrOfType<StringAttr>(i, nameAttr);
    auto sharding = function.getResultAttrOfType<ShardingAttr>(i, shardingAttr);
    bool read = function.getResultAttrOfType<StringAttr>(i, roleAttr) == role::output && !isShare(name);
    if (read && !sharding.getPartial().empty())
      return function.emitError() << "output " << name << " is partial (W5)";
    return success();
  }

  LogicalResult verifyBody(func::FuncOp function) {
    WalkResult result = function.walk([&](Operation *op) {
      if (op->hasAttr(iterationAttr) || op->hasAttr(shardingsAttr))
        return op->emitOpError("still carries what propagation wrote (W4)"), WalkResult::interrupt();
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  MeshAttr mesh;
  llvm::DenseMap<std::pair<Attribute, Attribute>, ShardingAttr> placed;
};
} // namespace
