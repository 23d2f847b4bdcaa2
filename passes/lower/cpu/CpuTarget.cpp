// A processor as a target: how its kernels are launched, and which its library has.
#include "passes/lower/cpu/CpuTarget.h"

#include "passes/lower/cpu/KernelEmitter.h"

using namespace mlir;
using namespace dtc;

LaunchShape CpuTarget::getLaunchShape(const KernelPlan &plan) const {
  constexpr int64_t elements = 4096; // a thread's smallest share: some microseconds of work
  switch (plan.kind) {
  case KernelKind::Flat:
    if (plan.rank() == 0 || !plan.reductions.empty())
      return {};
    return {plan.columns(), elements};
  case KernelKind::Rows:
    return {plan.product(plan.gridSpan()), std::max<int64_t>(1, elements / plan.columns())};
  case KernelKind::Columns:
    return {plan.product(plan.gridSpan()) * ((plan.columns() + columnBlock - 1) / columnBlock), 1, columnBlock};
  case KernelKind::Total:
    return {plan.product(plan.gridSpan()), 1};
  }
  llvm_unreachable("not a kind");
}
