#include "runtime/data/token_file.h"

#include "runtime/data/llmc_header.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <sys/stat.h>

namespace dtc {

namespace {
const llmc::Kind *findKind(std::span<const std::byte> bytes) {
  int32_t magic = 0;
  if (bytes.size() >= sizeof(magic))
    std::memcpy(&magic, bytes.data(), sizeof(magic));
  const llmc::Kind *found = std::ranges::find(llmc::Kinds, magic, &llmc::Kind::magic);
  return found == std::end(llmc::Kinds) ? nullptr : found;
}
} // namespace

std::vector<std::span<const std::byte>> sampleOf(std::span<const std::byte> bytes) {
  constexpr size_t Whole = 64 << 20, Blocks = 1024, Block = Whole / Blocks, Page = 4096;
  if (bytes.size() <= Whole)
    return {bytes};
  std::vector<std::span<const std::byte>> blocks;
  for (size_t i = 0; i + 1 < Blocks; ++i) // at whole pages, so also at whole tokens
    blocks.push_back(bytes.subspan((bytes.size() - Block) / (Blocks - 1) * i / Page * Page, Block));
  blocks.push_back(bytes.last(Block));
  return blocks;
}

TokenFile::TokenFile(const std::string &path, std::optional<Format> format)
    : file(path), layout(format.value_or(Format::LlmC)), content(file.bytes()),
      index(DocumentIndex::beside(path, content.size())) {
  if (!format && index)
    layout = Format::Megatron;
  switch (layout) {
  case Format::LlmC:
    readHeader();
    break;
  case Format::NanoGpt:
    readBare();
    break;
  case Format::Megatron:
    readMegatron();
    break;
  }
  readMask();
}

void TokenFile::refuse(const std::string &why) const {
  throw Error(ExitCode::BadInput, fmt::format("token file '{}': {}", path(), why));
}

void TokenFile::readMegatron() {
  if (!index)
    refuse(
        fmt::format("Megatron's index is not beside it as '{}'; it tells the width of the tokens and where documents "
                    "begin",
                    indexPathOf(path()).value_or("NAME.idx of a NAME.bin")));
  width = index->tokenWidth();
}

void TokenFile::readBare() {
  if (index)
    refuse("Megatron's index is beside it and says its format; leave --data-format nanogpt out");
  if (findKind(content) && content.size() >= llmc::HeaderBytes)
    refuse("it has llm.c's header, which would be taken for tokens; leave --data-format nanogpt out");
  if (content.size() % static_cast<size_t>(width) != 0)
    refuse(
        fmt::format("{} bytes are not a whole number of 16-bit tokens; is it a text? Make tokens of it with 'dtc data "
                    "pack'",
                    content.size()));
}

void TokenFile::readHeader() {
  const llmc::Kind *kind = findKind(content);
  if (DocumentIndex::isIndex(file.text()))
    refuse("it is Megatron's index; name the file of tokens beside it, NAME.bin");
  if (!kind)
    refuse(
        "it does not begin as llm.c's token files do (with 20240520 or 20240801), and Megatron's index (NAME.idx for "
        "NAME.bin) is not beside it. Make tokens of a text with 'dtc data pack'; 16-bit tokens without a header, as "
        "nanoGPT writes them, need --data-format nanogpt");
  if (content.size() < llmc::HeaderBytes)
    refuse(fmt::format("{} bytes end within llm.c's header of {}; is the file truncated?", content.size(),
                       llmc::HeaderBytes));
  int32_t header[3];
  std::memcpy(header, content.data(), sizeof(header));
  width = kind->width;
  if (header[1] != kind->version)
    refuse(fmt::format("version {} of llm.c's format; with {} only version {} ({}-bit tokens) is known", header[1],
                       kind->magic, kind->version, 8 * width));
  content = content.subspan(llmc::HeaderBytes);
  if (header[2] < 0 || static_cast<uint64_t>(header[2]) * width != content.size())
    refuse(fmt::format("its header gives {} tokens of {} bits, but {} bytes follow", header[2], 8 * width,
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
  uint32_t token = 0; // little-endian, like the machine
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

const std::map<std::string, TokenFile::Format> &tokenFormats() {
  static const std::map<std::string, TokenFile::Format> formats = {{"llm.c", TokenFile::Format::LlmC},
                                                                   {"megatron", TokenFile::Format::Megatron},
                                                                   {"nanogpt", TokenFile::Format::NanoGpt}};
  return formats;
}

std::optional<TokenFile::Format> parseTokenFormat(const std::string &name) {
  auto found = tokenFormats().find(name);
  return found == tokenFormats().end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> dataFormats() {
  std::vector<std::string> names = {"auto"};
  for (const auto &[name, format] : tokenFormats())
    names.push_back(name);
  return names;
}

std::string_view nameOf(TokenFile::Format format) {
  switch (format) {
  case TokenFile::Format::LlmC:
    return "llm.c";
  case TokenFile::Format::NanoGpt:
    return "nanoGPT";
  case TokenFile::Format::Megatron:
    return "Megatron";
  }
  return "";
}

} // namespace dtc
