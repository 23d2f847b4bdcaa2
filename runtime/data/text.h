// Turns text into tokens and computes their statistics, for `dtc data`.
#pragma once

#include "runtime/data/token_file.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtc {

/// Reads a text file and passes it on in blocks of at most a megabyte, so that a small file that unpacks to a large one
/// takes little memory. Files compressed by gzip are unpacked. That includes dictd's dictionaries (.dict.dz), whose
/// format is gzip with its own index in a header field that gzip skips. Throws Error (BadInput).
void readText(const std::string &path, const std::function<void(std::string_view)> &receive);

/// One token per byte: a vocabulary of 256.
std::vector<uint16_t> byteTokens(std::string_view text);

/// Baselines that a model of these tokens has to beat, in nats per token.
struct TokenStatistics {
  /// More distinct tokens, or pairs of them, are not counted: that would take too much memory.
  static constexpr size_t MostCounted = 1 << 23;

  uint64_t tokens = 0;
  uint64_t counted = 0; ///< as targets; the others are masked
  uint64_t documents = 0, longestDocument = 0; ///< for a file with document boundaries
  uint32_t largest = 0;
  std::optional<int64_t> distinct;      ///< different tokens that occur
  std::optional<double> unigramEntropy; ///< H(x) = -sum p(a) ln p(a)
  std::optional<double> bigramEntropy;  ///< H(x_t | x_{t-1}) = -sum p(a, b) ln p(b | a), over neighbouring tokens
};
TokenStatistics tokenStatistics(const TokenFile &file, size_t mostCounted = TokenStatistics::MostCounted);

} // namespace dtc
