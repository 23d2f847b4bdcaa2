// Attention for GPUs against the interpreter in f64 and the processor's kernels: random sizes that do not divide
// evenly, strides, places, positions and masks, in each type.
#include "passes/lower/cuda/GpuModule.h"
#include "passes/lower/cuda/library/GpuAttention.h"
#include "runtime/abi/element_type.h"
#include "runtime/kernels/cpu/kernels.h"
#include "test/gpu/lowering.h"
#include "test/gpu/machine.h"
#include "tools/verify/LibraryKernels.h"

#include "mlir/IR/BuiltinOps.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;

namespace dtc::test {
namespace {

std::mt19937 random{11};

int64_t between(int64_t least, int64_t most) { return std::uniform_int_distribution(least, most)(random); }

/// Elements in memory, at an address that is aligned only to an element.
struct Memory {
  abi::DataType type = abi::F32;
  int64_t count = 0, shift = 0;
  std::vector<std::byte> bytes = {};

  static Memory of(abi::DataType type, int64_t count, bool aligned) {
    Memory memory{type, count, aligned ? 0 : between(1, 3)};
    memory.bytes.resize(abi::bytesOf(type, memory.shift + count));
    return memory;
  }
  std::byte *at(int64_t i) { return bytes.data() + abi::bytesOf(type, shift + i); }
  double read(int64_t i) { return abi::readElement(abi::elementType(type), at(i)); }
  void write(int64_t i, double value) {
    if (type == abi::I32) {
      auto number = static_cast<int32_t>(value);
      std::memcpy(at(i), &number, sizeof number);
      return;
    }
    double rounded = abi::roundTo(abi::elementType(type), value);
    auto bits = std::bit_cast<uint32_t>(static_cast<float>(rounded));
    if (type != abi::F32)
      bits = type == abi::BF16 ? bits >> 16 : std::bit_cast<uint16_t>(static_cast<_Float16>(rounded));
    std::memcpy(at(i), &bits, abi::elementType(type).bytes);
  }
};

struct Variant {
  const char *name;
  abi::DataType type;
  int64_t width;
  bool causal, dropout;
  int64_t window = 0;
  double softcap = 0;
  bool documents = false;
};

struct Sizes {
  int64_t batches, queries, keys, groups, repeats;
};

/// One call of both directions: its buffers and scalars.
class Problem {
public:
  Problem(const Variant &variant, const Sizes &sizes, bool aligned);

  dt::LibraryCall call(bool backward) const {
    dt::LibraryCall call;
    call.kernel = backward ? "attention_backward" : "attention_forward";
    for (size_t i = 0; i < (backward ? 48u : 34u); ++i)
      call.scalars.push_back(i == 20 || i == 22 || i == 32 ? dt::LaunchScalar::of(std::bit_cast<double>(scalars[i]))
                                                           : dt::LaunchScalar::of(scalars[i]));
    return call;
  }

  std::vector<Memory> buffers;
  std::vector<int64_t> scalars;

private:
  /// Random strides of [batch, sequence, group, repeat] rows of `width`, positions or heads first, and how many
  /// elements that takes.
  int64_t addStrides(int64_t sequence, bool isKeys, bool aligned) {
    int64_t repeats = isKeys ? 1 : sizes.repeats, row = variant.width + (aligned ? 4 * between(0, 1) : between(0, 3));
    int64_t r = row, g, s, b;
    if (between(0, 1))
      s = row, r = s * sequence, g = r * repeats, b = g * sizes.groups;
    else
      g = r * repeats, s = g * sizes.groups, b = s * sequence;
    scalars.insert(scalars.end(), {b, s, g});
    if (!isKeys)
      scalars.push_back(r);
    return b * sizes.batches;
  }
  void addRandom(abi::DataType type, int64_t count, double scale, bool aligned) {
    Memory &memory = buffers.emplace_back(Memory::of(type, count, aligned));
    for (int64_t i = 0; i < count; ++i)
      memory.write(i, scale * std::normal_distribution<double>()(random));
  }
  /// Ascending with jumps, or in any order.
  void addPositions(int64_t count, bool rising) {
    Memory &memory = buffers.emplace_back(Memory::of(abi::I32, count, false));
    std::vector<int64_t> positions(count);
    for (int64_t i = 0; i < count; ++i)
      positions[i] = 3 + i + i / 7;
    if (!rising)
      std::shuffle(positions.begin(), positions.end(), random);
    for (int64_t i = 0; i < count; ++i)
      memory.write(i, double(positions[i]));
  }

  const Variant &variant;
  const Sizes sizes;
};

Problem::Problem(const Variant &variant, const Sizes &sizes, bool aligned) : variant(variant), sizes(sizes) {
  auto [batches, queries, keys, groups, repeats] = sizes;
  scalars = {batches, queries, keys, groups, repeats, variant.width};
  int64_t q = addStrides(queries, false, aligned), k = addStrides(keys, true, aligned),
          v = addStrides(keys, true, aligned), out = addStrides(queries, false, aligned);
  double dropout = variant.dropout ? 0.3 : 0.0;
  scalars.insert(scalars.end(),
                 {std::bit_cast<int64_t>(0.9 / std::sqrt(double(variant.width))), variant.causal,
                  std::bit_cast<int64_t>(dropout), 17, 2, 1, 1, groups + 2, repeats + 1, 70000, variant.type,
                  variant.window, std::bit_cast<int64_t>(variant.softcap), variant.documents});
  int64_t dOut = addStrides(queries, false, aligned), dq = addStrides(queries, false, aligned),
          dk = addStrides(keys, true, aligned), dv = addStrides(keys, true, aligned);
  addRandom(variant.type, q, 2, aligned);
  addRandom(variant.type, k, 2, aligned);
  addRandom(variant.type, v, 1, aligned);
  bool rising = between(0, 2) > 0;
  addPositions(queries, rising);
  addPositions(keys, rising);
  Memory &key = buffers.emplace_back(Memory::of(abi::I32, 4, true));
  for (int64_t i = 0; i < 4; ++i)
    key.write(i, std::array{1234.0, 7.0, 5.0, 0.0}[i]);
  if (variant.documents) {
    Memory &starts = buffers.emplace_back(Memory::of(abi::I32, batches * queries, false));
    for (int64_t i = 0; i < batches * queries; ++i)
      starts.write(i, double(i % queries / 9 * 9));
  }
  addRandom(variant.type, out, 1, aligned);
  addRandom(abi::F32, batches * groups * repeats * queries, 1, false);
  addRandom(variant.type, dOut, 1, aligned);
  addRandom(variant.type, dq, 1, aligned);
  addRandom(variant.type, dk, 1, aligned);
  addRandom(variant.type, dv, 1, aligned);
}

/// In f64, from the same elements.
std::vector<std::vector<double>> runReference(const dt::LibraryCall &call, std::vector<Memory> buffers,
                                              const std::vector<int64_t> &scalars, int64_t grid) {
  std::vector<std::vector<double>> values(buffers.size());
  verify::LibraryLaunch launch;
  for (size_t i = 0; i < buffers.size(); ++i) {
    for (int64_t j = 0; j < buffers[i].count; ++j)
      values[i].push_back(buffers[i].read(j));
    launch.buffers.push_back({values[i].data(), buffers[i].count, buffers[i].type});
  }
  launch.scalars = scalars;
  launch.grid = grid;
  verify::findLibraryReference(("dtc_" + call.kernel).str())(launch);
  return values;
}

class GpuAttention : public testing::TestWithParam<Variant> {
protected:
  GpuAttention() { loadGpuDialects(context); }

  void compile(const Problem &problem) {
    OwningOpRef<ModuleOp> whole = ModuleOp::create(UnknownLoc::get(&context));
    OpBuilder builder = OpBuilder::atBlockEnd(whole->getBody());
    auto functions = gpu::GPUModuleOp::create(builder, whole->getLoc(), "attention");
    for (bool backward : {false, true})
      addGpuAttention(*dtc::GpuAttention::of(problem.call(backward)), functions);
    code = std::make_unique<GpuCodeOfThisMachine>(functions, machine.hooks());
    ASSERT_EQ(code->error, "");
  }

  /// All functions of a call, on the machine; returns the first error.
  std::string run(const dt::LibraryCall &call, std::vector<Memory> &buffers, const std::vector<int64_t> &scalars,
                  size_t inputs) {
    std::vector<uint64_t> arguments;
    std::vector<DeviceBuffer> given;
    for (size_t i = 0; i < buffers.size(); ++i) {
      arguments.push_back(reinterpret_cast<uint64_t>(buffers[i].at(0)));
      given.push_back({buffers[i].at(0), abi::bytesOf(buffers[i].type, buffers[i].count), i >= inputs, false,
                       "buffer " + std::to_string(i)});
    }
    dtc::GpuAttention kind = *dtc::GpuAttention::of(call);
    std::vector<std::byte> scratch(kind.scratchBytesOf(call));
    if (!scratch.empty()) {
      arguments.push_back(reinterpret_cast<uint64_t>(scratch.data()));
      given.push_back({scratch.data(), scratch.size(), true, false, "scratch"});
    }
    arguments.insert(arguments.end(), scalars.begin(), scalars.begin() + static_cast<ptrdiff_t>(call.scalars.size()));
    for (const LaunchPass &pass : kind.passesOf(call)) {
      ThreadFunction function = code->find(pass.function);
      if (!function)
        return "there is no function " + pass.function;
      if (std::string fault = machine.launch(function, pass.blocks, pass.threads, arguments, given); !fault.empty())
        return pass.function + ": " + fault;
    }
    return "";
  }

  /// Runs a direction on the first buffers of a problem, leaves there what the machine wrote, and compares it with the
  /// interpreter and the processor.
  void expectMatch(Problem &problem, bool backward, int64_t grid) {
    dt::LibraryCall call = problem.call(backward);
    size_t more = GetParam().documents ? 1 : 0, count = (backward ? 12 : 8) + more, inputs = (backward ? 9 : 6) + more;
    std::vector<Memory> buffers(problem.buffers.begin(), problem.buffers.begin() + static_cast<ptrdiff_t>(count));
    std::vector<int64_t> scalars(problem.scalars.begin(),
                                 problem.scalars.begin() + static_cast<ptrdiff_t>(call.scalars.size()));
    auto expected = runReference(call, buffers, scalars, grid);
    std::vector<Memory> others = buffers; // the processor's
    std::vector<void *> addresses;
    for (Memory &memory : others)
      addresses.push_back(memory.at(0));
    kernels::find(("dtc_" + call.kernel).str())(addresses.data(), scalars.data(), 0, grid);
    ASSERT_EQ(run(call, buffers, scalars, inputs), "");
    // Matrix units get weights that are rounded to the elements' type: single elements that are small next to their
    // terms are less exact; all together are as exact as their own rounding allows.
    double ulp = std::ldexp(1.0, -abi::elementType(GetParam().type).fractionBits);
    double factor = dtc::GpuAttention::of(call)->usesMatrixUnits() ? 5 : 1;
    for (size_t i = inputs; i < count; ++i) {
      bool isF32 = buffers[i].type == abi::F32;
      double tolerance = (isF32 ? 0 : factor * ulp) + 5e-5, errors = 0, squares = 0;
      for (int64_t j = 0; j < buffers[i].count; ++j) {
        double value = buffers[i].read(j), reference = expected[i][j], processors = others[i].read(j);
        double scale = std::max(1.0, std::abs(reference));
        ASSERT_TRUE(value == reference || std::abs(value - reference) <= tolerance * scale)
            << "element " << j << " of buffer " << i << ": " << value << ", expected " << reference
            << ", the processor's " << processors;
        ASSERT_TRUE(value == processors || std::abs(value - processors) <= tolerance * scale)
            << "element " << j << " of buffer " << i << ": " << value << ", the processor's " << processors;
        if (value != reference) // minus infinity is
          errors += (value - reference) * (value - reference);
        if (std::isfinite(reference))
          squares += reference * reference;
      }
      EXPECT_LE(std::sqrt(errors),
                ((isF32 ? 0 : ulp / 2) + 1e-5) * std::sqrt(squares + double(buffers[i].count) * 1e-2))
          << "buffer " << i;
    }
    std::copy(buffers.begin(), buffers.end(), problem.buffers.begin());
  }

  MLIRContext context;
  GpuMachine machine;
  std::unique_ptr<GpuCodeOfThisMachine> code;
};

TEST_P(GpuAttention, GivesWhatTheInterpreterAndTheProcessorGive) {
  const Sizes cases[] = {{1, 1, 1, 1, 1}, {2, 70, 70, 1, 2}, {1, 37, 130, 2, 1}, {1, 129, 65, 1, 3}};
  compile(Problem(GetParam(), cases[0], true));
  bool aligned = false;
  for (const Sizes &sizes : cases) {
    aligned = !aligned;
    Problem problem(GetParam(), sizes, aligned);
    machine.backwards = aligned;
    int64_t keyHeads = sizes.batches * sizes.groups;
    SCOPED_TRACE(std::to_string(sizes.queries) + " queries, " + std::to_string(sizes.keys) + " keys" +
                 (aligned ? ", aligned" : ""));
    expectMatch(problem, false, keyHeads * sizes.repeats);
    if (HasFatalFailure())
      return;
    expectMatch(problem, true, keyHeads);
    if (HasFatalFailure())
      return;
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, GpuAttention,
                         testing::Values(Variant{"f32_64_causal", abi::F32, 64, true, false},
                                         Variant{"f32_16", abi::F32, 16, false, false},
                                         Variant{"f32_72_dropout", abi::F32, 72, false, true},
                                         Variant{"f32_200", abi::F32, 200, false, false},
                                         Variant{"f32_10_causal", abi::F32, 10, true, false},
                                         Variant{"bf16_128_causal", abi::BF16, 128, true, false},
                                         Variant{"bf16_80_causal", abi::BF16, 80, true, false},
                                         Variant{"bf16_64_dropout", abi::BF16, 64, false, true},
                                         Variant{"f16_16_causal", abi::F16, 16, true, false},
                                         Variant{"bf16_40_causal_dropout", abi::BF16, 40, true, true},
                                         Variant{"f16_64_causal_dropout", abi::F16, 64, true, true},
                                         Variant{"f32_24_window", abi::F32, 24, true, false, 10},
                                         Variant{"bf16_64_window", abi::BF16, 64, true, true, 70},
                                         Variant{"f32_64_softcap", abi::F32, 64, false, false, 0, 2.0},
                                         Variant{"bf16_128_window_softcap", abi::BF16, 128, true, false, 30, 3.0},
                                         Variant{"f32_40_documents", abi::F32, 40, true, false, 0, 0, true},
                                         Variant{"bf16_64_window_documents", abi::BF16, 64, true, true, 20, 0, true}),
                         [](const testing::TestParamInfo<Variant> &info) { return info.param.name; });

} // namespace
} // namespace dtc::test
