// A request to a program that generates text: a JSON file.
//
//   {"prompts": [[464, 3290], [40]], "max_tokens": 32, "stop": [50256], "temperature": 0.8, "top_k": 40, "top_p": 0.95,
//    "seed": 1}
//
// "max_tokens": the most new tokens of each prompt. All behind it may be left out: "stop", tokens behind which nothing
// follows, and how tokens are chosen (choose_token.h), without which each is the likeliest.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "runtime/program/sample/choose_token.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dtc {

struct GenerationRequest {
  std::vector<std::vector<int32_t>> prompts; ///< ids of tokens
  int64_t maxTokens = 0;
  std::vector<int32_t> stops;
  Choice choice;
};

/// Throws Error (BadInput) for an invalid request or one that this program cannot answer, naming the file, the key and
/// the value.
GenerationRequest readRequest(const std::string &path, const abi::Manifest &manifest);

} // namespace dtc
