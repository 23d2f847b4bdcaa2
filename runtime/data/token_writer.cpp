#include "runtime/data/token_writer.h"

#include "runtime/data/llmc_header.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <sys/stat.h>

namespace dtc {

template <typename T> static std::string_view bytesOf(std::span<const T> values) {
  return {reinterpret_cast<const char *>(values.data()), values.size_bytes()};
}

TokenLayout layoutFor(TokenFile::Format format, int64_t vocabulary) {
  bool fits = vocabulary <= 1 << 16;
  if (format == TokenFile::Format::NanoGpt && !fits)
    throw Error(ExitCode::Usage, fmt::format("--format nanogpt: its tokens have 16 bits, but the tokenizer has {} "
                                             "entries; choose llm.c or megatron",
                                             vocabulary));
  // Megatron's own tools switch to 32 bits at slightly smaller vocabularies, and readers expect the width that follows
  // from the vocabulary.
  if (format == TokenFile::Format::Megatron)
    fits = vocabulary < 65500;
  return {.format = format, .bits = fits ? 16 : 32};
}

TokenFileWriter::TokenFileWriter(const std::string &path, TokenLayout layout)
    : path(path), layout(layout), file(path), index(layout.bits / 8) {
  requireNothingBeside();
  if (layout.masked)
    maskFile.emplace(path + ".mask");
  if (layout.format == TokenFile::Format::Megatron)
    indexFile.emplace(*indexPathOf(path));
  if (layout.format == TokenFile::Format::LlmC)
    file.append(std::string(llmc::HeaderBytes, '\0'));
}

/// An old mask or index would wrongly apply to the new tokens.
void TokenFileWriter::requireNothingBeside() const {
  struct stat status;
  std::optional<std::string> indexPath = indexPathOf(path);
  if (layout.format == TokenFile::Format::Megatron && !indexPath)
    throw Error(ExitCode::BadInput, fmt::format("'{}': Megatron's format keeps tokens in NAME.bin beside their index "
                                                "NAME.idx; choose a name that ends in .bin",
                                                path));
  if (std::string mask = path + ".mask"; !layout.masked && stat(mask.c_str(), &status) == 0)
    throw Error(ExitCode::BadInput,
                fmt::format("'{}' is the loss mask of a file of this name; remove it or choose another name", mask));
  if (layout.format != TokenFile::Format::Megatron && indexPath && stat(indexPath->c_str(), &status) == 0)
    throw Error(ExitCode::BadInput, fmt::format("'{}' is Megatron's index of a file of this name; remove it or choose "
                                                "another name",
                                                *indexPath));
}

void TokenFileWriter::count(uint64_t more) {
  tokens += more;
  if (layout.format == TokenFile::Format::LlmC && tokens > static_cast<uint64_t>(INT32_MAX))
    throw Error(ExitCode::BadInput, fmt::format("cannot write '{}': {} tokens and more do not fit one file of llm.c's "
                                                "format (2^31 - 1); split the text, or choose --format megatron",
                                                path, tokens));
}

template <typename Stored, typename T> static void appendAs(std::string &buffer, std::span<const T> values) {
  size_t before = buffer.size();
  buffer.resize(before + values.size() * sizeof(Stored));
  for (char *at = buffer.data() + before; T value : values) {
    auto stored = static_cast<Stored>(value);
    std::memcpy(at, &stored, sizeof(stored));
    at += sizeof(stored);
  }
}

template <typename T> void TokenFileWriter::add(std::span<const T> values) {
  count(values.size());
  layout.bits == 16 ? appendAs<uint16_t>(buffer, values) : appendAs<uint32_t>(buffer, values);
  if (constexpr size_t Enough = 1 << 20; buffer.size() >= Enough)
    flush();
}

void TokenFileWriter::append(std::span<const uint32_t> values, std::span<const uint8_t> counts) {
  maskBuffer += bytesOf(counts);
  add(values);
}

void TokenFileWriter::append(std::span<const uint16_t> values) { add(values); }

void TokenFileWriter::flush() {
  file.append(buffer);
  buffer.clear();
  if (maskFile)
    maskFile->append(maskBuffer);
  maskBuffer.clear();
}

void TokenFileWriter::endDocument() {
  uint64_t length = tokens - documentBegin;
  if (length > static_cast<uint64_t>(INT32_MAX))
    throw Error(ExitCode::BadInput, fmt::format("cannot write '{}': a document of {} tokens does not fit Megatron's "
                                                "index (2^31 - 1); split the text",
                                                path, length));
  if (indexFile && length != 0)
    index.add(static_cast<int32_t>(length));
  documentBegin = tokens;
}

void TokenFileWriter::publish() {
  endDocument();
  flush();
  if (layout.format == TokenFile::Format::LlmC) {
    const llmc::Kind &kind = *std::ranges::find(llmc::Kinds, layout.bits / 8, &llmc::Kind::width);
    std::array<int32_t, 3> header{kind.magic, kind.version, static_cast<int32_t>(tokens)};
    file.overwrite(0, bytesOf(std::span<const int32_t>(header)));
  }
  // The mask and index come first: without them the tokens would be misread.
  if (maskFile)
    maskFile->publish(0666);
  if (indexFile) {
    indexFile->append(index.bytes());
    indexFile->publish(0666);
  }
  file.publish(0666);
}

void writeTokenFile(const std::string &path, std::span<const uint16_t> tokens) {
  TokenFileWriter writer(path);
  writer.append(tokens);
  writer.publish();
}

} // namespace dtc
