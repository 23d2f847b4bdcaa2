#include "runtime/data/token_file.h"

#include "runtime/abi/error.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <sys/stat.h>

namespace dtc {

namespace {
constexpr size_t HeaderInts = 256;
constexpr size_t HeaderBytes = HeaderInts * sizeof(int32_t);

/// llm.c's two kinds: GPT-2's tokens and Llama 3's.
struct Kind {
  int32_t magic, version;
  int width;
};
constexpr Kind Kinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};

const Kind *findKind(std::span<const std::byte> bytes) {
  int32_t magic = 0;
  if (bytes.size() >= sizeof(magic))
    std::memcpy(&magic, bytes.data(), sizeof(magic));
  const Kind *found = std::ranges::find(Kinds, magic, &Kind::magic);
  return found == std::end(Kinds) ? nullptr : found;
}
} // namespace

std::vector<std::span<const std::byte>> sampleOf(std::span<const std::byte> bytes) {
  constexpr size_t Whole = 64 << 20, Blocks = 1024, Block = Whole / Blocks, Page = 4096;
  if (bytes.size() <= Whole)
    return {bytes};
  std::vector<std::span<const std::byte>> blocks;
  for (size_t i = 0; i + 1 < Blocks; ++i) // at whole pages: of whole tokens too
    blocks.push_back(bytes.subspan((bytes.size() - Block) / (Blocks - 1) * i / Page * Page, Block));
  blocks.push_back(bytes.last(Block));
  return blocks;
}

TokenFile::TokenFile(const std::string &path, Format format) : file(path), layout(format), content(file.bytes()) {
  const Kind *kind = findKind(content);
  if (format == Format::LlmC)
    readHeader();
  else if (kind && content.size() >= HeaderBytes)
    refuse("it has llm.c's header, which would be taken for tokens; leave --data-format nanogpt out");
  if (content.size() % static_cast<size_t>(width) != 0)
    refuse(fmt::format("{} bytes are no whole number of 16-bit tokens; is it a text? Make tokens of it with 'dtc data "
                       "pack'",
                       content.size()));
  readMask();
}

void TokenFile::refuse(const std::string &why) const {
  throw Error(ExitCode::BadInput, fmt::format("token file '{}': {}", path(), why));
}

void TokenFile::readHeader() {
  const Kind *kind = findKind(content);
  if (!kind)
    refuse("it does not begin as llm.c's token files do (with 20240520 or 20240801). Make tokens of a text with 'dtc "
           "data pack'; 16-bit tokens without a header, as nanoGPT writes them, need --data-format nanogpt");
  if (content.size() < HeaderBytes)
    refuse(
        fmt::format("{} bytes end within llm.c's header of {}; is the file truncated?", content.size(), HeaderBytes));
  int32_t header[3];
  std::memcpy(header, content.data(), sizeof(header));
  width = kind->width;
  if (header[1] != kind->version)
    refuse(fmt::format("version {} of llm.c's format; with {} only version {} ({}-bit tokens) is known", header[1],
                       kind->magic, kind->version, 8 * width));
  content = content.subspan(HeaderBytes);
  if (header[2] < 0 || static_cast<uint64_t>(header[2]) * width != content.size())
    refuse(fmt::format("its header tells {} tokens of {} bits, but {} bytes follow", header[2], 8 * width,
                       content.size()));
}

void TokenFile::readMask() {
  std::string name = path() + ".mask";
  struct stat status;
  if (stat(name.c_str(), &status) != 0)
    return;
  mask.emplace(name);
  std::span<const std::byte> marks = mask->bytes();
  auto refuseMask = [&](const std::string &why) {
    throw Error(ExitCode::BadInput, fmt::format("loss mask '{}': {}; remove it if it is of another file", name, why));
  };
  if (marks.size() != size())
    refuseMask(fmt::format("{} bytes for {} tokens, but each token needs one", marks.size(), size()));
  auto outside = std::ranges::find_if(marks, [](std::byte mark) { return mark > std::byte{1}; });
  if (outside != marks.end())
    refuseMask(fmt::format("byte {} is {}; 1 (counts) or 0 (does not) is needed", outside - marks.begin(),
                           static_cast<int>(*outside)));
}

uint32_t TokenFile::operator[](size_t index) const {
  uint32_t token = 0; // little-endian, as the machine is
  std::memcpy(&token, content.data() + index * static_cast<size_t>(width), static_cast<size_t>(width));
  return token;
}

void TokenFile::checkVocabulary(int64_t vocabulary, size_t first, size_t count) const {
  for (size_t i = first; i < first + count; ++i)
    if (uint32_t token = (*this)[i]; token >= vocabulary)
      refuse(fmt::format("the token at position {} is {}, but the model's vocabulary has {}; was the file made for "
                         "another model?",
                         i, token, vocabulary));
}

std::optional<TokenFile::Format> parseTokenFormat(std::string_view name) {
  if (name == "llm.c")
    return TokenFile::Format::LlmC;
  if (name == "nanogpt")
    return TokenFile::Format::NanoGpt;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

template <typename T> static std::string_view bytesOf(std::span<const T> values) {
  return {reinterpret_cast<const char *>(values.data()), values.size_bytes()};
}

TokenFileWriter::TokenFileWriter(const std::string &path) : path(path), file(path) {
  // Its mask would go on to mark other tokens.
  struct stat status;
  if (std::string mask = path + ".mask"; stat(mask.c_str(), &status) == 0)
    throw Error(ExitCode::BadInput,
                fmt::format("'{}' is the loss mask of a file of this name; remove it or choose another name", mask));
  file.append(std::string(HeaderBytes, '\0'));
}

void TokenFileWriter::append(std::span<const uint16_t> tokens) {
  count += tokens.size();
  if (count > static_cast<uint64_t>(INT32_MAX))
    throw Error(ExitCode::BadInput, fmt::format("cannot write '{}': {} tokens and more do not fit one file of llm.c's "
                                                "format (2^31 - 1); split the text",
                                                path, count));
  file.append(bytesOf(tokens));
}

void TokenFileWriter::publish() {
  std::array<int32_t, 3> header{Kinds[0].magic, Kinds[0].version, static_cast<int32_t>(count)};
  file.overwrite(0, bytesOf(std::span<const int32_t>(header)));
  file.publish(0666);
}

void writeTokenFile(const std::string &path, std::span<const uint16_t> tokens) {
  TokenFileWriter writer(path);
  writer.append(tokens);
  writer.publish();
}

} // namespace dtc
