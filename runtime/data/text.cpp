#include "runtime/data/text.h"

#include "runtime/support/error.h"
#include "runtime/support/mapped_file.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <memory>
#include <unistd.h>
#include <unordered_map>
#include <zlib.h>

namespace dtc {

void readText(const std::string &path, const std::function<void(std::string_view)> &receive) {
  auto fail = [&](const std::string &why) {
    throw Error(ExitCode::BadInput, fmt::format("cannot read the text '{}': {}", path, why));
  };
  // gzread passes a file that is not compressed through unchanged.
  int descriptor = openInput(path);
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzdopen(descriptor, "rb"), gzclose);
  if (!file) {
    close(descriptor);
    fail("out of memory");
  }
  std::vector<char> block(1 << 20);
  int count;
  while ((count = gzread(file.get(), block.data(), static_cast<unsigned>(block.size()))) > 0)
    receive({block.data(), static_cast<size_t>(count)});
  int problem = Z_OK;
  const char *message = gzerror(file.get(), &problem);
  if (count < 0 || (problem != Z_OK && problem != Z_STREAM_END))
    fail(fmt::format("damaged gzip data ({})", message));
}

std::vector<uint16_t> byteTokens(std::string_view text) {
  std::vector<uint16_t> tokens;
  tokens.reserve(text.size());
  for (char c : text)
    tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

namespace {
/// Counts how often each key occurs, until there are too many keys.
class Counts {
public:
  explicit Counts(size_t most) : most(most) {}
  void add(uint64_t key) {
    if (complete)
      ++count[key];
    if (count.size() > most) {
      complete = false;
      count = {};
    }
  }
  bool isComplete() const { return complete; }
  const std::unordered_map<uint64_t, uint64_t> &all() const { return count; }

private:
  size_t most;
  std::unordered_map<uint64_t, uint64_t> count;
  bool complete = true;
};
} // namespace

TokenStatistics tokenStatistics(const TokenFile &file, size_t mostCounted) {
  TokenStatistics result;
  result.tokens = file.size();
  Counts single(mostCounted), firsts(mostCounted), pairs(mostCounted); // firsts: tokens that are followed by another
  for (size_t i = 0; i < file.size(); ++i) {
    uint32_t token = file[i];
    result.largest = std::max(result.largest, token);
    result.counted += file.counts(i);
    single.add(token);
    if (i + 1 < file.size()) {
      firsts.add(token);
      pairs.add(uint64_t(token) << 32 | file[i + 1]);
    }
  }
  if (const DocumentIndex *index = file.documents()) {
    result.documents = index->documents();
    for (size_t document = 0; document < index->documents(); ++document)
      result.longestDocument = std::max<uint64_t>(result.longestDocument,
                                                  index->documentBegin(document + 1) - index->documentBegin(document));
  }
  auto share = [](uint64_t part, uint64_t whole) { return static_cast<double>(part) / static_cast<double>(whole); };
  if (single.isComplete()) {
    result.distinct = static_cast<int64_t>(single.all().size());
    result.unigramEntropy = 0;
    for (auto [token, count] : single.all())
      *result.unigramEntropy -= share(count, file.size()) * std::log(share(count, file.size()));
  }
  if (pairs.isComplete()) { // the tokens are no more
    result.bigramEntropy = 0;
    for (auto [pair, together] : pairs.all())
      *result.bigramEntropy -=
          share(together, file.size() - 1) * std::log(share(together, firsts.all().at(pair >> 32)));
  }
  return result;
}

} // namespace dtc
