// What tests check about token files.
#pragma once

#include "runtime/data/token_file.h"
#include "runtime/support/error.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace dtc::test {

/// Why a file is refused as bad input; "accepted" if it is not.
inline std::string refusal(const std::string &path, std::optional<TokenFile::Format> format = std::nullopt) {
  try {
    TokenFile file(path, format);
  } catch (const Error &error) {
    EXPECT_EQ(error.exitCode(), ExitCode::BadInput);
    return error.what();
  }
  return "accepted";
}

inline std::vector<uint32_t> tokensOf(const TokenFile &file) {
  std::vector<uint32_t> tokens;
  for (size_t i = 0; i < file.size(); ++i)
    tokens.push_back(file[i]);
  return tokens;
}

} // namespace dtc::test
