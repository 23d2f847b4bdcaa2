// Text to tokens and back, as `dtc sample` needs it, from a tokenizer's process that was started with --text
// (TokenizerProcess.h).
//
// Its first line has "bytes", too: tokens that each stand for one byte. It answers
//
//   0, bytes, a text          -> count, so many tokens, those included that the tokenizer puts around each text
//   1, count, so many tokens  -> bytes, a text, without special tokens
//
// or 0xffffffff, bytes, and so many of what is wrong.
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
  /// Starts the process and awaits its first line. Throws Error (BadInput) for what it says there, and Error (Runtime)
  /// when it cannot be started.
  explicit TokenText(std::vector<std::string> command);

  /// One more than the largest token.
  int64_t vocabulary() const { return vocabularySize; }
  /// What ends texts, where the files tell.
  std::optional<int32_t> end() const { return endToken; }
  /// Whether a token stands for one byte of a character that several make.
  bool isByte(int32_t token) const { return bytes.contains(token); }

  /// Throws Error (BadInput) for what is no UTF-8.
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

/// Text of tokens that come one after the other, without a character that is not yet whole. What it gives, put
/// together, is the decoded whole.
///
/// A token's text depends on those before it: whether it begins a text, which characters its bytes belong to. So a
/// window is decoded that begins with tokens that have been printed, of which it is known what they become there.
class TextStream {
public:
  using Decode = std::function<std::string(std::span<const int32_t>)>;
  using IsByte = std::function<bool(int32_t)>;

  TextStream(Decode decode, IsByte isByte) : decode(std::move(decode)), isByte(std::move(isByte)) {}

  /// What can be printed with the next token: often nothing.
  std::string push(int32_t token);
  /// What is left at the end, or where a prompt ends, behind which text goes on.
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

/// Ends a text before the first of some strings: what may be the beginning of one is held back.
class StopStrings {
public:
  /// Of strings that are not empty.
  explicit StopStrings(std::vector<std::string> strings) : strings(std::move(strings)) {}

  /// What can be printed of the text so far and not yet printed.
  std::string push(std::string_view text);
  /// Whether one has come; all that follows is left out.
  bool isStopped() const { return stopped; }
  /// What is left at the end.
  std::string finish();

private:
  std::vector<std::string> strings;
  std::string held;
  bool stopped = false;
};

} // namespace dtc
