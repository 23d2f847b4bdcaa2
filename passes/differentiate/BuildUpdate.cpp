// Builds @update: clipping, the optimizer's formulas and the gate in front of the state, on whole parameters.
#include "dialect/IR/Expression.h"
#include "dialect/IR/Locations.h"
#include "passes/differentiate/Applies.h"
#include "passes/differentiate/Passes.h"
#include "passes/differentiate/Signature.h"
#include "runtime/abi/optimizers.h"
#include "runtime/abi/outputs.h"

#include "mlir/IR/TypeUtilities.h"

#include <fmt/format.h>
#include <map>
#include <memory>

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
  Value applies;              ///< mask: whether the state is to change at all
  Value gradientScale;        ///< clipping coefficient / number of tokens
  Value keep;                 ///< what decay separate from the gradient leaves of a parameter; null without
  SmallVector<Value, 2> rest; ///< the optimizer's own

  template <typename Function> void forEach(Function &&function) {
    for (Value *scalar : {&applies, &gradientScale, &keep})
      if (*scalar)
        function(*scalar);
    for (Value &scalar : rest)
      function(scalar);
  }
};

/// One parameter's state: what the optimizer reads, or what it makes.
struct State {
  Value parameter;
  SmallVector<Value, 2> slots; ///< as Optimizer::slots names them
};

/// A formula; what its user may set is in runtime/abi/optimizers.h.
class Optimizer {
public:
  explicit Optimizer(const abi::Training &settings) : settings(settings) {}
  virtual ~Optimizer() = default;

  /// What it keeps for each parameter, under the names that PyTorch's optimizers have for it: checkpoints use these.
  virtual SmallVector<StringRef> slots() const = 0;
  /// Inputs that it reads besides the learning rate.
  virtual SmallVector<dt::PortAttr> inputs(MLIRContext *) const { return {}; }
  /// Computes what it needs once a step.
  virtual void addScalars(Scalars &scalars, Expr rate, const Arguments &arguments) const = 0;
  /// The new state of one number. `gradient` is the mean gradient, clipped.
  virtual State update(Expr gradient, const State &old, bool decays, const Scalars &scalars) const = 0;

protected:
  double setting(StringRef key) const { return abi::settingOf(settings, key); }

private:
  abi::Training settings;
};

dt::SourceAttr biasCorrection(MLIRContext *context, StringRef setting) {
  return dt::SourceAttr::get(context, dt::SourceKind::BiasCorrection, StringAttr::get(context, setting));
}

struct AdamW : Optimizer {
  using Optimizer::Optimizer;
  SmallVector<StringRef> slots() const override { return {"exp_avg", "exp_avg_sq"}; }

  SmallVector<dt::PortAttr> inputs(MLIRContext *context) const override {
    return {dt::PortAttr::get(context, "bias_correction1", biasCorrection(context, "beta1")),
            dt::PortAttr::get(context, "bias_correction2", biasCorrection(context, "beta2"))};
  }

  void addScalars(Scalars &scalars, Expr rate, const Arguments &arguments) const override {
    MLIRContext *context = rate.getType().getContext();
    if (setting("weight_decay") != 0)
      scalars.keep = 1.0 - rate * setting("weight_decay");
    Expr correction = rate.with(arguments.get(biasCorrection(context, "beta1")));
    Expr momentRate = rate / correction;
    Value denominatorScale = rsqrt(rate.with(arguments.get(biasCorrection(context, "beta2"))));
    scalars.rest = {momentRate, denominatorScale};
    double beta1 = setting("beta1"), ahead = setting("nesterov");
    if (ahead == 0)
      return;
    Expr next = correction * beta1 + (1 - beta1); // 1 - beta1^(t + 1)
    scalars.rest[0] = momentRate * (1 - ahead) + rate / next * (ahead * beta1);
    scalars.rest.push_back(momentRate * (ahead * (1 - beta1)));
  }

  State update(Expr gradient, const State &old, bool, const Scalars &scalars) const override {
    auto number = [&](Value value) { return gradient.with(value); };
    double beta1 = setting("beta1"), beta2 = setting("beta2");
    Expr p = number(old.parameter), momentRate = number(scalars.rest[0]), denominatorScale = number(scalars.rest[1]);
    Expr m = number(old.slots[0]) * beta1 + gradient * (1 - beta1);
    Expr v = number(old.slots[1]) * beta2 + square(gradient) * (1 - beta2);
    Expr moment = momentRate * m;
    if (setting("nesterov") != 0)
      moment = moment + number(scalars.rest[2]) * gradient;
    Expr step = moment / (sqrt(v) * denominatorScale + setting("epsilon"));
    Expr kept = scalars.keep ? p * number(scalars.keep) : p;
    return {kept - step, {m, v}};
  }
};

struct Sgd : Optimizer {
  using Optimizer::Optimizer;
  SmallVector<StringRef> slots() const override {
    return setting("momentum") != 0 ? SmallVector<StringRef>{"momentum_buffer"} : SmallVector<StringRef>();
  }

  void addScalars(Scalars &scalars, Expr rate, const Arguments &) const override { scalars.rest.push_back(rate); }

  State update(Expr gradient, const State &old, bool decays, const Scalars &scalars) const override {
    auto number = [&](Value value) { return gradient.with(value); };
    Expr p = number(old.parameter), g = gradient, rate = number(scalars.rest[0]);
    if (setting("weight_decay") != 0 && decays)
      g = g + p * setting("weight_decay");
    if (setting("momentum") == 0)
      return {p - rate * g, {}};
    Expr m = number(old.slots[0]) * setting("momentum") + g;
    return {p - rate * m, {m}};
  }
};

template <typename Formula> std::shared_ptr<const Optimizer> make(const abi::Training &settings) {
  return std::make_shared<Formula>(settings);
}

/// The names of runtime/abi/optimizers.h.
struct {
  StringLiteral name;
  std::shared_ptr<const Optimizer> (*make)(const abi::Training &settings);
} constexpr optimizers[] = {{"adamw", make<AdamW>}, {"sgd", make<Sgd>}};

struct BuildUpdate : dtc::impl::BuildUpdateBase<BuildUpdate> {
  using BuildUpdateBase::BuildUpdateBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto parameters = module->getAttrOfType<ArrayAttr>(dt::module_attr::parameters);
    if (!parameters) {
      module.emitError("has no dt.parameters");
      return signalPassFailure();
    }
    if (failed(chooseOptimizer()))
      return signalPassFailure();
    if (asynchronous)
      module->setAttr(dt::module_attr::asynchronous, UnitAttr::get(&getContext()));
    if (earlyUpdate)
      buildAssumption();
    auto list = llvm::to_vector(parameters.getAsRange<dt::ParamAttr>());
    func::FuncOp update = createFunction(module, dt::function::update, getArguments(list));
    build(update, list);
  }

  /// @assume: the numbers with which an update begins before they are known. The count is the true one. With a norm of
  /// 0 clipping has the factor 1. Zeros are made of the count, so that every rank of a pipeline has them.
  void buildAssumption() {
    auto number = RankedTensorType::get({}, Builder(&getContext()).getF32Type());
    auto port = dt::PortAttr::get(&getContext(), dt::PortKind::Share, stepTokenCount).withPartial(true);
    func::FuncOp assume =
        createFunction(getOperation(), dt::function::assume,
                       {{number, port, NameLoc::get(StringAttr::get(&getContext(), stepTokenCount))}});
    PurposeListener listener;
    listener.setMarks({{}, dt::DirectionAttr::get(&getContext(), dt::Direction::Update)});
    listener.setPurpose("assumption");
    OpBuilder builder(&getContext(), &listener);
    builder.setInsertionPointToStart(&assume.getBody().front());
    Expr count(builder, assume.getLoc(), assume.getArgument(0));
    Results results;
    results.add(minimum(count, 0), dt::PortKind::Output, abi::output::lossSum.name);
    results.add(maximum(count, 0), dt::PortKind::Output, abi::output::tokenCount.name);
    results.add(minimum(count, 0), dt::PortKind::Output, abi::output::gradientNorm.name);
    results.finish(assume);
  }

  LogicalResult chooseOptimizer() {
    ModuleOp module = getOperation();
    auto *row = llvm::find_if(optimizers, [&](const auto &row) { return row.name == optimizer; });
    const abi::Optimizer *known = abi::findOptimizer(optimizer);
    if (!known || row == std::end(optimizers)) {
      InFlightDiagnostic error = module.emitError("unknown optimizer \"") << optimizer << "\"; there are ";
      llvm::interleaveComma(optimizers, error, [&](const auto &row) { error << '"' << row.name << '"'; });
      return error;
    }
    abi::Training values;
    values.set_optimizer(optimizer);
    for (StringRef assignment : settings) {
      auto [key, number] = assignment.split('=');
      const abi::OptimizerSetting *setting = known->find(key);
      double value;
      if (!setting || number.getAsDouble(value) || !setting->interval.contains(value)) {
        InFlightDiagnostic error = module.emitError("the optimizer \"")
                                   << optimizer << "\" has no setting \"" << assignment << "\"; it has ";
        llvm::interleaveComma(known->settings, error, [&](const abi::OptimizerSetting &each) {
          error << StringRef(each.key) << " in " << StringRef(each.interval.text);
        });
        return error;
      }
      abi::setSetting(values, key, value);
    }
    method = row->make(values);
    return success();
  }

  SmallVector<Argument> getArguments(ArrayRef<dt::ParamAttr> parameters) {
    Builder builder(&getContext());
    SmallVector<Argument> arguments;
    DenseMap<dt::PortAttr, Type> reduced = getReducedTypes();
    auto addAll = [&](dt::PortKind kind, StringRef slotName = "") {
      StringAttr slot = builder.getStringAttr(slotName);
      for (dt::ParamAttr parameter : parameters) {
        dt::PortAttr port = unplacedPort(kind, parameter.getName(), slot);
        Type known = reduced.lookup(port);
        arguments.push_back({known ? known : RankedTensorType::get(parameter.getLogicalShape(), builder.getF32Type()),
                             port, NameLoc::get(parameter.getName())});
      }
    };
    addAll(dt::PortKind::Parameter);
    for (StringRef slot : method->slots())
      addAll(dt::PortKind::Slot, slot);
    addAll(dt::PortKind::ReducedGradient);
    auto addScalar = [&](dt::PortAttr port) {
      arguments.push_back({RankedTensorType::get({}, builder.getF32Type()), port, NameLoc::get(port.getName())});
    };
    if (asynchronous)
      for (StringRef share : {stepLossSum, stepTokenCount})
        addScalar(dt::PortAttr::get(&getContext(), dt::PortKind::Share, share));
    else
      for (const abi::Output &output : {abi::output::lossSum, abi::output::tokenCount, abi::output::gradientNorm})
        addScalar(dt::PortAttr::get(&getContext(), dt::PortKind::Output, output.name));
    addScalar(inputPort(&getContext(), dt::SourceKind::LearningRate));
    if (isScaled())
      addScalar(inputPort(&getContext(), dt::SourceKind::LossScale));
    llvm::for_each(method->inputs(&getContext()), addScalar);
    return arguments;
  }

  /// Whether gradients come multiplied by the loss scale.
  bool isScaled() {
    auto reduce = getOperation().lookupSymbol<func::FuncOp>(dt::function::reduce);
    return reduce && llvm::any_of(llvm::seq<unsigned>(0, reduce.getNumArguments()), [&](unsigned index) {
             return dt::argumentPort(reduce, index).isFrom(dt::SourceKind::LossScale);
           });
  }

  /// The types that @reduce returns: gradients may come in 16 bits. State is f32.
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
    StringAttr noSlot = builder.getStringAttr("");
    auto gradientOf = [&](dt::ParamAttr parameter) {
      return arguments.get(unplacedPort(dt::PortKind::ReducedGradient, parameter.getName(), noSlot));
    };
    llvm::MapVector<Attribute, Value> clipped;
    if (asynchronous && clipNorm != 0)
      clipped = clipEachLayer(builder, listener, parameters, gradientOf, scalars.gradientScale);
    SmallVector<State> updated;
    SmallVector<StringAttr> slots =
        llvm::map_to_vector(method->slots(), [&](StringRef slot) { return builder.getStringAttr(slot); });
    for (dt::ParamAttr parameter : parameters) {
      listener.setMarks({parameter.getLayer(), direction});
      StringAttr name = parameter.getName();
      SmallVector<Value> operands{gradientOf(parameter),
                                  arguments.get(unplacedPort(dt::PortKind::Parameter, name, noSlot))};
      for (StringAttr slot : slots)
        operands.push_back(arguments.get(unplacedPort(dt::PortKind::Slot, name, slot)));
      Scalars its = scalars;
      if (Value scale = clipped.lookup(clippedWith(parameter)))
        its.gradientScale = scale;
      updated.push_back(apply(builder, update, parameter, std::move(operands), its));
    }
    listener.setMarks({{}, direction});
    // Results are in the order of the arguments: parameters, then slot by slot.
    Results results;
    for (auto [parameter, values] : llvm::zip(parameters, updated))
      results.add(values.parameter, unplacedPort(dt::PortKind::Parameter, parameter.getName(), noSlot));
    for (auto [index, slot] : llvm::enumerate(slots))
      for (auto [parameter, values] : llvm::zip(parameters, updated))
        results.add(values.slots[index], unplacedPort(dt::PortKind::Slot, parameter.getName(), slot));
    if (!asynchronous)
      results.add(asNumber(Expr(builder, update.getLoc(), scalars.applies), builder.getF32Type()), dt::PortKind::Output,
                  abi::output::updateApplied.name);
    results.finish(update);
  }

  /// What has one norm where stages update by themselves: a layer, which one stage has, or a parameter outside the
  /// layers.
  static Attribute clippedWith(dt::ParamAttr parameter) {
    return parameter.getLayer() ? Attribute(parameter.getLayer()) : parameter.getName();
  }

  /// The factors of gradients, each clipped by the norm of what is clipped together: no stage waits for another, and
  /// what is computed does not depend on how layers are cut into stages. `scale` makes gradients mean ones.
  llvm::MapVector<Attribute, Value> clipEachLayer(OpBuilder &builder, PurposeListener &listener,
                                                  ArrayRef<dt::ParamAttr> parameters,
                                                  llvm::function_ref<Value(dt::ParamAttr)> gradientOf, Value scale) {
    auto direction = dt::DirectionAttr::get(&getContext(), dt::Direction::Update);
    llvm::MapVector<Attribute, SmallVector<Value>> squareSums;
    listener.setPurpose("gradient_norm");
    for (dt::ParamAttr parameter : parameters) {
      listener.setMarks({parameter.getLayer(), direction});
      Location loc = NameLoc::get(parameter.getName());
      squareSums[clippedWith(parameter)].push_back(squareSum(Expr(builder, loc, gradientOf(parameter))));
    }
    llvm::MapVector<Attribute, Value> factors;
    for (auto &[which, sums] : squareSums) {
      auto layer = dyn_cast<dt::LayerAttr>(which);
      listener.setMarks({layer, direction});
      Expr total(builder, scale.getLoc(), sums.front());
      for (Value sum : ArrayRef(sums).drop_front())
        total = total + total.with(sum);
      Expr norm = sqrt(total) * total.with(scale);
      factors[which] = minimum(clippingRatio(norm, clipNorm), 1) * total.with(scale);
    }
    listener.setPurpose(optimizer);
    return factors;
  }

  /// The optimizer's formula applied to one parameter, to its gradient, itself and its slots: its new state.
  State apply(OpBuilder &builder, func::FuncOp update, dt::ParamAttr parameter, SmallVector<Value> operands,
              Scalars scalars) {
    if (!parameter.getDecays())
      scalars.keep = {};
    Value gradient = operands.front();
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
    SmallVector<Type> state(1 + method->slots().size(), number(stateType));
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
    for (size_t slot = 0; slot < method->slots().size(); ++slot)
      old.slots.push_back(*argument++);
    scalars.forEach([&](Value &scalar) { scalar = *argument++; });
    Expr mean = gradient * gradient.with(scalars.gradientScale);
    State updated = method->update(mean, old, decays, scalars);
    // The new values where the update applies, else the old ones unchanged.
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
    auto number = [&](const abi::Output &output, StringRef share) {
      return asynchronous ? arguments.get(dt::PortKind::Share, share)
                          : arguments.get(dt::PortKind::Output, output.name);
    };
    Expr count(builder, loc, number(abi::output::tokenCount, stepTokenCount));
    Expr rate = count.with(arguments.get(dt::SourceKind::LearningRate));
    Expr finite = isFinite(count.with(number(abi::output::lossSum, stepLossSum)));
    Value norm = arguments.get(dt::PortKind::Output, abi::output::gradientNorm.name);
    if (norm)
      finite = finite.apply<dt::AndOp>(finite, isFinite(count.with(norm)));
    Expr applies = changesState(finite, count);
    Expr scale = 1.0 / maximum(count, 1);
    if (norm && clipNorm != 0)
      scale = minimum(clippingRatio(count.with(norm), clipNorm), 1) * scale;
    if (Value lossScale = arguments.get(dt::SourceKind::LossScale))
      scale = scale / count.with(lossScale);
    Scalars scalars{applies, scale, {}, {}};
    method->addScalars(scalars, rate, arguments);
    return scalars;
  }

  std::shared_ptr<const Optimizer> method; ///< by the option `optimizer`, with its settings
  std::map<std::pair<const void *, bool>, dt::FormulaOp>
      formulas; ///< by the gradient's type and whether the parameter decays
};

} // namespace
