#include "tools/dtc/text/SampleText.h"

#include "runtime/support/error.h"
#include "tools/dtc/Compiler.h"
#include "tools/dtc/OtherVerbs.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace dtc {

static std::vector<std::string> commandOf(const std::string &file) {
  if (file.ends_with(".model"))
    return {partPath("dtc-sentencepiece"), "--text", file};
  return {"python3", partPath("dtc-tokenize.py"), "--text", file};
}

SampleText::SampleText(const std::string &file, std::vector<std::string> stops)
    : tokenizer(commandOf(file)), stops(std::move(stops)) {}

std::vector<int64_t> SampleText::addPrompt(const std::string &text) {
  std::vector<int32_t> tokens = tokenizer.encode(text);
  if (tokens.empty())
    throw Error(ExitCode::BadInput, fmt::format("--prompt {}: the tokenizer makes no token of it; a model continues at "
                                                "least one",
                                                shellWord(text)));
  TextStream stream([this](std::span<const int32_t> part) { return tokenizer.decode(part); },
                    [this](int32_t token) { return tokenizer.isByte(token); });
  for (int32_t token : tokens)
    stream.push(token);
  stream.finish(); // the answer continues after it
  answers.push_back({std::move(stream), StopStrings(stops), {}});
  return {tokens.begin(), tokens.end()};
}

std::string SampleText::push(size_t prompt, int64_t token) {
  Answer &answer = answers.at(prompt);
  std::string piece = answer.stops.push(answer.stream.push(static_cast<int32_t>(token)));
  answer.text += piece;
  return piece;
}

std::string SampleText::finish(size_t prompt) {
  Answer &answer = answers.at(prompt);
  std::string piece = answer.stops.push(answer.stream.finish());
  piece += answer.stops.finish();
  answer.text += piece;
  return piece;
}

bool SampleText::areStopped() const {
  return std::ranges::all_of(answers, [](const Answer &answer) { return answer.stops.isStopped(); });
}

} // namespace dtc
