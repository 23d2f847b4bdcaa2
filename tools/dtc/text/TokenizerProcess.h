// A tokenizer, in a process of its own: Hugging Face's library by a script (tokenize_documents.py), or sentencepiece's
// (sentencepiece.cpp).
//
// The process first writes a line of JSON: "vocabulary", one more than its largest token; "end", the token that ends a
// document, or null; and "masked", whether a mask comes with tokens. Or "error", why it cannot be used. Then it answers
// requests from its standard input on its standard output, numbers as uint32 in the machine's byte order, until its
// input ends. The requests depend on how it was started: for documents (Tokenizer.h), or for text (TokenText.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace dtc {

/// The tokenizer in a folder as Hugging Face's tools write it, if there is one.
std::optional<std::string> findTokenizer(const std::string &folder);
/// The tokenizer in the folder, or the file, that --tokenizer names. Throws Error (BadInput) where there is none.
std::string tokenizerFile(const std::string &path);

class TokenizerProcess {
public:
  /// The first number of an answer that reports an error.
  static constexpr uint32_t ErrorMark = 0xffffffff;
  /// The process ended while we were writing to it. The reader of its answers reports the error.
  struct Ended {};

  /// Starts the process. Throws Error (Runtime) when that is not possible.
  explicit TokenizerProcess(std::vector<std::string> command);
  ~TokenizerProcess();
  TokenizerProcess(const TokenizerProcess &) = delete;
  TokenizerProcess &operator=(const TokenizerProcess &) = delete;

  /// Waits for the first line, once. Throws Error (BadInput) with the error that it reports.
  nlohmann::json readHeader();
  /// Throws Ended.
  void write(const void *data, size_t size) const;
  void closeInput();
  /// False at the end of the output.
  bool read(void *data, size_t size);
  /// Throws Error (Runtime) about a process that has ended.
  [[noreturn]] void failEnded();
  void stop() const;

private:
  void start(std::vector<std::string> &command);
  int awaitExit();

  std::string name; ///< of the program, for messages
  pid_t child = -1;
  int input = -1;              ///< the child's standard input
  std::FILE *output = nullptr; ///< the child's standard output
};

} // namespace dtc
