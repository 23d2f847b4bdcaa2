// Fuses what follows a product into its library call; see Passes.td for what and when.
#include "passes/analysis/GatheredState.h"
#include "passes/lower/Passes.h"
#include "passes/lower/Targets.h"
#include "passes/lower/kernels/KernelPlan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace dtc {
#define GEN_PASS_DEF_FUSEEPILOGUES
#include "passes/lower/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

using dtc::isReadOutsideKernels;
using dtc::abi::Epilogue;
using Kind = EpilogueStep::Kind;

namespace {

/// Whether the value is there without a kernel of its own.
bool isThere(Value value) {
  Operation *producer = value.getDefiningOp();
  return !producer || !dtc::isKernelOp(producer) || isReadOutsideKernels(value);
}

/// What `reader` does with `product` if it is of that kind, else nothing.
std::optional<EpilogueStep> findStep(Operation *reader, Value product, Kind kind) {
  auto epilogue = dyn_cast<EpilogueOpInterface>(reader);
  std::optional<EpilogueStep> step = epilogue ? epilogue.getEpilogueStep(product) : std::nullopt;
  return step && step->kind == kind ? step : std::nullopt;
}

/// The only operation that reads the value, and the step's other operand; null where others read it too, or it does
/// something else.
std::pair<Operation *, Value> onlyReader(Value value, Kind kind) {
  if (!value.hasOneUse())
    return {};
  Operation *reader = *value.user_begin();
  std::optional<EpilogueStep> step = findStep(reader, value, kind);
  return step ? std::pair(reader, step->other) : std::pair<Operation *, Value>();
}

/// The sum of a product and a bias, and all its readers.
struct BiasedSum {
  Operation *sum = nullptr; ///< the first
  Value bias;
  /// The same sum recomputed: from the product, or from its copy in the host's memory, maybe after a barrier.
  struct Again {
    Value product;
    Operation *barrier, *sum;
  };
  SmallVector<Again> again;
  HostCopyOpInterface toHost, back; ///< copies of the product, where it has been in the host's memory
  Operation *activation = nullptr;  ///< of the sum, if it is read outside kernels

  /// Nothing unless all readers of the product are such sums.
  static std::optional<BiasedSum> of(Value product);
  bool hasOtherReaders() const { return !again.empty() || !sum->hasOneUse(); }

private:
  bool addReader(Value product, Operation *user);
  bool addAgain(Value product, Operation *barrier, Operation *user);
};

bool BiasedSum::addAgain(Value product, Operation *barrier, Operation *user) {
  std::optional<EpilogueStep> step = findStep(user, barrier ? barrier->getResult(0) : product, Kind::Bias);
  if (!step || (step->other != bias && !dtc::isSameState(step->other, bias)))
    return false;
  again.push_back({product, barrier, user});
  return true;
}

/// Returns false if it is no such sum.
bool BiasedSum::addReader(Value product, Operation *user) {
  if (user->hasTrait<SeparatesKernels>())
    return llvm::all_of(user->getUsers(), [&](Operation *behind) { return addAgain(product, user, behind); });
  auto copy = dyn_cast<HostCopyOpInterface>(user);
  if (!copy)
    return addAgain(product, nullptr, user);
  (copy.isToHost() ? toHost : back) = copy;
  Value moved = copy->getResult(0);
  if (copy.isToHost() && !moved.hasOneUse())
    return false;
  return llvm::all_of(moved.getUsers(), [&](Operation *behind) { return addReader(moved, behind); });
}

std::optional<BiasedSum> BiasedSum::of(Value product) {
  BiasedSum result;
  SmallVector<Operation *> users(product.getUsers());
  llvm::sort(users, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  auto *sum = llvm::find_if(users, [](Operation *user) { return !isa<HostCopyOpInterface>(user); });
  if (sum == users.end())
    return std::nullopt;
  std::optional<EpilogueStep> first = findStep(*sum, product, Kind::Bias);
  if (!first)
    return std::nullopt;
  result.sum = *sum, result.bias = first->other;
  for (Operation *user : users)
    if (user != result.sum && !result.addReader(product, user))
      return std::nullopt;
  Value value = result.sum->getResult(0);
  for (Operation *user : value.getUsers())
    if (findStep(user, value, Kind::Gelu) && isReadOutsideKernels(user->getResult(0)))
      result.activation = user;
  return result;
}

class EpilogueFusion {
public:
  explicit EpilogueFusion(const dtc::Target &target) : target(target) {}

  bool accumulate(ProductOpInterface product);
  bool takeGradient(ProductOpInterface product);
  void addBias(ProductOpInterface product);

private:
  /// Null if the target's library has no such product.
  Operation *build(ProductOpInterface product, Operation *at, Epilogue epilogue, Value other);

  const dtc::Target &target;
};

/// Builds before `at`; the product gets the type of `at`'s result.
Operation *EpilogueFusion::build(ProductOpInterface product, Operation *at, Epilogue epilogue, Value other) {
  OpBuilder builder(at);
  auto type = cast<RankedTensorType>(at->getResult(0).getType());
  auto fused = cast<LibraryOpInterface>(product.buildWithEpilogue(builder, type, epilogue, other));
  SmallVector<StridedLayout> layouts;
  for (ValueRange values : {ValueRange(fused->getOperands()), ValueRange(fused->getResults())})
    for (Type each : values.getTypes())
      layouts.push_back(StridedLayout::dense(cast<RankedTensorType>(each).getShape()));
  FailureOr<LibraryCall> call = fused.getLibraryCall(layouts, getMesh(fused));
  std::string why;
  if (succeeded(call) && target.findLibraryKernel(*call, why))
    return fused;
  fused->erase();
  return nullptr;
}

/// accumulator + product, where the sum overwrites the accumulator.
bool EpilogueFusion::accumulate(ProductOpInterface product) {
  Value value = product->getResult(0);
  if (Operation *widened = onlyReader(value, Kind::Widen).first)
    value = widened->getResult(0);
  auto [sum, accumulator] = onlyReader(value, Kind::Accumulate);
  if (!sum || !isReadOutsideKernels(sum->getResult(0)) || !accumulator.hasOneUse() || !isThere(accumulator))
    return false;
  Operation *fused = build(product, sum, Epilogue::Accumulate, accumulator);
  if (fused)
    sum->getResult(0).replaceAllUsesWith(fused->getResult(0));
  return fused != nullptr;
}

/// gelu_grad(product, x).
bool EpilogueFusion::takeGradient(ProductOpInterface product) {
  auto [gradient, x] = onlyReader(product->getResult(0), Kind::GeluGradient);
  if (!gradient || !isReadOutsideKernels(gradient->getResult(0)) || !isThere(x))
    return false;
  Operation *fused = build(product, gradient, Epilogue::GeluGradient, x);
  if (fused)
    gradient->getResult(0).replaceAllUsesWith(fused->getResult(0));
  return fused != nullptr;
}

/// Lets the sum go to the host's memory and back instead of the product. Returns it as it comes back; null if nothing
/// goes there.
static Value moveInstead(const BiasedSum &found, Value sum, Operation *fused) {
  if (!found.back)
    return {};
  OpBuilder builder(fused->getContext());
  builder.setInsertionPointAfter(fused);
  for (HostCopyOpInterface copy : {found.toHost, found.back}) {
    Operation *moved = copy.cloneWithType(builder, sum.getType());
    moved->setOperand(0, sum);
    sum = moved->getResult(0);
    builder.setInsertionPoint(found.back);
  }
  return sum;
}

/// product + bias, and the activation of that.
void EpilogueFusion::addBias(ProductOpInterface product) {
  std::optional<BiasedSum> found = BiasedSum::of(product->getResult(0));
  if (!found || !(found->activation || isReadOutsideKernels(found->sum->getResult(0))))
    return;
  Epilogue epilogue = !found->activation         ? Epilogue::Bias
                      : found->hasOtherReaders() ? Epilogue::GeluAuxBias
                                                 : Epilogue::GeluBias;
  Operation *fused = build(product, found->sum, epilogue, found->bias);
  if (!fused)
    return;
  if (found->activation)
    found->activation->getResult(0).replaceAllUsesWith(fused->getResult(0));
  if (epilogue == Epilogue::GeluBias)
    return;
  Value sum = fused->getResults().back(), fetched = moveInstead(*found, sum, fused);
  for (auto [summand, barrier, again] : found->again) {
    OpBuilder builder(again);
    IRMapping mapping;
    Value value = summand == product->getResult(0) ? sum : fetched;
    if (barrier) {
      mapping.map(summand, value);
      value = builder.clone(*barrier, mapping)->getResult(0);
    }
    again->getResult(0).replaceAllUsesWith(value);
  }
  found->sum->getResult(0).replaceUsesWithIf(sum, [&](OpOperand &use) { return use.getOwner() != found->activation; });
}

/// Erases what nothing reads any more, last first.
void eraseUnread(func::FuncOp function) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

struct FuseEpilogues : dtc::impl::FuseEpiloguesBase<FuseEpilogues> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    const dtc::Target &target = dtc::targetOf(function);
    if (!target.hasEpilogues())
      return;
    EpilogueFusion fusion(target);
    // What a gradient reads may be made after the product that takes it, where it is recomputed.
    auto products = llvm::to_vector(function.front().getOps<ProductOpInterface>());
    for (ProductOpInterface product : products)
      fusion.addBias(product);
    for (ProductOpInterface product : products)
      if (!fusion.accumulate(product))
        fusion.takeGradient(product);
    eraseUnread(function);
  }
};

} // namespace
