// What a run trains on: one sequence of tokens, or several that are mixed by weight.
#pragma once

#include "runtime/data/token_data.h"

#include <optional>
#include <string>
#include <vector>

namespace dtc {

struct SourceFiles {
  double weight = 1;
  std::vector<std::string> files;
};

/// What --data says: files, which are one source, or weights, each before the files of a source:
/// "0.7 a.bin b.bin 0.3 c.bin". A word that is a number is a weight; a file of such a name is "./7". Throws Error
/// (Usage) for a weight that is not above zero, a source without files, and files before the first weight.
std::vector<SourceFiles> parseSources(const std::vector<std::string> &words);

/// All files of sources, in their order.
std::vector<std::string> filesOf(const std::vector<SourceFiles> &sources);

struct Source {
  double weight = 1;
  TokenData data;
};

/// Throws Error (BadInput) as TokenFile does.
std::vector<Source> openSources(const std::vector<SourceFiles> &sources, std::optional<TokenFile::Format> format);

} // namespace dtc
