// How tensors are split into files: by size, and named and indexed as Hugging Face's tools expect.
#pragma once

#include "runtime/weights/safetensors.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dtc {

struct TensorFile {
  std::string name; ///< "model.safetensors", or "model-00001-of-00003.safetensors" if there are several
  SafetensorsLayout layout;
};

/// A small file that is written in one go.
struct TextFile {
  std::string name, text;
};

uint64_t bytesOf(const SafetensorsTensor &tensor);

/// Splits the tensors, in their order, into files named after `stem`. No file holds more than `most` bytes of tensors,
/// unless a single tensor is larger.
std::vector<TensorFile> cutIntoFiles(const std::string &stem, std::span<const SafetensorsTensor> tensors,
                                     uint64_t most);

/// STEM.safetensors.index.json, in which transformers looks up which of several files has a tensor.
TextFile indexOf(const std::string &stem, std::span<const TensorFile> files);

} // namespace dtc
