#include "runtime/data/token_file.h"

#include "runtime/abi/error.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <fstream>

namespace dtc {

namespace {
constexpr size_t HeaderInts = 256;
constexpr size_t HeaderBytes = HeaderInts * sizeof(int32_t);
constexpr int32_t Magic = 20240520;
constexpr int32_t Version = 1;
} // namespace

TokenFile::TokenFile(const std::string &path) : file(path) {
  auto refuse = [&](const std::string &why) {
    throw Error(ExitCode::BadInput, fmt::format("token file '{}': {}", path, why));
  };
  std::span<const std::byte> bytes = file.bytes();
  std::array<int32_t, 3> header{};
  if (bytes.size() >= HeaderBytes)
    std::memcpy(header.data(), bytes.data(), sizeof(header));
  layout = header[0] == Magic ? Format::LlmC : Format::NanoGpt;
  if (layout == Format::LlmC) {
    if (header[1] != Version)
      refuse(fmt::format("version {} of llm.c's format; only version {} (16-bit tokens) is known", header[1], Version));
    bytes = bytes.subspan(HeaderBytes);
    if (header[2] < 0 || static_cast<uint64_t>(header[2]) * 2 != bytes.size())
      refuse(fmt::format("its header tells {} tokens, but {} bytes follow", header[2], bytes.size()));
  }
  if (bytes.size() % 2 != 0)
    refuse(fmt::format("{} bytes are no whole number of 16-bit tokens; is it a text? Convert it with 'dtc data'",
                       bytes.size()));
  content = {reinterpret_cast<const uint16_t *>(bytes.data()), bytes.size() / 2};
}

void TokenFile::checkVocabulary(int64_t vocabulary) const {
  auto outside = std::find_if(content.begin(), content.end(), [&](uint16_t token) { return token >= vocabulary; });
  if (outside != content.end())
    throw Error(
        ExitCode::BadInput,
        fmt::format("token file '{}': the token at position {} is {}, but the model's vocabulary has {}; was the "
                    "file made for another model?",
                    path(), outside - content.begin(), *outside, vocabulary));
}

void writeTokenFile(const std::string &path, std::span<const uint16_t> tokens) {
  if (tokens.size() > static_cast<size_t>(INT32_MAX))
    throw Error(ExitCode::BadInput, fmt::format("cannot write '{}': {} tokens are more than one file of llm.c's format "
                                                "holds (2^31 - 1); split the text",
                                                path, tokens.size()));
  std::array<int32_t, HeaderInts> header{Magic, Version, static_cast<int32_t>(tokens.size())};
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char *>(header.data()), HeaderBytes);
  file.write(reinterpret_cast<const char *>(tokens.data()), static_cast<std::streamsize>(tokens.size_bytes()));
  file.close();
  if (!file)
    throw Error(fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
}

} // namespace dtc
