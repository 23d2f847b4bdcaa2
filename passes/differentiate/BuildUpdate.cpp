// Builds @update: clipping and the optimizer's formulas, on whole parameters.
#include "dialect/IR/Expression.h"
#include "passes/differentiate/Passes.h"
#include "passes/differentiate/Signature.h"

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
  Value gradientScale;    ///< clipping coefficient / number of tokens
  Value rate;             ///< learning rate
  Value keep;             ///< AdamW: 1 - rate * weight decay; null without decay
  Value momentRate;       ///< AdamW: rate / bias correction of the first moment
  Value denominatorScale; ///< AdamW: 1 / √(bias correction of the second moment)
};

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
    func::FuncOp update = createFunction(module, dt::function::update, getPorts(list));
    build(update, list);
  }

  bool isAdam() const { return optimizer == "adamw"; }
  bool hasMoment1() const { return isAdam() || momentum != 0; }

  SmallVector<Port> getPorts(ArrayRef<dt::ParamAttr> parameters) {
    Builder builder(&getContext());
    SmallVector<Port> ports;
    auto addState = [&](StringRef role) {
      for (dt::ParamAttr parameter : parameters)
        ports.push_back({RankedTensorType::get(parameter.getLogicalShape(), builder.getF32Type()), role,
                         parameter.getName(), NameLoc::get(parameter.getName())});
    };
    addState(dt::role::parameter);
    if (hasMoment1())
      addState(dt::role::moment1);
    if (isAdam())
      addState(dt::role::moment2);
    addState(dt::role::reducedGradient);
    auto addScalar = [&](StringRef role, StringRef name) {
      ports.push_back(
          {RankedTensorType::get({}, builder.getF32Type()), role, name, NameLoc::get(builder.getStringAttr(name))});
    };
    addScalar(dt::role::output, "token_count");
    addScalar(dt::role::output, "grad_norm");
    addScalar(dt::role::input, "learning_rate");
    if (isAdam()) {
      addScalar(dt::role::input, "bias_correction1");
      addScalar(dt::role::input, "bias_correction2");
    }
    return ports;
  }

  void build(func::FuncOp update, ArrayRef<dt::ParamAttr> parameters) {
    LayerListener listener;
    listener.setPurpose(optimizer);
    OpBuilder builder(&getContext(), &listener);
    builder.setInsertionPointToStart(&update.getBody().front());
    Arguments arguments(update);
    Scalars scalars = buildScalars(builder, update.getLoc(), arguments);
    // Results stand in the order of the arguments: parameters, first moments, second moments.
    SmallVector<Updated> updated;
    for (dt::ParamAttr parameter : parameters) {
      listener.setLayer(parameter.getLayer().empty() ? StringAttr() : parameter.getLayer());
      updated.push_back(isAdam() ? buildAdamW(builder, parameter, arguments, scalars)
                                 : buildSgd(builder, parameter, arguments, scalars));
    }
    Results results;
    auto addAll = [&](StringRef role, Value Updated::*member) {
      for (auto [parameter, values] : llvm::zip(parameters, updated))
        if (values.*member)
          results.add(values.*member, role, parameter.getName());
    };
    addAll(dt::role::parameter, &Updated::parameter);
    addAll(dt::role::moment1, &Updated::moment1);
    addAll(dt::role::moment2, &Updated::moment2);
    results.finish(update);
  }

  /// One parameter's new state; absent moments are null.
  struct Updated {
    Value parameter, moment1, moment2;
  };

  Scalars buildScalars(OpBuilder &builder, Location loc, const Arguments &arguments) {
    Expr count(builder, loc, arguments.get(dt::role::output, "token_count"));
    Expr rate = count.with(arguments.get(dt::role::input, "learning_rate"));
    Expr scale = 1.0 / maximum(count, 1);
    if (clipNorm != 0) {
      Expr norm = count.with(arguments.get(dt::role::output, "grad_norm"));
      scale = minimum(clipNorm / (norm + 1e-6), 1) * scale;
    }
    Scalars scalars{scale, rate, {}, {}, {}};
    if (isAdam()) {
      if (weightDecay != 0)
        scalars.keep = 1.0 - rate * double(weightDecay);
      scalars.momentRate = rate / count.with(arguments.get(dt::role::input, "bias_correction1"));
      scalars.denominatorScale = rsqrt(count.with(arguments.get(dt::role::input, "bias_correction2")));
    }
    return scalars;
  }

  Updated buildAdamW(OpBuilder &builder, dt::ParamAttr parameter, const Arguments &arguments, const Scalars &scalars) {
    StringRef name = parameter.getName();
    Expr p(builder, NameLoc::get(parameter.getName()), arguments.get(dt::role::parameter, name));
    auto whole = [&](Value scalar) { return p.with(scalar).broadcast(p.getShape(), {}); };
    Expr g = p.with(arguments.get(dt::role::reducedGradient, name)) * whole(scalars.gradientScale);
    Expr m = p.with(arguments.get(dt::role::moment1, name)) * double(beta1) + g * (1 - beta1);
    Expr v = p.with(arguments.get(dt::role::moment2, name)) * double(beta2) + square(g) * (1 - beta2);
    Expr step = whole(scalars.momentRate) * m / (sqrt(v) * whole(scalars.denominatorScale) + double(epsilon));
    Expr kept = scalars.keep && parameter.getDecays() ? p * whole(scalars.keep) : p;
    return {kept - step, m, v};
  }

  Updated buildSgd(OpBuilder &builder, dt::ParamAttr parameter, const Arguments &arguments, const Scalars &scalars) {
    StringRef name = parameter.getName();
    Expr p(builder, NameLoc::get(parameter.getName()), arguments.get(dt::role::parameter, name));
    auto whole = [&](Value scalar) { return p.with(scalar).broadcast(p.getShape(), {}); };
    Expr g = p.with(arguments.get(dt::role::reducedGradient, name)) * whole(scalars.gradientScale);
    if (weightDecay != 0 && parameter.getDecays())
      g = g + p * double(weightDecay);
    if (!hasMoment1())
      return {p - whole(scalars.rate) * g, {}, {}};
    Expr m = p.with(arguments.get(dt::role::moment1, name)) * double(momentum) + g;
    return {p - whole(scalars.rate) * m, m, {}};
  }
};

} // namespace
