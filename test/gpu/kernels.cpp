#include "test/gpu/kernels.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Names.h"
#include "passes/lower/Targets.h"
#include "passes/lower/cuda/GpuModule.h"
#include "passes/lower/cuda/kernels/GpuShape.h"
#include "passes/lower/kernels/KernelPlan.h"
#include "tools/verify/PoisonedMemory.h"

#include <gtest/gtest.h>
#include <numeric>

using namespace mlir;

namespace dtc::test {

GpuKernels::GpuKernels(ModuleOp module, const Change &change) {
  MLIRContext *context = module.getContext();
  setTarget(module, "cuda:sm_90");
  loadGpuDialects(*context);
  OwningOpRef<ModuleOp> whole = ModuleOp::create(module.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(whole->getBody());
  auto functions = gpu::GPUModuleOp::create(builder, module.getLoc(), "kernels");
  SmallVector<dt::KernelOp> kernels(module.getOps<dt::KernelOp>());
  FailureOr<llvm::StringMap<std::string>> emitted = emitGpuKernels(kernels, functions);
  if (failed(emitted)) {
    ADD_FAILURE() << "no code is generated";
    return;
  }
  shared = std::move(*emitted);
  if (change)
    change(functions);
  code = std::make_unique<GpuCodeOfThisMachine>(functions, machine.hooks());
  EXPECT_EQ(code->error, "");
}

/// Inputs, then the outputs that share no input's memory.
std::vector<DeviceBuffer> GpuKernels::buffersOf(dt::KernelOp kernel, const std::vector<void *> &addresses) const {
  std::vector<DeviceBuffer> buffers;
  size_t inputs = kernel.getNumArguments();
  for (auto [i, address] : llvm::enumerate(addresses)) {
    bool isInput = i < inputs;
    if (auto *end = addresses.data() + inputs; !isInput && std::find(addresses.data(), end, address) != end)
      continue;
    bool isWritten = !isInput || llvm::is_contained(ArrayRef(addresses).drop_front(inputs), address);
    Type type = isInput ? kernel.getArgumentTypes()[i] : kernel.getResultTypes()[i - inputs];
    std::string name = isInput ? "input " + std::to_string(i) : "output " + std::to_string(i - inputs);
    buffers.push_back({static_cast<std::byte *>(address), dt::bytesOf(type), isWritten, isInput, name});
  }
  return buffers;
}

/// All functions of the kernel, one after the other, as a device launches them.
std::string GpuKernels::launch(dt::KernelOp kernel, const KernelInterface &interface,
                               const std::vector<void *> &addresses, const dt::RankContext &rank) {
  std::vector<DeviceBuffer> buffers = buffersOf(kernel, addresses);
  std::vector<uint64_t> arguments;
  for (void *address : addresses)
    arguments.push_back(reinterpret_cast<uint64_t>(address));
  const abi::ElementType &word = abi::elementType(abi::F32);
  std::vector<int64_t> words((interface.scratchBytes + word.bytes - 1) / word.bytes);
  std::iota(words.begin(), words.end(), 0);
  verify::PoisonedMemory scratch(int64_t(words.size()), word, GpuShape::bufferAlignment / int64_t(word.bytes));
  scratch.poison(words, word);
  scratch.remember();
  if (interface.scratchBytes > 0) {
    buffers.push_back({scratch.data(), size_t(interface.scratchBytes), true, false, "scratch"});
    arguments.push_back(reinterpret_cast<uint64_t>(scratch.data()));
  }
  for (const dt::LaunchScalar &scalar : interface.scalars)
    arguments.push_back(scalar.kind == dt::LaunchScalar::Kind::RankIndex ? rank.indexIn(scalar.axes) * scalar.integer
                        : scalar.kind == dt::LaunchScalar::Kind::Site    ? rank.sites[scalar.integer]
                                                                         : scalar.integer);
  for (const LaunchPass &pass : interface.passes) {
    auto same = shared.find(pass.function);
    ThreadFunction function = code->find(same == shared.end() ? pass.function : same->second);
    if (!function)
      return "has no function";
    if (std::string fault = machine.launch(function, pass.blocks, pass.threads, arguments, buffers); !fault.empty())
      return fault;
  }
  return scratch.findChange(words, word) ? "writes around its scratch" : "";
}

verify::CodeResult GpuKernels::run(dt::KernelOp kernel, std::vector<int> inPlace, unsigned draw, bool backwards,
                                   ArrayRef<int64_t> sites) {
  std::string why;
  FailureOr<KernelPlan> plan = planKernel(kernel, why);
  FailureOr<KernelInterface> interface = describe(kernel);
  if (!code || failed(plan) || failed(interface))
    return {"there is no code: " + why};
  SmallVector<int64_t> own; // sites are numbers of the kernel's own
  for (const dt::LaunchScalar &scalar : interface->scalars)
    if (scalar.kind == dt::LaunchScalar::Kind::Site && scalar.integer == int64_t(own.size()))
      own.push_back(scalar.integer);
  dt::RankContext rank;
  rank.mesh = kernel->getParentOfType<ModuleOp>()->getAttrOfType<dt::MeshAttr>(dt::module_attr::mesh);
  rank.rank = rank.mesh ? rank.mesh.getNumRanks() - 1 : 0;
  rank.sites = sites.empty() ? ArrayRef<int64_t>(own) : sites;
  std::string manner = backwards ? "from the last block to the first" : "";
  verify::KernelRun run(kernel, *plan, rank, {std::move(inPlace), draw, GpuShape::bufferAlignment, manner});
  run.expectAll();
  machine.backwards = backwards;
  verify::CodeResult result =
      run.call([&](const std::vector<void *> &addresses) { return launch(kernel, *interface, addresses, rank); });
  compared += result.compared;
  unbounded += result.unbounded;
  return result;
}

std::string GpuKernels::findFault(dt::KernelOp kernel) {
  FailureOr<KernelInterface> interface = describe(kernel);
  if (failed(interface))
    return "there is no code";
  std::vector<std::vector<int>> places = {{}};
  for (size_t output = 0; output < interface->inPlace.size(); ++output)
    for (unsigned input : interface->inPlace[output]) {
      places.emplace_back(interface->numOutputs, -1);
      places.back()[output] = int(input);
    }
  constexpr unsigned draws = 4; // of any sign, and positive ones
  for (unsigned draw = 0; draw < draws; ++draw) {
    verify::CodeResult first = run(kernel, {}, draw);
    if (!first.failure.empty())
      return first.failure;
    for (const std::vector<int> &inPlace : places) {
      verify::CodeResult other = run(kernel, inPlace, draw, /*backwards=*/true);
      if (!other.failure.empty())
        return other.failure;
      if (other.stored != first.stored)
        return "the result depends on the order of threads, or on its place";
    }
  }
  return "";
}

void GpuKernels::expectMatch(dt::KernelOp kernel) {
  std::string fault = findFault(kernel), text;
  if (fault.empty())
    return;
  llvm::raw_string_ostream stream(text);
  kernel->print(stream, OpPrintingFlags().useLocalScope());
  ADD_FAILURE() << kernel.getName().str() << ": " << fault << "\n" << text;
}

} // namespace dtc::test
