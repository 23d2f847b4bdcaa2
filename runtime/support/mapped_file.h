// Opens inputs: only regular files, so that a pipe, a device or a folder is an error at once and never blocks. Also
// maps a file's bytes read-only.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace dtc {

/// Opens a file to read and returns its descriptor. Throws Error (BadInput) when it is missing, unreadable or no
/// regular file.
int openInput(const std::string &path);

/// Code that reads or writes a mapped file releases it after this many bytes: they would count as the process's memory.
inline constexpr size_t HeldFileBytes = 8 << 20;

class MappedFile {
public:
  /// Throws Error (BadInput) when the file is missing, unreadable or no regular file. An empty file maps to no bytes.
  explicit MappedFile(const std::string &path);
  ~MappedFile();
  MappedFile(MappedFile &&other) noexcept;
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  const std::string &path() const { return name; }
  std::span<const std::byte> bytes() const { return {data, size}; }
  std::string_view text() const { return {reinterpret_cast<const char *>(data), size}; }

  /// Releases the memory of a part that has been read; it is read from the file again when needed.
  void release(std::span<const std::byte> part) const;

private:
  std::string name;
  const std::byte *data = nullptr;
  size_t size = 0;
};

} // namespace dtc
