// Decides for which gradients the rows that are added late are gathered; see Passes.td.
#include "passes/keep/Passes.h"

#include "dialect/IR/Names.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/analysis/Stages.h"
#include "passes/keep/ParameterRules.h"
#include "passes/keep/rows/LateRows.h"
#include "passes/keep/rows/LookedUpRows.h"
#include "llvm/ADT/MapVector.h"

#include <type_traits>

namespace dtc {
#define GEN_PASS_DEF_GATHERROWS
#include "passes/keep/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;
using dtc::LateRows;
using dtc::LookedUpRows;

namespace {

constexpr llvm::StringLiteral gathered = "gathered", reduced = "reduced";

std::optional<bool> isGathered(StringRef how) {
  return how == gathered || how == reduced ? std::optional(how == gathered) : std::nullopt;
}

struct GatherRows : dtc::impl::GatherRowsBase<GatherRows> {
  using GatherRowsBase::GatherRowsBase;

  void runOnOperation() override {
    dtc::ParameterRules<bool> rules; // whether they are gathered
    for (const std::string &rule : rows)
      if (!rules.read(rule, isGathered)) {
        getOperation().emitError("'") << rule << "' is not PATTERN=gathered or PATTERN=reduced";
        return signalPassFailure();
      }
    std::vector<LateRows> late = findAll<LateRows>();
    std::vector<LookedUpRows> lookedUp = findAll<LookedUpRows>();
    llvm::MapVector<StringAttr, dtc::SentBytes> sent; // for parameters that no rule names
    auto count = [&](auto &found) {
      for (auto &each : found)
        if (!rules.of(each.getParameter()))
          sent[each.getParameterClass()] += each.sentBytes();
    };
    auto rewrite = [&](auto &found) {
      for (auto &each : found) {
        std::optional<bool> how = rules.of(each.getParameter());
        if (how ? *how : sent.lookup(each.getParameterClass()).isWorthIt())
          each.rewrite();
      }
    };
    count(late);
    count(lookedUp);
    rewrite(late);
    rewrite(lookedUp);
    record(sent);
  }

  /// Whether gradients of several micro-batches are summed up over ranks behind all passes of a pipeline: then no part
  /// of them is there early, and the rows that are added last come before the sum.
  bool isSummedUpBehindPasses(func::FuncOp function) {
    return dtc::ranksAlongPipeline(getOperation()) > 1 &&
           llvm::any_of(function.getArguments(), [](BlockArgument argument) {
             PortAttr port = portOf(argument);
             return port && port.isGradient();
           });
  }

  template <typename Rows> std::vector<Rows> findAll() {
    std::vector<Rows> found;
    auto mesh = getOperation()->getAttrOfType<MeshAttr>(module_attr::mesh);
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (std::is_same_v<Rows, LateRows> && isSummedUpBehindPasses(function))
        continue;
      for (Operation &op : function.front())
        if (std::optional<Rows> rows = mesh ? Rows::find(&op, mesh) : std::nullopt)
          found.push_back(std::move(*rows));
    }
    return found;
  }

  /// Records the decisions as rules that would lead to them.
  void record(const llvm::MapVector<StringAttr, dtc::SentBytes> &sent) {
    SmallVector<Attribute> rules;
    for (const auto &[parameters, bytes] : sent)
      rules.push_back(
          StringAttr::get(&getContext(), parameters.getValue() + "=" + (bytes.isWorthIt() ? gathered : reduced)));
    if (!rules.empty())
      getOperation()->setAttr(module_attr::rows, ArrayAttr::get(&getContext(), rules));
  }
};

} // namespace
