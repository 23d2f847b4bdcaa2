#include "runtime/data/token_data.h"

#include <algorithm>
#include <fmt/format.h>

namespace dtc {

TokenData::TokenData(const std::vector<std::string> &paths, std::optional<TokenFile::Format> format) {
  for (const std::string &path : paths) {
    parts.emplace_back(path, format);
    ends.push_back(size() + parts.back().size());
  }
}

bool TokenData::hasMask() const { return std::ranges::any_of(parts, &TokenFile::hasMask); }

bool TokenData::hasDocuments() const { return std::ranges::any_of(parts, &TokenFile::documents); }

std::vector<size_t> TokenData::documentsIn(size_t first, size_t count) const {
  std::vector<size_t> begins;
  size_t end = std::min(first + count, size());
  for (size_t part = 0, base = 0; part < parts.size() && base < end; base = ends[part++]) {
    if (ends[part] <= first)
      continue;
    const DocumentIndex *index = parts[part].documents();
    size_t from = std::max(first, base);
    if (from == base && (index || (part && parts[part - 1].documents())))
      begins.push_back(base);
    if (index)
      for (size_t begin : index->beginsIn(from - base, end - from))
        if (begin != 0)
          begins.push_back(base + begin);
  }
  return begins;
}

size_t TokenData::counted() const {
  size_t count = 0;
  for (const TokenFile &file : parts)
    for (size_t i = 0; i < file.size(); ++i)
      count += file.counts(i);
  return count;
}

std::string TokenData::describe() const {
  if (parts.empty())
    return "no token file";
  return parts.size() == 1 ? fmt::format("token file '{}'", parts[0].path())
                           : fmt::format("token files '{}' and {} more", parts[0].path(), parts.size() - 1);
}

void TokenData::checkVocabulary(int64_t vocabulary) const {
  for (const TokenFile &file : parts)
    for (std::span<const std::byte> block : sampleOf(file.bytes())) {
      size_t width = static_cast<size_t>(file.tokenBits()) / 8;
      file.checkVocabulary(vocabulary, static_cast<size_t>(block.data() - file.bytes().data()) / width,
                           block.size() / width);
    }
}

/// Calls read(file, index within it) for the positions from `first` on.
template <typename Read> void TokenData::forEach(size_t first, std::span<int32_t> out, Read read) const {
  size_t part = static_cast<size_t>(std::ranges::upper_bound(ends, first) - ends.begin());
  for (size_t i = 0; i < out.size(); ++i) {
    while (first + i >= ends[part])
      ++part;
    out[i] = read(parts[part], first + i - (part ? ends[part - 1] : 0));
  }
}

static int32_t checkedToken(const TokenFile &file, size_t index, int64_t vocabulary) {
  uint32_t token = file[index];
  if (token >= vocabulary)
    file.checkVocabulary(vocabulary, index, 1); // throws with a message
  return static_cast<int32_t>(token);
}

void TokenData::copyTokens(size_t first, std::span<int32_t> out, int64_t vocabulary) const {
  forEach(first, out,
          [vocabulary](const TokenFile &file, size_t index) { return checkedToken(file, index, vocabulary); });
}

void TokenData::copyTargets(size_t first, std::span<int32_t> out, int32_t ignored, int64_t vocabulary) const {
  forEach(first, out, [ignored, vocabulary](const TokenFile &file, size_t index) {
    return file.counts(index) ? checkedToken(file, index, vocabulary) : ignored;
  });
}

} // namespace dtc
