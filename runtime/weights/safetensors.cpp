#include "runtime/weights/safetensors.h"

#include "runtime/abi/element_type.h"
#include "runtime/support/error.h"
#include "runtime/support/nesting.h"
#include "runtime/weights/safetensors_header.h"

#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace dtc {

SafetensorsFile::SafetensorsFile(const std::string &path) : file(path) {
  SafetensorsHeader header = parseSafetensorsHeader(file.bytes(), path);
  tensors = std::move(header.entries);
  properties = std::move(header.metadata);
  dataBegin = header.dataBegin;
  for (size_t i = 0; i < tensors.size(); ++i)
    byName.emplace(tensors[i].name, i);
}

const SafetensorsEntry *SafetensorsFile::find(std::string_view name) const {
  auto found = byName.find(name);
  return found == byName.end() ? nullptr : &tensors[found->second];
}

std::span<const std::byte> SafetensorsFile::bytes(const SafetensorsEntry &entry) const {
  return file.bytes().subspan(dataBegin + entry.begin, entry.end - entry.begin);
}

namespace {

template <typename Bits> Bits load(const std::byte *from) {
  Bits bits;
  std::memcpy(&bits, from, sizeof(bits));
  return bits;
}

template <typename Real, typename Decode>
void convert(const std::byte *from, int64_t strideBytes, std::span<Real> out, Decode decode) {
  for (Real &value : out) {
    value = static_cast<Real>(decode(from));
    from += strideBytes;
  }
}

template <typename Real>
void readAs(const SafetensorsFile &file, const SafetensorsEntry &entry, int64_t first, int64_t stride,
            std::span<Real> out) {
  if (out.empty())
    return;
  int64_t last;
  if (first < 0 || stride < 0 || __builtin_mul_overflow(stride, static_cast<int64_t>(out.size()) - 1, &last) ||
      __builtin_add_overflow(last, first, &last) || last >= entry.elements())
    throw Error(ExitCode::BadInput,
                fmt::format("'{}': tensor '{}' has {} elements; {} from {} on, {} apart, are not there", file.path(),
                            entry.name, entry.elements(), out.size(), first, stride));
  int64_t bytes = static_cast<int64_t>(safetensorsTypeBytes(entry.type));
  const std::byte *from = file.bytes(entry).data() + first * bytes;
  stride *= bytes;
  const abi::ElementType *type = abi::findSafetensorsType(entry.type);
  if (type && type->type == abi::F32) // the same as readElement, in one instruction
    convert(from, stride, out, load<float>);
  else if (type && type->isFloating())
    convert(from, stride, out, [type](const std::byte *at) { return abi::readElement(*type, at); });
  else if (entry.type == "F64")
    convert(from, stride, out, load<double>);
  else
    throw Error(ExitCode::BadInput, fmt::format("'{}': tensor '{}' has the type {}; F32, F16, BF16 or F64 is needed",
                                                file.path(), entry.name, entry.type));
}

} // namespace

void SafetensorsFile::read(const SafetensorsEntry &entry, int64_t first, int64_t stride, std::span<float> out) const {
  readAs(*this, entry, first, stride, out);
}
void SafetensorsFile::read(const SafetensorsEntry &entry, int64_t first, int64_t stride, std::span<double> out) const {
  readAs(*this, entry, first, stride, out);
}

namespace {
std::string singleFile(const std::string &stem) { return stem + ".safetensors"; }
std::string indexFile(const std::string &stem) { return stem + ".safetensors.index.json"; }

/// The index's weight_map: tensor name to shard file.
std::map<std::string, std::string> readIndex(const std::string &path) {
  MappedFile file(path);
  auto refuse = [&](const std::string &why) -> void {
    throw Error(ExitCode::BadInput, fmt::format("'{}': {}", path, why));
  };
  constexpr size_t MostBytes = 10'000'000; // those of the largest models have some 100,000
  if (file.text().size() > MostBytes)
    refuse(fmt::format("{} bytes; at most {} are accepted", file.text().size(), MostBytes));
  if (jsonNestsDeeper(file.text()))
    refuse(fmt::format("nests objects and arrays more than {} deep", jsonNestingLimit));
  auto index = nlohmann::json::parse(file.text(), nullptr, /*allow_exceptions=*/false);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    refuse("not a JSON object with a weight_map");
  std::map<std::string, std::string> shards;
  for (auto &[name, shard] : index["weight_map"].items()) {
    if (!shard.is_string())
      refuse(fmt::format("tensor '{}' has no file name", name));
    std::string fileName = shard;
    if (fileName.empty() || fileName == "." || fileName == ".." || fileName.find('/') != std::string::npos ||
        fileName.find('\0') != std::string::npos)
      refuse(fmt::format("tensor '{}' is said to be in '{}', which is not a file of this directory", name, fileName));
    shards[name] = fileName;
  }
  return shards;
}
} // namespace

bool SafetensorsModel::present(const std::string &directory) {
  std::error_code ignored;
  std::filesystem::path path(directory);
  return std::filesystem::exists(path / singleFile("model"), ignored) ||
         std::filesystem::exists(path / indexFile("model"), ignored);
}

SafetensorsModel::SafetensorsModel(const std::string &directory, const std::string &stem) {
  std::filesystem::path path(directory), single = path / singleFile(stem), index = path / indexFile(stem);
  if (std::filesystem::exists(single)) {
    addWhole(single);
    return;
  }
  if (!std::filesystem::exists(index))
    throw Error(ExitCode::BadInput, fmt::format("'{}' has neither {} nor {}", directory, single.filename().string(),
                                                index.filename().string()));
  std::map<std::string, const SafetensorsFile *> opened;
  for (const auto &[name, shard] : readIndex(index)) {
    const SafetensorsFile *&file = opened[shard];
    if (!file)
      file = files.emplace_back(std::make_unique<SafetensorsFile>(path / shard)).get();
    const SafetensorsEntry *entry = file->find(name);
    if (!entry)
      throw Error(ExitCode::BadInput, fmt::format("'{}' says that tensor '{}' is in '{}', which does not have it",
                                                  index.string(), name, shard));
    tensors[name] = {file, entry};
  }
}

void SafetensorsModel::addWhole(const std::string &path) {
  const SafetensorsFile *file = files.emplace_back(std::make_unique<SafetensorsFile>(path)).get();
  for (const SafetensorsEntry &entry : file->entries())
    tensors[entry.name] = {file, &entry};
}

SafetensorsModel::Found SafetensorsModel::find(std::string_view name) const {
  auto lookUp = [&](std::string_view key) {
    auto found = tensors.find(key);
    return found == tensors.end() ? Found() : found->second;
  };
  Found found = lookUp(name);
  if (!found && name == "lm_head.weight")
    found = lookUp("embed_out.weight");
  for (std::string_view prefix : {"transformer.", "model.", "gpt_neox."}) {
    if (!found)
      found = lookUp(std::string(prefix) + std::string(name));
    if (!found && name.starts_with(prefix))
      found = lookUp(name.substr(prefix.size()));
  }
  return found;
}

std::vector<std::string> SafetensorsModel::names() const {
  std::vector<std::string> all;
  for (const auto &[name, found] : tensors)
    all.push_back(name);
  return all;
}

SafetensorsLayout layoutSafetensors(const std::vector<SafetensorsTensor> &tensors,
                                    const std::map<std::string, std::string> &metadata) {
  SafetensorsLayout layout;
  nlohmann::ordered_json header;
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  uint64_t end = 0;
  for (const auto &[name, shape, type] : tensors) {
    SafetensorsEntry entry{name, std::string(abi::elementType(type).safetensors), shape, end, end};
    entry.end = end += abi::bytesOf(type, entry.elements());
    header[name] = {{"dtype", entry.type}, {"shape", shape}, {"data_offsets", {entry.begin, entry.end}}};
    layout.entries.push_back(std::move(entry));
  }
  std::string text = tensors.empty() && metadata.empty() ? "{}" : header.dump();
  text.append((8 - text.size() % 8) % 8, ' '); // the data begin at a multiple of eight
  uint64_t length = text.size();
  layout.header.assign(reinterpret_cast<const char *>(&length), 8);
  layout.header += text;
  layout.fileBytes = layout.header.size() + end;
  return layout;
}

} // namespace dtc
