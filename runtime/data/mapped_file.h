// A file's bytes, mapped read-only.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace dtc {

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

private:
  std::string name;
  const std::byte *data = nullptr;
  size_t size = 0;
};

} // namespace dtc
