#include "runtime/checkpoint/export_model.h"

#include "runtime/abi/element_type.h"
#include "runtime/checkpoint/checkpoint_texts.h"
#include "runtime/checkpoint/checksums.h"
#include "runtime/checkpoint/integrity.h"
#include "runtime/checkpoint/shards.h"
#include "runtime/comm/local/in_process.h"
#include "runtime/support/error.h"
#include "runtime/support/mapped_file.h"
#include "runtime/support/output_file.h"
#include "runtime/support/write_error.h"
#include "runtime/weights/model_directory.h"
#include "runtime/weights/model_files.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <tuple>
#include <unistd.h>

namespace fs = std::filesystem;

namespace dtc {

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

std::string findModel(const std::string &from, bool verify, const std::function<void(const std::string &)> &warn) {
  std::error_code ignored;
  if (!fs::is_directory(from, ignored))
    throw Error(ExitCode::BadInput, fmt::format("{}: is not a directory; give a checkpoint, the folder of a run, or a "
                                                "directory that holds config.json and model.safetensors",
                                                from));
  if (SafetensorsModel::present(from) && !fs::exists(fs::path(from) / ChecksumFile, ignored))
    return from;
  InProcessJob alone(1);
  Arena none(Arena::Alignment, Arena::Alignment);
  return chooseCheckpoint(*alone.join(0, none), from, verify, warn);
}

/// The tensors of a model in the order of its files.
static std::vector<SafetensorsModel::Found> tensorsOf(const SafetensorsModel &model) {
  std::vector<SafetensorsModel::Found> tensors;
  for (const std::string &name : model.names())
    tensors.push_back(model.find(name));
  std::ranges::sort(tensors, {}, [](const SafetensorsModel::Found &found) {
    return std::tuple<std::string_view, uint64_t, uint64_t>(found.file->path(), found.entry->begin, found.entry->end);
  });
  return tensors;
}

static bool isFloating(const SafetensorsEntry &entry) {
  const abi::ElementType *type = abi::findSafetensorsType(entry.type);
  return entry.type == "F64" || (type && type->isFloating());
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

uint32_t bitsOf(abi::DataType wanted, double value) {
  const abi::ElementType &type = abi::elementType(wanted);
  constexpr const abi::ElementType &f32 = abi::elementType(abi::F32);
  if (type.exponentBits == f32.exponentBits) // these are the upper bits of an f32
    return std::bit_cast<uint32_t>(static_cast<float>(value)) >> (f32.fractionBits - type.fractionBits);
  uint32_t sign = std::signbit(value) ? 1u << (8 * type.bytes - 1) : 0;
  if (value == 0)
    return sign;
  int bias = (1 << (type.exponentBits - 1)) - 1;
  int exponent = std::max(std::ilogb(value), 1 - bias);
  auto fraction = static_cast<uint32_t>(std::ldexp(std::abs(value), type.fractionBits - exponent));
  uint32_t hidden = 1u << type.fractionBits; // absent in subnormal values
  return sign | (fraction < hidden ? fraction
                                   : static_cast<uint32_t>(exponent + bias) << type.fractionBits | (fraction - hidden));
}

[[noreturn]] static void refuseValue(const SafetensorsModel::Found &tensor, int64_t element, double value,
                                     const abi::ElementType &type) {
  std::string where = fmt::format("{}: tensor '{}', element {}", tensor.file->path(), tensor.entry->name, element);
  if (!std::isfinite(value))
    throw Error(ExitCode::BadInput,
                fmt::format("{}, is {}: a model with such a weight computes nothing", where, value));
  throw Error(ExitCode::BadInput,
              fmt::format("{}, is {}, which {} cannot hold; choose bf16 or f32", where, value, type.name));
}

/// Converts elements [first, first + many) of a tensor to the type.
static void convert(const SafetensorsModel::Found &tensor, int64_t first, size_t many, const abi::ElementType &type,
                    std::vector<double> &values, std::vector<std::byte> &bytes) {
  values.resize(many);
  bytes.resize(many * type.bytes);
  tensor.file->read(*tensor.entry, first, 1, std::span(values));
  for (size_t i = 0; i < many; ++i) {
    double rounded = abi::roundTo(type, values[i]);
    if (!std::isfinite(rounded))
      refuseValue(tensor, first + static_cast<int64_t>(i), values[i], type);
    uint32_t bits = bitsOf(type.type, rounded);
    std::memcpy(&bytes[i * type.bytes], &bits, type.bytes);
  }
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static void writeTensor(OutputFile &file, uint64_t offset, const SafetensorsModel::Found &tensor,
                        const abi::ElementType &type) {
  constexpr int64_t Most = 1 << 18; // elements at a time
  std::vector<double> values;
  std::vector<std::byte> bytes;
  uint64_t width = (tensor.entry->end - tensor.entry->begin) / std::max<uint64_t>(tensor.entry->elements(), 1);
  for (int64_t first = 0; first < tensor.entry->elements(); first += Most) {
    auto many = static_cast<size_t>(std::min(Most, tensor.entry->elements() - first));
    convert(tensor, first, many, type, values, bytes);
    file.write(offset + static_cast<uint64_t>(first) * type.bytes, bytes);
    tensor.file->release(tensor.file->bytes(*tensor.entry).subspan(static_cast<uint64_t>(first) * width, many * width));
  }
}

static std::vector<SafetensorsTensor> describe(const std::vector<SafetensorsModel::Found> &tensors,
                                               abi::DataType type) {
  std::vector<SafetensorsTensor> described;
  for (const SafetensorsModel::Found &tensor : tensors) {
    if (!isFloating(*tensor.entry))
      throw Error(ExitCode::BadInput,
                  fmt::format("{}: tensor '{}' has the type {}; weights are of F32, F16, BF16 or F64",
                              tensor.file->path(), tensor.entry->name, tensor.entry->type));
    described.push_back({tensor.entry->name, tensor.entry->shape, type});
  }
  return described;
}

/// Writes everything that belongs in the new directory into `folder`.
static ExportReport writeModel(const ExportOptions &options, const std::string &source, const fs::path &folder) {
  const abi::ElementType &type = abi::elementType(options.type);
  SafetensorsModel model(source);
  std::vector<SafetensorsModel::Found> tensors = tensorsOf(model);
  std::vector<TensorFile> files = cutIntoFiles("model", describe(tensors, options.type), options.shardBytes);
  ExportReport report{source, tensors.size(), files.size(), 0};
  ModelConfig config = ModelConfig::read((fs::path(source) / ConfigFile).string());
  writeFile(folder / ConfigFile, configStoredAs(config.text, options.type));
  for (const abi::ModelFile &file : readModelFiles(source, options.warn))
    writeFile(folder / file.name(), file.content());
  if (files.size() > 1) {
    TextFile index = indexOf("model", files);
    writeFile(folder / index.name, index.text);
  }
  auto next = tensors.begin();
  for (const TensorFile &planned : files) {
    OutputFile file((folder / planned.name).string());
    file.reserve(planned.layout.fileBytes);
    file.write(0, std::as_bytes(std::span(planned.layout.header)));
    for (size_t entry = 0; entry < planned.layout.entries.size(); ++entry, ++next)
      writeTensor(file, planned.layout.fileOffset(entry), *next, type);
    report.bytes += planned.layout.fileBytes - planned.layout.header.size();
    file.finish();
  }
  return report;
}

ExportReport exportModel(const ExportOptions &options) {
  std::string source = findModel(options.from, options.verify, options.warn);
  fs::path to = fs::absolute(options.to).lexically_normal();
  if (!to.has_filename()) // "model/"
    to = to.parent_path();
  std::error_code problem;
  if (fs::exists(fs::symlink_status(to, problem)))
    throw Error(
        ExitCode::BadInput,
        fmt::format("'{}' already exists; choose another name for the exported model, or remove it", options.to));
  fs::path unfinished = fmt::format("{}.{}.tmp", to.string(), getpid());
  createDirectories(to.parent_path());
  createDirectory(unfinished);
  try {
    ExportReport report = writeModel(options, source, unfinished);
    publishDirectory(unfinished, to);
    return report;
  } catch (...) {
    fs::remove_all(unfinished, problem);
    throw;
  }
}

} // namespace dtc
