#include "runtime/checkpoint/state.h"

#include "runtime/abi/error.h"
#include "runtime/abi/random.h"
#include "runtime/checkpoint/normal.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <thread>

namespace dtc {

RankState::RankState(const abi::Manifest &manifest, int rank, std::byte *arena) : program(manifest), arena(arena) {
  Mesh mesh(manifest.mesh());
  for (const abi::Tensor &tensor : manifest.tensors()) {
    if (tensor.role() == abi::Tensor::PARAMETER)
      parameterTensors.push_back(stateTensor(manifest, tensor, mesh, rank));
    else if (tensor.role() == abi::Tensor::SLOT)
      momentTensors.push_back(stateTensor(manifest, tensor, mesh, rank));
  }
}

std::string RankState::fileName(const StateTensor &state) const {
  const std::string &slot = state.tensor->slot();
  return state.parameter->name() + (slot.empty() ? "" : ".") + slot;
}

namespace {
/// Consecutive elements of one parameter, in memory as in the logical tensor.
struct InitRange {
  const abi::Init *init;
  uint32_t stream;
  float *values;
  uint64_t logical;
  int64_t count;
};
} // namespace

/// Ranges of at most some ten thousand elements: pieces of work for threads.
static void appendRanges(const StateTensor &state, float *values, uint32_t stream, std::vector<InitRange> &ranges) {
  constexpr int64_t Most = 1 << 16;
  const abi::Init *init = &state.parameter->init();
  size_t firstOfTensor = ranges.size();
  state.forEachRun([&](const FileRun &run) {
    bool continues = ranges.size() > firstOfTensor &&
                     ranges.back().values + ranges.back().count == values + run.local &&
                     ranges.back().logical + ranges.back().count == static_cast<uint64_t>(run.logical) &&
                     ranges.back().count + run.count <= Most;
    if (continues)
      ranges.back().count += run.count;
    else
      ranges.push_back({init, stream, values + run.local, static_cast<uint64_t>(run.logical), run.count});
  });
}

static void fillRange(const InitRange &range) {
  std::span<float> out(range.values, static_cast<size_t>(range.count));
  if (range.init->kind() == abi::Init::NORMAL)
    fillNormal(out, range.stream, range.logical, range.init->stddev());
  else
    std::ranges::fill(out, range.init->kind() == abi::Init::ONES ? 1.f : 0.f);
}

void RankState::initialize(uint64_t seed, int threads) const {
  std::vector<InitRange> ranges;
  for (const StateTensor &state : parameterTensors)
    appendRanges(state, data(state),
                 random::stream(static_cast<uint32_t>(seed), 0, 1000000 + state.tensor->parameter()), ranges);
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i; (i = next++) < ranges.size();)
      fillRange(ranges[i]);
  };
  std::vector<std::jthread> helpers;
  for (int helper = 1; helper < threads; ++helper)
    helpers.emplace_back(work);
  work();
}

void RankState::requireFinite() const {
  for (const auto *tensors : {&parameterTensors, &momentTensors})
    for (const StateTensor &state : *tensors) {
      const float *values = data(state);
      state.forEachRun([&](const FileRun &run) {
        constexpr uint32_t Exponent = 0x7f800000; // all ones: NaN or infinity. Whole numbers, for a vectorized loop
        bool found = false;
        for (int64_t i = 0; i < run.count; ++i)
          found |= (std::bit_cast<uint32_t>(values[run.local + i]) & Exponent) == Exponent;
        if (!found)
          return;
        int64_t bad = 0;
        while (std::isfinite(values[run.local + bad]))
          ++bad;
        throw Error(ExitCode::NonFinite, fmt::format("element {} of '{}' is {}", run.file + bad * run.stride,
                                                     fileName(state), values[run.local + bad]));
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
    found.file->release(*found.entry);
  }
}

} // namespace dtc
