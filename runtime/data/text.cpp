#include "runtime/data/text.h"

#include "runtime/abi/error.h"

#include <cmath>
#include <fmt/format.h>
#include <memory>
#include <sys/stat.h>
#include <unordered_map>
#include <zlib.h>

namespace dtc {

std::string readText(const std::string &path) {
  auto fail = [&](const std::string &why) {
    throw Error(ExitCode::BadInput, fmt::format("cannot read the text '{}': {}", path, why));
  };
  struct stat status;
  if (stat(path.c_str(), &status) != 0)
    fail("no such file");
  if (!S_ISREG(status.st_mode))
    fail("not a regular file");
  // gzread passes a file that is not compressed through unchanged.
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file)
    fail("it cannot be opened");
  std::string text;
  std::vector<char> block(1 << 20);
  int count;
  while ((count = gzread(file.get(), block.data(), static_cast<unsigned>(block.size()))) > 0)
    text.append(block.data(), static_cast<size_t>(count));
  int problem = Z_OK;
  const char *message = gzerror(file.get(), &problem);
  if (count < 0 || (problem != Z_OK && problem != Z_STREAM_END))
    fail(fmt::format("damaged gzip data ({})", message));
  return text;
}

std::vector<uint16_t> byteTokens(const std::string &text) {
  std::vector<uint16_t> tokens;
  tokens.reserve(text.size());
  for (char c : text)
    tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

TokenStatistics tokenStatistics(std::span<const uint16_t> tokens) {
  TokenStatistics result;
  result.tokens = tokens.size();
  if (tokens.empty())
    return result;
  std::vector<uint64_t> count(1 << 16), countAsFirst(1 << 16);
  std::unordered_map<uint32_t, uint64_t> pairs;
  for (size_t i = 0; i < tokens.size(); ++i) {
    ++count[tokens[i]];
    if (i + 1 < tokens.size()) {
      ++countAsFirst[tokens[i]];
      ++pairs[uint32_t(tokens[i]) << 16 | tokens[i + 1]];
    }
  }
  for (size_t token = 0; token < count.size(); ++token)
    if (count[token]) {
      ++result.distinct;
      result.largest = static_cast<uint16_t>(token);
      double p = static_cast<double>(count[token]) / tokens.size();
      result.unigramEntropy -= p * std::log(p);
    }
  for (auto [pair, together] : pairs)
    result.bigramEntropy -= static_cast<double>(together) / (tokens.size() - 1) *
                            std::log(static_cast<double>(together) / countAsFirst[pair >> 16]);
  return result;
}

} // namespace dtc
