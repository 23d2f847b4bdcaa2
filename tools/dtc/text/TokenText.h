// Text to tokens and back, as `dtc sample` needs it, from a tokenizer's process that was started with --text
// (TokenizerProcess.h).
//
// Its first line also has "bytes": tokens that each stand for one byte. It answers
//
//   0, bytes, a text          -> count, that many tokens, including those that the tokenizer puts around each text
//   1, count, that many tokens  -> bytes, a text, without special tokens
//
// or 0xffffffff, bytes, and that many bytes of an error message.
#pragma once

#include "tools/dtc/text/TokenizerProcess.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

class TokenText {
public:
  /// Starts the process and waits for its first line. Throws Error (BadInput) with the error that this line reports,
  /// and Error (Runtime) when the process cannot be started.
  explicit TokenText(std::vector<std::string> command);

  /// One more than the largest token.
  int64_t vocabulary() const { return vocabularySize; }
  /// The tokens that end texts, where the files state them.
  std::optional<int32_t> end() const { return endToken; }
  /// Whether a token stands for one byte of a multi-byte character.
  bool isByte(int32_t token) const { return bytes.contains(token); }

  /// Throws Error (BadInput) for invalid UTF-8.
  std::vector<int32_t> encode(std::string_view text);
  /// Throws Error (BadInput) for a token that is not below vocabulary().
  std::string decode(std::span<const int32_t> tokens);

private:
  uint32_t ask(uint32_t question, const void *data, size_t count, size_t width);
  void readAnswer(void *data, size_t size);

  TokenizerProcess process;
  int64_t vocabularySize = 0;
  std::optional<int32_t> endToken;
  std::set<int32_t> bytes;
};

/// The text of tokens that come one after the other, without a character that is still incomplete. All that it returns,
/// concatenated, is the decoded whole.
///
/// A token's text depends on the tokens before it: whether it begins a text, which characters its bytes belong to. So a
/// window is decoded that begins with tokens that have been printed, whose text there is known.
class TextStream {
public:
  using Decode = std::function<std::string(std::span<const int32_t>)>;
  using IsByte = std::function<bool(int32_t)>;

  TextStream(Decode decode, IsByte isByte) : decode(std::move(decode)), isByte(std::move(isByte)) {}

  /// The text that can be printed after the next token: often nothing.
  std::string push(int32_t token);
  /// The rest at the end, or where a prompt ends and the text continues after it.
  std::string finish();

private:
  std::string take(std::string_view text);

  Decode decode;
  IsByte isByte;
  std::vector<int32_t> window;
  size_t printedTokens = 0; ///< of the window
  size_t printedBytes = 0;  ///< of its text
  std::string textBefore;   ///< the last token
  bool inBytes = false;     ///< the window ends with tokens that are bytes
};

/// Ends a text before the first of some strings: a possible beginning of one is held back.
class StopStrings {
public:
  /// The strings are not empty.
  explicit StopStrings(std::vector<std::string> strings) : strings(std::move(strings)) {}

  /// The text that can be printed and has not been printed yet.
  std::string push(std::string_view text);
  /// Whether one of the strings has come; all that follows is dropped.
  bool isStopped() const { return stopped; }
  /// The rest at the end.
  std::string finish();

private:
  std::vector<std::string> strings;
  std::string held;
  bool stopped = false;
};

} // namespace dtc
