// Generated code on bf16 and f16: loads widen, everything between is f32, stores and conversions round to the nearest,
// ties to even.
#include "runtime/abi/element_type.h"
#include "test/passes/lower/support.h"

#include "dialect/IR/Ops.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>

namespace dtc::test {
namespace {

struct Case {
  const char *target;
  abi::DataType type;
};

class Narrow : public testing::TestWithParam<Case> {
protected:
  /// The text with `T` for the type under test, compiled.
  void compile(std::string text) {
    std::string name(row.name);
    for (const char *place : {"xT>", "<T>"})
      for (size_t at = 0; (at = text.find(place, at)) != std::string::npos;)
        text.replace(at + 1, 1, name);
    kernels = std::make_unique<CompiledKernels>(text, GetParam().target);
    ASSERT_TRUE(kernels->good());
  }

  void run(const char *name, const std::vector<void *> &buffers) {
    FailureOr<KernelInterface> interface = describe(kernels->kernel(name));
    ASSERT_TRUE(succeeded(interface));
    std::vector<int64_t> scalars;
    for (const mlir::dt::LaunchScalar &scalar : interface->scalars)
      scalars.push_back(scalar.integer);
    kernels->function(name)(buffers.data(), scalars.data(), 0, interface->grid);
  }

  double valueOf(uint16_t bits) const { return abi::readElement(row, reinterpret_cast<const std::byte *>(&bits)); }

  template <typename T> using FailureOr = mlir::FailureOr<T>;
  const abi::ElementType &row = abi::elementType(GetParam().type);
  std::unique_ptr<CompiledKernels> kernels;
};

/// All 65,536 bit patterns, in whole vectors.
TEST_P(Narrow, WidensEveryNumberExactly) {
  compile(R"(dt.kernel @widen(%x: tensor<65536xT>) -> tensor<65536xf32> {
    %y = dt.convert %x : tensor<65536xT> -> tensor<65536xf32>
    dt.yield %y : tensor<65536xf32>
  })");
  std::vector<uint16_t> x(65536);
  std::vector<float> y(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<uint16_t>(i);
  run("widen", {x.data(), y.data()});
  for (size_t i = 0; i < x.size(); ++i)
    if (double want = valueOf(x[i]); std::isnan(want))
      ASSERT_TRUE(std::isnan(y[i])) << i;
    else
      ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(static_cast<float>(want))) << i;
}

/// Each number of the type, halfway to the next, and one step of f32 to either side; 197 at a time: vectors and a tail.
TEST_P(Narrow, RoundsToTheNearestWithTiesToEven) {
  compile(R"(dt.kernel @narrow(%x: tensor<197xf32>) -> tensor<197xT> {
    %y = dt.convert %x : tensor<197xf32> -> tensor<197xT>
    dt.yield %y : tensor<197xT>
  })");
  std::vector<float> all = {NAN, -NAN, INFINITY, -INFINITY, 3.4e38f, -3.4e38f, 65519.9f, 65520.0f, 1e-45f, 0.0f, -0.0f};
  for (uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu}) // rounding would carry out of NaN
    all.push_back(std::bit_cast<float>(bits));
  for (uint32_t bits = 0; bits + 1 < 65536; ++bits) {
    double number = valueOf(static_cast<uint16_t>(bits)), next = valueOf(static_cast<uint16_t>(bits + 1));
    if (!std::isfinite(number) || !std::isfinite(next))
      continue;
    auto half = static_cast<float>((number + next) / 2);
    all.insert(all.end(),
               {static_cast<float>(number), half, std::nextafter(half, -1e30f), std::nextafter(half, 1e30f)});
  }
  std::vector<uint16_t> y(197 + 16, 0xdead);
  for (size_t begin = 0; begin < all.size(); begin += 197) {
    std::vector<float> x(197);
    std::copy_n(all.begin() + begin, std::min<size_t>(197, all.size() - begin), x.begin());
    run("narrow", {x.data(), y.data()});
    for (size_t i = 0; i < x.size(); ++i)
      if (double want = abi::roundTo(row, x[i]); std::isnan(want))
        ASSERT_TRUE(std::isnan(valueOf(y[i])));
      else
        ASSERT_TRUE(valueOf(y[i]) == want && std::signbit(valueOf(y[i])) == std::signbit(want))
            << x[i] << " became " << valueOf(y[i]) << ", not " << want;
  }
  EXPECT_EQ(y[197], 0xdead);
}

/// Rows with a broadcast vector, a sum of each row and of all, f32 next to 16 bits, a mask and a constant that 16 bits
/// cannot hold: one rounding, where a value is stored, and its readers get the rounded value.
TEST_P(Narrow, RoundsOnceWhereAValueIsStored) {
  compile(R"(dt.kernel @rows(%x: tensor<5x37xT>, %b: tensor<37xT>, %f: tensor<5x37xT>)
      -> (tensor<5x37xT>, tensor<5xT>, tensor<5xf32>) {
    %c = dt.constant dense<1.5> : tensor<5x37xT>
    %scaled = dt.mul %x, %c : tensor<5x37xT>
    %more = dt.add %scaled, %f : tensor<5x37xT>
    %rows = dt.broadcast %b dims [1] : tensor<37xT> -> tensor<5x37xT>
    %y = dt.add %more, %rows : tensor<5x37xT>
    %m = dt.compare gt %y, %rows : tensor<5x37xT> -> tensor<5x37xi1>
    %z = dt.select %m, %y, %x : tensor<5x37xi1>, tensor<5x37xT>
    %s = dt.reduce sum %z over [1] : tensor<5x37xT> -> tensor<5xT>
    %t = dt.reduce sum %z over [1] : tensor<5x37xT> -> tensor<5xf32>
    dt.yield %z, %s, %t : tensor<5x37xT>, tensor<5xT>, tensor<5xf32>
  })");
  std::vector<uint16_t> x(5 * 37), b(37), f(5 * 37), z(5 * 37), s(5);
  std::vector<float> t(5);
  auto bitsOf = [&](int i) { return static_cast<uint16_t>(0x3c00 + i * 7 % 0x400); };
  for (int i = 0; i < 5 * 37; ++i)
    x[i] = bitsOf(i), f[i] = static_cast<uint16_t>(0x1800 + i % 11);
  for (int i = 0; i < 37; ++i)
    b[i] = bitsOf(3 * i + 1);
  run("rows", {x.data(), b.data(), f.data(), z.data(), s.data(), t.data()});
  for (int i = 0; i < 5; ++i) {
    double sum = 0;
    for (int j = 0; j < 37; ++j) {
      double rows = valueOf(b[j]), y = valueOf(x[i * 37 + j]) * 1.5 + valueOf(f[i * 37 + j]) + rows;
      double want = y > rows ? y : valueOf(x[i * 37 + j]);
      // A value within 1e-6 of the middle between two may round to either.
      double got = valueOf(z[i * 37 + j]);
      EXPECT_TRUE(got == abi::roundTo(row, want * (1 - 1e-6)) || got == abi::roundTo(row, want * (1 + 1e-6)))
          << got << " for " << want;
      sum += got;
    }
    EXPECT_NEAR(t[i], sum, 1e-6 * sum);
    EXPECT_TRUE(valueOf(s[i]) == abi::roundTo(row, sum * (1 - 1e-6)) ||
                valueOf(s[i]) == abi::roundTo(row, sum * (1 + 1e-6)));
  }
}

/// What kernels of gradients do: the norm must see the number that is stored, infinity where it overflows. In rows,
/// after sums over columns, in scalars, after a sum of 16 bits, and where nothing of 16 bits is stored.
TEST_P(Narrow, ReadsWhatIsStored) {
  compile(R"(dt.kernel @rows(%x: tensor<5x37xf32>) -> (tensor<5x37xT>, tensor<5xf32>) {
    %n = dt.convert %x : tensor<5x37xf32> -> tensor<5x37xT>
    %w = dt.convert %n : tensor<5x37xT> -> tensor<5x37xf32>
    %s = dt.reduce sum %w over [1] : tensor<5x37xf32> -> tensor<5xf32>
    dt.yield %n, %s : tensor<5x37xT>, tensor<5xf32>
  }
  dt.kernel @columns(%x: tensor<5x37xf32>) -> (tensor<37xT>, tensor<37xf32>) {
    %r = dt.reduce sum %x over [0] : tensor<5x37xf32> -> tensor<37xf32>
    %n = dt.convert %r : tensor<37xf32> -> tensor<37xT>
    %w = dt.convert %n : tensor<37xT> -> tensor<37xf32>
    dt.yield %n, %w : tensor<37xT>, tensor<37xf32>
  }
  dt.kernel @scalar(%x: tensor<f32>) -> (tensor<T>, tensor<f32>) {
    %n = dt.convert %x : tensor<f32> -> tensor<T>
    %w = dt.convert %n : tensor<T> -> tensor<f32>
    dt.yield %n, %w : tensor<T>, tensor<f32>
  }
  dt.kernel @sums(%x: tensor<5x37xT>) -> (tensor<5xT>, tensor<5xf32>) {
    %n = dt.reduce sum %x over [1] : tensor<5x37xT> -> tensor<5xT>
    %w = dt.convert %n : tensor<5xT> -> tensor<5xf32>
    dt.yield %n, %w : tensor<5xT>, tensor<5xf32>
  }
  dt.kernel @conversion(%x: tensor<37xf32>) -> tensor<37xf32> {
    %n = dt.convert %x : tensor<37xf32> -> tensor<37xT>
    %w = dt.convert %n : tensor<37xT> -> tensor<37xf32>
    dt.yield %w : tensor<37xf32>
  })");
  std::vector<uint16_t> n(5 * 37);
  std::vector<float> sums(5), wide(37);
  for (float value : {1.00048828f, 65519.0f, 65520.0f, 1e30f, 3.4e38f, 1e-45f}) {
    std::vector<float> x(5 * 37, 0.0f);
    double want = abi::roundTo(row, value);
    for (int at = 0; at < 5; ++at)
      x[at * 37 + 9 * at] = value; // in vectors and in the tail
    run("rows", {x.data(), n.data(), sums.data()});
    EXPECT_EQ(valueOf(n[0]), want);
    for (float sum : sums)
      EXPECT_EQ(sum, want);
    run("columns", {x.data(), n.data(), wide.data()});
    for (int at = 0; at < 5; ++at) {
      EXPECT_EQ(valueOf(n[9 * at]), want);
      EXPECT_EQ(wide[9 * at], want);
    }
    run("scalar", {x.data(), n.data(), wide.data()});
    EXPECT_EQ(valueOf(n[0]), want);
    EXPECT_EQ(wide[0], want);
    run("conversion", {x.data(), wide.data()});
    EXPECT_EQ(wide[0], want);
  }
  std::vector<uint16_t> x(5 * 37, 0x3c01);
  run("sums", {x.data(), n.data(), wide.data()});
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(wide[i], valueOf(n[i]));
}

/// Elements of another width have other addresses: only a buffer of the same width can be overwritten.
TEST_P(Narrow, TakesOverBuffersOfItsOwnWidthOnly) {
  compile(R"(dt.kernel @both(%x: tensor<64xf32>, %h: tensor<64xT>) -> (tensor<64xT>, tensor<64xf32>) {
    %w = dt.convert %h : tensor<64xT> -> tensor<64xf32>
    %y = dt.add %x, %w : tensor<64xf32>
    %n = dt.convert %y : tensor<64xf32> -> tensor<64xT>
    dt.yield %n, %y : tensor<64xT>, tensor<64xf32>
  })");
  FailureOr<KernelInterface> interface = describe(kernels->kernel("both"));
  ASSERT_TRUE(succeeded(interface));
  EXPECT_EQ(interface->inPlace[0], (llvm::SmallVector<unsigned>{1}));
  EXPECT_EQ(interface->inPlace[1], (llvm::SmallVector<unsigned>{0}));
}

TEST(NarrowIntegers, HaveNoCode) {
  CompiledKernels kernels(R"(dt.kernel @rows(%x: tensor<4xi8>) -> tensor<3x4xi8> {
    %y = dt.broadcast %x dims [1] : tensor<4xi8> -> tensor<3x4xi8>
    dt.yield %y : tensor<3x4xi8>
  })");
  EXPECT_FALSE(kernels.good());
}

INSTANTIATE_TEST_SUITE_P(Types, Narrow,
                         testing::Values(Case{"native", abi::BF16}, Case{"native", abi::F16},
                                         Case{"x86-64-v3", abi::BF16}, Case{"x86-64-v3", abi::F16}),
                         [](const testing::TestParamInfo<Case> &info) {
                           return std::string(info.param.target == std::string("native") ? "native_" : "v3_") +
                                  std::string(abi::elementType(info.param.type).name);
                         });

} // namespace
} // namespace dtc::test
