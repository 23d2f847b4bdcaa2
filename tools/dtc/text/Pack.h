// From texts to token files.
#pragma once

#include "runtime/data/token_file.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dtc {

struct PackOptions {
  std::vector<std::string> inputs;
  std::string output;
  std::string tokenizer; ///< a folder or file; empty: bytes are the tokens
  bool chat = false;     ///< documents are conversations
  std::string field;     ///< for lines of JSON; empty: "text" or "messages", in files named as such
  std::string documents = "file";
  std::string end = "auto"; ///< or "none" or a token: what follows each document
  std::string format = "llm.c";
  int64_t vocabulary = 0;     ///< that the tokenizer must fit; 0: any
  int64_t sequenceLength = 0; ///< that no document crosses; 0: any
  std::string balance = "none"; ///< or "attention": documents are ordered so that samples cost alike (Balance.h)
};

/// The result, in numbers.
struct Packed {
  TokenFile::Format format = TokenFile::Format::LlmC;
  int bits = 16;
  int64_t vocabulary = 256; ///< of the tokenizer
  uint64_t tokens = 0, documents = 0, longest = 0;
  uint64_t counted = 0; ///< tokens that count as targets
  bool masked = false;
  uint64_t empty = 0; ///< empty documents, left out
};

/// Throws Error: BadInput for inputs and tokenizers, with the file and line of a document; Usage for options that
/// contradict each other; Runtime for what cannot be written or run.
Packed pack(const PackOptions &options);

} // namespace dtc
