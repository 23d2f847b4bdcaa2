#include "test/passes/lower/support.h"
#include "dialect/IR/Ops.h"
#include "runtime/abi/random.h"

#include "mlir/Parser/Parser.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>

using namespace mlir;
using namespace dtc;
using namespace dtc::test;

/// Elements after each output that no kernel may touch.
static constexpr size_t guard = 64;
static constexpr uint32_t guardBits = 0xdeadbeef;

Fill dtc::test::randomFill(unsigned seed) {
  return [seed](unsigned argument, int64_t index) {
    return 4 * random::uniform(random::stream(seed, argument, 0), index) - 2;
  };
}

/// The value of an element of this type for a fill value.
static double rounded(double value, Type element) {
  if (element.isInteger(1))
    return value > 0;
  if (element.isInteger(32))
    return std::floor((value + 2) * 1.75);
  return static_cast<float>(value);
}

static uint32_t bitsOf(double value, Type element) {
  if (isa<FloatType>(element))
    return std::bit_cast<uint32_t>(static_cast<float>(value));
  return static_cast<uint32_t>(static_cast<int32_t>(value));
}

double dtc::test::valueOf(uint32_t bits, Type element) {
  return isa<FloatType>(element) ? std::bit_cast<float>(bits) : static_cast<int32_t>(bits);
}

CompiledKernels::CompiledKernels(const std::string &text, const std::string &target) {
  context.loadDialect<dt::DTDialect>();
  module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return;
  std::string why;
  FailureOr<CodeTarget> resolved = resolveTarget(target, why);
  EXPECT_TRUE(succeeded(resolved)) << why;
  SmallVector<dt::KernelOp> kernels(module->getOps<dt::KernelOp>());
  FailureOr<std::string> image = compileKernels(kernels, *resolved);
  if (succeeded(image))
    library = std::make_unique<KernelLibrary>(*image);
}

dt::KernelOp CompiledKernels::kernel(StringRef name) { return module->lookupSymbol<dt::KernelOp>(name); }

static RankedTensorType typeOf(Type type) { return cast<RankedTensorType>(type); }

std::vector<Buffer> CompiledKernels::run(StringRef name, const Fill &fill, int64_t piece, ArrayRef<int> inPlace) {
  dt::KernelOp op = kernel(name);
  FailureOr<KernelInterface> interface = describe(op);
  if (failed(interface) || !function(name)) {
    ADD_FAILURE() << "no kernel " << name.str();
    return {};
  }
  std::vector<Buffer> inputs, outputs(op.getResultTypes().size());
  for (auto [i, type] : llvm::enumerate(op.getArgumentTypes())) {
    Buffer &buffer = inputs.emplace_back(typeOf(type).getNumElements() + guard, guardBits);
    for (int64_t j = 0; j < typeOf(type).getNumElements(); ++j)
      buffer[j] = bitsOf(rounded(fill(i, j), typeOf(type).getElementType()), typeOf(type).getElementType());
  }
  std::vector<void *> buffers;
  for (Buffer &buffer : inputs)
    buffers.push_back(buffer.data());
  for (auto [i, type] : llvm::enumerate(op.getResultTypes())) {
    outputs[i].assign(typeOf(type).getNumElements() + guard, guardBits);
    bool shared = i < inPlace.size() && inPlace[i] >= 0;
    buffers.push_back(shared ? inputs[inPlace[i]].data() : outputs[i].data());
  }
  std::vector<int64_t> scalars;
  for (const dt::LaunchScalar &scalar : interface->scalars)
    scalars.push_back(scalar.kind == dt::LaunchScalar::Kind::RankIndex ? 0 : scalar.integer);
  int64_t step = piece > 0 ? piece : interface->grid;
  for (int64_t begin = 0; begin < interface->grid; begin += step)
    function(name)(buffers.data(), scalars.data(), begin, std::min(begin + step, interface->grid));
  for (auto [i, output] : llvm::enumerate(outputs)) {
    if (i < inPlace.size() && inPlace[i] >= 0)
      output = inputs[inPlace[i]];
    for (size_t j = output.size() - guard; j < output.size(); ++j)
      EXPECT_EQ(output[j], guardBits) << name.str() << " wrote past output " << i;
    output.resize(output.size() - guard);
  }
  return outputs;
}

std::vector<dt::HostTensor> CompiledKernels::reference(StringRef name, const Fill &fill) {
  dt::KernelOp op = kernel(name);
  dt::HostTensors arguments;
  for (auto [i, type] : llvm::enumerate(op.getArgumentTypes())) {
    dt::HostTensor &tensor = arguments.emplace_back(typeOf(type).getShape());
    for (int64_t j = 0; j < tensor.size(); ++j)
      tensor[j] = rounded(fill(i, j), typeOf(type).getElementType());
  }
  FailureOr<dt::HostTensors> results = dt::interpret(op, arguments);
  if (failed(results)) {
    ADD_FAILURE() << "the interpreter refuses " << name.str();
    return {};
  }
  return {results->begin(), results->end()};
}

void CompiledKernels::expectMatch(StringRef name, double tolerance, const Fill &fill) {
  ASSERT_TRUE(good());
  std::vector<dt::HostTensor> expected = reference(name, fill);
  std::vector<Buffer> whole = run(name, fill);
  ASSERT_EQ(whole.size(), expected.size());
  for (auto [i, output] : llvm::enumerate(whole)) {
    Type element = typeOf(kernel(name).getResultTypes()[i]).getElementType();
    ASSERT_EQ(static_cast<int64_t>(output.size()), expected[i].size());
    int wrong = 0;
    for (size_t j = 0; j < output.size() && wrong < 3; ++j) {
      double got = valueOf(output[j], element), want = expected[i][j];
      bool same = std::isnan(want) ? std::isnan(got)
                                   : got == want || std::abs(got - want) <= tolerance * std::max(1.0, std::abs(want));
      if (!same) {
        ADD_FAILURE() << name.str() << ": output " << i << " element " << j << " is " << got << ", not " << want;
        ++wrong;
      }
    }
  }
  EXPECT_EQ(run(name, fill, 3), whole) << name.str() << " depends on how its grid is cut";
  FailureOr<KernelInterface> interface = describe(kernel(name));
  for (size_t output = 0; output < interface->inPlace.size(); ++output)
    for (unsigned input : interface->inPlace[output]) {
      SmallVector<int> inPlace(whole.size(), -1);
      inPlace[output] = input;
      EXPECT_EQ(run(name, fill, 5, inPlace), whole)
          << name.str() << " differs with output " << output << " on input " << input;
    }
}
