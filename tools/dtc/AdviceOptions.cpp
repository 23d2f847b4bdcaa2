#include "tools/dtc/AdviceOptions.h"

#include "runtime/data/token_file.h"
#include "runtime/support/error.h"
#include "runtime/support/suggest.h"
#include "tools/dtc/VerbOptions.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace dtc {

static std::string checkLint(const std::string &name) {
  std::vector<std::string_view> names;
  for (const Lint &lint : lints())
    names.push_back(lint.name);
  if (std::ranges::find(names, name) != names.end())
    return "";
  return fmt::format("no advice is called '{}'{}", name, didYouMean(name, names));
}

void addAdviceOptions(CLI::App &verb, AdviceOptions &options) {
  takeRepeated(verb.add_option("--silence", options.silenced,
                               "Leave out the advice of this name (docs/advice.md lists all); may be repeated")
                   ->check(CLI::Validator(checkLint, "", "")),
               "NAME");
  verb.add_option("--advice", options.shown,
                  "How much advice is shown: the three weightiest findings (few), all of them, or none")
      ->check(CLI::IsMember({"few", "all", "none"}))
      ->capture_default_str();
  CLI::Option *batch =
      verb.add_option("--reference-batch", options.referenceBatch,
                      "The global batch for which the learning rate was chosen, in samples: for advice on the rate")
          ->check(positiveNumber());
  CLI::Option *rate =
      verb.add_option("--reference-rate", options.referenceRate, "The learning rate that was chosen for it")
          ->check(positiveNumber());
  batch->needs(rate);
  rate->needs(batch);
}

std::vector<Finding> adviceOn(const AdviceOptions &options, AdviceFacts facts) {
  facts.referenceBatch = options.referenceBatch;
  facts.referenceRate = options.referenceRate;
  return advise(facts, options.silenced);
}

std::vector<Finding> adviceOnRoom(const AdviceOptions &options, const abi::Manifest &program,
                                  const timing::Layout &layout) {
  std::vector<Finding> findings = advise({program, &layout}, options.silenced);
  std::erase_if(findings, [](const Finding &finding) { return finding.name != doesNotFitName; });
  return findings;
}

std::vector<double> documentLengths(const std::string &path) {
  if (!std::filesystem::exists(path))
    throw Error(ExitCode::BadInput, fmt::format("--data {}: there is no such file", path));
  constexpr size_t most = 1'000'000;
  std::vector<double> lengths;
  try {
    TokenFile file(path);
    if (const DocumentIndex *index = file.documents())
      for (size_t i = 0; i < std::min(index->documents(), most); ++i)
        lengths.push_back(static_cast<double>(index->documentBegin(i + 1) - index->documentBegin(i)));
  } catch (const Error &) { // another format, which the run is told
  }
  return lengths;
}

} // namespace dtc
