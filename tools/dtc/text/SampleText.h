// Prompts and answers of `dtc sample` as text.
#pragma once

#include "tools/dtc/text/TokenText.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtc {

class SampleText {
public:
  /// `file`: a tokenizer's. An answer ends before the first of `stops`. Throws Error (BadInput) for an unusable file,
  /// and Error (Runtime) where its library cannot be run.
  SampleText(const std::string &file, std::vector<std::string> stops);

  /// Entries of the tokenizer's vocabulary.
  int64_t vocabulary() const { return tokenizer.vocabulary(); }
  /// The tokens that end texts, where the tokenizer states them.
  std::optional<int32_t> end() const { return tokenizer.end(); }

  /// The tokens of the next prompt. Throws Error (BadInput) where there are none.
  std::vector<int64_t> addPrompt(const std::string &text);
  /// The text that can be printed after one more token of the answer to a prompt, given by its number.
  std::string push(size_t prompt, int64_t token);
  /// The rest of the text at the end.
  std::string finish(size_t prompt);
  /// Whether an answer has reached one of the stops; no more of it is printed.
  bool isStopped(size_t prompt) const { return answers.at(prompt).stops.isStopped(); }
  bool areStopped() const;
  /// The text printed up to now.
  const std::string &answer(size_t prompt) const { return answers.at(prompt).text; }

private:
  struct Answer {
    TextStream stream;
    StopStrings stops;
    std::string text;
  };

  TokenText tokenizer;
  std::vector<std::string> stops;
  std::vector<Answer> answers;
};

} // namespace dtc
