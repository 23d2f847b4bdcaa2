#include "runtime/checkpoint/shards.h"

#include "runtime/abi/element_type.h"
#include "runtime/support/product.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace dtc {

uint64_t bytesOf(const SafetensorsTensor &tensor) {
  return abi::bytesOf(tensor.type, static_cast<uint64_t>(productOf(tensor.shape)));
}

std::vector<TensorFile> cutIntoFiles(const std::string &stem, std::span<const SafetensorsTensor> tensors,
                                     uint64_t most) {
  std::vector<std::vector<SafetensorsTensor>> parts(1);
  uint64_t held = 0;
  for (const SafetensorsTensor &tensor : tensors) {
    uint64_t bytes = bytesOf(tensor);
    if (!parts.back().empty() && held + bytes > most) {
      parts.emplace_back();
      held = 0;
    }
    held += bytes;
    parts.back().push_back(tensor);
  }
  std::vector<TensorFile> files;
  for (const std::vector<SafetensorsTensor> &part : parts) {
    std::string name = parts.size() == 1
                           ? stem + ".safetensors"
                           : fmt::format("{}-{:05}-of-{:05}.safetensors", stem, files.size() + 1, parts.size());
    files.push_back({name, layoutSafetensors(part, {{"format", "pt"}})});
  }
  return files;
}

TextFile indexOf(const std::string &stem, std::span<const TensorFile> files) {
  uint64_t bytes = 0;
  nlohmann::json map = nlohmann::json::object();
  for (const TensorFile &file : files)
    for (const SafetensorsEntry &entry : file.layout.entries) {
      map[entry.name] = file.name;
      bytes += entry.end - entry.begin;
    }
  nlohmann::json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", map}};
  return {stem + ".safetensors.index.json", index.dump(2) + "\n"};
}

} // namespace dtc
