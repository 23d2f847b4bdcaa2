// Builds @update: clipping, the optimizer's formulas and the gate before the state, on whole parameters.
#include "dialect/IR/Expression.h"
#include "passes/differentiate/Passes.h"
#include "passes/differentiate/Signature.h"

#include <limits>

namespace dtc {
#define GEN_PASS_DEF_BUILDUPDATE
#include "passes/differentiate/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace dtc;
using dt::Expr;

namespace {

/// The scalars that all parameters share. Absent ones are null.
struct Scalars {
  Value applies;          ///< mask: whether the state is to change at all
  Value gradientScale;    ///< clipping coefficient / number of tokens
  Value rate;             ///< learning rate
  Value keep;             ///< AdamW: 1 - rate * weight decay; null without decay
  Value momentRate;       ///< AdamW: rate / bias correction of the first moment
  Value denominatorScale; ///< AdamW: 1 / √(bias correction of the second moment)
};

/// Slots bear the names under which PyTorch's optimizers keep them: checkpoints use these.
constexpr StringLiteral moment1 = "exp_avg", moment2 = "exp_avg_sq", momentumBuffer = "momentum_buffer";

struct BuildUpdate : dtc::impl::BuildUpdateBase<BuildUpdate> {
  using BuildUpdateBase::BuildUpdateBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto parameters = module->getAttrOfType<ArrayAttr>(dt::module_attr::parameters);
    if (!parameters) {
      module.emitError("has no dt.parameters");
      return signalPassFailure();
    }
    if (optimizer != "adamw" && optimizer != "sgd") {
      module.emitError("unknown optimizer \"") << optimizer << "\"; there are \"adamw\" and \"sgd\"";
      return signalPassFailure();
    }
    auto list = llvm::to_vector(parameters.getAsRange<dt::ParamAttr>());
    func::FuncOp update = createFunction(module, dt::function::update, getArguments(list));
    build(update, list);
  }

  bool isAdam() const { return optimizer == "adamw"; }

  /// What the optimizer keeps for each parameter.
  SmallVector<StringRef> getSlots() const {
    if (isAdam())
      return {moment1, moment2};
    return momentum != 0 ? SmallVector<StringRef>{momentumBuffer} : SmallVector<StringRef>();
  }

  SmallVector<Argument> getArguments(ArrayRef<dt::ParamAttr> parameters) {
    Builder builder(&getContext());
    SmallVector<Argument> arguments;
    DenseMap<dt::PortAttr, Type> reduced = getReducedTypes();
    auto addAll = [&](dt::PortKind kind, StringRef slot = "") {
      for (dt::ParamAttr parameter : parameters) {
        auto port = dt::PortAttr::get(&getContext(), kind, parameter.getName(), slot);
        Type known = reduced.lookup(port);
        arguments.push_back({known ? known : RankedTensorType::get(parameter.getLogicalShape(), builder.getF32Type()),
                             port, NameLoc::get(parameter.getName())});
      }
    };
    addAll(dt::PortKind::Parameter);
    for (StringRef slot : getSlots())
      addAll(dt::PortKind::Slot, slot);
    addAll(dt::PortKind::ReducedGradient);
    auto addScalar = [&](dt::PortKind kind, StringRef name) {
      arguments.push_back({RankedTensorType::get({}, builder.getF32Type()),
                           dt::PortAttr::get(&getContext(), kind, name), NameLoc::get(builder.getStringAttr(name))});
    };
    addScalar(dt::PortKind::Output, "loss_sum");
    addScalar(dt::PortKind::Output, "token_count");
    addScalar(dt::PortKind::Output, "grad_norm");
    addScalar(dt::PortKind::Input, "learning_rate");
    if (isScaled())
      addScalar(dt::PortKind::Input, lossScale);
    if (isAdam()) {
      addScalar(dt::PortKind::Input, "bias_correction1");
      addScalar(dt::PortKind::Input, "bias_correction2");
    }
    return arguments;
  }

  /// Whether gradients come multiplied by the loss scale.
  bool isScaled() {
    auto reduce = getOperation().lookupSymbol<func::FuncOp>(dt::function::reduce);
    return reduce && llvm::any_of(llvm::seq<unsigned>(0, reduce.getNumArguments()), [&](unsigned index) {
             return dt::argumentPort(reduce, index).getName() == lossScale;
           });
  }

  /// What @reduce returns: gradients may come in 16 bits. State is f32.
  DenseMap<dt::PortAttr, Type> getReducedTypes() {
    DenseMap<dt::PortAttr, Type> types;
    if (auto reduce = getOperation().lookupSymbol<func::FuncOp>(dt::function::reduce))
      for (auto [index, type] : llvm::enumerate(reduce.getResultTypes()))
        types[dt::resultPort(reduce, index)] = type;
    return types;
  }

  void build(func::FuncOp update, ArrayRef<dt::ParamAttr> parameters) {
    LayerListener listener;
    listener.setPurpose(optimizer);
    OpBuilder builder(&getContext(), &listener);
    builder.setInsertionPointToStart(&update.getBody().front());
    Arguments arguments(update);
    Scalars scalars = buildScalars(builder, update.getLoc(), arguments);
    SmallVector<Updated> updated;
    for (dt::ParamAttr parameter : parameters) {
      listener.setLayer(parameter.getLayer().empty() ? StringAttr() : parameter.getLayer());
      Updated values = isAdam() ? buildAdamW(builder, parameter, arguments, scalars)
                                : buildSgd(builder, parameter, arguments, scalars);
      updated.push_back(gate(builder, parameter, arguments, scalars.applies, values));
    }
    listener.setLayer({});
    // Results stand in the order of the arguments: parameters, then slot by slot.
    Results results;
    for (auto [parameter, values] : llvm::zip(parameters, updated))
      results.add(values.parameter, dt::PortKind::Parameter, parameter.getName());
    for (auto [index, slot] : llvm::enumerate(getSlots()))
      for (auto [parameter, values] : llvm::zip(parameters, updated))
        results.add(values.slots[index], dt::PortKind::Slot, parameter.getName(), slot);
    Expr applies(builder, update.getLoc(), scalars.applies);
    results.add(applies.apply<dt::ConvertOp>(applies.typeWith(builder.getF32Type()), scalars.applies),
                dt::PortKind::Output, "update_applied");
    results.finish(update);
  }

  /// One parameter's new state.
  struct Updated {
    Value parameter;
    SmallVector<Value, 2> slots; ///< as getSlots names them
  };

  /// True where the number is neither infinite nor NaN: comparisons are ordered.
  static Expr isFinite(Expr number) {
    double largest = std::numeric_limits<float>::max();
    Expr below = number.compare(dt::CompareDirection::LE, number.splat(largest));
    Expr above = number.compare(dt::CompareDirection::GE, number.splat(-largest));
    return below.apply<dt::AndOp>(below, above);
  }

  /// The new values where the update applies, else the arguments as they are.
  Updated gate(OpBuilder &builder, dt::ParamAttr parameter, const Arguments &arguments, Value applies,
               const Updated &values) {
    StringRef name = parameter.getName();
    Expr mask = Expr(builder, NameLoc::get(parameter.getName()), applies).broadcast(parameter.getLogicalShape(), {});
    auto choose = [&](Value updated, Value old) -> Value { return mask.select(mask.with(updated), mask.with(old)); };
    Updated gated{choose(values.parameter, arguments.get(dt::PortKind::Parameter, name)), {}};
    for (auto [slot, updated] : llvm::zip_equal(getSlots(), values.slots))
      gated.slots.push_back(choose(updated, arguments.get(dt::PortKind::Slot, name, slot)));
    return gated;
  }

  Scalars buildScalars(OpBuilder &builder, Location loc, const Arguments &arguments) {
    Expr count(builder, loc, arguments.get(dt::PortKind::Output, "token_count"));
    Expr rate = count.with(arguments.get(dt::PortKind::Input, "learning_rate"));
    Expr norm = count.with(arguments.get(dt::PortKind::Output, "grad_norm"));
    Expr finite = isFinite(count.with(arguments.get(dt::PortKind::Output, "loss_sum")));
    finite = finite.apply<dt::AndOp>(finite, isFinite(norm));
    Expr applies = finite.apply<dt::AndOp>(finite, count.compare(dt::CompareDirection::GT, count.splat(0)));
    Expr scale = 1.0 / maximum(count, 1);
    if (clipNorm != 0)
      scale = minimum(clipNorm / (norm + 1e-6), 1) * scale;
    if (Value lossScaleValue = arguments.get(dt::PortKind::Input, lossScale))
      scale = scale / count.with(lossScaleValue);
    Scalars scalars{applies, scale, rate, {}, {}, {}};
    if (isAdam()) {
      if (weightDecay != 0)
        scalars.keep = 1.0 - rate * double(weightDecay);
      scalars.momentRate = rate / count.with(arguments.get(dt::PortKind::Input, "bias_correction1"));
      scalars.denominatorScale = rsqrt(count.with(arguments.get(dt::PortKind::Input, "bias_correction2")));
    }
    return scalars;
  }

  Updated buildAdamW(OpBuilder &builder, dt::ParamAttr parameter, const Arguments &arguments, const Scalars &scalars) {
    StringRef name = parameter.getName();
    Expr p(builder, NameLoc::get(parameter.getName()), arguments.get(dt::PortKind::Parameter, name));
    auto whole = [&](Value scalar) { return p.with(scalar).broadcast(p.getShape(), {}); };
    Expr g = p.with(arguments.get(dt::PortKind::ReducedGradient, name)).widened() * whole(scalars.gradientScale);
    Expr m = p.with(arguments.get(dt::PortKind::Slot, name, moment1)) * double(beta1) + g * (1 - beta1);
    Expr v = p.with(arguments.get(dt::PortKind::Slot, name, moment2)) * double(beta2) + square(g) * (1 - beta2);
    Expr step = whole(scalars.momentRate) * m / (sqrt(v) * whole(scalars.denominatorScale) + double(epsilon));
    Expr kept = scalars.keep && parameter.getDecays() ? p * whole(scalars.keep) : p;
    return {kept - step, {m, v}};
  }

  Updated buildSgd(OpBuilder &builder, dt::ParamAttr parameter, const Arguments &arguments, const Scalars &scalars) {
    StringRef name = parameter.getName();
    Expr p(builder, NameLoc::get(parameter.getName()), arguments.get(dt::PortKind::Parameter, name));
    auto whole = [&](Value scalar) { return p.with(scalar).broadcast(p.getShape(), {}); };
    Expr g = p.with(arguments.get(dt::PortKind::ReducedGradient, name)).widened() * whole(scalars.gradientScale);
    if (weightDecay != 0 && parameter.getDecays())
      g = g + p * double(weightDecay);
    if (momentum == 0)
      return {p - whole(scalars.rate) * g, {}};
    Expr m = p.with(arguments.get(dt::PortKind::Slot, name, momentumBuffer)) * double(momentum) + g;
    return {p - whole(scalars.rate) * m, {m}};
  }
};

} // namespace
