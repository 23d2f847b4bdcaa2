#include "runtime/data/evaluation_data.h"

#include "runtime/support/error.h"

#include <algorithm>
#include <fmt/format.h>

namespace dtc {

EvaluationData::EvaluationData(const TokenData &tokens, const EvaluationOptions &options)
    : tokens(tokens), options(options) {
  check();
  if (options.byDocument)
    for (size_t begin : tokens.documentsIn(0, tokens.size()))
      if (begin != 0)
        ends.push_back(begin);
  ends.push_back(tokens.size());
}

void EvaluationData::check() const {
  if (tokens.size() < 2)
    throw Error(ExitCode::BadInput,
                fmt::format("{}: it has {} token{}, and a loss takes two or more: one to predict another",
                            tokens.describe(), tokens.size(), tokens.size() == 1 ? "" : "s"));
  tokens.checkVocabulary(options.window.vocabulary);
  auto refuse = [](const std::string &where, const char *what) {
    throw Error(ExitCode::BadInput,
                fmt::format("{}: it does not say where documents begin, which {} needs; 'dtc data pack --tokenizer' "
                            "writes files that do",
                            where, what));
  };
  for (const TokenFile &file : tokens.files())
    if (options.byDocument && !file.documents())
      refuse(fmt::format("token file '{}'", file.path()), "--by-document");
  if (options.window.separateDocuments && !tokens.hasDocuments())
    refuse(tokens.describe(), "separate_documents");
}

int64_t EvaluationData::tokensOf(size_t passage) const {
  return static_cast<int64_t>(ends[passage] - beginOf(passage));
}

int64_t EvaluationData::windowsOf(size_t passage) const {
  int64_t targets = tokensOf(passage) - 1;
  return (targets + options.sequenceLength - 1) / options.sequenceLength;
}

void EvaluationData::fill(SamplePart part, size_t passage, int64_t firstWindow, const BatchSlice &slice,
                          std::span<int32_t> values) const {
  std::fill(values.begin(), values.end(), paddingOf(part));
  int64_t length = options.sequenceLength, targets = tokensOf(passage) - 1;
  for (int64_t row = 0; row < slice.rows; ++row) {
    int64_t done = (firstWindow + slice.firstRow + row) * length;
    Window window{&tokens, beginOf(passage) + static_cast<size_t>(done), std::min(length, targets - done)};
    fillWindow(part, window, options.window, slice, &values[row * slice.localColumns]);
  }
}

} // namespace dtc
