#include "test/gpu/kernels.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/reference/Interpreter.h"
#include "passes/lower/KernelDomain.h"
#include "passes/lower/Target.h"
#include "passes/lower/cuda/GpuModule.h"
#include "passes/lower/cuda/GpuShape.h"
#include "runtime/abi/random.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace mlir;

namespace dtc::test {

/// What may not be touched behind each buffer, and what lies in memory that nobody has written.
static constexpr size_t guardBytes = 64, bufferAlignment = GpuShape::bufferAlignment;
static constexpr std::byte unwritten{0xff}; // a NaN

static const abi::ElementType &elementOf(Type type) { return dt::elementTypeOf(type); }
static int64_t sizeOf(Type type) { return cast<RankedTensorType>(type).getNumElements(); }

/// Element `index` of argument `argument`, as its type can hold it.
static double fill(unsigned argument, int64_t index, Type type) {
  double uniform = 4 * random::uniform(random::stream(0, argument, 0), index) - 2;
  Type element = getElementTypeOrSelf(type);
  if (element.isInteger(1))
    return uniform > 0;
  if (element.isInteger())
    return std::floor((uniform + 2) * 1.75);
  return abi::roundTo(elementOf(type), uniform);
}

static uint32_t bitsOf(double value, Type type) {
  Type element = getElementTypeOrSelf(type);
  if (element.isInteger())
    return static_cast<uint32_t>(static_cast<int32_t>(value));
  if (element.isF16())
    return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
  uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return element.isBF16() ? bits >> 16 : bits;
}

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

namespace {
/// Memory that begins where buffers do, and at no larger power of two.
struct AlignedBytes {
  std::vector<std::byte> storage;
  std::byte *data;
  size_t bytes;

  explicit AlignedBytes(size_t bytes) : storage(bytes + guardBytes + 2 * bufferAlignment, unwritten), bytes(bytes) {
    auto address = reinterpret_cast<uintptr_t>(storage.data());
    uintptr_t aligned = (address + 2 * bufferAlignment - 1) / (2 * bufferAlignment) * (2 * bufferAlignment);
    data = storage.data() + (aligned - address);
    data += aligned - bufferAlignment >= address ? -int64_t(bufferAlignment) : int64_t(bufferAlignment);
  }
};
} // namespace

std::vector<GpuKernels::Bytes> GpuKernels::run(dt::KernelOp kernel, ArrayRef<int> inPlace, std::string &fault) {
  FailureOr<KernelInterface> interface = describe(kernel);
  std::vector<AlignedBytes> memory;
  std::vector<DeviceBuffer> buffers;
  std::vector<uint64_t> arguments;
  auto add = [&](size_t bytes, bool isWritten, const std::string &name, bool isInput = false) {
    memory.emplace_back(bytes);
    buffers.push_back({memory.back().data, bytes, isWritten, isInput, name});
    arguments.push_back(reinterpret_cast<uint64_t>(memory.back().data));
  };
  for (auto [i, type] : llvm::enumerate(kernel.getArgumentTypes())) {
    add(dt::bytesOf(type), llvm::is_contained(inPlace, int(i)), "input " + std::to_string(i), /*isInput=*/true);
    for (int64_t j = 0; j < sizeOf(type); ++j) {
      uint32_t bits = bitsOf(fill(i, j, type), type);
      std::memcpy(memory.back().data + j * elementOf(type).bytes, &bits, elementOf(type).bytes);
    }
  }
  std::vector<std::byte *> outputs;
  for (auto [i, type] : llvm::enumerate(kernel.getResultTypes())) {
    bool isShared = i < inPlace.size() && inPlace[i] >= 0;
    if (isShared)
      arguments.push_back(arguments[inPlace[i]]);
    else
      add(dt::bytesOf(type), true, "output " + std::to_string(i));
    outputs.push_back(reinterpret_cast<std::byte *>(arguments.back()));
  }
  if (interface->scratchBytes > 0)
    add(interface->scratchBytes, true, "scratch");
  for (const dt::LaunchScalar &scalar : interface->scalars)
    arguments.push_back(scalar.kind == dt::LaunchScalar::Kind::RankIndex ? 0 : scalar.integer);
  for (const LaunchPass &pass : interface->passes) {
    auto same = shared.find(pass.function);
    ThreadFunction function = code->find(same == shared.end() ? pass.function : same->second);
    if (fault.empty())
      fault = function ? machine.launch(function, pass.blocks, pass.threads, arguments, buffers) : "has no function";
  }
  std::vector<Bytes> results;
  for (auto [output, type] : llvm::zip_equal(outputs, kernel.getResultTypes()))
    results.emplace_back(output, output + dt::bytesOf(type));
  return results;
}

std::string GpuKernels::compare(dt::KernelOp kernel, const std::vector<Bytes> &outputs, double tolerance) {
  dt::HostTensors arguments;
  for (auto [i, type] : llvm::enumerate(kernel.getArgumentTypes())) {
    dt::HostTensor &tensor = arguments.emplace_back(cast<RankedTensorType>(type).getShape());
    for (int64_t j = 0; j < tensor.size(); ++j)
      tensor[j] = fill(i, j, type);
  }
  FailureOr<KernelInterface> interface = describe(kernel);
  SmallVector<int64_t> sites;
  for (const dt::LaunchScalar &scalar : interface->scalars)
    if (scalar.kind == dt::LaunchScalar::Kind::Site && scalar.integer == int64_t(sites.size()))
      sites.push_back(scalar.integer);
  dt::RankContext rank;
  rank.sites = sites;
  rank.f64 = !rounds;
  FailureOr<dt::HostTensors> expected = dt::interpret(kernel, rank, arguments);
  if (failed(expected))
    return "the interpreter refuses it";
  for (auto [i, type] : llvm::enumerate(kernel.getResultTypes())) {
    const abi::ElementType &element = elementOf(type);
    double allowed = tolerance + (element.isFloating() ? std::ldexp(1.0, -element.fractionBits) : 0);
    for (int64_t j = 0; j < sizeOf(type); ++j) {
      double got = abi::readElement(element, outputs[i].data() + j * element.bytes), want = (*expected)[i][j];
      bool same = std::isnan(want) ? std::isnan(got)
                                   : got == want || std::abs(got - want) <= allowed * std::max(1.0, std::abs(want));
      if (!same)
        return "element " + std::to_string(j) + " of output " + std::to_string(i) + " is " + std::to_string(got) +
               ", not " + std::to_string(want);
    }
  }
  return "";
}

std::string GpuKernels::findFault(dt::KernelOp kernel, double tolerance) {
  if (!code)
    return "there is no code";
  std::string fault;
  std::vector<Bytes> forwards = run(kernel, {}, fault);
  if (fault.empty())
    fault = compare(kernel, forwards, tolerance);
  if (!fault.empty())
    return fault;
  machine.backwards = true;
  bool isSame = run(kernel, {}, fault) == forwards;
  machine.backwards = false;
  if (!fault.empty() || !isSame)
    return fault.empty() ? "the result depends on the order of threads" : fault;
  FailureOr<KernelInterface> interface = describe(kernel);
  for (size_t output = 0; output < interface->inPlace.size(); ++output)
    for (unsigned input : interface->inPlace[output]) {
      SmallVector<int> inPlace(forwards.size(), -1);
      inPlace[output] = int(input);
      bool isSame = run(kernel, inPlace, fault) == forwards;
      if (!fault.empty() || !isSame)
        return fault + " with output " + std::to_string(output) + " on input " + std::to_string(input);
    }
  return "";
}

void GpuKernels::expectMatch(dt::KernelOp kernel, double tolerance) {
  std::string fault = findFault(kernel, tolerance), text;
  if (fault.empty())
    return;
  llvm::raw_string_ostream stream(text);
  kernel->print(stream, OpPrintingFlags().useLocalScope());
  ADD_FAILURE() << kernel.getName().str() << ": " << fault << "\n" << text;
}

} // namespace dtc::test
