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
  /// `file`: a tokenizer's. An answer ends before the first of `stops`. Throws Error (BadInput) for a file that cannot
  /// be used, and Error (Runtime) where its library cannot be run.
  SampleText(const std::string &file, std::vector<std::string> stops);

  /// Entries of the tokenizer's vocabulary.
  int64_t vocabulary() const { return tokenizer.vocabulary(); }
  /// What ends texts, where the tokenizer tells.
  std::optional<int32_t> end() const { return tokenizer.end(); }

  /// The tokens of the next prompt. Throws Error (BadInput) where there are none.
  std::vector<int64_t> addPrompt(const std::string &text);
  /// What can be printed of the answer to a prompt, by its number, with one more token.
  std::string push(size_t prompt, int64_t token);
  /// What is left of it at the end.
  std::string finish(size_t prompt);
  /// Whether an answer has come to one of the stops; nothing of it follows.
  bool isStopped(size_t prompt) const { return answers.at(prompt).stops.isStopped(); }
  bool areStopped() const;
  /// What has been printed of it.
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
