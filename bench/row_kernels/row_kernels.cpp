// Compares generated kernels that do little work per element with copying memory: softmax and cross-entropy over a
// vocabulary of 50257, and dropout.
//
// Functions of a model are lowered as `dtc compile` lowers them, and every launch is run on one thread, on operands far
// larger than the cache. Bytes are counted as each operation needs them, every operand and result of the function once,
// however often its kernels read them. The share is the rate of these bytes over that of memcpy, timed before and
// after. Prints a Markdown table: medians over the repetitions.
#include "passes/differentiate/Passes.h"
#include "passes/lower/cpu/NativeCode.h"
#include "passes/lower/kernels/Kernels.h"
#include "passes/pipelines/How.h"
#include "runtime/abi/random.h"
#include "runtime/device/arena.h"
#include "runtime/program/start/kernel_library.h"

#include "dialect/IR/ElementTypes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <vector>

using namespace mlir;
using namespace dtc;

namespace {

constexpr int Repetitions = 21;

/// Softmax, and cross-entropy alone, as in evaluation.
const char *forward = R"(
  func.func @softmax(%x: tensor<256x50257xf32>) -> tensor<256x50257xf32> {
    %max = dt.reduce max %x over [1] : tensor<256x50257xf32> -> tensor<256xf32>
    %wide = dt.broadcast %max dims [0] : tensor<256xf32> -> tensor<256x50257xf32>
    %shifted = dt.sub %x, %wide : tensor<256x50257xf32>
    %e = dt.exp %shifted : tensor<256x50257xf32>
    %sum = dt.reduce sum %e over [1] : tensor<256x50257xf32> -> tensor<256xf32>
    %sums = dt.broadcast %sum dims [0] : tensor<256xf32> -> tensor<256x50257xf32>
    %y = dt.div %e, %sums : tensor<256x50257xf32>
    return %y : tensor<256x50257xf32>
  }
  func.func @cross_entropy(%x: tensor<256x50257xf32>, %t: tensor<256xi32>) -> tensor<256xf32> {
    %nll, %lse = dt.softmax_cross_entropy %x, %t ignore -100
        : (tensor<256x50257xf32>, tensor<256xi32>) -> (tensor<256xf32>, tensor<256xf32>)
    return %nll : tensor<256xf32>
  }
  func.func @dropout(%x: tensor<256x50257xf32>, %key: tensor<4xi32>) -> tensor<256x50257xf32> {
    %y = dt.dropout %x, %key rate 1.000000e-01 site 0 : tensor<256x50257xf32>, tensor<4xi32>
    return %y : tensor<256x50257xf32>
  }
)";

/// Cross-entropy with its gradient, as in training: @loss is differentiated to @micro.
const char *training = R"(
  func.func @loss(%x: tensor<256x50257xf32> {dt.port = #dt.port<parameter "x">}, %t: tensor<256xi32>)
      -> (tensor<f32> {dt.port = #dt.port<output "loss_sum">}, tensor<f32> {dt.port = #dt.port<output "token_count">}) {
    %nll, %lse = dt.softmax_cross_entropy %x, %t ignore -100
        : (tensor<256x50257xf32>, tensor<256xi32>) -> (tensor<256xf32>, tensor<256xf32>)
    %loss = dt.reduce sum %nll over [0] : tensor<256xf32> -> tensor<f32>
    %count = dt.constant dense<256.0> : tensor<f32>
    return %loss, %count : tensor<f32>, tensor<f32>
  }
)";

/// CPU seconds of this thread, so that other work on the machine does not count.
double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

template <typename Work> double timeOf(const Work &work) {
  double begin = now();
  work();
  return now() - begin;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

int64_t bytesOf(Type type) { return dt::bytesOf(type); }

/// Memory in which a function's values are stored one after the other.
class Memory {
public:
  explicit Memory(int64_t bytes) : arena(bytes, bytes) {}

  std::byte *take(int64_t bytes) {
    std::byte *result = arena.base() + used;
    used += (bytes + 63) / 64 * 64;
    return result;
  }

private:
  Arena arena;
  int64_t used = 0;
};

/// A function that consists of launches, and its values in memory. In place, results overwrite operands where they may,
/// as in the memory plan.
class Program {
public:
  Program(func::FuncOp function, Kernels &kernels, const KernelLibrary &library, bool inPlace)
      : memory(int64_t(3) * (64 << 20)) {
    DenseMap<Value, std::byte *> places;
    for (Value argument : function.getArguments())
      places[argument] = fill(argument.getType());
    for (auto launch : function.getOps<dt::LaunchOp>()) {
      const KernelInterface &interface = kernels.interfaceOf(launch);
      Call &call = calls.emplace_back();
      call.kernel = library.find(launch.getKernel().str());
      call.grid = interface.grid;
      for (Value operand : launch.getOperands())
        call.buffers.push_back(places.at(operand));
      for (auto [index, result] : llvm::enumerate(launch.getResults())) {
        auto over = interface.inPlace[index];
        bool takesOver = inPlace && !over.empty() && bytesOf(result.getType()) > (1 << 20);
        isInPlace |= takesOver;
        places[result] = takesOver ? places.at(launch.getOperand(over[0])) : memory.take(bytesOf(result.getType()));
        call.buffers.push_back(places[result]);
      }
      for (const dt::LaunchScalar &scalar : interface.scalars)
        call.scalars.push_back(scalar.integer);
    }
    for (Type type : function.getArgumentTypes())
      bytes += bytesOf(type);
    for (Value result : function.front().getTerminator()->getOperands())
      if (result.getDefiningOp<dt::LaunchOp>())
        bytes += bytesOf(result.getType());
  }

  void run() const {
    for (const Call &call : calls)
      call.kernel(call.buffers.data(), call.scalars.data(), 0, call.grid);
  }

  int64_t bytes = 0;      ///< of operands and results
  bool isInPlace = false; ///< a large result overwrites an operand

private:
  struct Call {
    dtc_kernel_fn kernel;
    std::vector<void *> buffers;
    std::vector<int64_t> scalars;
    int64_t grid;
  };

  std::byte *fill(Type type) {
    int64_t elements = cast<RankedTensorType>(type).getNumElements();
    std::byte *place = memory.take(bytesOf(type));
    uint32_t stream = random::stream(1, 0, 0);
    for (int64_t i = 0; i < elements; ++i) {
      double uniform = random::uniform(stream, i);
      if (isa<FloatType>(getElementTypeOrSelf(type)))
        reinterpret_cast<float *>(place)[i] = static_cast<float>(8 * uniform - 4);
      else
        reinterpret_cast<int32_t *>(place)[i] = static_cast<int32_t>(50257 * uniform);
    }
    return place;
  }

  Memory memory;
  std::vector<Call> calls;
};

void measure(const char *name, const Program &program) {
  constexpr int64_t copied = int64_t(51) << 20;
  static Memory memory(2 * copied + 64);
  static std::byte *from = memory.take(copied), *to = memory.take(copied);
  std::memset(from, 1, copied); // memory that was never written is one page of zeros, read from the cache
  auto copy = [&] { std::memcpy(to, from, copied); };
  std::vector<double> copies, rates, shares;
  for (int repetition = -2; repetition < Repetitions; ++repetition) { // the first ones warm up
    double before = timeOf(copy), time = timeOf([&] { program.run(); }), after = timeOf(copy);
    if (repetition < 0)
      continue;
    double copyRate = 4 * copied / (before + after);
    copies.push_back(copyRate * 1e-9);
    rates.push_back(program.bytes / time * 1e-9);
    shares.push_back(program.bytes / time / copyRate * 100);
  }
  std::printf("| %s | %.1f | %.1f | %.1f | %.0f%% |\n", name, program.bytes * 1e-6, median(copies), median(rates),
              median(shares));
  std::fflush(stdout);
}

/// Lowers a module's functions and measures them.
LogicalResult measureModule(MLIRContext &context, const char *text, bool differentiate,
                            ArrayRef<std::pair<const char *, const char *>> functions) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return failure();
  PassManager passes(&context);
  if (differentiate)
    passes.addPass(createDifferentiate({}));
  passes.addPass(createDecompose());
  buildHowPipeline(passes);
  std::string why;
  FailureOr<CodeTarget> target = resolveTarget("native", why);
  if (failed(passes.run(*module)) || failed(target))
    return failure();
  FailureOr<std::string> image = compileKernels(SmallVector<dt::KernelOp>(module->getOps<dt::KernelOp>()), *target);
  if (failed(image))
    return failure();
  KernelLibrary library(*image);
  Kernels kernels(*module);
  for (auto [name, title] : functions)
    for (bool inPlace : {false, true}) {
      Program program(module->lookupSymbol<func::FuncOp>(name), kernels, library, inPlace);
      if (program.isInPlace == inPlace)
        measure((std::string(title) + (inPlace ? ", in place" : "")).c_str(), program);
    }
  return success();
}

} // namespace

int main() {
  MLIRContext context;
  context.loadDialect<dt::DTDialect, func::FuncDialect>();
  std::printf("| what | MB | copy, GB/s | kernel, GB/s | share |\n|---|---|---|---|---|\n");
  bool good = succeeded(
      measureModule(context, forward, false,
                    {{"softmax", "softmax"}, {"cross_entropy", "cross-entropy, forward"}, {"dropout", "dropout"}}));
  good &= succeeded(measureModule(context, training, true, {{"micro", "cross-entropy, forward and backward"}}));
  return good ? 0 : 1;
}
