// Hugging Face's safetensors format: an 8-byte little-endian header length, a JSON header that gives each tensor's
// type, shape and byte range, then the tensors' bytes, row-major and without gaps.
//
// Files are untrusted, so everything is checked before anything is read: errors are Error (BadInput) naming file,
// tensor and value. The header is parsed event by event: a hostile one is refused at its first error, without building
// a document from it.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "runtime/support/mapped_file.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

/// One tensor of a file. `type` is the format's name: "F32", "F16", "BF16", "F64", or another known one whose values
/// cannot be read as numbers here ("I64", "BOOL", ...).
struct SafetensorsEntry {
  std::string name;
  std::string type;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0; ///< bytes from the start of the data section

  int64_t elements() const;
};

class SafetensorsFile {
public:
  /// The largest header accepted, as in the format's own implementation.
  static constexpr uint64_t MaximumHeader = 100'000'000;

  explicit SafetensorsFile(const std::string &path);

  const std::string &path() const { return file.path(); }
  const std::vector<SafetensorsEntry> &entries() const { return tensors; } ///< in order of their bytes
  const std::map<std::string, std::string> &metadata() const { return properties; }
  /// Null if there is none of that name.
  const SafetensorsEntry *find(std::string_view name) const;

  std::span<const std::byte> bytes(const SafetensorsEntry &entry) const;
  /// Releases the memory of a tensor, or of a part of the file, that has been read.
  void release(const SafetensorsEntry &entry) const { release(bytes(entry)); }
  void release(std::span<const std::byte> part) const { file.release(part); }
  /// Everything before the tensors' bytes.
  std::span<const std::byte> headerBytes() const { return file.bytes().first(dataBegin); }

  /// Reads `out.size()` elements, `stride` elements apart, from element `first`; F32, F16, BF16 and F64 are converted.
  /// Throws Error (BadInput) for other types and for a range outside the tensor.
  void read(const SafetensorsEntry &entry, int64_t first, int64_t stride, std::span<float> out) const;
  void read(const SafetensorsEntry &entry, int64_t first, int64_t stride, std::span<double> out) const;

private:
  MappedFile file;
  std::vector<SafetensorsEntry> tensors;
  std::map<std::string, size_t, std::less<>> byName;
  std::map<std::string, std::string> properties;
  uint64_t dataBegin = 0;
};

/// The weights of a model directory: model.safetensors, or the shards that model.safetensors.index.json lists. Or other
/// tensors stored in the same way under a name other than "model".
class SafetensorsModel {
public:
  /// Whether `directory` has weights in this format.
  static bool present(const std::string &directory);

  /// Throws Error (BadInput) when there are none, when a shard named by the index is missing or is outside the
  /// directory, or when the index names a tensor that its shard does not hold.
  explicit SafetensorsModel(const std::string &directory, const std::string &stem = "model");

  struct Found {
    const SafetensorsFile *file = nullptr;
    const SafetensorsEntry *entry = nullptr;
    explicit operator bool() const { return entry != nullptr; }
  };
  /// The tensor of that name. Published files differ in whether names carry the prefix of the body within the whole
  /// model ("transformer." for gpt2, "model." for llama): a name is also found with it added or dropped. Files of
  /// gpt_neox call lm_head embed_out.
  Found find(std::string_view name) const;

  std::vector<std::string> names() const;

private:
  void addWhole(const std::string &path);

  std::vector<std::unique_ptr<SafetensorsFile>> files;
  std::map<std::string, Found, std::less<>> tensors;
};

/// The layout of a file to be written.
struct SafetensorsLayout {
  std::string header;                    ///< length prefix included: the file's first bytes
  std::vector<SafetensorsEntry> entries; ///< with byte ranges filled in
  uint64_t fileBytes = 0;

  uint64_t fileOffset(size_t entry) const { return header.size() + entries[entry].begin; }
};

/// A tensor to be written.
struct SafetensorsTensor {
  std::string name;
  std::vector<int64_t> shape;
  abi::DataType type = abi::F32;
};

/// Lays out tensors in this order.
SafetensorsLayout layoutSafetensors(const std::vector<SafetensorsTensor> &tensors,
                                    const std::map<std::string, std::string> &metadata);

} // namespace dtc
