// How many tensors become files: cut by size, and named and listed as Hugging Face's tools look for them.
#pragma once

#include "runtime/weights/safetensors.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dtc {

struct TensorFile {
  std::string name; ///< "model.safetensors", or "model-00001-of-00003.safetensors" of several
  SafetensorsLayout layout;
};

/// A small file that is written whole.
struct TextFile {
  std::string name, text;
};

uint64_t bytesOf(const SafetensorsTensor &tensor);

/// The tensors in their order, in files named after `stem`. None holds more than `most` bytes of tensors, unless one
/// tensor alone is larger.
std::vector<TensorFile> cutIntoFiles(const std::string &stem, std::span<const SafetensorsTensor> tensors,
                                     uint64_t most);

/// STEM.safetensors.index.json, in which transformers looks up which of several files has a tensor.
TextFile indexOf(const std::string &stem, std::span<const TensorFile> files);

} // namespace dtc
