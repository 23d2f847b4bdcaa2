// The stages of a pipeline, and the ranks along it.
#include "passes/analysis/Stages.h"

#include "dialect/IR/Names.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

int64_t ranksAlongPipeline(ModuleOp module) {
  auto mesh = module->getAttrOfType<MeshAttr>(module_attr::mesh);
  return mesh ? std::max<int64_t>(1, mesh.getAxisSize(pipelineAxis)) : 1;
}

SmallVector<int64_t> stageRanksOf(ModuleOp module) {
  if (auto said = module->getAttrOfType<DenseI64ArrayAttr>(module_attr::stageRanks))
    return SmallVector<int64_t>(said.asArrayRef());
  return llvm::to_vector(llvm::seq<int64_t>(ranksAlongPipeline(module)));
}

std::vector<int64_t> evenCut(int64_t count, ArrayRef<int64_t> rankOf) {
  auto stages = static_cast<int64_t>(rankOf.size()), ranks = *llvm::max_element(rankOf) + 1;
  std::vector<int64_t> layers(rankOf.size()), ofRanks(static_cast<size_t>(ranks));
  if (ranks == stages) {
    for (int64_t layer = 0; layer < count; ++layer)
      ++layers[static_cast<size_t>(layer * stages / count)];
    return layers;
  }
  auto add = [&](size_t stage, int64_t more) {
    layers[stage] += more;
    ofRanks[static_cast<size_t>(rankOf[stage])] += more;
  };
  const int64_t each = count / stages;
  for (size_t stage = 0; stage < layers.size(); ++stage)
    add(stage, each);
  for (int64_t left = count % stages; left > 0; --left) {
    size_t next = layers.size();
    for (size_t stage = 0; stage < layers.size(); ++stage)
      if (layers[stage] == each && (next == layers.size() || ofRanks[static_cast<size_t>(rankOf[stage])] <
                                                                 ofRanks[static_cast<size_t>(rankOf[next])]))
        next = stage;
    add(next, 1);
  }
  return layers;
}

SmallVector<int64_t> stagesOfLayers(ModuleOp module, int64_t count) {
  SmallVector<int64_t> rankOf = stageRanksOf(module), stageOf;
  auto said = module->getAttrOfType<DenseI64ArrayAttr>(module_attr::stageLayers);
  std::vector<int64_t> cut = said ? std::vector<int64_t>(said.asArrayRef()) : evenCut(count, rankOf);
  for (auto [stage, layers] : llvm::enumerate(cut))
    stageOf.append(layers, static_cast<int64_t>(stage));
  if (cut.size() != rankOf.size() || static_cast<int64_t>(stageOf.size()) != count)
    return {};
  return stageOf;
}

int64_t stagesOf(ModuleOp module) {
  auto stages = module->getAttrOfType<ArrayAttr>(module_attr::stages);
  return stages ? static_cast<int64_t>(stages.size()) : 1;
}

int64_t rolesOf(ModuleOp module) { return stagesOf(module) > 1 ? ranksAlongPipeline(module) : 1; }

/// `said`: the module's `dt.stage_ranks`, or null.
static int64_t rankOf(DenseI64ArrayAttr said, int64_t stage) {
  return said && stage < said.size() ? said[stage] : stage;
}
static DenseI64ArrayAttr saidRanks(ModuleOp module) {
  return module->getAttrOfType<DenseI64ArrayAttr>(module_attr::stageRanks);
}

int64_t roleOf(func::FuncOp function) {
  DutyAttr duty = dutyOf(function);
  return duty ? rankOf(saidRanks(function->getParentOfType<ModuleOp>()), duty.getStage()) : 0;
}

SmallVector<func::FuncOp> functionsOf(ModuleOp module, int64_t role) {
  DenseI64ArrayAttr said = saidRanks(module);
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (DutyAttr duty = dutyOf(function); !duty || rankOf(said, duty.getStage()) == role)
      functions.push_back(function);
  return functions;
}

std::vector<SmallVector<func::FuncOp>> functionsOfRoles(ModuleOp module) {
  DenseI64ArrayAttr said = saidRanks(module);
  std::vector<SmallVector<func::FuncOp>> roles(rolesOf(module));
  for (auto function : module.getOps<func::FuncOp>()) {
    if (DutyAttr duty = dutyOf(function)) {
      if (int64_t role = rankOf(said, duty.getStage()); role >= 0 && role < static_cast<int64_t>(roles.size()))
        roles[role].push_back(function);
    } else {
      for (SmallVector<func::FuncOp> &functions : roles)
        functions.push_back(function);
    }
  }
  return roles;
}

int64_t ownerOf(func::FuncOp function, PortAttr port) {
  DutyAttr duty = dutyOf(function);
  if (!duty)
    return 0;
  bool isCopied = duty.getTask() == Task::Transfer && port.isSent() && function.getNumResults() > 0;
  int64_t shift = !isCopied ? 0 : port.getKind() == PortKind::Sent ? -1 : 1;
  return duty.getStage() + shift;
}

Route routeOf(func::FuncOp function, PortAttr port) {
  DenseI64ArrayAttr said = saidRanks(function->getParentOfType<ModuleOp>());
  int64_t stage = dutyOf(function).getStage();
  bool isOfNext = port.getKind() == PortKind::Sent || port.getKind() == PortKind::ReceivedGradient;
  int64_t own = rankOf(said, stage), other = rankOf(said, isOfNext ? stage + 1 : stage - 1);
  return port.isSent() ? Route{own, other} : Route{other, own};
}

std::string nameOfRole(ModuleOp module, int64_t role) {
  if (stagesOf(module) == 1)
    return "all";
  SmallVector<std::string> stages;
  for (auto [stage, rank] : llvm::enumerate(stageRanksOf(module)))
    if (rank == role)
      stages.push_back(std::to_string(stage));
  return (stages.size() == 1 ? "stage " : "stages ") + llvm::join(stages, " and ");
}

} // namespace dtc
