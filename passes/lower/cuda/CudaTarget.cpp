// NVIDIA's GPUs as a target: launches, the library's symbols, and code.
#include "passes/lower/cuda/CudaTarget.h"
#include "dialect/IR/LibraryScalars.h"
#include "dialect/IR/Names.h"
#include "passes/lower/cuda/GpuModule.h"
#include "passes/lower/cuda/GpuSections.h"
#include "passes/lower/cuda/kernels/GpuShape.h"
#include "passes/lower/cuda/library/GpuAttention.h"
#include "passes/lower/cuda/library/GpuCopy.h"
#include "passes/lower/cuda/library/GpuLibrary.h"
#include "passes/lower/cuda/library/GpuRotary.h"
#include "passes/lower/cuda/library/GpuScatter.h"
#include "passes/lower/kernels/Layouts.h"

#include "mlir/IR/BuiltinOps.h"
#include "runtime/abi/element_type.h"
#include "runtime/abi/library/gemm.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace dtc;

static constexpr StringLiteral knownArchitectures[] = {"sm_80", "sm_90", "sm_100"};

std::unique_ptr<CudaTarget> CudaTarget::find(StringRef name, std::string &why) {
  auto target = std::make_unique<CudaTarget>();
  target->name = name.str();
  for (StringRef each : llvm::split(name.drop_front(prefix.size()), ',')) {
    bool isKnown = llvm::is_contained(knownArchitectures, each);
    if (isKnown && !llvm::is_contained(target->architectures, each)) {
      target->architectures.push_back(each.str());
      continue;
    }
    why = (isKnown ? "architecture '" + each + "' is named twice"
                   : "unknown architecture '" + each + "'; GPUs have " +
                         llvm::join(ArrayRef<StringLiteral>(knownArchitectures), ", "))
              .str();
    return nullptr;
  }
  return target;
}

uint64_t CudaTarget::getBufferAlignment() const { return GpuShape::bufferAlignment; }

/// One index of the grid stands for what a result of the kernel belongs to: an element, a row, a block of columns.
LaunchShape CudaTarget::getLaunchShape(const KernelPlan &plan) const {
  GpuShape shape = gpuShapeOf(plan);
  LaunchShape result;
  int64_t kept = plan.product(plan.gridSpan());
  if (plan.kind == KernelKind::Flat && plan.rank() > 0 && plan.reductions.empty())
    result.grid = plan.columns();
  else if (plan.kind == KernelKind::Rows || plan.kind == KernelKind::Total)
    result.grid = kept;
  else if (plan.kind == KernelKind::Columns) {
    result.columnBlock = 1;
    result.grid = kept * plan.columns();
  }
  bool doesRows = shape.skeleton == GpuSkeleton::Elements || shape.skeleton == GpuSkeleton::Rows;
  result.sharesRows = doesRows && plan.rank() > 0;
  for (const GpuPass &pass : shape.passes)
    result.passes.push_back({{}, pass.grid, pass.threads});
  result.scratchBytes = shape.scratchBytes;
  return result;
}

/// A product with an epilogue, within cuBLASLt's limits: matrices of f32, bf16 or f16 that give the same type, or f32
/// where they are added to an accumulator; no batch; and a matrix that an activation is stored in or read from must
/// have rows of a multiple of eight elements. (cuBLASLt's rows are columns here; places are multiples of 16 bytes, see
/// mustBeAligned.)
static std::optional<LibraryKernel> findProduct(const dt::LibraryCall &call, StringRef prefix, std::string &why) {
  auto scalars = dt::knownScalars<abi::library::ProductScalars>(call);
  const abi::EpilogueForm &form = *abi::findEpilogue(scalars.epilogue);
  if (scalars.batch != 1)
    why = "for a batch";
  else if (scalars.operands != scalars.result && !(form.accumulates && scalars.result == abi::F32))
    why = "that converts its result";
  else if ((form.readsOperand || form.storesSum) && scalars.ldc % 8 != 0)
    why = "for rows of " + std::to_string(scalars.ldc) + " elements";
  else
    return LibraryKernel{(prefix + "product$" + StringRef(form.name)).str()};
  return std::nullopt;
}

/// The workspace that NVIDIA recommends for cuBLAS: 32 MiB from Hopper on, 4 MiB before.
static int64_t workspaceOfProducts(ArrayRef<std::string> architectures) {
  bool isHopper = llvm::any_of(architectures, [](StringRef each) { return each != "sm_80"; });
  return int64_t(isHopper ? 32 : 4) << 20;
}

std::optional<LibraryKernel> CudaTarget::findLibraryKernel(const dt::LibraryCall &call, std::string &why) const {
  if (call.kernel == "product" || call.kernel == "gemm") {
    std::optional<LibraryKernel> kernel =
        call.kernel == "product" ? findProduct(call, getLibraryPrefix(), why) : Target::findLibraryKernel(call, why);
    if (kernel)
      kernel->scratchBytes = workspaceOfProducts(architectures);
    return kernel;
  }
  if (call.kernel == "scatter_add")
    return gpuScatterOf(call, getLibraryPrefix());
  if (call.kernel == "rotary")
    return gpuRotaryOf(call, getLibraryPrefix(), why);
  if (std::optional<GpuCopy> copy = GpuCopy::of(call))
    return copy->kernel();
  std::optional<GpuAttention> attention = GpuAttention::of(call);
  if (!attention)
    return Target::findLibraryKernel(call, why);
  if (attention->width > GpuAttention::mostWidth) {
    why = "for heads of " + std::to_string(attention->width) + " elements, only of " +
          std::to_string(GpuAttention::mostWidth) + " and less";
    return std::nullopt;
  }
  int64_t scratch = attention->scratchBytesOf(call);
  if (llvm::any_of(architectures, [](StringRef each) { return each == "sm_80" || each == "sm_90"; }))
    scratch = std::max(scratch, attention->libraryScratchBytesOf(call));
  return LibraryKernel{attention->symbolOf(call), attention->passesOf(call), scratch};
}

/// The code of attention and of copies that the calls of a module need, once each.
static void addCodeOfCalls(ModuleOp model, gpu::GPUModuleOp code) {
  auto mesh = model->getAttrOfType<dt::MeshAttr>(dt::module_attr::mesh);
  llvm::StringSet<> known;
  for (auto function : model.getOps<func::FuncOp>()) {
    Layouts layouts(function);
    for (auto op : function.getOps<dt::LibraryOpInterface>()) {
      FailureOr<dt::LibraryCall> call = op.getLibraryCall(layouts.layoutsOf(op), mesh);
      std::optional<GpuAttention> attention = succeeded(call) ? GpuAttention::of(*call) : std::nullopt;
      if (attention && attention->width <= GpuAttention::mostWidth &&
          known.insert(attention->name(call->kernel)).second)
        addGpuAttention(*attention, code);
      std::optional<GpuCopy> copy = succeeded(call) ? GpuCopy::of(*call) : std::nullopt;
      if (copy && known.insert(copy->name()).second)
        addGpuCopy(*copy, code);
    }
  }
}

FailureOr<std::future<TargetCode>> CudaTarget::startCompiling(ArrayRef<dt::KernelOp> kernels) const {
  if (kernels.empty())
    return std::async(std::launch::deferred, [] { return TargetCode(); });
  MLIRContext *context = kernels.front()->getContext();
  loadGpuDialects(*context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(kernels.front()->getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  auto gpuModule = gpu::GPUModuleOp::create(builder, module->getLoc(), "kernels");
  FailureOr<llvm::StringMap<std::string>> shared = emitGpuKernels(kernels, gpuModule);
  if (failed(shared))
    return failure();
  addGpuLibrary(gpuModule);
  addCodeOfCalls(kernels.front()->getParentOfType<ModuleOp>(), gpuModule);
  FailureOr<std::future<TargetCode>> sections = startMakingSections(gpuModule, architectures);
  if (failed(sections))
    return failure();
  return std::async(std::launch::deferred, [sections = std::move(*sections), shared = std::move(*shared)]() mutable {
    TargetCode code = sections.get();
    code.sharedFunctions = std::move(shared);
    return code;
  });
}
