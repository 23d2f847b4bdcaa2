#include "test/fuzz/mutators.h"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace dtc::fuzz {

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

TextFormat jsonFormat() {
  return {{"null", "true", "false", "-0", "1e999", "1e-999", "-1", "0.5", "\"\"", "\"\\u0000\"", "\"\\ud800\"",
           "\"\xff\xfe\"", "{}", "[]", ",", ":", "NaN", "Infinity", "\"\\u001b[31m\""},
          {"[", "{\"a\":", "[[{\"a\":"}};
}

TextFormat tomlFormat() {
  return {{"true",
           "nan",
           "-inf",
           "1979-05-27T07:32:00Z",
           "0x7fffffffffffffff",
           "1e999",
           "-0.0",
           "\"\"",
           "'''",
           "\"\"\"",
           "{}",
           "[]",
           "[[",
           "]]",
           "=",
           ".",
           "\n",
           "#",
           "\"\\u0000\"",
           "\xff"},
          {"[", "{a=", "a.", "{a.a.a=", "[[", "\"a\"."}};
}

TextFormat mlirFormat() {
  return {{"tensor<4xf32>",
           "tensor<*xf32>",
           "tensor<?xi32>",
           "tensor<0xf32>",
           "tensor<f32>",
           "dense<0.0>",
           "dense<>",
           "loc(unknown)",
           "{}",
           "()",
           "->",
           "%0",
           "@loss",
           "#dt.param",
           "unit",
           "i64",
           "f64",
           "array<i64: 1>",
           "^bb0",
           "\"func.call\"()",
           "-1",
           "0x7FC00000",
           "!dt.x",
           "affine_map<(d0) -> (d0)>"},
          {"(", "[", "{", "tensor<", "{a = [", "loc(fused[", "tuple<", "(tuple<", "#dt.param<", "\"a\"() ({"}};
}

namespace {

bool isWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || std::strchr("_.%@#$!+-", c); }

/// Words with numbers, quoted strings, runs of space, single characters.
std::vector<std::string> tokenize(std::string_view text) {
  std::vector<std::string> tokens;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (text[at] == '"') {
      while (end < text.size() && text[end] != '"' && text[end] != '\n')
        end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
    } else if (text[at] != '\0' && isWord(text[at])) {
      while (end < text.size() && text[end] != '\0' && isWord(text[end]))
        ++end;
    } else if (std::isspace(static_cast<unsigned char>(text[at]))) {
      while (end < text.size() && std::isspace(static_cast<unsigned char>(text[end])))
        ++end;
    }
    tokens.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return tokens;
}

std::string join(const std::vector<std::string> &tokens) {
  std::string text;
  for (const std::string &token : tokens)
    text += token;
  return text;
}

bool isNumber(const std::string &token) {
  return !token.empty() &&
         (std::isdigit(static_cast<unsigned char>(token[0])) ||
          (token.size() > 1 && token[0] == '-' && std::isdigit(static_cast<unsigned char>(token[1]))));
}

std::string edgeText(Random &random) {
  uint64_t number = edgeNumber(random);
  switch (random.below(5)) {
  case 0:
    return std::to_string(static_cast<int64_t>(number));
  case 1:
    return std::to_string(number) + ".5";
  case 2:
    return "1e" + std::to_string(random.below(400));
  default:
    return std::to_string(number);
  }
}

/// The index of a token that is not space, and often of a number.
size_t chooseToken(Random &random, const std::vector<std::string> &tokens) {
  bool number = random.oneIn(2);
  size_t at = 0;
  for (int tries = 0; tries < 30; ++tries) {
    at = random.below(tokens.size());
    bool space = std::isspace(static_cast<unsigned char>(tokens[at][0]));
    if (number ? isNumber(tokens[at]) : !space)
      break;
  }
  return at;
}

std::string repeated(const std::string &text, size_t times) {
  std::string all;
  all.reserve(text.size() * times);
  for (size_t i = 0; i < times; ++i)
    all += text;
  return all;
}

void changeToken(Random &random, std::vector<std::string> &tokens, const TextFormat &format) {
  size_t at = chooseToken(random, tokens);
  constexpr size_t depths[] = {2, 20, 200, 2000, 50000};
  switch (random.below(12)) {
  case 0:
    tokens.erase(tokens.begin() + at);
    break;
  case 1:
    tokens.insert(tokens.begin() + at, tokens[at]);
    break;
  case 2:
    std::swap(tokens[at], tokens[chooseToken(random, tokens)]);
    break;
  case 3:
    tokens[at] = tokens[chooseToken(random, tokens)];
    break;
  case 4:
    tokens.insert(tokens.begin() + at, random.pick(format.words));
    break;
  case 5:
    tokens[at] = random.pick(format.words);
    break;
  case 6: // a copy of some tokens elsewhere
  {
    size_t count = std::min(random.below(20) + 1, tokens.size() - at);
    std::vector<std::string> piece(tokens.begin() + at, tokens.begin() + at + count);
    tokens.insert(tokens.begin() + random.below(tokens.size() + 1), piece.begin(), piece.end());
    break;
  }
  case 7:
    if (random.oneIn(4)) // expensive for everybody involved
      tokens[at].insert(0, repeated(random.pick(format.nests), random.pick(depths)));
    else
      tokens[at] = edgeText(random);
    break;
  case 8:
    if (random.oneIn(4))
      tokens[at] = repeated(tokens[at], random.pick(depths) / 2);
    else
      tokens[at][random.below(tokens[at].size())] ^= static_cast<char>(1 << random.below(8));
    break;
  default:
    tokens[at] = edgeText(random);
  }
  if (tokens.empty())
    tokens.emplace_back(" ");
}

} // namespace

std::string mutateText(Random &random, std::string text, const TextFormat &format) {
  std::vector<std::string> tokens = tokenize(text);
  for (size_t changes = random.oneIn(2) ? 1 : random.below(4) + 1; changes > 0; --changes)
    changeToken(random, tokens, format);
  text = join(tokens);
  if (random.oneIn(50))
    text.resize(random.below(text.size()));
  return text;
}

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

std::string flipBit(Random &random, std::string bytes) {
  bytes[random.below(bytes.size())] ^= static_cast<char>(1 << random.below(8));
  return bytes;
}

std::string mutateBytes(Random &random, std::string bytes) {
  for (size_t changes = random.below(4) + 1; changes > 0 && !bytes.empty(); --changes) {
    size_t at = random.below(random.oneIn(2) ? std::min<size_t>(bytes.size(), 64) : bytes.size());
    uint64_t number = edgeNumber(random);
    switch (random.below(7)) {
    case 0:
      bytes.resize(at);
      break;
    case 1:
      bytes.insert(at, bytes.substr(at, random.below(64) + 1));
      break;
    case 2:
      bytes.erase(at, random.below(64) + 1);
      break;
    case 3: // aligned, as header fields are
      at -= at % 4;
      std::memcpy(bytes.data() + at, &number, std::min<size_t>(4, bytes.size() - at));
      break;
    case 4:
      at -= at % 8;
      std::memcpy(bytes.data() + at, &number, std::min<size_t>(8, bytes.size() - at));
      break;
    default:
      bytes[at] ^= static_cast<char>(1 << random.below(8));
    }
  }
  return bytes;
}

std::string mutateSafetensors(Random &random, std::string_view file) {
  uint64_t length;
  std::memcpy(&length, file.data(), 8);
  std::string header(file.substr(8, length)), data(file.substr(8 + length));
  if (!random.oneIn(5))
    header = mutateText(random, header, jsonFormat());
  length = random.oneIn(10) ? edgeNumber(random) : header.size();
  if (random.oneIn(4))
    data = mutateBytes(random, data);
  std::string bytes(reinterpret_cast<const char *>(&length), 8);
  bytes += header + data;
  return random.oneIn(10) ? mutateBytes(random, bytes) : bytes;
}

} // namespace dtc::fuzz
