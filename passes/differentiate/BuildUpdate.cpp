// Builds @update: clipping, the optimizer's formulas and the gate before the state, on whole parameters.
#include "dialect/IR/Expression.h"
#include "dialect/IR/Locations.h"
#include "passes/differentiate/Passes.h"
#include "passes/differentiate/Signature.h"

#include "mlir/IR/TypeUtilities.h"

#include <limits>
#include <map>

namespace dtc {
#define GEN_PASS_DEF_BUILDUPDATE
#include "passes/differentiate/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace dtc;
using dt::Expr;

namespace {

/// The scalars that all parameters share. Those that a formula does not read are null.
struct Scalars {
  Value applies;          ///< mask: whether the state is to change at all
  Value gradientScale;    ///< clipping coefficient / number of tokens
  Value rate;             ///< learning rate
  Value keep;             ///< AdamW: 1 - rate * weight decay; null without decay
  Value momentRate;       ///< AdamW: rate / bias correction of the first moment
  Value denominatorScale; ///< AdamW: 1 / √(bias correction of the second moment)

  template <typename Function> void forEach(Function &&function) {
    for (Value *scalar : {&applies, &gradientScale, &rate, &keep, &momentRate, &denominatorScale})
      if (*scalar)
        function(*scalar);
  }
};

/// One parameter's state: what the optimizer reads, or what it makes.
struct State {
  Value parameter;
  SmallVector<Value, 2> slots; ///< as getSlots names them
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
    auto direction = dt::DirectionAttr::get(&getContext(), dt::Direction::Update);
    PurposeListener listener;
    listener.setMarks({{}, direction});
    listener.setPurpose(optimizer);
    OpBuilder builder(&getContext(), &listener);
    builder.setInsertionPointToStart(&update.getBody().front());
    Arguments arguments(update);
    Scalars scalars = buildScalars(builder, update.getLoc(), arguments);
    SmallVector<State> updated;
    for (dt::ParamAttr parameter : parameters) {
      listener.setMarks({parameter.getLayer(), direction});
      updated.push_back(apply(builder, update, parameter, arguments, scalars));
    }
    listener.setMarks({{}, direction});
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

  /// True where the number is neither infinite nor NaN: comparisons are ordered.
  static Expr isFinite(Expr number) {
    double largest = std::numeric_limits<float>::max();
    Expr below = number.compare(dt::CompareDirection::LE, number.splat(largest));
    Expr above = number.compare(dt::CompareDirection::GE, number.splat(-largest));
    return below.apply<dt::AndOp>(below, above);
  }

  /// The optimizer's formula applied to one parameter: its new state.
  State apply(OpBuilder &builder, func::FuncOp update, dt::ParamAttr parameter, const Arguments &arguments,
              Scalars scalars) {
    StringRef name = parameter.getName();
    if (!parameter.getDecays())
      scalars.keep = {};
    Value gradient = arguments.get(dt::PortKind::ReducedGradient, name);
    SmallVector<Value> operands{gradient, arguments.get(dt::PortKind::Parameter, name)};
    for (StringRef slot : getSlots())
      operands.push_back(arguments.get(dt::PortKind::Slot, name, slot));
    SmallVector<Type> types = llvm::to_vector(ValueRange(operands).drop_front().getTypes());
    scalars.forEach([&](Value scalar) { operands.push_back(scalar); });
    dt::FormulaOp formula = formulaFor(update, parameter.getDecays(), getElementTypeOrSelf(gradient), scalars);
    auto apply = dt::ApplyOp::create(builder, NameLoc::get(parameter.getName()), types,
                                     FlatSymbolRefAttr::get(formula.getSymNameAttr()), operands);
    return {apply.getResult(0), llvm::to_vector_of<Value, 2>(apply.getResults().drop_front())};
  }

  /// The optimizer on numbers: (gradient, parameter, slots, the scalars it reads) -> (parameter, slots).
  dt::FormulaOp formulaFor(func::FuncOp update, bool decays, Type gradientType, Scalars scalars) {
    dt::FormulaOp &formula = formulas[{gradientType.getAsOpaquePointer(), decays}];
    if (formula)
      return formula;
    OpBuilder builder(update);
    auto number = [](Type element) { return RankedTensorType::get({}, element); };
    Type stateType = builder.getF32Type();
    SmallVector<Type> state(1 + getSlots().size(), number(stateType));
    SmallVector<Type> inputs{number(gradientType)};
    llvm::append_range(inputs, state);
    scalars.forEach([&](Value scalar) { inputs.push_back(scalar.getType()); });
    std::string name = optimizer + (decays ? "" : "_without_decay");
    if (gradientType != stateType)
      llvm::raw_string_ostream(name) << "_" << gradientType;
    Location loc = withPurpose(update.getLoc(), optimizer);
    formula = dt::FormulaOp::create(builder, loc, name, builder.getFunctionType(inputs, state));
    builder.setInsertionPointToEnd(&formula.getBody().front());

    auto *argument = formula.getArguments().begin();
    Expr gradient = Expr(builder, loc, *argument++).widened();
    State old{*argument++, {}};
    for (size_t slot = 0; slot < getSlots().size(); ++slot)
      old.slots.push_back(*argument++);
    scalars.forEach([&](Value &scalar) { scalar = *argument++; });
    State updated = isAdam() ? buildAdamW(gradient, old, scalars) : buildSgd(gradient, old, decays, scalars);
    // The new values where the update applies, else the old ones as they are.
    Expr applies = gradient.with(scalars.applies);
    auto choose = [&](Value updated, Value old) -> Value {
      return applies.select(applies.with(updated), applies.with(old));
    };
    SmallVector<Value> chosen{choose(updated.parameter, old.parameter)};
    for (auto [updatedSlot, oldSlot] : llvm::zip_equal(updated.slots, old.slots))
      chosen.push_back(choose(updatedSlot, oldSlot));
    dt::YieldOp::create(builder, loc, chosen);
    return formula;
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
    Scalars scalars{applies, scale, {}, {}, {}, {}};
    if (!isAdam()) {
      scalars.rate = rate;
    } else {
      if (weightDecay != 0)
        scalars.keep = 1.0 - rate * double(weightDecay);
      scalars.momentRate = rate / count.with(arguments.get(dt::PortKind::Input, "bias_correction1"));
      scalars.denominatorScale = rsqrt(count.with(arguments.get(dt::PortKind::Input, "bias_correction2")));
    }
    return scalars;
  }

  State buildAdamW(Expr gradient, const State &old, const Scalars &scalars) {
    auto number = [&](Value value) { return gradient.with(value); };
    Expr p = number(old.parameter), g = gradient * number(scalars.gradientScale);
    Expr m = number(old.slots[0]) * double(beta1) + g * (1 - beta1);
    Expr v = number(old.slots[1]) * double(beta2) + square(g) * (1 - beta2);
    Expr step = number(scalars.momentRate) * m / (sqrt(v) * number(scalars.denominatorScale) + double(epsilon));
    Expr kept = scalars.keep ? p * number(scalars.keep) : p;
    return {kept - step, {m, v}};
  }

  State buildSgd(Expr gradient, const State &old, bool decays, const Scalars &scalars) {
    auto number = [&](Value value) { return gradient.with(value); };
    Expr p = number(old.parameter), g = gradient * number(scalars.gradientScale);
    if (weightDecay != 0 && decays)
      g = g + p * double(weightDecay);
    if (momentum == 0)
      return {p - number(scalars.rate) * g, {}};
    Expr m = number(old.slots[0]) * double(momentum) + g;
    return {p - number(scalars.rate) * m, {m}};
  }

  std::map<std::pair<const void *, bool>, dt::FormulaOp>
      formulas; ///< by the gradient's type and whether the parameter decays
};

} // namespace
