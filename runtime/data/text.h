// Text in, tokens and their statistics out: what `dtc data` does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dtc {

/// Reads a text file; one compressed by gzip is unpacked. That covers dictd's dictionaries (.dict.dz), whose format is
/// gzip with an index of its own in a header field that gzip skips. Throws Error (BadInput).
std::string readText(const std::string &path);

/// One token a byte: a vocabulary of 256.
std::vector<uint16_t> byteTokens(const std::string &text);

/// What a model of these tokens has to beat, in nats per token.
struct TokenStatistics {
  uint64_t tokens = 0;
  int64_t distinct = 0; ///< different tokens that occur
  uint16_t largest = 0;
  double unigramEntropy = 0; ///< H(x) = -sum p(a) ln p(a)
  double bigramEntropy = 0;  ///< H(x_t | x_{t-1}) = -sum p(a, b) ln p(b | a), over neighbouring tokens
};
TokenStatistics tokenStatistics(std::span<const uint16_t> tokens);

} // namespace dtc
