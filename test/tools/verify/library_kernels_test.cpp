// The f64 references of the library kernels against the kernels themselves, on strided buffers.
#include "tools/verify/LibraryKernels.h"

#include "runtime/abi/epilogue.h"
#include "runtime/kernels/cpu/kernels.h"

#include <bit>
#include <cmath>
#include <gmock/gmock.h>
#include <random>

namespace dtc::verify {
namespace {

int64_t real(double value) { return std::bit_cast<int64_t>(value); }

/// One operand: floats or small integers, in both number formats.
struct Operand {
  std::vector<float> native;
  std::vector<int32_t> integers;
  std::vector<double> reference;

  static Operand random(size_t size, unsigned seed) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    Operand operand;
    for (size_t i = 0; i < size; ++i)
      operand.native.push_back(uniform(engine));
    operand.reference.assign(operand.native.begin(), operand.native.end());
    return operand;
  }
  static Operand of(std::vector<int32_t> values) { return {{}, values, {values.begin(), values.end()}}; }
  abi::DataType type() const { return integers.empty() ? abi::F32 : abi::I32; }
  void *address() { return integers.empty() ? static_cast<void *>(native.data()) : integers.data(); }
};

/// Runs kernel and reference on the same operands and compares every float afterwards.
void expectSame(const char *symbol, std::vector<Operand> operands, const std::vector<int64_t> &scalars, int64_t grid) {
  LibraryLaunch launch;
  std::vector<void *> addresses;
  for (Operand &operand : operands) {
    launch.buffers.push_back({operand.reference.data(), int64_t(operand.reference.size()), operand.type()});
    addresses.push_back(operand.address());
  }
  launch.scalars = scalars;
  launch.grid = grid;
  ASSERT_TRUE(findLibraryReference(symbol));
  findLibraryReference(symbol)(launch);
  kernels::find(symbol)(addresses.data(), scalars.data(), 0, grid);
  for (size_t i = 0; i < operands.size(); ++i)
    for (size_t j = 0; j < operands[i].native.size(); ++j)
      ASSERT_NEAR(operands[i].native[j], operands[i].reference[j], 1e-5) << symbol << " buffer " << i << " at " << j;
}

/// Two rows of (1, 2) from A of one column and B of one row, with the contents of `other`.
std::vector<std::vector<double>> productWith(abi::Epilogue epilogue, std::vector<double> other) {
  const abi::EpilogueForm &form = *abi::findEpilogue(static_cast<int64_t>(epilogue));
  std::vector<std::vector<double>> memory = {{1, 1}, {1, 2}, std::move(other), {0, 0, 0, 0}, {0, 0, 0, 0}};
  LibraryLaunch launch;
  for (size_t i = 0; i < form.inputs() + form.outputs(); ++i)
    launch.buffers.push_back({memory[i].data(), int64_t(memory[i].size()), abi::F32});
  launch.scalars = {1, 2, 2, 1, 0, 0, 1, 2, 2, 0, 0, 0, 0, 0, abi::F32, abi::F32, int64_t(epilogue)};
  launch.grid = 2;
  findLibraryReference("dtc_cuda_product$bias")(launch);
  return memory;
}

// Two rows, both (1, 2) before the epilogue. GELU and its slope at 1 and 2 are numbers of Hendrycks and Gimpel's
// formula.
TEST(LibraryReferences, ProductsWithEpilogues) {
  using testing::DoubleNear, testing::ElementsAre;
  auto near = [](double value) { return DoubleNear(value, 1e-9); };
  EXPECT_THAT(productWith(abi::Epilogue::Accumulate, {10, 20, 30, 40})[3], ElementsAre(11, 22, 31, 42));
  EXPECT_THAT(productWith(abi::Epilogue::Bias, {10, 20})[3], ElementsAre(11, 22, 11, 22));
  auto gelu = productWith(abi::Epilogue::GeluBias, {0, -1});
  EXPECT_THAT(gelu[3],
              ElementsAre(near(0.841191990608), near(0.841191990608), near(0.841191990608), near(0.841191990608)));
  auto kept = productWith(abi::Epilogue::GeluAuxBias, {0, -1});
  EXPECT_THAT(kept[3], gelu[3]);
  EXPECT_THAT(kept[4], ElementsAre(1, 1, 1, 1));
  double slope = 1.0829640838;
  auto gradient = productWith(abi::Epilogue::GeluGradient, {1, 1, 1, 0})[3];
  EXPECT_THAT(gradient,
              ElementsAre(DoubleNear(slope, 1e-8), DoubleNear(2 * slope, 1e-8), DoubleNear(slope, 1e-8), near(1)));
}

TEST(LibraryReferences, ProductsMustBeConsistent) {
  double memory[8] = {};
  auto complaint = [&](size_t buffers, int64_t batch, int64_t epilogue, abi::DataType third) -> std::string {
    LibraryLaunch launch;
    for (size_t i = 0; i < buffers; ++i)
      launch.buffers.push_back({memory, 8, i == 2 ? third : abi::F32});
    launch.scalars = {batch, 2, 2, 1, 0, 0, 1, 2, 2, 0, 0, 0, 0, 0, abi::F32, abi::F32, epilogue};
    launch.grid = 2 * batch;
    try {
      findLibraryReference("dtc_cuda_product$bias")(launch);
    } catch (const ProgramFault &fault) {
      return fault.what();
    }
    return "";
  };
  EXPECT_EQ(complaint(4, 1, 2, abi::F32), "");
  EXPECT_EQ(complaint(3, 1, 2, abi::F32), "dtc_product: the count of buffers is 3, its scalars need 4");
  EXPECT_EQ(complaint(4, 2, 2, abi::F32), "dtc_product: the batch is 2, its scalars need 1");
  EXPECT_EQ(complaint(4, 1, 6, abi::F32), "dtc_product: there is no epilogue 6");
  EXPECT_EQ(complaint(4, 1, 2, abi::BF16), "dtc_product: a buffer is said to hold bf16, the kernel's f32");
}

TEST(LibraryReferences, GemmInAllTranspositionsWithStrides) {
  for (int64_t transposeA : {0, 1})
    for (int64_t transposeB : {0, 1}) {
      int64_t m = 3, n = 5, k = 4, lda = (transposeA ? m : k) + 1, ldb = (transposeB ? k : n) + 2, ldc = n + 3;
      int64_t sizeA = (transposeA ? k : m) * lda, sizeB = (transposeB ? n : k) * ldb, sizeC = m * ldc;
      expectSame("dtc_gemm",
                 {Operand::random(2 * sizeA, 1), Operand::random(2 * sizeB, 2), Operand::random(2 * sizeC, 3)},
                 {2, m, n, k, transposeA, transposeB, lda, ldb, ldc, sizeA, sizeB, sizeC, transposeA, 0, 0, 0}, 2 * m);
    }
}

// Queries, keys and values interleaved as a fused projection leaves them.
TEST(LibraryReferences, AttentionForwardAndBackward) {
  int64_t b = 2, s = 5, t = 5, g = 2, r = 2, e = 8, length = 8;
  std::vector<int64_t> queryStrides = {s * g * r * e, g * r * e, r * e, e},
                       keyStrides = {t * g * e * 2, g * e * 2, e * 2};
  std::vector<int64_t> scalars = {b, s, t, g, r, e};
  auto append = [&](const std::vector<int64_t> &values) {
    scalars.insert(scalars.end(), values.begin(), values.end());
  };
  append(queryStrides);
  append(keyStrides);
  append(keyStrides);
  append(queryStrides);
  append({real(0.3), 1, real(0.25), 7, 2, 1, 0, 4, 2, length, 0, 3, real(0.7), 0});
  size_t queries = size_t(b * s * g * r * e), keys = size_t(b * t * g * e * 2);
  std::vector<Operand> operands = {Operand::random(queries, 1),  Operand::random(keys, 2),
                                   Operand::random(keys, 3),     Operand::of({0, 1, 2, 3, 4}),
                                   Operand::of({0, 1, 2, 3, 4}), Operand::of({5, 6, 7, 0}),
                                   Operand::random(queries, 0),  Operand::random(size_t(b * g * r * s), 0)};
  expectSame("dtc_attention_forward", operands, scalars, b * g * r);
  for (auto [window, softcap] : {std::pair(int64_t(0), 0.7), std::pair(int64_t(2), 0.0), std::pair(int64_t(0), 0.0)}) {
    scalars[31] = window, scalars[32] = real(softcap);
    expectSame("dtc_attention_forward", operands, scalars, b * g * r);
  }
  scalars[31] = 3, scalars[32] = real(0.7);
  scalars[21] = 2; // the positions say the same
  expectSame("dtc_attention_forward", operands, scalars, b * g * r);

  // The backward pass recomputes probabilities from lse: give it true ones.
  LibraryLaunch forward{{}, scalars, b * g * r};
  for (Operand &operand : operands)
    forward.buffers.push_back({operand.reference.data(), int64_t(operand.reference.size()), operand.type()});
  findLibraryReference("dtc_attention_forward")(forward);
  for (int i : {6, 7})
    operands[i].native.assign(operands[i].reference.begin(), operands[i].reference.end());
  append(queryStrides);
  append(queryStrides);
  append(keyStrides);
  append(keyStrides);
  operands.push_back(Operand::random(queries, 4));
  operands.push_back(Operand::random(queries, 5));
  operands.push_back(Operand::random(keys, 6));
  operands.push_back(Operand::random(keys, 7));
  expectSame("dtc_attention_backward", operands, scalars, b * g);
}

TEST(LibraryReferences, RotaryBothWaysInPlace) {
  int64_t outer = 2, s = 3, inner = 2, e = 8;
  for (int64_t sign : {1, -1}) {
    std::vector<int64_t> strides = {s * inner * e, inner * e, e};
    expectSame("dtc_rotary",
               {Operand::random(size_t(outer * s * inner * e), 1), Operand::of({0, 3, 100}),
                Operand::random(size_t(outer * s * inner * e), 2)},
               {outer, s, inner, e, real(10000), sign, strides[0], strides[1], strides[2], strides[0], strides[1],
                strides[2], 0, 3, real(4), real(2), real(-0.2), real(0.1), real(1.2)},
               outer * s);
  }
}

TEST(LibraryReferences, GatherAndScatterAddSkipRowsOutside) {
  expectSame("dtc_gather", {Operand::random(4 * 3, 1), Operand::of({2, 5, 9, 0}), Operand::random(4 * 3, 2)},
             {4, 3, 2, 4}, 4);
  expectSame("dtc_scatter_add", {Operand::random(4 * 3, 1), Operand::of({2, 5, 2, 0}), Operand::random(4 * 3, 2)},
             {4, 3, 2, 4}, 3);
}

TEST(LibraryReferences, WriteRowsSkipsPositionsOutside) {
  expectSame("dtc_write_rows",
             {Operand::random(2 * 3 * 2 * 5, 1), Operand::of({3, 4, 0}), Operand::random(2 * 4 * 2 * 4, 2)},
             {2, 3, 2, 4, 4, 30, 10, 5, 4}, 6);
}

TEST(LibraryReferences, CopyWithStridesOffsetsAndALimit) {
  // Rows 3.. of a [5, 4] source as a [3, 4] piece, transposed into [4, 3]; the last row does not exist.
  expectSame("dtc_copy", {Operand::random(20, 1), Operand::random(13, 2)},
             {1, 1, 1, 1, 3, 4, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0, 1, 3, 12, 1, 5, 4, 3, 4}, 1);
}

TEST(LibraryReferences, FillReadsItsPatternAsItsBuffersType) {
  struct Case {
    abi::DataType type;
    int64_t bits, width;
    double value;
  };
  for (Case each : {Case{abi::F32, 0x3fc00000, 4, 1.5}, Case{abi::F32, 1, 4, 0x1p-149}, Case{abi::I32, -100, 4, -100},
                    Case{abi::MASK, 1, 4, 1}, Case{abi::BF16, 0xbfc0, 2, -1.5}, Case{abi::F16, 0x3e00, 2, 1.5},
                    Case{abi::I8, 0xff, 1, -1}}) {
    std::vector<double> out(3);
    LibraryLaunch launch{{{out.data(), 3, each.type}}, {each.bits, each.width}, 3};
    findLibraryReference("dtc_fill")(launch);
    EXPECT_EQ(out[2], each.value) << abi::nameOf(each.type);
    launch.scalars[1] = each.width + 1;
    EXPECT_THROW(findLibraryReference("dtc_fill")(launch), ProgramFault) << abi::nameOf(each.type);
  }
}

TEST(LibraryReferences, BuffersOfAnotherTypeThanTheKernelsAreAFault) {
  std::vector<double> x(12), i(4);
  auto run = [&](const char *symbol, abi::DataType first, abi::DataType second, abi::DataType third, int64_t width,
                 int64_t grid) {
    std::vector<int64_t> scalars = {4, 3, 0, width};
    findLibraryReference(symbol)(
        {{{x.data(), 12, first}, {i.data(), 4, second}, {x.data(), 12, third}}, scalars, grid});
  };
  EXPECT_NO_THROW(run("dtc_gather", abi::BF16, abi::I32, abi::BF16, 2, 4));
  EXPECT_THROW(run("dtc_gather", abi::BF16, abi::I32, abi::BF16, 4, 4), ProgramFault);
  EXPECT_THROW(run("dtc_gather", abi::BF16, abi::I32, abi::F16, 2, 4), ProgramFault);
  EXPECT_THROW(run("dtc_gather", abi::F32, abi::F32, abi::F32, 4, 4), ProgramFault);
  EXPECT_NO_THROW(run("dtc_scatter_add", abi::F32, abi::I32, abi::F32, 4, 3));
  EXPECT_THROW(run("dtc_scatter_add", abi::BF16, abi::I32, abi::BF16, 4, 3), ProgramFault);
}

/// A kernel that computes is told its element type, and its buffers must have it.
TEST(LibraryReferences, ElementsThatAreStatedOtherwiseAreAFault) {
  std::vector<double> x(4);
  auto run = [&](abi::DataType operands, abi::DataType result, int64_t stated, int64_t statedResult) {
    findLibraryReference("dtc_gemm")({{{x.data(), 4, operands}, {x.data(), 4, operands}, {x.data(), 4, result}},
                                      {1, 2, 2, 2, 0, 0, 2, 2, 2, 0, 0, 0, 0, 0, stated, statedResult},
                                      2});
  };
  EXPECT_NO_THROW(run(abi::BF16, abi::BF16, abi::BF16, abi::BF16));
  EXPECT_NO_THROW(run(abi::F16, abi::F32, abi::F16, abi::F32));
  EXPECT_THROW(run(abi::BF16, abi::BF16, abi::BF16, abi::F32), ProgramFault);
  EXPECT_THROW(run(abi::BF16, abi::BF16, abi::F16, abi::F16), ProgramFault);
  EXPECT_THROW(run(abi::F32, abi::BF16, abi::F32, abi::BF16), ProgramFault);
  EXPECT_THROW(run(abi::I32, abi::I32, abi::I32, abi::I32), ProgramFault);
  EXPECT_THROW(run(abi::F32, abi::F32, int64_t(1) << 32, 0), ProgramFault);
}

TEST(LibraryReferences, ReachingBeyondABufferIsAFault) {
  std::vector<double> table(12), indices(2), out(5);
  EXPECT_THROW(findLibraryReference("dtc_gather")(
                   {{{table.data(), 12}, {indices.data(), 2, abi::I32}, {out.data(), 5}}, {4, 3, 0, 4}, 2}),
               ProgramFault);
}

// A mask by index would hide other keys.
TEST(LibraryReferences, PositionsThatAreNotTheIndicesThatTheyAreSaidToBeAreAFault) {
  auto isFault = [](int64_t causal, std::vector<double> queries, std::vector<double> keys) {
    auto s = int64_t(queries.size()), t = int64_t(keys.size());
    std::vector<int64_t> scalars = {1, s, t, 1,       1,      2,       2 * s, 2, 2, 2, 2 * t, 2, 2, 2 * t, 2, 2, 2 * s,
                                    2, 2, 2, real(1), causal, real(0), 0,     0, 0, 0, 1,     1, 9, 0,     0, 0, 0};
    std::vector<std::vector<double>> memory = {std::vector<double>(2 * s, 1.0),
                                               std::vector<double>(2 * t, 1.0),
                                               std::vector<double>(2 * t, 1.0),
                                               queries,
                                               keys,
                                               std::vector<double>(4, 1.0),
                                               std::vector<double>(2 * s),
                                               std::vector<double>(s)};
    LibraryLaunch launch{{}, scalars, 1};
    for (std::vector<double> &buffer : memory)
      launch.buffers.push_back({buffer.data(), int64_t(buffer.size())});
    for (size_t index : {3, 4, 5})
      launch.buffers[index].type = abi::I32;
    try {
      findLibraryReference("dtc_attention_forward")(launch);
      return false;
    } catch (const ProgramFault &) {
      return true;
    }
  };
  EXPECT_FALSE(isFault(2, {4, 5, 6}, {4, 5, 6}));
  EXPECT_TRUE(isFault(2, {4, 5, 6}, {3, 4, 5}));
  EXPECT_TRUE(isFault(2, {4, 4, 6}, {4, 4, 6}));
  EXPECT_TRUE(isFault(2, {1, 2}, {1, 2, 3}));
  EXPECT_FALSE(isFault(1, {1, 2}, {1, 2, 3}));
  EXPECT_TRUE(isFault(3, {1, 2}, {1, 2}));
  EXPECT_TRUE(isFault(-1, {1, 2}, {1, 2}));
}

TEST(LibraryReferences, AGridThatDoesNotFitTheScalarsIsAFault) {
  struct Case {
    const char *symbol;
    std::vector<int64_t> sizes, scalars;
    int64_t grid;
    std::vector<size_t> integers = {}; ///< which buffers hold i32
  };
  std::vector<int64_t> attention = {1, 2, 2, 1,       1, 2,       4, 2, 2, 2, 4, 2, 2, 4, 2, 2, 4,
                                    2, 2, 2, real(1), 0, real(0), 0, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0};
  std::vector<int64_t> backward = attention;
  for (int64_t stride : {4, 2, 2, 2, 4, 2, 2, 2, 4, 2, 2, 4, 2, 2})
    backward.push_back(stride);
  std::vector<int64_t> copy(24);
  std::fill_n(copy.begin(), 6, 1);
  copy[1] = 3, copy[7] = copy[13] = 1, copy[20] = INT64_MAX, copy[23] = 4;
  std::vector<Case> cases = {
      {"dtc_gemm", {6, 6, 4}, {1, 2, 2, 3, 0, 0, 3, 2, 2, 6, 6, 4, 0, 0, 0, 0}, 2},
      {"dtc_attention_forward", {4, 4, 4, 2, 2, 4, 4, 2}, attention, 1, {3, 4, 5}},
      {"dtc_attention_backward", {4, 4, 4, 2, 2, 4, 4, 2, 4, 4, 4, 4}, backward, 1, {3, 4, 5}},
      {"dtc_rotary", {4, 2, 4}, {1, 2, 1, 2, real(10), 1, 4, 2, 2, 4, 2, 2, 0, 1, real(1), 0, 0, 0, real(1)}, 2, {1}},
      {"dtc_gather", {6, 2, 6}, {2, 3, 0, 4}, 2, {1}},
      {"dtc_scatter_add", {6, 2, 6}, {2, 3, 0, 2}, 3, {1}},
      {"dtc_write_rows", {4, 2, 6}, {1, 2, 1, 2, 3, 4, 2, 2, 4}, 2, {1}},
      {"dtc_copy", {3, 3}, copy, 3},
      {"dtc_fill", {3}, {0, 4}, 3}};
  for (const Case &each : cases) {
    std::vector<std::vector<double>> memory;
    for (int64_t size : each.sizes)
      memory.emplace_back(size, 1.0);
    LibraryLaunch launch;
    for (std::vector<double> &buffer : memory)
      launch.buffers.push_back({buffer.data(), int64_t(buffer.size())});
    for (size_t index : each.integers)
      launch.buffers[index].type = abi::I32;
    launch.scalars = each.scalars;
    launch.grid = each.grid;
    EXPECT_NO_THROW(findLibraryReference(each.symbol)(launch)) << each.symbol;
    for (int64_t grid : {int64_t(0), each.grid - 1, each.grid + 1, 2 * each.grid}) {
      launch.grid = grid;
      EXPECT_THROW(findLibraryReference(each.symbol)(launch), ProgramFault) << each.symbol << " grid " << grid;
    }
    launch.grid = each.grid;
    launch.scalars.push_back(0);
    EXPECT_THROW(findLibraryReference(each.symbol)(launch), ProgramFault) << each.symbol << " one scalar too many";
  }
}

} // namespace
} // namespace dtc::verify
