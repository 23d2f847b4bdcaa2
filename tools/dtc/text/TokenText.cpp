#include "tools/dtc/text/TokenText.h"

#include "runtime/support/error.h"

#include <algorithm>
#include <csignal>
#include <ctime>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

namespace dtc {
namespace {

enum Question : uint32_t { Encode = 0, Decode = 1 };

/// While one exists, writing to a closed pipe fails with errno instead of a signal.
class WithoutPipeSignal {
public:
  WithoutPipeSignal() {
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
  }
  ~WithoutPipeSignal() {
    timespec none{};
    while (sigtimedwait(&pipe, nullptr, &none) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  WithoutPipeSignal(const WithoutPipeSignal &) = delete;
  WithoutPipeSignal &operator=(const WithoutPipeSignal &) = delete;

private:
  sigset_t pipe, before;
};

} // namespace

TokenText::TokenText(std::vector<std::string> command) : process(std::move(command)) {
  auto header = process.readHeader();
  vocabularySize = header.at("vocabulary");
  if (!header.at("end").is_null())
    endToken = header.at("end").get<int32_t>();
  bytes = header.at("bytes").get<std::set<int32_t>>();
}

/// The first number of the answer; the content that it counts is still to be read.
uint32_t TokenText::ask(uint32_t question, const void *data, size_t count, size_t width) {
  uint32_t head[] = {question, static_cast<uint32_t>(count)}, answer = 0;
  try {
    WithoutPipeSignal guard;
    process.write(head, sizeof(head));
    process.write(data, count * width);
  } catch (const TokenizerProcess::Ended &) {
    process.failEnded();
  }
  readAnswer(&answer, sizeof(answer));
  if (answer != TokenizerProcess::ErrorMark)
    return answer;
  readAnswer(&answer, sizeof(answer));
  std::string message(answer, '\0');
  readAnswer(message.data(), message.size());
  throw Error(ExitCode::BadInput, message);
}

void TokenText::readAnswer(void *data, size_t size) {
  if (!process.read(data, size))
    process.failEnded();
}

std::vector<int32_t> TokenText::encode(std::string_view text) {
  std::vector<int32_t> tokens(ask(Encode, text.data(), text.size(), 1));
  readAnswer(tokens.data(), std::span(tokens).size_bytes());
  return tokens;
}

std::string TokenText::decode(std::span<const int32_t> tokens) {
  for (int32_t token : tokens)
    if (token < 0 || token >= vocabularySize)
      throw Error(ExitCode::BadInput,
                  fmt::format("token {} is not one of the tokenizer's, which has {}: is it the model's own?", token,
                              vocabularySize));
  std::string text(ask(Decode, tokens.data(), tokens.size(), sizeof(tokens.front())), '\0');
  readAnswer(text.data(), text.size());
  return text;
}

/// The window's text up to here has been printed; the rest is returned.
std::string TextStream::take(std::string_view text) {
  std::string rest(text.substr(std::min(printedBytes, text.size())));
  // The new tokens begin the next window, if decoders see more in them than spaces that they drop at the beginning.
  bool isVisible = std::any_of(rest.begin(), rest.end(), [](unsigned char byte) { return byte > ' '; });
  if (isVisible)
    window.erase(window.begin(), window.begin() + static_cast<std::ptrdiff_t>(printedTokens));
  printedTokens = window.size();
  textBefore = isVisible ? decode(window) : text;
  printedBytes = textBefore.size();
  return rest;
}

std::string TextStream::push(int32_t token) {
  window.push_back(token);
  std::string text = decode(window);
  // A run of bytes is decoded as a whole: a new byte may change the characters before it. Special tokens within it have
  // no text.
  bool isNothing = text == textBefore;
  inBytes = isByte(token) || (inBytes && isNothing);
  textBefore = text;
  if (inBytes || text.ends_with("\uFFFD"))
    return {};
  return take(text);
}

std::string TextStream::finish() { return window.empty() ? std::string() : take(decode(window)); }

std::string StopStrings::push(std::string_view text) {
  if (stopped)
    return {};
  held += text;
  size_t first = std::string::npos, safe = held.size();
  for (const std::string &string : strings) {
    first = std::min(first, held.find(string));
    for (size_t length = std::min(string.size() - 1, held.size()); length > 0; --length)
      if (std::string_view(held).ends_with(std::string_view(string).substr(0, length))) {
        safe = std::min(safe, held.size() - length);
        break;
      }
  }
  stopped = first != std::string::npos;
  size_t count = stopped ? first : safe;
  std::string ready = held.substr(0, count);
  held.erase(0, count);
  return ready;
}

std::string StopStrings::finish() { return stopped ? std::string() : std::exchange(held, {}); }

} // namespace dtc
