#include "runtime/data/sources.h"

#include "runtime/support/error.h"

#include <cmath>
#include <cstdlib>
#include <fmt/format.h>

namespace dtc {

/// The number that the whole word spells; nullopt otherwise.
static std::optional<double> numberIn(const std::string &word) {
  char *end = nullptr;
  double value = std::strtod(word.c_str(), &end);
  return word.empty() || *end != '\0' ? std::nullopt : std::optional(value);
}

std::vector<SourceFiles> parseSources(const std::vector<std::string> &words) {
  std::vector<SourceFiles> sources;
  bool isMixture = false;
  auto requireFiles = [&] {
    if (isMixture && sources.back().files.empty())
      throw Error(ExitCode::Usage,
                  fmt::format("--data: no token file follows the weight {} of source {}; write the weight, "
                              "then the source's files, or ./{} for a file of this name",
                              sources.back().weight, sources.size(), sources.back().weight));
  };
  for (const std::string &word : words) {
    std::optional<double> weight = numberIn(word);
    if (!weight) {
      if (sources.empty())
        sources.emplace_back();
      sources.back().files.push_back(word);
      continue;
    }
    if (!isMixture && !sources.empty())
      throw Error(ExitCode::Usage,
                  fmt::format("--data: '{}' stands before the first weight, {}; a mixture begins with the "
                              "weight of its first source",
                              sources.front().files.front(), word));
    if (!std::isfinite(*weight) || *weight <= 0)
      throw Error(ExitCode::Usage, fmt::format("--data: the weight of source {} is {}; it must be a number above 0",
                                               sources.size() + 1, word));
    requireFiles();
    isMixture = true;
    sources.push_back({*weight, {}});
  }
  requireFiles();
  return sources;
}

std::vector<std::string> filesOf(const std::vector<SourceFiles> &sources) {
  std::vector<std::string> files;
  for (const SourceFiles &source : sources)
    files.insert(files.end(), source.files.begin(), source.files.end());
  return files;
}

std::vector<Source> openSources(const std::vector<SourceFiles> &sources, std::optional<TokenFile::Format> format) {
  std::vector<Source> opened;
  for (const SourceFiles &source : sources)
    opened.push_back({source.weight, TokenData(source.files, format)});
  return opened;
}

} // namespace dtc
