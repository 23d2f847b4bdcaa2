// A tokenizer, in a process of its own: Hugging Face's library by a script (tokenize_documents.py), or sentencepiece's
// (sentencepiece.cpp).
//
// The process first writes a line of JSON: "vocabulary", one more than its largest token; "end", the token that ends a
// document, or null; and "masked", whether a mask comes with tokens. Or "error", why it cannot be used. Then it answers
// from its standard input on its standard output, numbers as uint32 of the machine, until its input ends. What it is
// asked depends on how it was started: for documents (Tokenizer.h), or for text (TokenText.h).
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
/// That in the folder, or the file, that --tokenizer names. Throws Error (BadInput) where there is none.
std::string tokenizerFile(const std::string &path);

class TokenizerProcess {
public:
  /// The first number of an answer that is an error.
  static constexpr uint32_t ErrorMark = 0xffffffff;
  /// The process has ended while it was written to. Whoever reads its answers says so.
  struct Ended {};

  /// Starts the process. Throws Error (Runtime) when that is not possible.
  explicit TokenizerProcess(std::vector<std::string> command);
  ~TokenizerProcess();
  TokenizerProcess(const TokenizerProcess &) = delete;
  TokenizerProcess &operator=(const TokenizerProcess &) = delete;

  /// Awaits the first line, once. Throws Error (BadInput) for what it says is wrong.
  nlohmann::json readHeader();
  /// Throws Ended.
  void write(const void *data, size_t size) const;
  void closeInput();
  /// False where there is no more.
  bool read(void *data, size_t size);
  /// Throws Error (Runtime) about a process that has ended.
  [[noreturn]] void failEnded();
  void stop() const;

private:
  void start(std::vector<std::string> &command);
  int awaitExit();

  std::string name; ///< of the program, for messages
  pid_t child = -1;
  int input = -1;              ///< the child's
  std::FILE *output = nullptr; ///< the child's
};

} // namespace dtc
