// Cuts the model into the stages of a pipeline; see Passes.td.
#include "passes/analysis/Stages.h"
#include "passes/keep/Passes.h"
#include "passes/keep/cut/Crossings.h"
#include "passes/keep/cut/StageFunctions.h"
#include "passes/keep/cut/StashKinds.h"

#include "dialect/IR/StepFunctions.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OperationSupport.h"

#include <map>
#include <numeric>

namespace dtc {
#define GEN_PASS_DEF_CUT
#include "passes/keep/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

struct Cut : dtc::impl::CutBase<Cut> {
  Cut() = default;
  explicit Cut(dtc::CrossingCosts costs) : costs(std::move(costs)) {}

  void runOnOperation() override {
    SmallVector<func::FuncOp> functions = tellDuties();
    auto mesh = getOperation()->getAttrOfType<MeshAttr>(module_attr::mesh);
    cut.ranks = mesh ? std::max<int64_t>(1, mesh.getAxisSize(pipelineAxis)) : 1;
    cut.rankOf = dtc::stageRanksOf(getOperation());
    cut.splitsBackward = getOperation()->hasAttr(module_attr::splitsBackward);
    cut.asynchronous = getOperation()->hasAttr(module_attr::asynchronous);
    cut.earlyUpdate = getOperation()->hasAttr(module_attr::earlyUpdate);
    if (failed(findLayers(functions)) || (cut.asynchronous && failed(requireWholeState(functions))))
      return signalPassFailure();
    writeStages();
    if (cut.stages() == 1)
      return;
    dtc::Crossings crossings(getOperation(), cut, costs);
    for (func::FuncOp function : functions)
      if (failed(cutFunction(function, crossings)))
        return signalPassFailure();
    crossings.write(getOperation());
    for (func::FuncOp function : functions)
      function.erase();
    dtc::setStashKinds(getOperation());
    mergeEqual();
  }

private:
  /// Sets duties in the order of the table: the passes determine where parameters are, which the update needs to know.
  SmallVector<func::FuncOp> tellDuties() {
    SmallVector<func::FuncOp> functions;
    for (const StepFunction &known : stepFunctions)
      if (auto function = getOperation().lookupSymbol<func::FuncOp>(known.name)) {
        auto timetable = StringAttr::get(&getContext(), known.timetable);
        function->setAttr(dutyAttr,
                          DutyAttr::get(&getContext(), known.task, /*stage=*/0, timetable, known.microBatches));
        functions.push_back(function);
      }
    return functions;
  }

  /// The layers in the order in which the forward pass meets them.
  LogicalResult findLayers(ArrayRef<func::FuncOp> functions) {
    for (func::FuncOp function : functions)
      for (Operation &op : function.front())
        if (LayerAttr layer = marksOf(&op).layer)
          cut.stageOf.insert({layer, 0});
    int64_t count = cut.stageOf.size();
    auto fail = [&] {
      return getOperation().emitError("a pipeline of ")
             << cut.stages() << " stages (mesh axis '" << pipelineAxis << "') ";
    };
    if (cut.stages() > dtc::mostStages)
      return fail() << "is longer than the " << dtc::mostStages << " stages that there may be";
    if (cut.stages() > 1 && count < cut.stages())
      return fail() << "needs as many layers, and the model has " << count
                    << (cut.stages() > cut.ranks ? "; make the axis shorter, or take fewer stages a rank"
                                                 : "; make the axis shorter");
    SmallVector<int64_t> stageOf = dtc::stagesOfLayers(getOperation(), count);
    if (static_cast<int64_t>(stageOf.size()) != count) {
      auto said = getOperation()->getAttrOfType<DenseI64ArrayAttr>(module_attr::stageLayers);
      return fail() << "and " << count << " layers cannot be cut as [stages] says, into " << said.size()
                    << " stages with "
                    << std::accumulate(said.asArrayRef().begin(), said.asArrayRef().end(), int64_t(0)) << " layers";
    }
    for (auto [entry, stage] : llvm::zip_equal(cut.stageOf, stageOf))
      entry.second = stage;
    return success();
  }

  void writeStages() {
    SmallVector<SmallVector<Attribute>> ofStages(cut.stages());
    for (auto [layer, stage] : cut.stageOf)
      ofStages[stage].push_back(layer);
    Builder builder(&getContext());
    getOperation()->setAttr(module_attr::stages,
                            builder.getArrayAttr(llvm::map_to_vector(
                                ofStages, [&](auto &each) -> Attribute { return builder.getArrayAttr(each); })));
  }

  LogicalResult cutFunction(func::FuncOp function, dtc::Crossings &crossings) {
    dtc::StageHomes homes(cut, parameters, gradients);
    if (failed(homes.place(function)))
      return failure();
    crossings.add(function);
    dtc::StageFunctions parts(function, cut, homes, parameters, gradients, crossings);
    if (failed(parts.build()))
      return failure();
    return cut.asynchronous ? requireOwnParameters(function) : success();
  }

  /// A stage keeps versions of what it stores, not of what it gathers.
  LogicalResult requireWholeState(ArrayRef<func::FuncOp> functions) {
    for (func::FuncOp function : functions)
      for (BlockArgument argument : function.getArguments())
        if (PortAttr port = portOf(argument); port.isState() && port.getComputed() != port.getStored())
          return getOperation().emitError("pipedream: the ")
                 << port.describe()
                 << " is stored in pieces and gathered to be computed with (zero1, zero2, zero3, fsdp), "
                 << "which cannot be kept in versions yet; take ddp or megatron, or another timetable";
    return success();
  }

  /// Stages that have a parameter together would have to wait for each other at each update.
  LogicalResult requireOwnParameters(func::FuncOp function) {
    for (BlockArgument argument : function.getArguments())
      if (dtc::StageSet stages = parameters.lookup(portOf(argument).getName()); stages.size() > 1)
        return getOperation().emitError("pipedream updates each stage by itself, and stages ")
               << stages.first() << " and " << stages.last() << " both read the parameter "
               << portOf(argument).getName() << " (a tied embedding): they would have to wait for each other; untie it "
               << "(tie_word_embeddings = false in the model's config.json), or take another timetable";
    return success();
  }

  /// The forward pass of most stages does the same for the first micro-batch as for all others.
  void mergeEqual() {
    std::map<std::tuple<Task, int64_t, StringRef>, SmallVector<func::FuncOp>> ofDuties;
    for (auto function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      DutyAttr duty = dutyOf(function);
      auto &kept = ofDuties[{duty.getTask(), duty.getStage(), duty.getTimetable().getValue()}];
      auto *equal = llvm::find_if(kept, [&](func::FuncOp other) { return areEqual(function, other); });
      if (equal == kept.end()) {
        kept.push_back(function);
        continue;
      }
      (*equal)->setAttr(dutyAttr, DutyAttr::get(&getContext(), duty.getTask(), duty.getStage(), duty.getTimetable(),
                                                duty.getMicroBatches() | dutyOf(*equal).getMicroBatches()));
      function.erase();
    }
  }

  /// Of two with one duty, but for the micro-batches.
  static bool areEqual(func::FuncOp a, func::FuncOp b) {
    return a.getFunctionType() == b.getFunctionType() && a.getArgAttrsAttr() == b.getArgAttrsAttr() &&
           a.getResAttrsAttr() == b.getResAttrsAttr() &&
           OperationEquivalence::isRegionEquivalentTo(&a.getBody(), &b.getBody(),
                                                      OperationEquivalence::IgnoreLocations);
  }

  dtc::CrossingCosts costs;
  dtc::StageCut cut;
  dtc::ParameterStages parameters, gradients;
};

} // namespace

std::unique_ptr<Pass> dtc::createCutByCosts(CrossingCosts costs) { return std::make_unique<Cut>(std::move(costs)); }
