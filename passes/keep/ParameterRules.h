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

class ParameterRules {
public:
  /// A pattern over names and one of `words`; false where it is no such rule.
  bool add(llvm::StringRef rule, llvm::ArrayRef<llvm::StringLiteral> words) {
    auto [pattern, word] = rule.rsplit('=');
    auto glob = llvm::GlobPattern::create(pattern);
    if (!glob)
      llvm::consumeError(glob.takeError());
    if (!glob || !llvm::is_contained(words, word))
      return false;
    rules.emplace_back(std::move(*glob), word.str());
    return true;
  }

  /// The word of the last rule that fits; nothing where none does.
  std::optional<llvm::StringRef> of(llvm::StringRef parameter) const {
    for (const auto &[pattern, word] : llvm::reverse(rules))
      if (pattern.match(parameter))
        return word;
    return std::nullopt;
  }

private:
  std::vector<std::pair<llvm::GlobPattern, std::string>> rules;
};

} // namespace dtc
