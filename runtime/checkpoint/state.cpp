#include "runtime/checkpoint/state.h"

#include "runtime/abi/error.h"
#include "runtime/abi/random.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dtc {

RankState::RankState(const abi::Manifest &manifest, int rank, std::byte *arena) : program(manifest), arena(arena) {
  Mesh mesh(manifest.mesh());
  for (const abi::Tensor &tensor : manifest.tensors()) {
    if (tensor.role() == abi::Tensor::PARAMETER)
      parameterTensors.push_back(stateTensor(manifest, tensor, mesh, rank));
    else if (tensor.role() == abi::Tensor::MOMENT1 || tensor.role() == abi::Tensor::MOMENT2)
      momentTensors.push_back(stateTensor(manifest, tensor, mesh, rank));
  }
}

std::string RankState::fileName(const StateTensor &state) const {
  const std::string &name = state.parameter->name();
  if (state.tensor->role() == abi::Tensor::PARAMETER)
    return name;
  if (state.tensor->role() == abi::Tensor::MOMENT2)
    return name + ".exp_avg_sq";
  return name + (program.training().optimizer() == "sgd" ? ".momentum_buffer" : ".exp_avg");
}

void RankState::initialize(uint64_t seed) const {
  for (const StateTensor &state : parameterTensors) {
    const abi::Init &init = state.parameter->init();
    float *values = data(state);
    uint32_t stream = random::stream(static_cast<uint32_t>(seed), 0, 1000000 + state.tensor->parameter());
    state.forEachRun([&](const FileRun &run) {
      for (int64_t i = 0; i < run.count; ++i)
        values[run.local + i] = init.kind() == abi::Init::NORMAL
                                    ? static_cast<float>(init.stddev() * random::normal(stream, run.logical + i))
                                : init.kind() == abi::Init::ONES ? 1.f
                                                                 : 0.f;
    });
  }
}

void RankState::load(const std::vector<StateTensor> &tensors, const SafetensorsModel &model,
                     const std::string &where) const {
  for (const StateTensor &state : tensors) {
    std::string name = fileName(state);
    SafetensorsModel::Found found = model.find(name);
    if (!found)
      throw Error(ExitCode::BadInput,
                  fmt::format("'{}' does not fit the program: it has no tensor '{}', which the program trains; was the "
                              "program compiled from another model or optimizer?",
                              where, name));
    if (!std::ranges::equal(found.entry->shape, state.parameter->file_shape()))
      throw Error(
          ExitCode::BadInput,
          fmt::format("'{}' does not fit the program: tensor '{}' has the shape [{}] there and [{}] in the program",
                      where, name, fmt::join(found.entry->shape, ", "),
                      fmt::join(state.parameter->file_shape(), ", ")));
    float *values = data(state);
    state.forEachRun([&](const FileRun &run) {
      found.file->read(*found.entry, run.file, run.stride,
                       std::span(values + run.local, static_cast<size_t>(run.count)));
    });
  }
}

} // namespace dtc
