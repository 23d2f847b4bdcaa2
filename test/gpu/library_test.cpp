// The GPU library against the processor's, bit by bit: random sizes, strides and places, every width of elements.
#include "passes/lower/cuda/GpuModule.h"
#include "passes/lower/cuda/library/GpuCopy.h"
#include "passes/lower/cuda/library/GpuLibrary.h"
#include "runtime/abi/element_type.h"
#include "runtime/abi/library/all.h"
#include "runtime/kernels/cpu/kernels.h"
#include "test/gpu/lowering.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace mlir;

namespace dtc::test {
namespace {

constexpr int64_t blocks = 3, threads = 256;

void write(float value, int64_t element, std::byte *to) {
  auto bits = std::bit_cast<uint32_t>(value);
  if (element == dtc_f32)
    std::memcpy(to, &bits, 4);
  uint16_t half = element == dtc_bf16 ? uint16_t(bits >> 16) : std::bit_cast<uint16_t>(_Float16(value));
  if (element != dtc_f32)
    std::memcpy(to, &half, 2);
}

/// The launches that a kernel consists of, and the scratch that they share.
struct Form {
  std::vector<std::string> functions;
  int64_t scratchBytes = 0;
};

class GpuLibrary : public testing::Test {
protected:
  GpuLibrary() {
    loadGpuDialects(context);
    compile(addGpuLibrary);
  }

  void compile(const std::function<void(gpu::GPUModuleOp)> &addFunctions) {
    OwningOpRef<ModuleOp> whole = ModuleOp::create(UnknownLoc::get(&context));
    OpBuilder builder = OpBuilder::atBlockEnd(whole->getBody());
    auto functions = gpu::GPUModuleOp::create(builder, whole->getLoc(), "library");
    addFunctions(functions);
    code = std::make_unique<GpuCodeOfThisMachine>(functions, machine.hooks());
    EXPECT_EQ(code->error, "");
  }

  int64_t between(int64_t least, int64_t most) { return std::uniform_int_distribution(least, most)(random); }

  std::vector<std::byte> randomBytes(int64_t size) {
    std::vector<std::byte> bytes(size);
    for (std::byte &each : bytes)
      each = std::byte(between(0, 255));
    return bytes;
  }

  using Same = std::function<bool(const std::vector<std::byte> &, const std::vector<std::byte> &)>;

  /// Runs both on equal buffers, of which the last is written, and expects equal bytes, or results that `same` accepts
  /// as equal.
  void expectEqual(const std::string &name, std::vector<std::vector<std::byte>> buffers, std::vector<int64_t> scalars,
                   int64_t grid, const Same &same = std::equal_to<>(), Form form = {}) {
    if (form.functions.empty())
      form.functions = {"dtc_cuda_" + name};
    std::vector<std::byte> scratch = randomBytes(form.scratchBytes);
    std::vector<std::byte> expected = buffers.back();
    std::vector<void *> addresses;
    std::vector<uint64_t> arguments;
    std::vector<DeviceBuffer> given;
    for (size_t i = 0; i < buffers.size(); ++i) {
      bool isLast = i + 1 == buffers.size();
      addresses.push_back(isLast ? expected.data() : buffers[i].data());
      arguments.push_back(reinterpret_cast<uint64_t>(buffers[i].data()));
      given.push_back({buffers[i].data(), buffers[i].size(), isLast, false, "buffer " + std::to_string(i)});
    }
    dtc_kernel_fn reference = kernels::find("dtc_" + name);
    ASSERT_NE(reference, nullptr);
    reference(addresses.data(), scalars.data(), 0, grid);
    if (form.scratchBytes > 0) {
      arguments.push_back(reinterpret_cast<uint64_t>(scratch.data()));
      given.push_back({scratch.data(), scratch.size(), true, false, "scratch"});
    }
    for (int64_t scalar : scalars)
      arguments.push_back(static_cast<uint64_t>(scalar));
    arguments.push_back(static_cast<uint64_t>(grid));
    arguments.push_back(blocks * threads);
    for (const std::string &each : form.functions) {
      ThreadFunction function = code->find(each);
      ASSERT_NE(function, nullptr);
      ASSERT_EQ(machine.launch(function, blocks, threads, arguments, given), "");
    }
    EXPECT_TRUE(same(buffers.back(), expected)) << name;
  }

  MLIRContext context;
  GpuMachine machine;
  std::unique_ptr<GpuCodeOfThisMachine> code;
  std::mt19937 random{7};
};

/// Launches give a function its buffers, the scalars of the kernel's table, the grid and the number of threads.
TEST_F(GpuLibrary, TakesTheArgumentsOfTheTables) {
  OwningOpRef<ModuleOp> whole = ModuleOp::create(UnknownLoc::get(&context));
  OpBuilder builder = OpBuilder::atBlockEnd(whole->getBody());
  auto functions = gpu::GPUModuleOp::create(builder, whole->getLoc(), "library");
  addGpuLibrary(functions);
  int found = 0;
  for (const abi::library::KernelTable *table : abi::library::allKernels) {
    auto function = functions.lookupSymbol<gpu::GPUFuncOp>("dtc_cuda_" + std::string(table->name));
    if (!function) // specialized for each shape, or of several functions
      continue;
    ++found;
    size_t pointers = llvm::count_if(function.getArgumentTypes(), llvm::IsaPred<LLVM::LLVMPointerType>);
    EXPECT_EQ(pointers, table->operands.size()) << table->name.data();
    EXPECT_EQ(function.getNumArguments() - pointers, table->scalars.size() + 2) << table->name.data();
  }
  EXPECT_EQ(found, 3) << "fill, gather and copy of any shape";
}

TEST_F(GpuLibrary, FillsElementsOfEachWidth) {
  for (int64_t width : {1, 2, 4})
    for (int64_t elements : {1, 767, 769, 2000})
      expectEqual("fill", {randomBytes(elements * width)}, {between(INT32_MIN, INT32_MAX), width}, elements);
}

TEST_F(GpuLibrary, GathersRowsAndZerosForThoseOfOthers) {
  for (int64_t width : {1, 2, 4})
    for (int trial = 0; trial < 5; ++trial) {
      int64_t rows = between(1, 9), columns = between(1, 70), count = between(1, 30), first = between(0, 5);
      std::vector<std::byte> indices(count * 4);
      for (int64_t i = 0; i < count; ++i)
        reinterpret_cast<int32_t *>(indices.data())[i] = int32_t(between(0, 15));
      expectEqual("gather", {randomBytes(rows * columns * width), indices, randomBytes(count * columns * width)},
                  {rows, columns, first, width}, count);
    }
}

/// Tables of one row of digits and of more, indices that are all different, and rows with many updates.
TEST_F(GpuLibrary, AddsUpdatesInTheirOrder) {
  for (int trial = 0; trial < 8; ++trial) {
    bool isLong = trial < 2, isLarge = trial % 2;
    int64_t rows = isLarge ? between(200, 300) : between(1, 9), columns = between(1, isLong ? 40 : 1100);
    int64_t count = isLong ? 1500 : between(1, 30), first = between(0, 5);
    std::vector<std::byte> indices(count * 4), updates(count * columns * 4), out(rows * columns * 4);
    for (int64_t i = 0; i < count; ++i)
      reinterpret_cast<int32_t *>(indices.data())[i] = int32_t(between(0, isLarge && i % 4 ? 320 : 15));
    for (auto *each : {&updates, &out})
      for (size_t i = 0; i < each->size() / 4; ++i)
        reinterpret_cast<float *>(each->data())[i] = std::normal_distribution<float>()(random);
    expectEqual("scatter_add", {updates, indices, out}, {rows, columns, first, count}, columns, std::equal_to<>(),
                {{"dtc_cuda_scatter_sort_lower", "dtc_cuda_scatter_sort_upper", "dtc_cuda_scatter_sums"}, count * 16});
  }
}

/// A copy of a random box between random places of two dense boxes, with dimensions swapped, whose source may end early
/// along one of them.
TEST_F(GpuLibrary, CopiesBetweenStridesAndWritesZerosBeyondTheEnd) {
  constexpr int rank = 6;
  struct Trial {
    GpuCopy copy;
    std::vector<int64_t> scalars;
    int64_t read, written;
  };
  std::vector<Trial> trials;
  for (int trial = 0; trial < 90; ++trial) {
    int64_t width = int64_t(1) << between(0, 2), read = 1, written = 1;
    bool isWide = trial % 2; // whole rows, often of many elements
    std::vector<int64_t> sizes(rank), from(rank), to(rank), order(rank);
    for (int dim = 0; dim < rank; ++dim) {
      sizes[dim] = isWide && dim == rank - 1 ? 4 * between(1, 6) : between(1, 4);
      order[dim] = dim;
    }
    // Rows at distances that suit any width, though not all rows do.
    auto apart = [&](int64_t dim) { return dim == rank - 1 ? (sizes[dim] + 15) / 16 * 16 : sizes[dim]; };
    std::shuffle(order.begin(), isWide ? order.end() - 1 : order.end(), random);
    for (int dim = rank - 1; dim >= 0; --dim) {
      from[dim] = read;
      read *= isWide ? apart(dim) : sizes[dim] + between(0, 1);
      to[order[dim]] = written;
      written *= isWide ? apart(order[dim]) : sizes[order[dim]] + between(0, 1);
    }
    int64_t limited = between(0, rank - 1), begin = between(0, 3);
    int64_t readOffset = between(0, 1) * between(0, 3), writtenOffset = between(0, 1) * between(0, 3);
    bool isWhole = trial % 3 == 0;
    int64_t available = isWhole ? INT64_MAX : begin + between(-2, sizes[limited]);
    std::vector<int64_t> scalars = sizes;
    scalars.insert(scalars.end(), from.begin(), from.end());
    scalars.insert(scalars.end(), to.begin(), to.end());
    scalars.insert(scalars.end(), {readOffset, writtenOffset, available, limited, begin, width});
    expectEqual("copy", {randomBytes((read + readOffset) * width), randomBytes((written + writtenOffset) * width)},
                scalars, sizes[0] * sizes[1]);
    trials.push_back({GpuCopy(sizes, from, to, isWhole ? -1 : int(limited), width), scalars, read + readOffset,
                      written + writtenOffset});
  }
  compile([&](gpu::GPUModuleOp functions) {
    std::set<std::string> known;
    for (const Trial &trial : trials)
      if (known.insert(trial.copy.name()).second)
        addGpuCopy(trial.copy, functions);
  });
  for (const auto &[copy, scalars, read, written] : trials) {
    SCOPED_TRACE(copy.name());
    expectEqual("copy", {randomBytes(read * copy.bytes), randomBytes(written * copy.bytes)}, scalars,
                scalars[0] * scalars[1], std::equal_to<>(), {{copy.name()}});
  }
}

/// Adjacent dimensions are merged into one, and rows of 16 bytes are moved at once.
TEST_F(GpuLibrary, CopiesWhatFollowsEachOtherAsOne) {
  auto text = [](GpuCopy copy) { return copy.name() + " by " + std::to_string(copy.elementsAtOnce()); };
  // [2, 3, 1, 1, 4, 64] with the first two swapped.
  EXPECT_EQ(text({{2, 3, 1, 1, 4, 64}, {768, 256, 0, 0, 64, 1}, {256, 512, 0, 0, 64, 1}, -1, 2}),
            "dtc_cuda_copy$2_2r768w256_3r256w512_256r1w1 by 8");
  EXPECT_EQ(text({{2, 3, 1, 1, 4, 64}, {768, 256, 0, 0, 64, 1}, {768, 256, 0, 0, 64, 1}, -1, 4}),
            "dtc_cuda_copy$4_1536r1w1 by 4");
  EXPECT_EQ(text({{2, 3, 1, 1, 4, 64}, {768, 256, 0, 0, 64, 1}, {768, 256, 0, 0, 64, 1}, 4, 4}),
            "dtc_cuda_copy$4_6r256w256_4r64w64_64r1w1_e1 by 4");
  EXPECT_EQ(text({{2, 3, 1, 1, 1, 63}, {189, 63, 0, 0, 0, 1}, {192, 64, 0, 0, 0, 1}, -1, 2}),
            "dtc_cuda_copy$2_6r63w64_63r1w1 by 1");
}

/// An embedding of random positions up to a million, forward and backward, of each type, with strides. Angles in f64
/// from another method may round to a neighbour in f32.
TEST_F(GpuLibrary, TurnsPairsByTheirAngles) {
  struct Type {
    int64_t number, width;
    double tolerance;
  };
  for (Type type : {Type{dtc_f32, 4, 0x1p-22}, Type{dtc_bf16, 2, 0x1p-7}, Type{dtc_f16, 2, 0x1p-10}})
    for (int trial = 0; trial < 6; ++trial) {
      int64_t outer = between(1, 3), length = between(1, 9), inner = between(1, 3), half = between(1, 40);
      int64_t row = 2 * half + between(0, 3), plane = inner * row, whole = length * plane;
      const abi::ElementType &element = abi::elementType(abi::DataType(type.number));
      std::vector<std::byte> x(outer * whole * type.width), positions(length * 4), out(x.size());
      for (size_t i = 0; i < x.size() / type.width; ++i)
        write(std::normal_distribution<float>()(random), type.number, x.data() + i * type.width);
      for (int64_t s = 0; s < length; ++s)
        reinterpret_cast<int32_t *>(positions.data())[s] = int32_t(between(0, trial < 3 ? 100 : 1000000));
      auto close = [&](const std::vector<std::byte> &a, const std::vector<std::byte> &b) {
        for (size_t i = 0; i < a.size() / type.width; ++i)
          if (std::abs(abi::readElement(element, a.data() + i * type.width) -
                       abi::readElement(element, b.data() + i * type.width)) > 4 * type.tolerance)
            return false;
        return true;
      };
      double theta = trial % 2 ? 10000.0 : 500000.0;
      // Llama 3.1's share, and some of the pairs.
      int64_t pairs = trial % 3 ? half : (half + 1) / 2;
      auto bits = [](double value) { return std::bit_cast<int64_t>(value); };
      expectEqual("rotary", {x, positions, out},
                  {outer, length, inner, 2 * half, bits(theta), trial % 2 ? 1 : -1, whole, plane, row, whole, plane,
                   row, type.number, pairs, bits(8), bits(434.6), bits(trial % 2 ? 0.01 : 0), bits(-1.0 / 3),
                   bits(trial % 2 ? 1.2 : 1)},
                  outer * length, close, {{"dtc_cuda_rotary_angles", "dtc_cuda_rotary_pairs"}, length * half * 8});
    }
}

double geluOf(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

/// Each epilogue after its product, whose rows may have gaps, next to plain formulas; the slope by a difference
/// quotient.
TEST_F(GpuLibrary, FinishesProductsAsTheirEpiloguesDo) {
  constexpr double Step = 1e-5;
  for (const abi::EpilogueForm &form : abi::EpilogueForms) {
    if (form.accumulates)
      continue;
    for (auto type : {abi::F32, abi::BF16, abi::F16}) {
      SCOPED_TRACE(std::string(form.name) + " " + std::to_string(type));
      const abi::ElementType &element = abi::elementType(type);
      int64_t m = between(1, 9), n = between(1, 40), leading = n + between(0, 3), size = m * leading;
      auto randomMatrix = [&](int64_t elements) {
        std::vector<std::byte> matrix(elements * element.bytes);
        for (int64_t i = 0; i < elements; ++i)
          write(std::normal_distribution<float>()(random), type, matrix.data() + i * element.bytes);
        return matrix;
      };
      std::vector<std::byte> other = randomMatrix(form.hasBias ? n : size), result = randomMatrix(size), sum = result;
      std::vector<std::byte> product = result;
      std::vector<uint64_t> arguments = {0, 0, reinterpret_cast<uint64_t>(other.data()),
                                         reinterpret_cast<uint64_t>(result.data())};
      std::vector<DeviceBuffer> given = {{other.data(), other.size(), false, false, "the other"},
                                         {result.data(), result.size(), true, false, "the result"}};
      if (form.storesSum) {
        arguments.push_back(reinterpret_cast<uint64_t>(sum.data()));
        given.push_back({sum.data(), sum.size(), true, false, "the sum"});
      }
      for (int64_t scalar : {int64_t(1), m, n, int64_t(7), int64_t(0), int64_t(0), int64_t(7), n, leading, int64_t(0),
                             int64_t(0), int64_t(0), int64_t(0), int64_t(1), int64_t(type), int64_t(type),
                             int64_t(form.epilogue), int64_t(1), blocks * threads})
        arguments.push_back(uint64_t(scalar));
      ThreadFunction function = code->find("dtc_cuda_product$" + std::string(form.name));
      ASSERT_NE(function, nullptr);
      ASSERT_EQ(machine.launch(function, blocks, threads, arguments, given), "");
      auto read = [&](const std::vector<std::byte> &matrix, int64_t at) {
        return abi::readElement(element, matrix.data() + at * element.bytes);
      };
      double ulp = std::ldexp(1.0, -element.fractionBits);
      for (int64_t i = 0; i < size; ++i) {
        double c = read(product, i), beside = read(other, form.hasBias ? i % leading % n : i), wanted = c + beside;
        bool isThere = i % leading < n;
        if (form.storesSum && isThere)
          ASSERT_NEAR(read(sum, i), wanted, ulp * std::abs(wanted) + 1e-6) << i;
        if (form.hasGelu)
          wanted = geluOf(wanted);
        if (form.readsOperand)
          wanted = c * (geluOf(beside + Step) - geluOf(beside - Step)) / (2 * Step);
        ASSERT_NEAR(read(result, i), isThere ? wanted : c, isThere ? ulp * std::abs(wanted) + 1e-5 : 0) << i;
      }
    }
  }
}

} // namespace
} // namespace dtc::test
