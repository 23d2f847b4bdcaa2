// Decides of which gradients the rows that are added late are gathered; see Passes.td.
#include "passes/keep/Passes.h"

#include "dialect/IR/Names.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/keep/LateRows.h"
#include "passes/keep/ParameterRules.h"
#include "llvm/ADT/MapVector.h"

namespace dtc {
#define GEN_PASS_DEF_GATHERROWS
#include "passes/keep/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;
using dtc::LateRows;

namespace {

constexpr llvm::StringLiteral gathered = "gathered", reduced = "reduced";

struct GatherRows : dtc::impl::GatherRowsBase<GatherRows> {
  using GatherRowsBase::GatherRowsBase;

  void runOnOperation() override {
    dtc::ParameterRules rules;
    for (const std::string &rule : rows)
      if (!rules.add(rule, {gathered, reduced})) {
        getOperation().emitError("'") << rule << "' is not PATTERN=gathered or PATTERN=reduced";
        return signalPassFailure();
      }
    llvm::MapVector<StringAttr, bool> decided; // of parameters that no rule names; one way in all functions
    for (LateRows &late : findAll()) {
      std::optional<StringRef> how = rules.of(late.getParameter());
      bool isGathered =
          how ? *how == gathered : decided.try_emplace(late.getParameterClass(), late.isWorthIt()).first->second;
      if (isGathered)
        late.rewrite();
    }
    record(decided);
  }

  std::vector<LateRows> findAll() {
    std::vector<LateRows> found;
    auto mesh = getOperation()->getAttrOfType<MeshAttr>(module_attr::mesh);
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Operation &op : function.front())
        if (std::optional<LateRows> late = mesh ? LateRows::find(&op, mesh) : std::nullopt)
          found.push_back(std::move(*late));
    return found;
  }

  /// As rules that would have it so.
  void record(const llvm::MapVector<StringAttr, bool> &decided) {
    SmallVector<Attribute> rules;
    for (auto [parameters, isGathered] : decided)
      rules.push_back(StringAttr::get(&getContext(), parameters.getValue() + "=" + (isGathered ? gathered : reduced)));
    if (!rules.empty())
      getOperation()->setAttr(module_attr::rows, ArrayAttr::get(&getContext(), rules));
  }
};

} // namespace
