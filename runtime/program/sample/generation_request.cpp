#include "runtime/program/sample/generation_request.h"

#include "runtime/abi/symbols.h"
#include "runtime/support/error.h"
#include "runtime/support/mapped_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <limits>

namespace dtc {

using Json = nlohmann::json;

namespace {
class RequestReader {
public:
  RequestReader(const std::string &path, const abi::Manifest &manifest)
      : path(path), sizes(manifest.generation()), vocabulary(abi::sizeOf(manifest, "vocab")) {}

  GenerationRequest read() {
    Json root = Json::parse(MappedFile(path).text(), nullptr, /*allow_exceptions=*/false);
    if (!root.is_object())
      fail("is not a JSON object; write {\"prompts\": [[1, 2]], \"max_tokens\": 16}");
    GenerationRequest request;
    for (const auto &[key, value] : root.items())
      take(key, value, request);
    if (request.prompts.empty())
      fail("'prompts' is missing or empty; give at least one list of token ids");
    for (size_t number = 0; number < request.prompts.size(); ++number)
      check(request.prompts[number], number, request.maxTokens);
    return request;
  }

private:
  [[noreturn]] void fail(const std::string &problem) const {
    throw Error(ExitCode::BadInput, fmt::format("{}: {}", path, problem));
  }

  void take(const std::string &key, const Json &value, GenerationRequest &request) const {
    if (key == "prompts")
      takePrompts(value, request);
    else if (key == "max_tokens")
      request.maxTokens = countOf(value, key);
    else if (key == "stop")
      request.stops = tokensOf(value, "'stop'");
    else if (key == "temperature")
      request.choice.temperature = numberOf(value, key, 0, std::numeric_limits<double>::max());
    else if (key == "top_k")
      request.choice.topK = value == 0 ? 0 : countOf(value, key);
    else if (key == "top_p")
      request.choice.topP = numberOf(value, key, 0, 1);
    else if (key == "seed")
      request.choice.seed = seedOf(value);
    else
      fail(fmt::format("unknown key '{}'; there are prompts, max_tokens, stop, temperature, top_k, top_p and seed",
                       key));
  }

  double numberOf(const Json &value, const std::string &key, double least, double most) const {
    if (!value.is_number() || !(value.get<double>() >= least && value.get<double>() <= most))
      fail(fmt::format("'{}' is {}; it must be a number {}", key, value.dump(),
                       most == 1 ? "from 0 to 1" : "that is not negative"));
    return value.get<double>();
  }

  uint64_t seedOf(const Json &value) const {
    if (!value.is_number_integer() || (!value.is_number_unsigned() && value.get<int64_t>() < 0))
      fail(fmt::format("'seed' is {}; it must be a whole number that is not negative", value.dump()));
    return value.get<uint64_t>();
  }

  void takePrompts(const Json &value, GenerationRequest &request) const {
    if (!value.is_array())
      fail("'prompts' is not a list of lists of token ids");
    for (const Json &prompt : value)
      request.prompts.push_back(tokensOf(prompt, fmt::format("prompt {}", request.prompts.size())));
  }

  int64_t countOf(const Json &value, const std::string &key) const {
    if (!value.is_number_integer() || value.get<int64_t>() < 1)
      fail(fmt::format("'{}' is {}; it must be a whole number, at least 1", key, value.dump()));
    return value.get<int64_t>();
  }

  std::vector<int32_t> tokensOf(const Json &value, const std::string &what) const {
    std::vector<int32_t> tokens;
    if (!value.is_array())
      fail(fmt::format("{} is not a list of token ids", what));
    for (const Json &token : value) {
      bool isToken = token.is_number_integer() && token.get<int64_t>() >= 0 && token.get<int64_t>() < vocabulary;
      if (!isToken)
        fail(fmt::format("{}: {} at place {} is not a token of the model; its vocabulary has the ids 0 to {}", what,
                         token.dump(), tokens.size(), vocabulary - 1));
      tokens.push_back(token.get<int32_t>());
    }
    return tokens;
  }

  void check(const std::vector<int32_t> &prompt, size_t number, int64_t maxTokens) const {
    if (prompt.empty())
      fail(fmt::format("prompt {} is empty; a model continues at least one token", number));
    auto length = static_cast<int64_t>(prompt.size());
    if (maxTokens < 1)
      fail("'max_tokens' is missing; say how many new tokens there may be");
    if (maxTokens > sizes.capacity() - length)
      fail(fmt::format("prompt {} has {} tokens, and with {} new ones (max_tokens) it does not fit the program's {} "
                       "positions; ask for fewer, or compile with --generate {} or more",
                       number, length, maxTokens, sizes.capacity(), length + maxTokens));
  }

  const std::string &path;
  const abi::Generation &sizes;
  int64_t vocabulary;
};
} // namespace

GenerationRequest readRequest(const std::string &path, const abi::Manifest &manifest) {
  return RequestReader(path, manifest).read();
}

} // namespace dtc
