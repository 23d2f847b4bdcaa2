// Products for GPUs, by a stand-in for cuBLASLt, against the processor's: random sizes, layouts, batches and places.
#include "runtime/kernels/cuda/products.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/epilogue.h"
#include "runtime/kernels/cpu/kernels.h"
#include "runtime/support/error.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <random>

namespace dtc::cuda {
namespace {

constexpr size_t WorkspaceBytes = 8192;

/// The stand-in's.
LibraryFunction make(ProductChoices choices = {}) { return makeProducts(choices, cublaslt::namesFor(13000)); }

class Products : public testing::Test {
protected:
  int64_t between(int64_t least, int64_t most) { return std::uniform_int_distribution(least, most)(random); }

  /// Elements at an address that is aligned only to an element.
  struct Memory {
    abi::DataType type;
    int64_t count, shift;
    std::vector<std::byte> bytes;

    std::byte *at(int64_t i) { return bytes.data() + abi::bytesOf(type, shift + i); }
    double read(int64_t i) { return abi::readElement(abi::elementType(type), at(i)); }
  };

  Memory randomMemory(abi::DataType type, int64_t count) {
    Memory memory{type, count, between(0, 3), {}};
    memory.bytes.resize(abi::bytesOf(type, memory.shift + count));
    for (int64_t i = 0; i < count; ++i) {
      auto value = std::normal_distribution<float>()(random);
      auto bits = std::bit_cast<uint32_t>(value);
      if (type != abi::F32)
        bits = type == abi::BF16 ? bits >> 16 : std::bit_cast<uint16_t>(static_cast<_Float16>(value));
      std::memcpy(memory.at(i), &bits, abi::elementType(type).bytes);
    }
    return memory;
  }

  /// Both on equal matrices; the processor's result is the expectation.
  void expectEqual(const LibraryFunction &function, std::vector<Memory> matrices, const std::vector<int64_t> &scalars) {
    Memory expected = matrices[2];
    int64_t grid = scalars[0] * (scalars[13] ? scalars[2] : scalars[1]);
    void *processors[] = {matrices[0].at(0), matrices[1].at(0), expected.at(0)};
    kernels::find("dtc_gemm")(processors, scalars.data(), 0, grid);
    void *ours[] = {matrices[0].at(0), matrices[1].at(0), matrices[2].at(0)};
    function(context, ours, scalars);
    double ulp = std::ldexp(1.0, -abi::elementType(expected.type).fractionBits);
    for (int64_t i = 0; i < expected.count; ++i)
      ASSERT_NEAR(matrices[2].read(i), expected.read(i), 2e-5 + ulp * std::abs(expected.read(i))) << "element " << i;
  }

  std::mt19937 random{3};
  alignas(256) std::byte workspace[WorkspaceBytes];
  LibraryContext context{nullptr, reinterpret_cast<DevicePointer>(workspace), WorkspaceBytes};
};

TEST_F(Products, AreTheProcessors) {
  LibraryFunction function = make();
  for (int trial = 0; trial < 200; ++trial) {
    int64_t batch = between(1, 3), m = between(1, 20), n = between(1, 20), k = between(1, 40);
    bool transposeA = between(0, 1), transposeB = between(0, 1);
    auto operands = std::array{abi::F32, abi::BF16, abi::F16}[size_t(between(0, 2))];
    abi::DataType result = between(0, 1) ? operands : abi::F32;
    int64_t lda = (transposeA ? m : k) + between(0, 3), ldb = (transposeB ? k : n) + between(0, 3),
            ldc = n + between(0, 3);
    int64_t a = lda * (transposeA ? k : m), b = ldb * (transposeB ? n : k), c = ldc * m;
    // A matrix may serve a whole batch; the matrices of a result may be interleaved, row by row.
    int64_t strideA = between(0, 3) ? a + between(0, 2) : 0, strideB = between(0, 3) ? b + between(0, 2) : 0,
            strideC = c + between(0, 2);
    if (between(0, 3) == 0)
      strideC = ldc, ldc *= batch;
    SCOPED_TRACE("trial " + std::to_string(trial));
    expectEqual(function,
                {randomMemory(operands, a + (batch - 1) * strideA), randomMemory(operands, b + (batch - 1) * strideB),
                 randomMemory(result, (batch - 1) * strideC + (m - 1) * ldc + n)},
                {batch, m, n, k, transposeA, transposeB, lda, ldb, ldc, strideA, strideB, strideC, between(0, 1), n > m,
                 operands, result});
    if (HasFatalFailure())
      return;
  }
}

double geluOf(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

/// By the difference quotient.
double geluSlopeAt(double x) {
  constexpr double Step = 1e-5;
  return (geluOf(x + Step) - geluOf(x - Step)) / (2 * Step);
}

/// A product with an epilogue, and the plain product next to it.
struct EpilogueCase {
  abi::Epilogue epilogue;
  int64_t m, n, k;
  abi::DataType operands, result;

  std::vector<int64_t> scalars(bool isEpilogue, bool transposeA, bool transposeB) const {
    abi::DataType type = isEpilogue ? result : abi::F32;
    std::vector<int64_t> all = {1, m, n, k, transposeA, transposeB, transposeA ? m : k, transposeB ? k : n,
                                n, 0, 0, 0, 0,          n > m,      operands,           type};
    if (isEpilogue)
      all.push_back(int64_t(epilogue));
    return all;
  }
};

class ProductEpilogues : public Products, public testing::WithParamInterface<abi::EpilogueForm> {
protected:
  /// Whole tensors, as the compiler places what an epilogue reads and writes.
  Memory wholeMemory(abi::DataType type, int64_t count) {
    Memory memory = randomMemory(type, count);
    size_t bytes = abi::bytesOf(type, count);
    std::vector<std::byte> values(memory.at(0), memory.at(0) + bytes);
    memory.bytes.resize(bytes + 32);
    memory.shift = 0;
    while (reinterpret_cast<uintptr_t>(memory.at(0)) % 32 != 16)
      ++memory.shift;
    std::copy(values.begin(), values.end(), memory.at(0));
    return memory;
  }

  /// The form's result for an element of the plain product.
  double expect(double c, double other) const {
    switch (GetParam().epilogue) {
    case abi::Epilogue::Accumulate:
    case abi::Epilogue::Bias:
      return c + other;
    case abi::Epilogue::GeluBias:
    case abi::Epilogue::GeluAuxBias:
      return geluOf(c + other);
    case abi::Epilogue::GeluGradient:
      return c * geluSlopeAt(other);
    }
    return NAN;
  }

  void expectEpilogue(const LibraryFunction &function, const EpilogueCase &product, bool inPlace);
};

void ProductEpilogues::expectEpilogue(const LibraryFunction &function, const EpilogueCase &product, bool inPlace) {
  const abi::EpilogueForm &form = GetParam();
  auto [epilogue, m, n, k, operands, type] = product;
  bool transposeA = between(0, 1), transposeB = between(0, 1);
  Memory a = randomMemory(operands, m * k), b = randomMemory(operands, k * n), plain = randomMemory(abi::F32, m * n);
  void *plainBuffers[] = {a.at(0), b.at(0), plain.at(0)};
  kernels::find("dtc_gemm")(plainBuffers, product.scalars(false, transposeA, transposeB).data(), 0, std::max(m, n));

  Memory other = wholeMemory(type, form.hasBias ? n : m * n), result = wholeMemory(type, m * n),
         sum = wholeMemory(type, m * n);
  std::vector<double> before;
  for (int64_t i = 0; i < other.count; ++i)
    before.push_back(other.read(i));
  Memory &target = inPlace ? other : result;
  std::vector<void *> buffers = {a.at(0), b.at(0), other.at(0), target.at(0)};
  if (form.storesSum)
    buffers.push_back(sum.at(0));
  function(context, buffers, product.scalars(true, transposeA, transposeB));
  double ulp = std::ldexp(1.0, -abi::elementType(type).fractionBits);
  for (int64_t i = 0; i < m * n; ++i) {
    double c = plain.read(i), beside = before[size_t(form.hasBias ? i % n : i)];
    double wanted = expect(c, beside);
    ASSERT_NEAR(target.read(i), wanted, 5e-5 + ulp * std::abs(wanted)) << "element " << i;
    if (form.storesSum)
      ASSERT_NEAR(sum.read(i), c + beside, 5e-5 + ulp * std::abs(c + beside)) << "sum " << i;
  }
}

TEST_P(ProductEpilogues, AreThoseOfPlainLoops) {
  LibraryFunction function = make();
  const abi::EpilogueForm &form = GetParam();
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial));
    auto operands = std::array{abi::F32, abi::BF16, abi::F16}[size_t(between(0, 2))];
    bool isNarrow = form.storesSum || form.readsOperand; // rows of a multiple of eight
    EpilogueCase product{form.epilogue,  between(1, 20), isNarrow ? 8 * between(1, 3) : between(1, 20),
                         between(1, 40), operands,       form.accumulates && between(0, 1) ? abi::F32 : operands};
    expectEpilogue(function, product, form.accumulates && between(0, 1));
    if (HasFatalFailure())
      return;
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, ProductEpilogues, testing::ValuesIn(abi::EpilogueForms),
                         [](const auto &info) { return std::string(info.param.name); });

// The addresses that an epilogue reads are part of the operation, which all launches of a shape share.
TEST_F(Products, OfOneShapeHaveTheirOwnBiases) {
  LibraryFunction function = make();
  struct alignas(256) Row {
    float of[8];
  };
  Row a = {{1}}, b = {}, results[2] = {}, biases[2] = {{{1, 1, 1, 1, 1, 1, 1, 1}}, {{2, 2, 2, 2, 2, 2, 2, 2}}};
  for (int i : {0, 1}) {
    void *buffers[] = {&a, &b, &biases[i], &results[i]};
    function(context, buffers,
             std::vector<int64_t>{1, 1, 8, 1, 0, 0, 1, 8, 8, 0, 0, 0, 0, 1, abi::F32, abi::F32,
                                  int64_t(abi::Epilogue::Bias)});
  }
  EXPECT_THAT(results[0].of, testing::Each(1.0f));
  EXPECT_THAT(results[1].of, testing::Each(2.0f));
}

/// A view's only row may be closer to the next than it is long.
TEST_F(Products, OfOneRow) {
  expectEqual(make(), {randomMemory(abi::F32, 9), randomMemory(abi::F32, 9 * 5), randomMemory(abi::F32, 5)},
              {1, 1, 5, 9, 0, 0, 1, 5, 1, 0, 0, 0, 0, 1, abi::F32, abi::F32});
}

// 1 + 2^-11 has one bit more than TF32: it is lost where TF32 is requested, and only in f32.
TEST_F(Products, RoundToTf32WhereAsked) {
  auto product = [&](ProductChoices choices, abi::DataType type) {
    alignas(256) float a[8] = {1 + 0x1p-11f}, b[8] = {1 + 0x1p-9f}, c[8] = {};
    alignas(256) uint16_t narrowA[8] = {0x3f80}, narrowB[8] = {0x3f81}; // bf16: 1, 1 + 2^-7
    bool isWide = type == abi::F32;
    void *buffers[] = {isWide ? static_cast<void *>(a) : narrowA, isWide ? static_cast<void *>(b) : narrowB, c};
    make(choices)(context, buffers, std::vector<int64_t>{1, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, type, abi::F32});
    return c[0];
  };
  EXPECT_EQ(product({}, abi::F32), (1 + 0x1p-11f) * (1 + 0x1p-9f));
  EXPECT_EQ(product({.tf32 = true}, abi::F32), 1.0f * (1 + 0x1p-9f) + 0x1p-10f * (1 + 0x1p-9f));
  EXPECT_EQ(product({.tf32 = true}, abi::BF16), 1 + 0x1p-7f);
}

// An algorithm that was found for one address would not work at a less aligned one.
TEST_F(Products, OfOneShapeAtSeveralPlaces) {
  LibraryFunction function = make();
  for (int trial = 0; trial < 20; ++trial)
    expectEqual(function, {randomMemory(abi::BF16, 64), randomMemory(abi::BF16, 64), randomMemory(abi::BF16, 64)},
                {1, 8, 8, 8, 0, 0, 8, 8, 8, 0, 0, 0, 1, 0, abi::BF16, abi::BF16});
}

// The library refuses what dtc does not compile: rows of 12, and addresses that are multiples of only four bytes.
TEST_F(Products, EpiloguesHaveLimits) {
  LibraryFunction function = make();
  alignas(256) float a[16] = {}, b[64] = {}, x[64] = {}, result[64] = {};
  auto complaint = [&](int64_t n, float *place) -> std::string {
    void *buffers[] = {a, b, place, result};
    try {
      function(context, buffers,
               std::vector<int64_t>{1, 1, n, 1, 0, 0, 1, n, n, 0, 0, 0, 0, 1, abi::F32, abi::F32,
                                    int64_t(abi::Epilogue::GeluGradient)});
    } catch (const Error &error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(complaint(16, x), "");
  EXPECT_THAT(complaint(12, x), testing::HasSubstr("no algorithm for the product 1x12 from 1x1 and 1x12 with the "
                                                   "epilogue gelu_gradient"));
  EXPECT_THAT(complaint(16, x + 1), testing::HasSubstr("no algorithm for the product 1x16"));
}

TEST_F(Products, SayWhatIsInconsistent) {
  LibraryFunction function = make();
  alignas(256) float memory[64] = {};
  auto complaint = [&](size_t count, std::vector<int64_t> scalars) -> std::string {
    std::vector<void *> buffers(count, memory);
    try {
      function(context, buffers, scalars);
    } catch (const Error &error) {
      EXPECT_EQ(error.exitCode(), ExitCode::BadInput);
      return error.what();
    }
    return "";
  };
  std::vector<int64_t> scalars = {1, 2, 8, 2, 0, 0, 2, 8, 8, 0, 0, 0, 0, 1, abi::F32, abi::F32, 2};
  EXPECT_THAT(complaint(3, scalars), testing::HasSubstr("a product has 3 buffers, not 4"));
  scalars[0] = 2;
  EXPECT_THAT(complaint(4, scalars), testing::HasSubstr("a product has epilogue 2, a batch of 2"));
  scalars[0] = 1, scalars[16] = 9;
  EXPECT_THAT(complaint(4, scalars), testing::HasSubstr("a product has epilogue 9"));
  scalars.push_back(0);
  EXPECT_THAT(complaint(4, scalars), testing::HasSubstr("a product has 18 scalars, not 16 or 17"));
}

TEST_F(Products, SayWhatCannotBe) {
  LibraryFunction function = make();
  Memory matrix = randomMemory(abi::F32, 64);
  void *buffers[] = {matrix.at(0), matrix.at(0), matrix.at(0)};
  // Rows of A that overlap.
  int64_t scalars[] = {1, 4, 4, 4, 0, 0, 2, 4, 4, 0, 0, 0, 0, 0, abi::F32, abi::F32};
  try {
    function(context, buffers, scalars);
    FAIL() << "nothing was said";
  } catch (const Error &error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("no algorithm for the product 4x4 from 4x4 and 4x4: cuBLASLt says "
                                                 "CUBLAS_STATUS_NOT_SUPPORTED"));
    EXPECT_EQ(error.exitCode(), ExitCode::Runtime);
  }
}

/// The messages of `makeProducts` about a library.
std::string complaintOf(const char *name) {
  const char *names[] = {name};
  try {
    makeProducts({}, names);
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

TEST(CublasLt, IsMissed) {
  std::string text = complaintOf("libcublasLt.so.999");
  EXPECT_THAT(text, testing::HasSubstr("it cannot be used: libcublasLt.so.999: cannot open shared object file"));
  EXPECT_THAT(text, testing::HasSubstr("install the cuBLAS of CUDA 12 or 13"));
}

// An unusable library is no reason not to use another.
TEST(CublasLt, IsTheFirstThatWorks) {
  const char *names[] = {"libcublasLt.so.999", "libm.so.6", "libcublasLt.so.13"};
  EXPECT_NO_THROW(makeProducts({}, names));
  EXPECT_EQ(cublaslt::namesFor(12090).front(), std::string("libcublasLt.so.12"));
  EXPECT_EQ(cublaslt::namesFor(13010).front(), std::string("libcublasLt.so.13"));
}

TEST(CublasLt, MustHaveItsFunctions) {
  EXPECT_THAT(complaintOf("libm.so.6"), testing::HasSubstr("libm.so.6 has no function 'cublasLtGetVersion'; install"));
}

} // namespace
} // namespace dtc::cuda
