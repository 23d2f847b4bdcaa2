// What is chosen for some parameters, as passes take it: "h.*.mlp.c_fc.weight=shared".
#pragma once

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/GlobPattern.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dtc {

template <typename How> class ParameterRules {
public:
  /// A pattern over names, and a text that `parse` accepts; false if it is no such rule.
  bool read(llvm::StringRef rule, llvm::function_ref<std::optional<How>(llvm::StringRef)> parse) {
    auto [pattern, text] = rule.rsplit('=');
    std::optional<How> how = parse(text);
    return how && add(pattern, std::move(*how));
  }

  /// False if it is not a pattern.
  bool add(llvm::StringRef pattern, How how) {
    auto glob = llvm::GlobPattern::create(pattern);
    if (!glob) {
      llvm::consumeError(glob.takeError());
      return false;
    }
    rules.emplace_back(std::move(*glob), std::move(how));
    return true;
  }

  /// What the last rule that fits says; nothing where none does.
  std::optional<How> of(llvm::StringRef parameter) const {
    for (const auto &[pattern, how] : llvm::reverse(rules))
      if (pattern.match(parameter))
        return how;
    return std::nullopt;
  }

private:
  std::vector<std::pair<llvm::GlobPattern, How>> rules;
};

} // namespace dtc
