// Products for GPUs, by a stand-in for cuBLASLt, against the processor's: random sizes, layouts, batches and places.
#include "runtime/device/cuda/products.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/error.h"
#include "runtime/kernels/kernels.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <random>

namespace dtc::cuda {
namespace {

constexpr size_t WorkspaceBytes = 8192;

class Products : public testing::Test {
protected:
  int64_t between(int64_t least, int64_t most) { return std::uniform_int_distribution(least, most)(random); }

  /// Elements at a place that is aligned to themselves only.
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

  /// Both on equal matrices; the processor's is the expectation.
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
  LibraryFunction function = makeProducts();
  for (int trial = 0; trial < 200; ++trial) {
    int64_t batch = between(1, 3), m = between(1, 20), n = between(1, 20), k = between(1, 40);
    bool transposeA = between(0, 1), transposeB = between(0, 1);
    auto operands = std::array{abi::F32, abi::BF16, abi::F16}[size_t(between(0, 2))];
    abi::DataType result = between(0, 1) ? operands : abi::F32;
    int64_t lda = (transposeA ? m : k) + between(0, 3), ldb = (transposeB ? k : n) + between(0, 3),
            ldc = n + between(0, 3);
    int64_t a = lda * (transposeA ? k : m), b = ldb * (transposeB ? n : k), c = ldc * m;
    // A matrix may serve all of a batch; the matrices of a result may lie side by side, row by row.
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

/// A view's one row may be nearer to the next than it is long.
TEST_F(Products, OfOneRow) {
  expectEqual(makeProducts(), {randomMemory(abi::F32, 9), randomMemory(abi::F32, 9 * 5), randomMemory(abi::F32, 5)},
              {1, 1, 5, 9, 0, 0, 1, 5, 1, 0, 0, 0, 0, 1, abi::F32, abi::F32});
}

// An algorithm that was found for one place would not do at another that is less aligned.
TEST_F(Products, OfOneShapeAtSeveralPlaces) {
  LibraryFunction function = makeProducts();
  for (int trial = 0; trial < 20; ++trial)
    expectEqual(function, {randomMemory(abi::BF16, 64), randomMemory(abi::BF16, 64), randomMemory(abi::BF16, 64)},
                {1, 8, 8, 8, 0, 0, 8, 8, 8, 0, 0, 0, 1, 0, abi::BF16, abi::BF16});
}

TEST_F(Products, SayWhatCannotBe) {
  LibraryFunction function = makeProducts();
  Memory matrix = randomMemory(abi::F32, 64);
  void *buffers[] = {matrix.at(0), matrix.at(0), matrix.at(0)};
  // Rows of A that lie over each other.
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

/// What `makeProducts` says of a library.
std::string complaintOf(const char *name) {
  const char *names[] = {name};
  try {
    makeProducts(names);
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

TEST(CublasLt, IsMissed) {
  std::string text = complaintOf("libcublasLt.so.999");
  EXPECT_THAT(text, testing::HasSubstr("it cannot be loaded: libcublasLt.so.999: cannot open shared object file"));
  EXPECT_THAT(text, testing::HasSubstr("install the cuBLAS of CUDA 12 or 13"));
}

TEST(CublasLt, MustHaveItsFunctions) {
  EXPECT_THAT(complaintOf("libm.so.6"), testing::HasSubstr("libm.so.6 has no function 'cublasLtGetVersion'; install"));
}

} // namespace
} // namespace dtc::cuda
