// dt-verify-where: what the phases after this one rely on.
#include "dialect/IR/Names.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Threading.h"
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
    placed.clear();
    possible.clear();
    auto functions = llvm::filter_to_vector(getOperation().getOps<func::FuncOp>(),
                                            [](func::FuncOp function) { return !function.isDeclaration(); });
    auto verifyAll = [&](auto verify) {
      return success(llvm::all_of(functions, [&](func::FuncOp function) { return succeeded(verify(function)); }));
    };
    auto ports = [&](func::FuncOp function) { return verifyPorts(function); };
    auto verify = [&](size_t part) { return part == 0 ? verifyAll(ports) : verifyAll(verifyBody); };
    if (failed(failableParallelForEachN(&getContext(), 0, 2, verify)))
      return signalPassFailure();
  }

private:
  LogicalResult verifyPorts(func::FuncOp function) {
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
      if (failed(verifyPort(function, "argument", i, type, argumentPort(function, i))))
        return failure();
    for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
      if (failed(verifyPort(function, "result", i, type, resultPort(function, i))))
        return failure();
    return success();
  }

  LogicalResult verifyPort(func::FuncOp function, StringRef what, unsigned i, Type type, PortAttr port) {
    auto fail = [&]() {
      return function.emitError() << what << " " << i << " " << (port ? "(" + port.describe() + ") " : "");
    };
    if (possible.contains({port, type})) // ports are in several functions
      return success();
    if (!port || !port.isPlaced() || !port.getWhole())
      return fail() << "lacks " << portAttr << " with its placement and whole type (W2)";
    RankedTensorType whole = port.getWhole();
    for (ShardingAttr each : {port.getComputed(), port.getStored()})
      if (std::optional<std::string> problem = each.findProblem(whole.getRank(), mesh))
        return fail() << "is placed impossibly: " << *problem << " (W2)";
    ShardingAttr stored = port.getStored();
    if (type != stored.getLocalType(whole, mesh))
      return fail() << "has type " << type << " where " << stored << " makes " << stored.getLocalType(whole, mesh)
                    << " of " << whole << " (W2)";
    auto [entry, isNew] = placed.try_emplace(port.identity(), stored);
    if (!isNew && entry->second != stored)
      return fail() << "is placed as " << stored << ", elsewhere as " << entry->second << " (W3)";
    if (!port.getMayBePartial() && !stored.getPartial().empty())
      return fail() << "is partial (W5)";
    possible.insert({port, type});
    return success();
  }

  static LogicalResult verifyBody(func::FuncOp function) {
    WalkResult result = function.walk([&](Operation *op) {
      if (op->hasAttr(iterationAttr) || op->hasAttr(shardingsAttr))
        return op->emitOpError("still carries what propagation wrote (W4)"), WalkResult::interrupt();
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  MeshAttr mesh;
  llvm::DenseMap<PortIdentity, ShardingAttr> placed;
  llvm::DenseSet<std::pair<PortAttr, Type>> possible; ///< ports that have been verified, with their types
};
} // namespace
