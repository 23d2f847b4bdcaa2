// dtc's matrices are row-major, cuBLASLt's column-major: our C = A B is their C^T = B^T A^T on the same memory. So
// their first operand is our B, and the leading dimensions are the same.
#include "runtime/kernels/cuda/products.h"
#include "runtime/device/cuda/stopwatch.h"
#include "runtime/kernels/cuda/choices.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/epilogue.h"
#include "runtime/abi/library/gemm.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace dtc::cuda {
namespace {

using namespace cublaslt;

[[noreturn]] void refuse(const std::string &what) {
  throw Error(ExitCode::BadInput, "the program is inconsistent: " + what + "; compile it again");
}

using abi::library::countOf, abi::library::load, abi::library::GemmScalars, abi::library::ProductScalars;

/// The scalars of dtc_gemm, and the epilogue, if there is one.
struct Shape : GemmScalars {
  const abi::EpilogueForm *epilogue = nullptr;

  explicit Shape(std::span<const int64_t> s) : GemmScalars(load<GemmScalars>(s.data())) {
    if (s.size() == countOf<GemmScalars>)
      return;
    int64_t number = load<ProductScalars>(s.data()).epilogue;
    epilogue = abi::findEpilogue(number);
    if (!epilogue || batch != 1 || accumulate)
      refuse(fmt::format("a product has epilogue {}, a batch of {} and accumulates: {}", number, batch, accumulate));
  }

  uint64_t resultBytes() const {
    auto elements = uint64_t((batch - 1) * strideC + (m - 1) * ldc + n);
    return abi::bytesOf(static_cast<abi::DataType>(result), elements);
  }
  bool accumulates() const { return accumulate || (epilogue && epilogue->accumulates); }
  size_t buffers() const { return epilogue ? epilogue->inputs() + epilogue->outputs() : 3; }

  std::string text() const {
    return fmt::format("{}{}x{} from {}x{} and {}x{}{}{}", batch > 1 ? fmt::format("{} times ", batch) : "", m, n, m, k,
                       k, n,
                       operands == dtc_f32    ? ""
                       : operands == dtc_bf16 ? " of bf16"
                                              : " of f16",
                       epilogue ? fmt::format(" with the epilogue {}", epilogue->name) : "");
  }
};

/// The operands of a launch; null: not present.
struct Operands {
  void *a, *b, *before, *result, *bias = nullptr, *aux = nullptr; ///< `before`: what the product is added to, if
                                                                  ///< anything

  Operands(const Shape &shape, std::span<void *const> buffers) : a(buffers[0]), b(buffers[1]) {
    const abi::EpilogueForm *form = shape.epilogue;
    result = before = buffers[form ? form->inputs() : 2];
    if (form && form->accumulates)
      before = buffers[2];
    if (form && form->hasBias)
      bias = buffers[2];
    if (form && form->readsOperand)
      aux = buffers[2];
    if (form && form->storesSum)
      aux = buffers.back();
  }
};

cublaslt::Epilogue epilogueOf(const Shape &shape) {
  switch (shape.epilogue ? shape.epilogue->epilogue : abi::Epilogue::Accumulate) {
  case abi::Epilogue::Bias:
    return EpilogueBias;
  case abi::Epilogue::GeluBias:
    return EpilogueGeluBias;
  case abi::Epilogue::GeluAuxBias:
    return EpilogueGeluAuxBias;
  case abi::Epilogue::GeluGradient:
    return EpilogueGeluGradient;
  case abi::Epilogue::Accumulate: // C as the addend
    break;
  }
  return EpilogueNone;
}

DataType dataTypeOf(int64_t element) { return element == dtc_bf16 ? R16BF : element == dtc_f16 ? R16F : R32F; }

/// The alignment of an address, as a power of two up to a useful limit.
uint32_t alignmentOf(const void *address) {
  constexpr uintptr_t Most = 256;
  auto bits = reinterpret_cast<uintptr_t>(address) | Most;
  return uint32_t(bits & (~bits + 1));
}

/// A descriptor that library functions create and destroy.
template <typename State> class Owned {
public:
  using Destroy = int(State *);
  explicit Owned(Destroy *destroy) : destroy(destroy) {}
  Owned(Owned &&other) noexcept : state(std::exchange(other.state, nullptr)), destroy(other.destroy) {}
  ~Owned() {
    if (state)
      destroy(state);
  }

  State *state = nullptr;

private:
  Destroy *destroy;
};

/// One matrix as cuBLASLt sees it.
Owned<LayoutState> makeLayout(const Library &library, int64_t element, int64_t rows, int64_t columns, int64_t leading,
                              const Shape &shape, int64_t stride) {
  Owned<LayoutState> layout(library.layoutDestroy);
  library.check(library.layoutCreate(&layout.state, dataTypeOf(element), uint64_t(rows), uint64_t(columns), leading),
                "cannot describe a matrix");
  auto batch = int32_t(shape.batch);
  library.check(library.layoutSet(layout.state, LayoutBatchCount, &batch, sizeof batch), "cannot describe a batch");
  library.check(library.layoutSet(layout.state, LayoutBatchStride, &stride, sizeof stride), "cannot describe a batch");
  return layout;
}

/// How launches of one shape run.
struct Plan {
  Owned<OperationState> operation;
  Owned<LayoutState> first, second, result; ///< our B, A and C
  Algorithm algorithm = {};
  bool isPlain = false; ///< the epilogue is a kernel of the program
};

class Products {
public:
  Products(const ProductChoices &choices, std::span<const char *const> libraries)
      : isTf32(choices.tf32), library(libraries) {
    if (choices.tuned.empty())
      return;
    tuned.emplace(choices.tuned);
    keyPrefix = fmt::format("{}, cuBLASLt {}{}:", choices.gpu, library.getVersion(), isTf32 ? ", TF32" : "");
  }

  void launch(LibraryContext &context, std::span<void *const> buffers, std::span<const int64_t> scalars);

private:
  /// What an algorithm depends on: the scalars, the alignments of the buffers and the bytes of workspace.
  using Key = std::vector<int64_t>;

  Plan makePlan(LibraryContext &context, const Shape &shape, const Operands &operands, const Key &key);
  Plan describe(const Shape &shape, const Operands &operands, bool isPlain) const;
  ProductChoice chooseByHeuristic(LibraryContext &context, const Shape &shape, const Operands &operands) const;
  ProductChoice chooseByTime(LibraryContext &context, const Shape &shape, const Operands &operands) const;
  void setPlaces(const Plan &plan, const Operands &operands) const;
  std::vector<Heuristic> findAlgorithms(const Plan &plan, const Shape &shape, const Operands &operands,
                                        uint64_t workspaceBytes, int most) const;
  int multiply(const LibraryContext &context, const Plan &plan, const Shape &shape, const Operands &operands,
               const Algorithm &algorithm) const;

  const bool isTf32;
  Library library;
  std::optional<ChoiceFile> tuned;
  std::string keyPrefix; ///< the prefix of its keys
  std::map<Key, Plan> plans;
};

/// Sets the addresses of the epilogue's buffers, which are part of the operation's description.
void Products::setPlaces(const Plan &plan, const Operands &operands) const {
  if (plan.isPlain)
    return;
  for (auto [attribute, place] : {std::pair(OperationBias, operands.bias), std::pair(OperationAux, operands.aux)})
    if (place)
      library.check(library.operationSet(plan.operation.state, attribute, &place, sizeof place),
                    "cannot describe a product");
}

Plan Products::describe(const Shape &shape, const Operands &operands, bool isPlain) const {
  // A matrix of one row may have any leading dimension; theirs must have at least its rows.
  auto layout = [&](int64_t element, bool transposed, int64_t rows, int64_t columns, int64_t leading, int64_t stride) {
    if (transposed)
      std::swap(rows, columns);
    return makeLayout(library, element, columns, rows, rows == 1 ? std::max(leading, columns) : leading, shape, stride);
  };
  Plan plan{Owned<OperationState>(library.operationDestroy),
            layout(shape.operands, shape.transposeB, shape.k, shape.n, shape.ldb, shape.strideB),
            layout(shape.operands, shape.transposeA, shape.m, shape.k, shape.lda, shape.strideA),
            layout(shape.result, false, shape.m, shape.n, shape.ldc, shape.strideC),
            {},
            isPlain};
  int compute = isTf32 && shape.operands == dtc_f32 ? ComputeTf32 : Compute32F;
  library.check(library.operationCreate(&plan.operation.state, compute, R32F), "cannot describe a product");
  auto set = [&](OperationAttribute attribute, const auto &value) {
    library.check(library.operationSet(plan.operation.state, attribute, &value, sizeof value),
                  "cannot describe a product");
  };
  set(OperationTransposeA, shape.transposeB ? Transposed : NotTransposed);
  set(OperationTransposeB, shape.transposeA ? Transposed : NotTransposed);
  set(OperationEpilogue, isPlain ? EpilogueNone : epilogueOf(shape));
  if (operands.aux && !isPlain)
    set(OperationAuxLeading, shape.ldc);
  setPlaces(plan, operands); // the algorithm depends on their alignment
  return plan;
}

std::vector<Heuristic> Products::findAlgorithms(const Plan &plan, const Shape &shape, const Operands &operands,
                                                uint64_t workspaceBytes, int most) const {
  Owned<PreferenceState> preference(library.preferenceDestroy);
  library.check(library.preferenceCreate(&preference.state), "cannot ask for an algorithm");
  auto set = [&](PreferenceAttribute attribute, const auto &value) {
    library.check(library.preferenceSet(preference.state, attribute, &value, sizeof value),
                  "cannot ask for an algorithm");
  };
  set(PreferenceWorkspaceBytes, workspaceBytes);
  set(PreferenceReductions, uint32_t(ReductionInF32)); // in addition to none
  set(PreferenceAlignmentA, alignmentOf(operands.b));
  set(PreferenceAlignmentB, alignmentOf(operands.a));
  set(PreferenceAlignmentC, alignmentOf(operands.before));
  set(PreferenceAlignmentD, alignmentOf(operands.result));
  std::vector<Heuristic> found(most);
  int count = 0;
  int status = library.getHeuristic(library.handle(), plan.operation.state, plan.first.state, plan.second.state,
                                    plan.result.state, plan.result.state, preference.state, most, found.data(), &count);
  if (status == cublaslt::Success && count > 0)
    status = found.front().status;
  if (status == cublaslt::Success && count == 0)
    status = cublaslt::NotSupported;
  library.check(status, "there is no algorithm for the product " + shape.text());
  found.resize(size_t(count));
  std::erase_if(found, [](const Heuristic &each) { return each.status != cublaslt::Success; });
  return found;
}

/// A copy of memory that is overwritten temporarily, to be restored.
class Backup {
public:
  /// Has no copy if there is no memory for it.
  Backup(const LibraryContext &context, const void *place, uint64_t bytes)
      : context(context), place(reinterpret_cast<uintptr_t>(place)), bytes(bytes) {
    if (context.driver->memAlloc(&memory, bytes) == Success)
      copy(memory, this->place);
    else
      memory = 0;
  }
  ~Backup() {
    if (!memory)
      return;
    context.driver->streamSynchronize(context.stream); // which may still be reading it
    context.driver->memFree(memory);
  }
  Backup(const Backup &) = delete;
  Backup &operator=(const Backup &) = delete;

  bool isThere() const { return memory != 0; }
  void restore() const { copy(place, memory); }

private:
  void copy(DevicePointer target, DevicePointer source) const {
    context.driver->check(context.driver->memcpyDtoDAsync(target, source, bytes, context.stream),
                          "cannot copy within the GPU's memory");
  }

  const LibraryContext &context;
  DevicePointer place, memory = 0;
  uint64_t bytes;
};

/// The heuristic's first choice. If cuBLASLt has no algorithm for a product with its epilogue, it has one for the
/// product alone, and the program has a kernel for the rest.
ProductChoice Products::chooseByHeuristic(LibraryContext &context, const Shape &shape, const Operands &operands) const {
  auto first = [&](bool isPlain) {
    Plan plan = describe(shape, operands, isPlain);
    return ProductChoice{isPlain, findAlgorithms(plan, shape, operands, context.workspaceBytes, 1).front().algorithm};
  };
  try {
    return first(/*isPlain=*/false);
  } catch (const Error &) {
    if (!context.finish)
      throw;
  }
  return first(/*isPlain=*/true);
}

/// The fastest of the heuristic's first few, with and without the epilogue, timed on the operands themselves: the
/// result is written again at the end.
ProductChoice Products::chooseByTime(LibraryContext &context, const Shape &shape, const Operands &operands) const {
  constexpr int Candidates = 8;
  Stopwatch stopwatch(*context.driver, context.stream);
  ProductChoice fastest = chooseByHeuristic(context, shape, operands);
  float least = std::numeric_limits<float>::infinity();
  for (bool isPlain : {false, true}) {
    if (isPlain ? !context.finish : fastest.isPlain) // none without an epilogue; none with it
      continue;
    Plan plan = describe(shape, operands, isPlain);
    for (const Heuristic &candidate : findAlgorithms(plan, shape, operands, context.workspaceBytes, Candidates)) {
      int status = cublaslt::Success;
      float time = stopwatch.least([&] {
        if (status == cublaslt::Success)
          status = multiply(context, plan, shape, operands, candidate.algorithm);
      });
      if (status == cublaslt::Success && time < least)
        least = time, fastest = {isPlain, candidate.algorithm};
    }
  }
  return fastest;
}

/// Choices by timing come from the file. Nothing can be timed while a graph is captured (a list is captured only after
/// it has run once), nor if an accumulator would be modified and there is no memory to save it.
Plan Products::makePlan(LibraryContext &context, const Shape &shape, const Operands &operands, const Key &key) {
  std::string name = fmt::format("{} {}", keyPrefix, fmt::join(key, " "));
  std::optional<ProductChoice> choice = tuned ? tuned->find(name) : std::nullopt;
  if (tuned && !choice && context.driver && !context.isCaptured) {
    std::optional<Backup> accumulator;
    if (shape.accumulates() && operands.before == operands.result)
      accumulator.emplace(context, operands.result, shape.resultBytes());
    if (!accumulator || accumulator->isThere())
      choice = tuned->findOrMake(name, [&] { return chooseByTime(context, shape, operands); });
    if (accumulator && accumulator->isThere())
      accumulator->restore();
  }
  if (!choice)
    choice = chooseByHeuristic(context, shape, operands);
  Plan plan = describe(shape, operands, choice->isPlain);
  plan.algorithm = choice->algorithm;
  return plan;
}

/// The product, and its epilogue if that is a separate kernel.
int Products::multiply(const LibraryContext &context, const Plan &plan, const Shape &shape, const Operands &operands,
                       const Algorithm &algorithm) const {
  float one = 1, before = shape.accumulates() ? 1 : 0;
  int status =
      library.matmul(library.handle(), plan.operation.state, &one, operands.b, plan.first.state, operands.a,
                     plan.second.state, &before, operands.before, plan.result.state, operands.result, plan.result.state,
                     &algorithm, reinterpret_cast<void *>(context.workspace), context.workspaceBytes, context.stream);
  if (status == cublaslt::Success && plan.isPlain)
    context.finish();
  return status;
}

void Products::launch(LibraryContext &context, std::span<void *const> buffers, std::span<const int64_t> scalars) {
  if (scalars.size() != countOf<GemmScalars> && scalars.size() != countOf<ProductScalars>)
    refuse(fmt::format("a product has {} scalars, not 16 or 17", scalars.size()));
  Shape shape(scalars);
  if (buffers.size() != shape.buffers())
    refuse(fmt::format("a product has {} buffers, not {}", buffers.size(), shape.buffers()));
  if (shape.batch == 0 || shape.m == 0 || shape.n == 0)
    return;
  Operands operands(shape, buffers);
  Key key(scalars.begin(), scalars.end());
  for (const void *buffer : buffers)
    key.push_back(alignmentOf(buffer));
  key.push_back(int64_t(context.workspaceBytes));
  auto plan = plans.find(key);
  if (plan == plans.end())
    plan = plans.emplace(key, makePlan(context, shape, operands, key)).first;
  const Plan &known = plan->second;
  setPlaces(known, operands);
  library.check(multiply(context, known, shape, operands, known.algorithm), "cannot multiply: " + shape.text());
}

} // namespace

LibraryFunction makeProducts(const ProductChoices &choices, std::span<const char *const> libraries) {
  auto products = std::make_shared<Products>(choices, libraries);
  return [products](LibraryContext &context, std::span<void *const> buffers, std::span<const int64_t> scalars) {
    products->launch(context, buffers, scalars);
  };
}

} // namespace dtc::cuda
