#include "runtime/checkpoint/checksums.h"

#include "runtime/support/error.h"
#include "runtime/support/mapped_file.h"

#include <charconv>
#include <fmt/format.h>
#include <optional>

// Header-only instead of the shared library: programs need only glibc.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace dtc {

static constexpr size_t Digits = 16;
static constexpr std::string_view Gap = "  ", LastLine = "[all]";

uint64_t checksum(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }
uint64_t checksum(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

uint64_t checksum(std::span<const std::byte> bytes, const std::function<void(std::span<const std::byte>)> &done) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset(&state);
  while (!bytes.empty()) {
    std::span<const std::byte> part = bytes.first(std::min(bytes.size(), HeldFileBytes));
    XXH3_64bits_update(&state, part.data(), part.size());
    done(part);
    bytes = bytes.subspan(part.size());
  }
  return XXH3_64bits_digest(&state);
}

std::string checksumText(uint64_t hash) { return fmt::format("{:016x}", hash); }

std::string programHash(std::string_view manifest, std::string_view kernels) {
  return checksumText(checksum(manifest)) + "-" + checksumText(checksum(kernels));
}

std::string printChecksums(const std::vector<ChecksumEntry> &entries) {
  std::string text;
  for (const ChecksumEntry &entry : entries)
    text += fmt::format("{}{}{}{}{}\n", checksumText(entry.hash), Gap, entry.file, entry.tensor.empty() ? "" : Gap,
                        entry.tensor);
  return text + fmt::format("{}{}{}\n", checksumText(checksum(text)), Gap, LastLine);
}

/// The entry of a line without its line break; nullopt if the line is malformed.
static std::optional<ChecksumEntry> parseLine(std::string_view line) {
  ChecksumEntry entry;
  if (line.size() <= Digits + Gap.size() || line.substr(Digits, Gap.size()) != Gap)
    return std::nullopt;
  auto [end, problem] = std::from_chars(line.data(), line.data() + Digits, entry.hash, 16);
  if (problem != std::errc() || end != line.data() + Digits)
    return std::nullopt;
  std::string_view name = line.substr(Digits + Gap.size());
  size_t gap = name.find(Gap);
  entry.file = name.substr(0, gap);
  if (gap != std::string_view::npos)
    entry.tensor = name.substr(gap + Gap.size());
  return entry;
}

std::vector<ChecksumEntry> parseChecksums(std::string_view text, const std::string &path) {
  auto refuse = [&](const std::string &why) { throw Error(ExitCode::BadInput, fmt::format("'{}' {}", path, why)); };
  std::vector<ChecksumEntry> entries;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    std::optional<ChecksumEntry> entry =
        end == std::string_view::npos ? std::nullopt : parseLine(text.substr(begin, end - begin));
    if (!entry)
      refuse(fmt::format("is not a list of checksums from byte {} on", begin));
    entries.push_back(*entry);
    begin = end + 1;
  }
  // Printing the entries again must give the same text. This also checks the last line against all lines before it.
  if (!entries.empty())
    entries.pop_back();
  if (printChecksums(entries) != text)
    refuse("does not have the checksum that its last line gives: it was damaged or changed");
  return entries;
}

} // namespace dtc
