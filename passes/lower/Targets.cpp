#include "passes/lower/Targets.h"

#include "passes/lower/cpu/CpuTarget.h"
#include "passes/lower/cuda/CudaTarget.h"

#include "dialect/IR/Names.h"
#include "llvm/ADT/StringMap.h"

#include <memory>
#include <mutex>

using namespace mlir;
using namespace dtc;

const Target *dtc::findTarget(StringRef name, std::string &why) {
  static std::mutex mutex;
  static llvm::StringMap<std::unique_ptr<Target>> targets;
  std::lock_guard lock(mutex);
  std::unique_ptr<Target> &target = targets[name];
  if (!target && name.starts_with(CudaTarget::prefix))
    target = CudaTarget::find(name, why);
  else if (!target)
    if (FailureOr<CodeTarget> processor = resolveTarget(name, why); succeeded(processor))
      target = std::make_unique<CpuTarget>(*processor);
  return target.get();
}

void dtc::setTarget(ModuleOp module, StringRef name) {
  module->setAttr(dt::module_attr::target, StringAttr::get(module.getContext(), name));
}

const Target &dtc::targetOf(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  auto name = module ? module->getAttrOfType<StringAttr>(dt::module_attr::target) : StringAttr();
  std::string why;
  const Target *target = name ? findTarget(name, why) : nullptr;
  return target ? *target : *findTarget("x86-64-v3", why);
}
