// In how many parts something is done, as passes take it: "h.*=2".
#pragma once

#include "mlir/IR/Operation.h"
#include "passes/keep/ParameterRules.h"

namespace dtc {

class PartRules {
public:
  /// Each rule is a pattern over names and a number from 1 on. Emits an error at `op` for anything else.
  static mlir::FailureOr<PartRules> read(mlir::Operation *op, llvm::ArrayRef<std::string> rules) {
    auto parse = [](llvm::StringRef text) -> std::optional<int64_t> {
      int64_t parts = 0;
      return text.getAsInteger(10, parts) || parts < 1 ? std::nullopt : std::optional(parts);
    };
    PartRules result;
    for (const std::string &rule : rules)
      if (!result.rules.read(rule, parse))
        return op->emitError("'") << rule << "' is not PATTERN=PARTS, where PARTS is a number, 1 or more";
    return result;
  }

  /// The number of the last rule that fits; 1 where none does.
  int64_t of(llvm::StringRef name) const { return rules.of(name).value_or(1); }

private:
  ParameterRules<int64_t> rules;
};

} // namespace dtc
