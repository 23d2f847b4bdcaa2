// Checksums of a checkpoint: a text file next to what it covers, with one line each,
//
//   <16 hexadecimal digits>  config.json
//   <16 hexadecimal digits>  model.safetensors  [header]
//   <16 hexadecimal digits>  model.safetensors  h.0.attn.c_attn.weight
//
// and as the last line, named [all], the checksum of the lines before it. The hash is XXH3 of 64 bits: as fast as
// memory, and it always detects a single flipped bit. It protects against accidents, not against forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

/// The name of the list of checksums in a checkpoint.
inline constexpr const char *ChecksumFile = "checksums.txt";

uint64_t checksum(std::span<const std::byte> bytes);
uint64_t checksum(std::string_view text);
/// The same for large data, part by part: calls `done` with each part that will not be read again.
uint64_t checksum(std::span<const std::byte> bytes, const std::function<void(std::span<const std::byte>)> &done);
/// The hash as text: 16 hexadecimal digits.
std::string checksumText(uint64_t hash);

/// The hash of everything that identifies a program: its manifest and its kernels.
std::string programHash(std::string_view manifest, std::string_view kernels);

/// One line. `tensor` is empty for a file that is covered as a whole.
struct ChecksumEntry {
  std::string file, tensor;
  uint64_t hash = 0;
};

/// The name in the list for a tensor file's bytes before its tensors.
inline constexpr const char *HeaderEntry = "[header]";

std::string printChecksums(const std::vector<ChecksumEntry> &entries);

/// Throws Error (BadInput), naming `path`, for any text not written by printChecksums.
std::vector<ChecksumEntry> parseChecksums(std::string_view text, const std::string &path);

} // namespace dtc
