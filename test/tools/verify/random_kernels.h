// Random kernels, as text: for tests of generated code on any target.
#pragma once

#include "passes/lower/kernels/KernelInterface.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace dtc::verify {

/// Kernels with R and C for their sizes and T for a floating-point type; each is made of what models' kernels are.
inline constexpr const char *kernelTemplates[] = {
    // A sum with a vector, GELU and its gradient: the rows of a vocabulary are as odd as this.
    R"(dt.kernel @NAME(%x: tensor<RxCxT>, %b: tensor<CxT>, %g: tensor<RxCxT>) -> (tensor<RxCxT>, tensor<RxCxT>) {
      %rows = dt.broadcast %b dims [1] : tensor<CxT> -> tensor<RxCxT>
      %s = dt.add %x, %rows : tensor<RxCxT>
      %y = dt.gelu %s tanh : tensor<RxCxT>
      %d = dt.gelu_grad %g, %s tanh : tensor<RxCxT>
      dt.yield %y, %d : tensor<RxCxT>, tensor<RxCxT>
    })",
    // Elementwise: flat.
    R"(dt.kernel @NAME(%x: tensor<RxCxT>, %y: tensor<RxCxf32>) -> (tensor<RxCxT>, tensor<RxCxf32>) {
      %wide = dt.convert %x : tensor<RxCxT> -> tensor<RxCxf32>
      %s = dt.mul %wide, %y : tensor<RxCxf32>
      %n = dt.convert %s : tensor<RxCxf32> -> tensor<RxCxT>
      %z = dt.silu %s : tensor<RxCxf32>
      dt.yield %n, %z : tensor<RxCxT>, tensor<RxCxf32>
    })",
    // Softmax: three sweeps.
    R"(dt.kernel @NAME(%x: tensor<RxCxT>) -> tensor<RxCxT> {
      %wide = dt.convert %x : tensor<RxCxT> -> tensor<RxCxf32>
      %max = dt.reduce max %wide over [1] : tensor<RxCxf32> -> tensor<Rxf32>
      %maxAll = dt.broadcast %max dims [0] : tensor<Rxf32> -> tensor<RxCxf32>
      %shifted = dt.sub %wide, %maxAll : tensor<RxCxf32>
      %e = dt.exp %shifted : tensor<RxCxf32>
      %sum = dt.reduce sum %e over [1] : tensor<RxCxf32> -> tensor<Rxf32>
      %sumAll = dt.broadcast %sum dims [0] : tensor<Rxf32> -> tensor<RxCxf32>
      %p = dt.div %e, %sumAll : tensor<RxCxf32>
      %y = dt.convert %p : tensor<RxCxf32> -> tensor<RxCxT>
      dt.yield %y : tensor<RxCxT>
    })",
    // A norm, which keeps what its gradient needs.
    R"(dt.kernel @NAME(%x: tensor<RxCxT>, %w: tensor<Cxf32>) -> (tensor<RxCxT>, tensor<Rxf32>) {
      %wide = dt.convert %x : tensor<RxCxT> -> tensor<RxCxf32>
      %q = dt.mul %wide, %wide : tensor<RxCxf32>
      %sum = dt.reduce sum %q over [1] : tensor<RxCxf32> -> tensor<Rxf32>
      %n = dt.constant dense<0.0625> : tensor<Rxf32>
      %mean = dt.mul %sum, %n : tensor<Rxf32>
      %eps = dt.constant dense<1.0e-5> : tensor<Rxf32>
      %m = dt.add %mean, %eps : tensor<Rxf32>
      %r = dt.rsqrt %m : tensor<Rxf32>
      %all = dt.broadcast %r dims [0] : tensor<Rxf32> -> tensor<RxCxf32>
      %weights = dt.broadcast %w dims [1] : tensor<Cxf32> -> tensor<RxCxf32>
      %a = dt.mul %wide, %all : tensor<RxCxf32>
      %b = dt.mul %a, %weights : tensor<RxCxf32>
      %y = dt.convert %b : tensor<RxCxf32> -> tensor<RxCxT>
      dt.yield %y, %r : tensor<RxCxT>, tensor<Rxf32>
    })",
    // The gradient of a vector that was added to all rows, added to what is there.
    R"(dt.kernel @NAME(%x: tensor<RxCxT>, %old: tensor<CxT>) -> tensor<CxT> {
      %wide = dt.convert %x : tensor<RxCxT> -> tensor<RxCxf32>
      %sum = dt.reduce sum %wide over [0] : tensor<RxCxf32> -> tensor<Cxf32>
      %before = dt.convert %old : tensor<CxT> -> tensor<Cxf32>
      %new = dt.add %before, %sum : tensor<Cxf32>
      %y = dt.convert %new : tensor<Cxf32> -> tensor<CxT>
      dt.yield %y : tensor<CxT>
    })",
    // A sum of everything that cannot become flat.
    R"(dt.kernel @NAME(%x: tensor<RxCxT>, %b: tensor<Rxf32>) -> tensor<f32> {
      %wide = dt.convert %x : tensor<RxCxT> -> tensor<RxCxf32>
      %rows = dt.broadcast %b dims [0] : tensor<Rxf32> -> tensor<RxCxf32>
      %p = dt.mul %wide, %rows : tensor<RxCxf32>
      %sum = dt.reduce sum %p over [0, 1] : tensor<RxCxf32> -> tensor<f32>
      dt.yield %sum : tensor<f32>
    })",
    // The square of a norm, and what it is of.
    R"(dt.kernel @NAME(%x: tensor<RxCxf32>) -> (tensor<RxCxT>, tensor<f32>) {
      %n = dt.convert %x : tensor<RxCxf32> -> tensor<RxCxT>
      %w = dt.convert %n : tensor<RxCxT> -> tensor<RxCxf32>
      %q = dt.mul %w, %w : tensor<RxCxf32>
      %sum = dt.reduce sum %q over [0, 1] : tensor<RxCxf32> -> tensor<f32>
      dt.yield %n, %sum : tensor<RxCxT>, tensor<f32>
    })",
    // Dropout before a residual.
    R"(dt.kernel @NAME(%x: tensor<RxCxT>, %old: tensor<RxCxT>, %key: tensor<4xi32>) -> tensor<RxCxT> {
      %u = dt.random %key site 0 of [R, C] : tensor<4xi32> -> tensor<RxCxf32>
      %rate = dt.constant dense<0.25> : tensor<RxCxf32>
      %keep = dt.compare ge %u, %rate : tensor<RxCxf32> -> tensor<RxCxi1>
      %zero = dt.constant dense<0.0> : tensor<RxCxT>
      %dropped = dt.select %keep, %x, %zero : tensor<RxCxi1>, tensor<RxCxT>
      %y = dt.add %old, %dropped : tensor<RxCxT>
      dt.yield %y : tensor<RxCxT>
    })",
    // What overflows 16 bits is infinite for all that reads it.
    R"(dt.kernel @NAME(%x: tensor<RxCxT>, %y: tensor<RxCxf32>) -> (tensor<RxCxT>, tensor<RxCxT>, tensor<Rxf32>, tensor<Rxf32>) {
      %wide = dt.convert %x : tensor<RxCxT> -> tensor<RxCxf32>
      %large = dt.constant dense<1500.0> : tensor<RxCxf32>
      %a = dt.mul %wide, %large : tensor<RxCxf32>
      %s = dt.sub %a, %y : tensor<RxCxf32>
      %n = dt.convert %s : tensor<RxCxf32> -> tensor<RxCxT>
      %w = dt.convert %n : tensor<RxCxT> -> tensor<RxCxf32>
      %rate = dt.constant dense<1.11111116> : tensor<RxCxf32>
      %b = dt.mul %w, %rate : tensor<RxCxf32>
      %y2 = dt.convert %b : tensor<RxCxf32> -> tensor<RxCxT>
      %most = dt.reduce max %b over [1] : tensor<RxCxf32> -> tensor<Rxf32>
      %sum = dt.reduce sum %b over [1] : tensor<RxCxf32> -> tensor<Rxf32>
      dt.yield %n, %y2, %most, %sum : tensor<RxCxT>, tensor<RxCxT>, tensor<Rxf32>, tensor<Rxf32>
    })",
    // Sums that are stored, and read as they are stored: of rows, of columns.
    R"(dt.kernel @NAME(%x: tensor<RxCxT>) -> (tensor<RxT>, tensor<RxCxf32>) {
      %n = dt.reduce sum %x over [1] : tensor<RxCxT> -> tensor<RxT>
      %w = dt.convert %n : tensor<RxT> -> tensor<Rxf32>
      %all = dt.broadcast %w dims [0] : tensor<Rxf32> -> tensor<RxCxf32>
      %wide = dt.convert %x : tensor<RxCxT> -> tensor<RxCxf32>
      %y = dt.sub %wide, %all : tensor<RxCxf32>
      dt.yield %n, %y : tensor<RxT>, tensor<RxCxf32>
    })",
    R"(dt.kernel @NAME(%x: tensor<RxCxT>, %old: tensor<Cxf32>) -> (tensor<CxT>, tensor<Cxf32>) {
      %n = dt.reduce sum %x over [0] : tensor<RxCxT> -> tensor<CxT>
      %w = dt.convert %n : tensor<CxT> -> tensor<Cxf32>
      %y = dt.sub %w, %old : tensor<Cxf32>
      dt.yield %n, %y : tensor<CxT>, tensor<Cxf32>
    })",
    // One of each row: what a cross-entropy picks, and a mask that is stored.
    R"(dt.kernel @NAME(%x: tensor<RxCxT>, %t: tensor<Rxi32>, %m: tensor<RxCxi1>) -> (tensor<RxCxT>, tensor<RxCxi1>, tensor<Rxf32>) {
      %i = dt.iota 1 : tensor<RxCxi32>
      %all = dt.broadcast %t dims [0] : tensor<Rxi32> -> tensor<RxCxi32>
      %is = dt.compare eq %i, %all : tensor<RxCxi32> -> tensor<RxCxi1>
      %both = dt.and %is, %m : tensor<RxCxi1>
      %zero = dt.constant dense<0.0> : tensor<RxCxT>
      %y = dt.select %is, %x, %zero : tensor<RxCxi1>, tensor<RxCxT>
      %wide = dt.convert %y : tensor<RxCxT> -> tensor<RxCxf32>
      %sum = dt.reduce sum %wide over [1] : tensor<RxCxf32> -> tensor<Rxf32>
      dt.yield %y, %both, %sum : tensor<RxCxT>, tensor<RxCxi1>, tensor<Rxf32>
    })",
    // Broadcasts along inner and outer dimensions of four.
    R"(dt.kernel @NAME(%a: tensor<3xf32>, %b: tensor<RxT>, %c: tensor<3xRx2xCxT>) -> tensor<3xRx2xCxT> {
      %0 = dt.broadcast %a dims [0] : tensor<3xf32> -> tensor<3xRx2xCxf32>
      %1 = dt.broadcast %b dims [1] : tensor<RxT> -> tensor<3xRx2xCxT>
      %2 = dt.add %1, %c : tensor<3xRx2xCxT>
      %3 = dt.convert %2 : tensor<3xRx2xCxT> -> tensor<3xRx2xCxf32>
      %4 = dt.max %0, %3 : tensor<3xRx2xCxf32>
      %y = dt.convert %4 : tensor<3xRx2xCxf32> -> tensor<3xRx2xCxT>
      dt.yield %y : tensor<3xRx2xCxT>
    })",
};

inline std::string replaceAll(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

inline std::string instantiate(const char *text, const std::string &name, int64_t rows, int64_t columns,
                               const char *type) {
  std::string result = replaceAll(text, "NAME", name);
  for (const char *before : {"<", "x", "["})
    result = replaceAll(result, std::string(before) + "Rx", before + std::to_string(rows) + "x");
  result = replaceAll(result, "[R, C]", "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]");
  for (const char *before : {"<", "x"})
    result = replaceAll(result, std::string(before) + "Cx", before + std::to_string(columns) + "x");
  return replaceAll(result, "xT>", std::string("x") + type + ">");
}

class Random {
public:
  explicit Random(unsigned seed) : engine(seed) {}
  int64_t below(int64_t limit) { return static_cast<int64_t>(engine() % static_cast<uint64_t>(limit)); }
  template <typename T, size_t N> T of(const T (&choices)[N]) { return choices[below(N)]; }

private:
  std::mt19937_64 engine;
};

struct RandomKernels {
  std::string text;
  std::vector<std::string> names;
};

/// Kernels of every kind, so many copies, with 1 to `mostRows` rows of 16k + {0, 1, 2, 15} columns, k below
/// `sixteens`.
inline RandomKernels makeRandomKernels(Random &random, int copies, int64_t mostRows, int64_t sixteens) {
  constexpr int64_t tails[] = {0, 1, 2, 15};
  constexpr const char *types[] = {"f32", "bf16", "f16"};
  RandomKernels kernels;
  for (int copy = 0; copy < copies; ++copy)
    for (const char *kernel : kernelTemplates) {
      int64_t columns = std::max<int64_t>(1, 16 * random.below(sixteens) + random.of(tails));
      int64_t rows = 1 + random.below(mostRows);
      kernels.names.push_back("k" + std::to_string(kernels.names.size()));
      kernels.text += instantiate(kernel, kernels.names.back(), rows, columns, random.of(types)) + "\n";
    }
  return kernels;
}

/// Outputs over inputs as far as `random` wants and the kernel may.
inline std::vector<int> chooseInPlace(const KernelInterface &interface, Random &random) {
  std::vector<int> result;
  for (const auto &inputs : interface.inPlace) {
    int input = inputs.empty() || random.below(3) == 0 ? -1 : int(inputs[random.below(int64_t(inputs.size()))]);
    result.push_back(llvm::is_contained(result, input) ? -1 : input);
  }
  return result;
}

/// One for each draw that a kernel makes: any of those that launches can have.
inline std::vector<int64_t> chooseSites(const KernelInterface &interface, Random &random) {
  std::vector<int64_t> sites;
  for (const mlir::dt::LaunchScalar &scalar : interface.scalars)
    if (scalar.kind == mlir::dt::LaunchScalar::Kind::Site && scalar.integer == int64_t(sites.size()))
      sites.push_back(random.below(int64_t(1) << 32));
  return sites;
}

} // namespace dtc::verify
