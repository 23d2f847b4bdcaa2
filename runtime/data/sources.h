// The data that a run trains on: one sequence of tokens, or several mixed by weight.
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

/// Parses --data: either files, which form one source, or weights, each followed by the files of a source: "0.7 a.bin
/// b.bin 0.3 c.bin". A word that is a number is a weight; write "./7" for a file with such a name. Throws Error (Usage)
/// for a weight that is not above zero, a source without files, and files before the first weight.
std::vector<SourceFiles> parseSources(const std::vector<std::string> &words);

/// The files of all sources, in order.
std::vector<std::string> filesOf(const std::vector<SourceFiles> &sources);

struct Source {
  double weight = 1;
  TokenData data;
};

/// Throws Error (BadInput) like TokenFile.
std::vector<Source> openSources(const std::vector<SourceFiles> &sources, std::optional<TokenFile::Format> format);

} // namespace dtc
