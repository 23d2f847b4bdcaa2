// In how many parts something is done, as passes take it: "h.*=2".
#pragma once

#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/GlobPattern.h"

#include <string>
#include <utility>
#include <vector>

namespace dtc {

class PartRules {
public:
  /// Emits an error at `op` for what is no such rule.
  static mlir::FailureOr<PartRules> read(mlir::Operation *op, llvm::ArrayRef<std::string> rules) {
    PartRules result;
    for (const std::string &rule : rules)
      if (!result.add(rule))
        return op->emitError("'") << rule << "' is not PATTERN=PARTS, with a number of parts from 1 on";
    return result;
  }

  /// The number of the last rule that fits; 1 where none does.
  int64_t of(llvm::StringRef name) const {
    for (const auto &[pattern, parts] : llvm::reverse(rules))
      if (pattern.match(name))
        return parts;
    return 1;
  }

private:
  /// A pattern over names and a number from 1 on; false where it is no such rule.
  bool add(llvm::StringRef rule) {
    auto [pattern, number] = rule.rsplit('=');
    auto glob = llvm::GlobPattern::create(pattern);
    if (!glob)
      llvm::consumeError(glob.takeError());
    int64_t parts = 0;
    if (!glob || number.getAsInteger(10, parts) || parts < 1)
      return false;
    rules.emplace_back(std::move(*glob), parts);
    return true;
  }

  std::vector<std::pair<llvm::GlobPattern, int64_t>> rules;
};

} // namespace dtc
