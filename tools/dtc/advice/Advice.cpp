// The table of lints, and how their findings are sorted and printed.
#include "tools/dtc/advice/Advice.h"

#include "runtime/support/error.h"
#include "runtime/support/log_line.h"
#include "runtime/support/suggest.h"
#include "tools/dtc/advice/Lints.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <functional>

namespace dtc {

std::span<const Lint> lints() {
  static const std::vector<Lint> all = [] {
    std::vector<Lint> joined;
    for (std::span<const Lint> theme : {linkLints(), batchLints(), memoryLints(), trainingLints()})
      joined.insert(joined.end(), theme.begin(), theme.end());
    return joined;
  }();
  return all;
}

static void requireKnown(const std::vector<std::string> &silenced) {
  std::vector<std::string_view> names;
  for (const Lint &lint : lints())
    names.push_back(lint.name);
  for (const std::string &name : silenced)
    if (std::ranges::find(names, name) == names.end())
      throw Error(ExitCode::Usage, fmt::format("--silence {}: there is no advice of that name{}; there are {}", name,
                                               didYouMean(name, names), fmt::join(names, ", ")));
}

std::vector<Finding> advise(const AdviceFacts &facts, const std::vector<std::string> &silenced) {
  requireKnown(silenced);
  std::vector<Finding> findings;
  if (facts.program.has_generation()) // it has no step
    return findings;
  for (const Lint &lint : lints())
    if (std::ranges::find(silenced, lint.name) == silenced.end())
      if (std::optional<Finding> finding = lint.look(facts))
        findings.push_back(std::move(*finding));
  std::ranges::stable_sort(findings, std::greater(), &Finding::share);
  return findings;
}

void printAdvice(const std::vector<Finding> &findings, bool all) {
  size_t shown = all ? findings.size() : std::min(findings.size(), shownAdvice);
  if (shown > 0)
    std::fflush(stdout); // what it is about comes first where both lead to one file
  for (const Finding &finding : std::span(findings).first(shown))
    tellNews(fmt::format("advice: {}: {}; {}", finding.name, finding.text, finding.remedy));
  if (shown < findings.size())
    tellNews(fmt::format("advice: {} more: --advice all shows all, and --silence NAME leaves one out",
                         findings.size() - shown));
}

nlohmann::ordered_json toJson(const std::vector<Finding> &findings) {
  auto json = nlohmann::ordered_json::array();
  for (const Finding &finding : findings)
    json.push_back({{"name", std::string(finding.name)},
                    {"text", finding.text},
                    {"remedy", finding.remedy},
                    {"share", finding.share}});
  return json;
}

} // namespace dtc
