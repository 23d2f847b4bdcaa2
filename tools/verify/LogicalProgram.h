// One training step over whole tensors: every compiled form of it must give the same result.
#pragma once

#include "dialect/IR/StepFunctions.h"
#include "dialect/reference/Interpreter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace dtc::verify {

/// What a port says about a tensor (#dt.port), in any context: equal for the same tensor in every function and in the
/// manifest.
struct TensorKey {
  mlir::dt::PortKind kind;
  std::string name, slot;

  static TensorKey of(mlir::dt::PortAttr port) { return {port.getKind(), port.getName().str(), port.getSlot().str()}; }
  auto operator<=>(const TensorKey &) const = default;

  /// True for parameters and slots, whose padding is zero and which updates change in place.
  bool isState() const { return kind == mlir::dt::PortKind::Parameter || kind == mlir::dt::PortKind::Slot; }
  bool isGradient() const {
    return kind == mlir::dt::PortKind::Gradient || kind == mlir::dt::PortKind::ReducedGradient;
  }
  /// "gradient", "exp_avg".
  std::string kindName() const { return slot.empty() ? mlir::dt::stringifyPortKind(kind).str() : slot; }
  /// "gradient of h.3.attn.c_attn.weight", "loss_sum".
  std::string describe() const { return isState() || isGradient() ? kindName() + " of " + name : name; }
};

/// The functions of a module in Form 1 (see Dialect.td) and the tensors that they pass to each other.
class LogicalProgram {
public:
  /// Throws BadInput when an argument or result of a function lacks its port.
  explicit LogicalProgram(mlir::ModuleOp module);

  /// A tensor that a function takes or returns: its key, its global shape, and the source of an input.
  struct Port {
    TensorKey key;
    mlir::RankedTensorType type;
    mlir::dt::SourceAttr source = {};
  };
  bool has(std::string_view function) const;
  /// The functions that a list of the module's program runs, in their order.
  llvm::SmallVector<llvm::StringRef, 2> partsOf(llvm::StringRef list) const {
    return mlir::dt::partsOf(list, [&](llvm::StringRef name) { return has(name); });
  }
  const std::vector<Port> &arguments(std::string_view function) const;
  const std::vector<Port> &results(std::string_view function) const;

  /// The rows of a micro-batch: those of the inputs that are slices of its samples. 0 where there are none.
  int64_t samples() const;

  /// Evaluates a function in f64 on the tensors of its arguments' keys and keeps its results. Throws Error (Runtime)
  /// with the interpreter's message when it fails, and BadInput when an argument has no value yet.
  void run(std::string_view function);

  std::map<TensorKey, mlir::dt::HostTensor> tensors;

private:
  struct Function {
    mlir::func::FuncOp op;
    std::vector<Port> arguments, results;
  };
  const Function &find(std::string_view name) const;

  std::map<std::string, Function, std::less<>> functions;
};

} // namespace dtc::verify
