// A stand-in for cuBLASLt: products by plain loops in f64, in the order of the stand-in driver's streams where that is
// loaded, otherwise at once on the host's memory. What the manual forbids is refused, and reported on the standard
// error: types that do not go together, sizes that do not fit, leading dimensions that are too small, results that
// overlap, addresses less aligned than the algorithm was requested for, too little workspace, an algorithm for another
// product. The stand-in is in one file because it is one library's table of functions, which are short and share its
// objects.
//
// The algorithm that it finds does what those of the real library may: it destroys its workspace, and where sums in the
// type of the result are allowed it rounds such sums.
//
// DTC_STAND_IN_CUBLASLT in the environment: with "few" it has no epilogues, with "slow" products with one take longer
// than any without.
#include "runtime/kernels/cuda/cublaslt.h"
#include "runtime/abi/element_type.h"
#include "test/gpu/stand_in/find.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

using namespace dtc;
using namespace dtc::cublaslt;

struct cublasLtContext {};

namespace dtc::cublaslt {

struct LayoutState {
  int type;
  uint64_t rows, columns;
  int64_t leading;
  int32_t batch = 1;
  int64_t batchStride = 0;
};

struct OperationState {
  int compute, scale;
  int32_t transposeA = NotTransposed, transposeB = NotTransposed;
  uint32_t epilogue = EpilogueNone;
  std::byte *bias = nullptr, *aux = nullptr;
  int64_t auxLeading = 0;

  bool hasBias() const { return epilogue == EpilogueBias || isGelu(); }
  bool isGelu() const { return epilogue == EpilogueGeluBias || epilogue == EpilogueGeluAuxBias; }
  bool hasAux() const { return epilogue == EpilogueGeluAuxBias || epilogue == EpilogueGeluGradient; }
};

/// The defaults of the manual.
struct PreferenceState {
  uint64_t workspace = 0;
  uint32_t reductions = 7;
  uint32_t alignments[4] = {256, 256, 256, 256};
};

} // namespace dtc::cublaslt

namespace {

int refuse(Status status, const std::string &why) {
  std::fprintf(stderr, "stand-in for cuBLASLt: %s\n", why.c_str());
  return status;
}

bool isSet(const char *word) {
  const char *setting = std::getenv("DTC_STAND_IN_CUBLASLT");
  return setting && std::strcmp(setting, word) == 0;
}

abi::DataType elementOf(int type) { return type == R16BF ? abi::BF16 : type == R16F ? abi::F16 : abi::F32; }

double readAt(int type, const std::byte *data, int64_t index) {
  if (type == R32F) { // most are
    float value;
    std::memcpy(&value, data + index * sizeof value, sizeof value);
    return value;
  }
  const abi::ElementType &element = abi::elementType(elementOf(type));
  return abi::readElement(element, data + index * element.bytes);
}

void writeAt(int type, std::byte *data, int64_t index, double value) {
  if (type == R32F) {
    auto rounded = static_cast<float>(value);
    std::memcpy(data + index * sizeof rounded, &rounded, sizeof rounded);
    return;
  }
  const abi::ElementType &element = abi::elementType(elementOf(type));
  double rounded = abi::roundTo(element, value);
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(rounded));
  if (type == R16BF)
    bits >>= 16;
  if (type == R16F)
    bits = std::bit_cast<uint16_t>(static_cast<_Float16>(rounded));
  std::memcpy(data + index * element.bytes, &bits, element.bytes);
}

/// The variants of an algorithm, as bits next to its number. One that was named among several is slow, as a real one
/// may be.
enum : uint64_t { RoundsParts = 1 << 8, TakesTime = 1 << 9, NumberMask = 0xff };

/// The first one that the heuristic names is not the fastest. The times are far apart: other work must not reorder
/// them. They pass only on the GPU's clock, so nobody waits.
constexpr std::chrono::milliseconds Durations[DTC_STAND_IN_ALGORITHMS] = {
    std::chrono::milliseconds(200), std::chrono::milliseconds(400), std::chrono::milliseconds(0)};
constexpr std::chrono::milliseconds SlowEpilogue(600);
std::atomic<int> productsRun[DTC_STAND_IN_ALGORITHMS]; ///< by the algorithm's number

/// One product, until the stream reaches it.
struct Product {
  OperationState operation;
  LayoutState a, b, c; ///< D has the layout of C
  std::byte *aData, *bData, *cData, *dData, *workspace;
  float alpha, beta;
  uint64_t algorithm; ///< see cublasLtMatmulAlgoGetHeuristic
  size_t workspaceBytes;

  /// Adds two halves of each sum in the type of the result.
  bool roundsParts() const { return algorithm & RoundsParts; }
  /// TF32 has 10 of f32's 23 bits of fraction.
  double factor(double value) const {
    auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    return operation.compute == ComputeTf32 ? std::bit_cast<float>((bits + (1u << 12)) & ~0x1fffu) : value;
  }
  uint64_t depth() const { return operation.transposeA ? a.rows : a.columns; }
  void run();
  double finish(uint64_t row, uint64_t column, double total) const;
  std::vector<double> takeC() const;
  std::vector<double> factors(const LayoutState &layout, const std::byte *data, int64_t batch, bool transpose) const;
};

/// From the first to the last byte that a matrix has.
size_t bytesOf(const LayoutState &layout) {
  int64_t last =
      (layout.batch - 1) * layout.batchStride + int64_t(layout.columns - 1) * layout.leading + int64_t(layout.rows);
  return abi::bytesOf(elementOf(layout.type), uint64_t(last));
}

/// beta C, column by column, if it counts at all. Leaves NaN in D, so that a result that overwrites an operand shows.
std::vector<double> Product::takeC() const {
  std::vector<double> scaled;
  auto forEach = [&](auto &&visit) {
    for (int64_t batch = 0; batch < c.batch; ++batch)
      for (int64_t column = 0; column < int64_t(c.columns); ++column)
        for (int64_t row = 0; row < int64_t(c.rows); ++row)
          visit(batch * c.batchStride + column * c.leading + row);
  };
  if (beta != 0) // else it may be anything, NaN too
    forEach([&](int64_t at) { scaled.push_back(beta * readAt(c.type, cData, at)); });
  forEach([&](int64_t at) { writeAt(c.type, dData, at, NAN); });
  return scaled;
}

/// A matrix of the batch column by column, or row by row, as the product's numbers.
std::vector<double> Product::factors(const LayoutState &layout, const std::byte *data, int64_t batch,
                                     bool transpose) const {
  std::vector<double> values(layout.rows * layout.columns);
  for (uint64_t column = 0; column < layout.columns; ++column)
    for (uint64_t row = 0; row < layout.rows; ++row)
      values[transpose ? row * layout.columns + column : column * layout.rows + row] = factor(
          readAt(layout.type, data, batch * layout.batchStride + int64_t(column) * layout.leading + int64_t(row)));
  return values;
}

/// Adds products to sums, for each sum in the order of `k`. Factors are stored as [k][row] and [column][k].
static void addProducts(std::vector<double> &sums, const std::vector<double> &a, const double *b, uint64_t begin,
                        uint64_t end) {
  for (uint64_t k = begin; k < end; ++k)
    for (uint64_t row = 0; row < sums.size(); ++row)
      sums[row] += a[k * sums.size() + row] * b[k];
}

// Independent of the compiler's and the interpreter's implementation: by e^2u, and the derivative by the limit of the
// difference quotient.
double gelu(double x) {
  double u = std::sqrt(2 / M_PI) * (x + 0.044715 * std::pow(x, 3));
  return x / (1 + std::exp(-2 * u));
}

double geluSlope(double x) {
  double u = std::sqrt(2 / M_PI) * (x + 0.044715 * std::pow(x, 3)),
         slope = std::sqrt(2 / M_PI) * (1 + 0.134145 * x * x);
  double part = 1 / (1 + std::exp(-2 * u));
  return part + 2 * x * part * (1 - part) * slope;
}

/// The epilogue of one element. Only what is stored is rounded.
double Product::finish(uint64_t row, uint64_t column, double total) const {
  if (operation.hasBias())
    total += readAt(c.type, operation.bias, int64_t(row));
  int64_t at = int64_t(column) * operation.auxLeading + int64_t(row);
  if (operation.epilogue == EpilogueGeluAuxBias)
    writeAt(c.type, operation.aux, at, total);
  if (operation.epilogue == EpilogueGeluGradient)
    return total * geluSlope(readAt(c.type, operation.aux, at));
  return operation.isGelu() ? gelu(total) : total;
}

/// A real driver's clock is its own.
void takeTime(std::chrono::nanoseconds time) {
  if (auto *take = dtc::test::findInDriver<dtc_stand_in_take_time_fn>("dtc_stand_in_take_time"))
    take(time.count());
}

void Product::run() {
  ++productsRun[algorithm & NumberMask];
  if (algorithm & TakesTime)
    takeTime(Durations[algorithm & NumberMask]);
  if (algorithm & TakesTime && operation.epilogue != EpilogueNone && isSet("slow"))
    takeTime(SlowEpilogue);
  std::fill_n(workspace, workspaceBytes, std::byte(0xff));
  const abi::ElementType &element = abi::elementType(elementOf(c.type));
  std::vector<double> scaledC = takeC();
  const double *nextOfC = scaledC.data();
  uint64_t middle = roundsParts() ? depth() / 2 : 0;
  for (int64_t batch = 0; batch < c.batch; ++batch) {
    std::vector<double> ofA = factors(a, aData, batch, operation.transposeA);
    std::vector<double> ofB = factors(b, bData, batch, operation.transposeB);
    for (uint64_t column = 0; column < c.columns; ++column) {
      std::vector<double> totals(c.rows), parts(c.rows);
      addProducts(totals, ofA, &ofB[column * depth()], middle, depth());
      addProducts(parts, ofA, &ofB[column * depth()], 0, middle);
      for (uint64_t row = 0; row < c.rows; ++row) {
        double total = totals[row];
        if (roundsParts())
          total = abi::roundTo(element, total) + abi::roundTo(element, parts[row]);
        int64_t at = batch * c.batchStride + int64_t(column) * c.leading + int64_t(row);
        total *= alpha;
        if (beta != 0)
          total += *nextOfC++;
        writeAt(c.type, dData, at, finish(row, column, total));
      }
    }
  }
}

using dtc::test::findInDriver;

std::byte *reach(std::byte *address, size_t bytes) {
  auto *behind = findInDriver<dtc_stand_in_reach_fn>("dtc_stand_in_reach");
  return behind ? static_cast<std::byte *>(behind(reinterpret_cast<uintptr_t>(address), bytes)) : address;
}

void runLater(void *argument) {
  Product product = *static_cast<const Product *>(argument);
  product.aData = reach(product.aData, bytesOf(product.a));
  product.bData = reach(product.bData, bytesOf(product.b));
  product.cData = reach(product.cData, bytesOf(product.c));
  product.dData = reach(product.dData, bytesOf(product.c));
  product.workspace = reach(product.workspace, product.workspaceBytes);
  OperationState &operation = product.operation;
  bool isThere = product.aData && product.bData && product.cData && product.dData && product.workspace;
  if (operation.hasBias()) {
    operation.bias = reach(operation.bias, abi::bytesOf(elementOf(product.c.type), product.c.rows));
    isThere = isThere && operation.bias;
  }
  if (operation.hasAux()) {
    LayoutState aux = product.c;
    aux.leading = operation.auxLeading;
    operation.aux = reach(operation.aux, bytesOf(aux));
    isThere = isThere && operation.aux;
  }
  if (isThere)
    product.run();
  else
    refuse(ExecutionFailed, "a matrix or the workspace is not in one allocation of the GPU");
}

void forget(void *product) { delete static_cast<Product *>(product); }

uintptr_t numberOf(const void *address) { return reinterpret_cast<uintptr_t>(address); }

/// Why the manual has no such epilogue for results of this layout.
std::string whyNoEpilogue(const OperationState &operation, const LayoutState &d) {
  if (operation.epilogue == EpilogueNone)
    return "";
  if (!operation.hasBias() && !operation.hasAux())
    return "an epilogue that is not known here";
  if (isSet("few"))
    return "an epilogue, of which it has none now";
  if (d.batch != 1)
    return "an epilogue for a batch, which is not known here";
  if (operation.hasBias() && (!operation.bias || numberOf(operation.bias) % 16 != 0))
    return "a bias that is not there or not aligned to 16 bytes";
  if (operation.hasAux() && (!operation.aux || numberOf(operation.aux) % 16 != 0))
    return "an auxiliary matrix that is not there or not aligned to 16 bytes";
  if (operation.hasAux() && (operation.auxLeading % 8 != 0 || operation.auxLeading < int64_t(d.rows)))
    return "an auxiliary matrix with a leading dimension of " + std::to_string(operation.auxLeading) + " for " +
           std::to_string(d.rows) + " rows";
  return "";
}

/// Why the manual has no such product; empty: it has.
std::string whyNot(const OperationState &operation, const LayoutState &a, const LayoutState &b, const LayoutState &c) {
  bool isNarrow = a.type == R16F || a.type == R16BF;
  bool isTf32 = operation.compute == ComputeTf32 && a.type == R32F;
  if ((operation.compute != Compute32F && !isTf32) || operation.scale != R32F)
    return "only products of computing type 32F, or TF32 of f32, and scaling type R_32F are known here";
  if (a.type != b.type || (c.type != a.type && !(isNarrow && c.type == R32F)))
    return "the types of the matrices do not go together";
  uint64_t rows = operation.transposeA ? a.columns : a.rows, depth = operation.transposeA ? a.rows : a.columns;
  uint64_t depthB = operation.transposeB ? b.columns : b.rows, columns = operation.transposeB ? b.rows : b.columns;
  if (rows != c.rows || columns != c.columns || depth != depthB)
    return "the sizes of the matrices do not fit";
  for (const LayoutState *layout : {&a, &b, &c}) {
    if (layout->rows == 0 || layout->columns == 0 || layout->leading < int64_t(layout->rows))
      return "a leading dimension of " + std::to_string(layout->leading) + " for " + std::to_string(layout->rows) +
             " rows";
    if (layout->batch != c.batch || layout->batch < 1)
      return "the batches of the matrices differ";
  }
  if (operation.epilogue != EpilogueNone && c.type != a.type)
    return "an epilogue with a result of another type than the bias and the auxiliary matrix may have";
  return whyNoEpilogue(operation, c);
}

bool resultsOverlap(const LayoutState &c) {
  std::set<int64_t> columns;
  for (int64_t batch = 0; batch < c.batch; ++batch)
    for (uint64_t column = 0; column < c.columns; ++column)
      columns.insert(batch * c.batchStride + int64_t(column) * c.leading);
  int64_t end = INT64_MIN;
  for (int64_t begin : columns) {
    if (begin < end)
      return true;
    end = begin + int64_t(c.rows);
  }
  return columns.size() < c.columns * uint64_t(c.batch);
}

/// The problem that an algorithm is for, as a number.
uint64_t markOf(const OperationState &operation, const LayoutState &a, const LayoutState &b, const LayoutState &c) {
  uint64_t mark = 1469598103934665603u;
  auto add = [&](auto value) { mark = (mark ^ uint64_t(value)) * 1099511628211u; };
  add(operation.transposeA), add(operation.transposeB), add(operation.epilogue), add(operation.auxLeading);
  for (const LayoutState *layout : {&a, &b, &c}) {
    add(layout->type), add(layout->rows), add(layout->columns), add(layout->leading);
    add(layout->batch), add(layout->batchStride);
  }
  return mark;
}

template <typename Value> int set(Value &value, const void *from, size_t bytes) {
  if (!from || bytes != sizeof value)
    return refuse(InvalidValue, "an attribute of another size");
  std::memcpy(&value, from, bytes);
  return Success;
}

} // namespace

extern "C" {

int dtc_stand_in_products_run(int algorithm) { return productsRun[algorithm]; }

size_t cublasLtGetVersion() { return DTC_STAND_IN_CUDA * 10000; }

const char *cublasLtGetStatusName(int status) {
  return status == Success           ? "CUBLAS_STATUS_SUCCESS"
         : status == InvalidValue    ? "CUBLAS_STATUS_INVALID_VALUE"
         : status == NotSupported    ? "CUBLAS_STATUS_NOT_SUPPORTED"
         : status == ExecutionFailed ? "CUBLAS_STATUS_EXECUTION_FAILED"
                                     : "CUBLAS_STATUS_NOT_INITIALIZED";
}

/// A library of a later CUDA version than the driver's can be loaded, but does not work.
int cublasLtCreate(Handle *handle) {
  int version = DTC_STAND_IN_CUDA * 1000;
  if (auto *ask = findInDriver<dtc::cuda::Driver::driverGetVersion_fn>("cuDriverGetVersion"))
    ask(&version);
  if (version / 1000 < DTC_STAND_IN_CUDA)
    return refuse(NotInitialized, "the driver is of CUDA " + std::to_string(version / 1000));
  *handle = new cublasLtContext;
  return Success;
}

int cublasLtDestroy(Handle handle) {
  delete handle;
  return Success;
}

int cublasLtMatrixLayoutCreate(Layout *layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  *layout = new LayoutState{type, rows, columns, leading};
  return Success;
}

int cublasLtMatrixLayoutDestroy(Layout layout) {
  delete layout;
  return Success;
}

int cublasLtMatrixLayoutSetAttribute(Layout layout, int attribute, const void *value, size_t bytes) {
  if (attribute == LayoutBatchCount)
    return set(layout->batch, value, bytes);
  if (attribute == LayoutBatchStride)
    return set(layout->batchStride, value, bytes);
  return refuse(InvalidValue, "an attribute of matrices that is not known here");
}

int cublasLtMatmulDescCreate(Operation *operation, int compute, int scale) {
  *operation = new OperationState{compute, scale};
  return Success;
}

int cublasLtMatmulDescDestroy(Operation operation) {
  delete operation;
  return Success;
}

int cublasLtMatmulDescSetAttribute(Operation operation, int attribute, const void *value, size_t bytes) {
  if (attribute == OperationTransposeA)
    return set(operation->transposeA, value, bytes);
  if (attribute == OperationTransposeB)
    return set(operation->transposeB, value, bytes);
  if (attribute == OperationEpilogue)
    return set(operation->epilogue, value, bytes);
  if (attribute == OperationBias)
    return set(operation->bias, value, bytes);
  if (attribute == OperationAux)
    return set(operation->aux, value, bytes);
  if (attribute == OperationAuxLeading)
    return set(operation->auxLeading, value, bytes);
  return refuse(InvalidValue, "an attribute of products that is not known here");
}

int cublasLtMatmulPreferenceCreate(Preference *preference) {
  *preference = new PreferenceState;
  return Success;
}

int cublasLtMatmulPreferenceDestroy(Preference preference) {
  delete preference;
  return Success;
}

int cublasLtMatmulPreferenceSetAttribute(Preference preference, int attribute, const void *value, size_t bytes) {
  if (attribute == PreferenceWorkspaceBytes)
    return set(preference->workspace, value, bytes);
  if (attribute == PreferenceReductions)
    return set(preference->reductions, value, bytes);
  if (attribute >= PreferenceAlignmentA && attribute <= PreferenceAlignmentD)
    return set(preference->alignments[attribute - PreferenceAlignmentA], value, bytes);
  return refuse(InvalidValue, "a preference that is not known here");
}

int cublasLtMatmulAlgoGetHeuristic(Handle, Operation operation, Layout a, Layout b, Layout c, Layout d,
                                   Preference preference, int wanted, Heuristic *found, int *count) {
  *count = 0;
  if (wanted < 1)
    return refuse(InvalidValue, "no algorithm is wanted");
  if (std::string why = whyNot(*operation, *a, *b, *c); !why.empty())
    return refuse(NotSupported, why);
  if (markOf(*operation, *a, *b, *c) != markOf(*operation, *a, *b, *d))
    return refuse(NotSupported, "C and D differ");
  Heuristic result = {};
  result.workspaceBytes = std::min<size_t>(preference->workspace, 4096);
  result.algorithm.data[0] = markOf(*operation, *a, *b, *c);
  result.algorithm.data[1] = result.workspaceBytes;
  result.algorithm.data[2] = (preference->reductions & ~3u) != 0 ? RoundsParts : 0; // sums in the type of the result
  for (int i = 0; i < 4; ++i)
    result.algorithm.data[3 + i] = preference->alignments[i];
  if (wanted > 1)
    result.algorithm.data[2] |= TakesTime;
  *count = std::min(wanted, DTC_STAND_IN_ALGORITHMS);
  for (int number = 0; number < *count; ++number, ++result.algorithm.data[2])
    found[number] = result;
  return Success;
}

int cublasLtMatmul(Handle, Operation operation, const void *alpha, const void *a, Layout aLayout, const void *b,
                   Layout bLayout, const void *beta, const void *c, Layout cLayout, void *d, Layout dLayout,
                   const Algorithm *algorithm, void *workspace, size_t workspaceBytes, CUstream_st *stream) {
  if (std::string why = whyNot(*operation, *aLayout, *bLayout, *dLayout); !why.empty())
    return refuse(InvalidValue, why);
  uint64_t mark = markOf(*operation, *aLayout, *bLayout, *dLayout);
  if (mark != markOf(*operation, *aLayout, *bLayout, *cLayout))
    return refuse(InvalidValue, "C and D differ");
  if (c != d && numberOf(c) < numberOf(d) + bytesOf(*dLayout) && numberOf(d) < numberOf(c) + bytesOf(*cLayout))
    return refuse(InvalidValue, "C and D overlap and are not the same");
  if (!algorithm || algorithm->data[0] != mark)
    return refuse(InvalidValue, "an algorithm for another product");
  if (workspaceBytes < algorithm->data[1] || reinterpret_cast<uintptr_t>(workspace) % 256 != 0)
    return refuse(InvalidValue, "too little workspace, or not aligned to 256 bytes");
  const void *addresses[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i)
    if (reinterpret_cast<uintptr_t>(addresses[i]) % algorithm->data[3 + i] != 0)
      return refuse(InvalidValue, "a matrix that is less aligned than the algorithm needs");
  if (resultsOverlap(*dLayout))
    return refuse(InvalidValue, "results that lie over each other");
  auto bytes = [](const void *data) { return static_cast<std::byte *>(const_cast<void *>(data)); };
  auto *product = new Product{*operation,
                              *aLayout,
                              *bLayout,
                              *dLayout,
                              bytes(a),
                              bytes(b),
                              bytes(c),
                              bytes(d),
                              bytes(workspace),
                              *static_cast<const float *>(alpha),
                              *static_cast<const float *>(beta),
                              algorithm->data[2],
                              algorithm->data[1]};
  if (auto *enqueue = findInDriver<dtc_stand_in_enqueue_fn>("dtc_stand_in_enqueue"))
    enqueue(stream, runLater, product, forget);
  else {
    runLater(product);
    forget(product);
  }
  return Success;
}
}
