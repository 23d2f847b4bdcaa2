#include "runtime/checkpoint/state.h"

#include "runtime/abi/addresses.h"
#include "runtime/abi/element_type.h"
#include "runtime/abi/random.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/tensors.h"
#include "runtime/checkpoint/checksums.h"
#include "runtime/checkpoint/normal.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <thread>

namespace dtc {

RankState::RankState(const abi::Manifest &manifest, int rank, Device &device, Memory &memory)
    : program(manifest), ownRole(abi::roleOf(manifest, rank)), ownRank(rank), device(device), memory(memory),
      liesOpen(memory.host() != nullptr) {
  Mesh mesh(manifest.mesh());
  for (const abi::Tensor &tensor : ownRole.tensors()) {
    if (tensor.kind() == abi::Tensor::PARAMETER)
      parameterTensors.push_back(stateTensor(manifest, tensor, mesh, rank));
    else if (tensor.kind() == abi::Tensor::SLOT)
      momentTensors.push_back(stateTensor(manifest, tensor, mesh, rank));
  }
  parametersOfAll = ofAllRoles(abi::Tensor::PARAMETER, parameterTensors);
  momentsOfAll = ofAllRoles(abi::Tensor::SLOT, momentTensors);
}

/// Uses a rank's own tensors where it has them.
std::vector<StateTensor> RankState::ofAllRoles(abi::Tensor::Kind kind, const std::vector<StateTensor> &own) const {
  if (program.roles_size() == 1)
    return own;
  Mesh mesh(program.mesh());
  using Key = std::pair<std::string_view, int32_t>; // slot and parameter
  std::map<Key, StateTensor> all;
  auto keyOf = [](const abi::Tensor &tensor) { return Key(tensor.slot(), tensor.parameter()); };
  for (const StateTensor &tensor : own)
    all.emplace(keyOf(*tensor.tensor), tensor);
  for (const abi::Role &role : program.roles())
    for (const abi::Tensor &tensor : role.tensors())
      if (tensor.kind() == kind && !all.contains(keyOf(tensor)))
        all.emplace(keyOf(tensor), stateTensor(program, tensor, mesh, ownRank));
  std::vector<StateTensor> list;
  for (auto &[key, tensor] : all)
    list.push_back(std::move(tensor));
  return list;
}

std::string RankState::fileName(const StateTensor &state) const {
  const std::string &slot = state.tensor->slot();
  return state.parameter->name() + (slot.empty() ? "" : ".") + slot;
}

//===----------------------------------------------------------------------===//
// On the device
//===----------------------------------------------------------------------===//

static constexpr int64_t Width = abi::elementType(abi::F32).bytes; // file_layout.cpp: all trained state is f32
static constexpr int64_t PieceElements = Device::PieceBytes / Width;

static int64_t widthOf(const StateTensor &state) { return abi::elementType(state.tensor->type()).bytes; }

std::byte *RankState::addressOf(const StateTensor &state, int64_t element) const {
  return memory.base() + abi::arenaOffset(ownRole, state.tensor->address()) + element * widthOf(state);
}

/// The nearest 16-bit value, ties to even. NaN stays NaN.
static uint16_t narrowed(abi::DataType type, float value) {
  if (type == abi::F16)
    return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
  auto bits = std::bit_cast<uint32_t>(value);
  constexpr uint32_t lower = 0x7fff, quiet = 0x40;
  return static_cast<uint16_t>(std::isnan(value) ? bits >> 16 | quiet : (bits + lower + (bits >> 16 & 1)) >> 16);
}

void RankState::store(const StateTensor &state, std::byte *address, std::span<const float> values) const {
  if (state.tensor->type() == abi::F32)
    return device.write(address, std::as_bytes(values));
  std::vector<uint16_t> narrow(values.size());
  std::ranges::transform(values, narrow.begin(), [&](float value) { return narrowed(state.tensor->type(), value); });
  device.write(address, std::as_bytes(std::span(narrow)));
}

/// Calls visit(FileRun) for the runs of a shard, cut into parts of at most `most` elements.
template <typename Visit> static void forEachShortRun(const StateTensor &state, int64_t most, Visit visit) {
  state.forEachRun([&](const FileRun &run) {
    for (int64_t first = 0; first < run.count; first += most)
      visit(run.part(first, std::min(most, run.count - first)));
  });
}

void RankState::read(const StateTensor &state,
                     const std::function<void(const FileRun &, std::span<const float>)> &visit) const {
  if (liesOpen) { // host memory: no intermediate copy
    auto *values = reinterpret_cast<const float *>(addressOf(state, 0));
    return forEachShortRun(state, PieceElements, [&](const FileRun &part) {
      visit(part, {values + part.local, static_cast<size_t>(part.count)});
    });
  }
  int64_t elements = abi::elementsOf(*state.tensor);
  std::vector<float> piece; // the elements from `begin`
  int64_t begin = 0;
  forEachShortRun(state, PieceElements, [&](const FileRun &part) { // one part further than the other side
    if (part.local + part.count > begin + static_cast<int64_t>(piece.size())) {
      begin = part.local;
      piece.resize(static_cast<size_t>(std::min(PieceElements, elements - begin)));
      device.read(std::as_writable_bytes(std::span(piece)), addressOf(state, begin));
    }
    visit(part, std::span(piece).subspan(static_cast<size_t>(part.local - begin), static_cast<size_t>(part.count)));
  });
}

void RankState::write(const StateTensor &state,
                      const std::function<void(const FileRun &, std::span<float>)> &fill) const {
  std::vector<float> piece; // the elements from `begin`, without a gap
  int64_t begin = 0;
  auto end = [&] { return begin + static_cast<int64_t>(piece.size()); };
  auto store = [&] {
    if (piece.empty())
      return;
    this->store(state, addressOf(state, begin), piece);
    piece.clear();
  };
  forEachShortRun(state, PieceElements, [&](const FileRun &part) {
    if (part.local != end() || end() - begin + part.count > PieceElements) {
      store();
      begin = part.local;
    }
    piece.resize(piece.size() + static_cast<size_t>(part.count));
    fill(part, std::span(piece).last(static_cast<size_t>(part.count)));
  });
  store();
}

//===----------------------------------------------------------------------===//
// Initialization
//===----------------------------------------------------------------------===//

namespace {
/// Elements of one parameter that are consecutive both in memory and in the logical tensor.
struct InitRange {
  const StateTensor *state;
  const abi::Init *init;
  uint32_t stream;
  std::byte *address;
  uint64_t logical;
  int64_t count;
};
} // namespace

/// Appends ranges of at most some ten thousand elements: units of work for threads.
static void appendRanges(const StateTensor &state, std::byte *address, uint32_t stream,
                         std::vector<InitRange> &ranges) {
  constexpr int64_t Most = 1 << 16;
  const abi::Init *init = &state.parameter->init();
  size_t firstOfTensor = ranges.size();
  forEachShortRun(state, Most, [&](const FileRun &run) {
    std::byte *first = address + run.local * widthOf(state);
    bool continues = ranges.size() > firstOfTensor &&
                     ranges.back().address + ranges.back().count * widthOf(state) == first &&
                     ranges.back().logical + ranges.back().count == static_cast<uint64_t>(run.logical) &&
                     ranges.back().count + run.count <= Most;
    if (continues)
      ranges.back().count += run.count;
    else
      ranges.push_back({&state, init, stream, first, static_cast<uint64_t>(run.logical), run.count});
  });
}

static void fillRange(const InitRange &range, std::span<float> out) {
  if (range.init->kind() == abi::Init::NORMAL)
    fillNormal(out, range.stream, range.logical, range.init->stddev());
  else
    std::ranges::fill(out, range.init->kind() == abi::Init::ONES ? 1.f : 0.f);
}

void RankState::initialize(uint64_t seed, int threads) const {
  std::vector<InitRange> ranges;
  for (const StateTensor &state : parameterTensors)
    appendRanges(state, addressOf(state, 0),
                 random::stream(static_cast<uint32_t>(seed), 0, 1000000 + state.tensor->parameter()), ranges);
  std::atomic<size_t> next = 0;
  auto work = [&] {
    std::vector<float> values;
    for (size_t i; (i = next++) < ranges.size();) {
      values.resize(static_cast<size_t>(ranges[i].count));
      fillRange(ranges[i], values);
      store(*ranges[i].state, ranges[i].address, values);
    }
  };
  std::vector<std::jthread> helpers;
  for (int helper = 1; helper < threads; ++helper)
    helpers.emplace_back(work);
  work();
}

/// Throws Error (NonFinite) naming the first element that is NaN or infinite.
static void requireFiniteRun(const FileRun &run, std::span<const float> values, const std::string &name) {
  constexpr uint32_t Exponent = 0x7f800000; // all ones: NaN or infinity. Integers, so that the loop vectorizes
  bool found = false;
  for (float value : values)
    found |= (std::bit_cast<uint32_t>(value) & Exponent) == Exponent;
  if (!found)
    return;
  int64_t bad = 0;
  while (std::isfinite(values[bad]))
    ++bad;
  throw Error(ExitCode::NonFinite,
              fmt::format("element {} of '{}' is {}", run.file + bad * run.stride, name, values[bad]));
}

void RankState::requireFinite() const {
  for (const auto *tensors : {&parameterTensors, &momentTensors})
    for (const StateTensor &state : *tensors)
      read(state, [&, name = fileName(state)](const FileRun &run, std::span<const float> values) {
        requireFiniteRun(run, values, name);
      });
}

//===----------------------------------------------------------------------===//
// Hashes
//===----------------------------------------------------------------------===//

uint64_t RankState::hash(const StateTensor &state) const {
  auto bytes = static_cast<uint64_t>(state.shard.elements() * Width);
  bool isDense = state.shard.elements() == state.localElements();
  if (isDense && liesOpen) // without a copy, and at the speed of memory
    return checksum({addressOf(state, 0), bytes});
  std::vector<uint64_t> hashes; // of pieces
  std::vector<std::byte> piece;
  auto close = [&] {
    hashes.push_back(checksum(piece));
    piece.clear();
  };
  if (isDense)
    for (uint64_t begin = 0; begin < bytes; begin += Device::PieceBytes) {
      piece.resize(std::min(Device::PieceBytes, bytes - begin));
      device.read(piece, addressOf(state, 0) + begin);
      close();
    }
  else
    read(state, [&](const FileRun &, std::span<const float> values) {
      std::span<const std::byte> run = std::as_bytes(values);
      piece.insert(piece.end(), run.begin(), run.end());
      if (piece.size() >= Device::PieceBytes)
        close();
    });
  close();
  return checksum(std::as_bytes(std::span(hashes)));
}

//===----------------------------------------------------------------------===//
// Packing into file order
//===----------------------------------------------------------------------===//

namespace {
/// Puts runs into the file's order. Runs of a transposed tensor are its columns. Adjacent columns are kept until they
/// fill a cache line, because storing single elements far apart takes several times as long.
class Packer {
public:
  explicit Packer(std::span<float> packed) : packed(packed) {}

  void add(const FileRun &run, std::span<const float> values) {
    if (run.step == 1) {
      std::ranges::copy(values, packed.begin() + run.packed);
      return;
    }
    bool continues = columns > 0 && run.count == first.count && run.packed == first.packed + columns;
    if (!continues || columns == MostColumns)
      flush();
    if (columns == 0)
      first = run;
    kept.resize(static_cast<size_t>((columns + 1) * run.count));
    std::ranges::copy(values, kept.begin() + columns++ * run.count);
  }

  void flush() {
    for (int64_t row = 0; columns > 0 && row < first.count; ++row) {
      float *out = &packed[static_cast<size_t>(first.packed + row * first.step)];
      for (int64_t column = 0; column < columns; ++column)
        out[column] = kept[static_cast<size_t>(column * first.count + row)];
    }
    columns = 0;
  }

private:
  static constexpr int64_t MostColumns = 16;

  std::span<float> packed;
  FileRun first = {};
  int64_t columns = 0;
  std::vector<float> kept; // one after the other
};
} // namespace

/// `read` calls its argument for each run of a shard.
template <typename Read> static void packRuns(const std::string &name, std::span<float> packed, Read read) {
  constexpr int64_t MostOfColumn = 1 << 14; // the kept columns stay in the cache
  Packer packer(packed);
  read([&](const FileRun &run, std::span<const float> values) {
    requireFiniteRun(run, values, name);
    for (int64_t begin = 0; begin < run.count; begin += MostOfColumn) {
      int64_t count = std::min(MostOfColumn, run.count - begin);
      packer.add(run.part(begin, count), values.subspan(static_cast<size_t>(begin), static_cast<size_t>(count)));
    }
  });
  packer.flush();
}

void RankState::pack(const StateTensor &state, std::span<float> packed) const {
  packRuns(fileName(state), packed, [&](auto visit) { read(state, visit); });
}

void pack(const StateTensor &state, const std::string &name, std::span<const float> local, std::span<float> packed) {
  packRuns(name, packed, [&](auto visit) {
    state.forEachRun([&](const FileRun &run) {
      visit(run, local.subspan(static_cast<size_t>(run.local), static_cast<size_t>(run.count)));
    });
  });
}

void RankState::copy(const StateTensor &state, std::span<float> out) const {
  for (int64_t begin = 0; begin < static_cast<int64_t>(out.size()); begin += PieceElements) {
    auto piece = out.subspan(static_cast<size_t>(begin));
    device.read(std::as_writable_bytes(piece.first(std::min<size_t>(piece.size(), PieceElements))),
                addressOf(state, begin));
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
    write(state, [&](const FileRun &run, std::span<float> values) {
      found.file->read(*found.entry, run.file, run.stride, values);
    });
    found.file->release(*found.entry);
  }
}

} // namespace dtc
