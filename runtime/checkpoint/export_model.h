// Exports a model directory from another one or from a checkpoint: weights in a chosen type, in files of a chosen size,
// without anything that only training needs.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace dtc {

struct ExportOptions {
  std::string from;                    ///< a model directory, a checkpoint, or a folder of checkpoints
  std::string to;                      ///< a folder that does not exist yet
  abi::DataType type = abi::F32;       ///< of all weights: f32, bf16 or f16
  uint64_t shardBytes = 5'000'000'000; ///< most bytes of tensors in a file, unless one tensor is larger
  bool verify = true;                  ///< verify a checkpoint's checksums
  std::function<void(const std::string &)> warn = [](const std::string &) {};
};

/// The directory that a user means: a model directory itself; in a folder of checkpoints or of a run, the newest intact
/// checkpoint, or without `verify` the newest. Calls `warn` for each one skipped. Throws Error (BadInput) when there is
/// none.
std::string findModel(const std::string &from, bool verify, const std::function<void(const std::string &)> &warn);

struct ExportReport {
  std::string from; ///< the directory that was read: of several checkpoints, the newest intact one
  size_t tensors = 0, files = 0;
  uint64_t bytes = 0; ///< of the tensors
};

/// Writes the new directory. It appears complete or not at all. Values are rounded to the nearest value of the type,
/// ties to even. Throws Error (BadInput) naming the file and tensor where weights are not floating-point, or where a
/// value becomes infinite or is not finite to begin with, and Error (Runtime) where the folder cannot be written.
ExportReport exportModel(const ExportOptions &options);

/// The bits of a value that the floating-point type can represent exactly (abi::roundTo gives such values).
uint32_t bitsOf(abi::DataType type, double value);

} // namespace dtc
