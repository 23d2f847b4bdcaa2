#include "runtime/data/window.h"

#include <algorithm>
#include <vector>

namespace dtc {

static void fillTargets(const TokenData &from, size_t first, const WindowOptions &options, std::span<int32_t> row) {
  from.copyTargets(first, row, ignoredTarget, options.vocabulary);
  if (options.separateDocuments)
    for (size_t begin : from.documentsIn(first, row.size()))
      row[begin - first] = ignoredTarget;
}

/// `firstColumn`: the first column of the row's part that is written.
static void fillDocumentStarts(const TokenData &from, size_t windowBegin, size_t firstColumn, std::span<int32_t> row) {
  size_t end = firstColumn + row.size();
  std::vector<size_t> begins = from.documentsIn(windowBegin, end);
  size_t next = 0;
  int32_t start = 0;
  for (size_t column = 0; column < end; ++column) {
    if (next < begins.size() && begins[next] == windowBegin + column) {
      start = static_cast<int32_t>(column);
      ++next;
    }
    if (column >= firstColumn)
      row[column - firstColumn] = start;
  }
}

void fillWindow(SamplePart part, const Window &window, const WindowOptions &options, const BatchSlice &slice,
                int32_t *row) {
  int64_t columns = std::clamp<int64_t>(window.targets - slice.firstColumn, 0, slice.columns);
  if (columns == 0)
    return;
  auto firstColumn = static_cast<size_t>(slice.firstColumn);
  std::span<int32_t> out(row, static_cast<size_t>(columns));
  switch (part) {
  case SamplePart::Tokens:
    return window.data->copyTokens(window.begin + firstColumn, out, options.vocabulary);
  case SamplePart::Targets:
    return fillTargets(*window.data, window.begin + firstColumn + 1, options, out);
  case SamplePart::DocumentStarts:
    return fillDocumentStarts(*window.data, window.begin, firstColumn, out);
  }
}

} // namespace dtc
