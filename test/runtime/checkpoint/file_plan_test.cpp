// Which rank writes what, into which file, and in which order.
#include "runtime/checkpoint/file_plan.h"
#include "test/runtime/program/manifests.h"

#include "runtime/abi/element_type.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpointer.h"
#include "runtime/checkpoint/integrity.h"
#include "runtime/device/cpu_device.h"
#include "test/runtime/checkpoint/states.h"
#include "test/runtime/temporary_directory.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <gmock/gmock.h>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

using testing::UnorderedElementsAre;
namespace fs = std::filesystem;

namespace dtc::test {
namespace {

constexpr FileBounds OneTensorEach{1, 1};

std::string saveAs(const Layout &layout, const std::string &root, const FileBounds &bounds) {
  std::string path;
  EXPECT_THAT(asRanks(layout,
                      [&](RankState &state, Communicator &communicator) {
                        fill(state);
                        Checkpointer checkpointer(state, communicator, root, {.bounds = bounds});
                        checkpointer.beginInPlace({.step = 12, .samples = 345, .seed = 6, .sequenceLength = 16});
                        std::string saved = *checkpointer.finish();
                        if (communicator.rank() == 0)
                          path = saved;
                      }),
              Each(""));
  return path;
}

std::vector<std::string> filesOf(const std::string &path) {
  std::vector<std::string> names;
  for (const auto &entry : fs::directory_iterator(path))
    names.push_back(entry.path().filename());
  return names;
}

TEST(FilePlan, OfSeveralFilesHasTheIndexThatTransformersReads) {
  TemporaryDirectory directory;
  std::string path = saveAs(Padded, directory.path, OneTensorEach);
  EXPECT_THAT(filesOf(path),
              UnorderedElementsAre("checksums.txt", "config.json", "trainer_state.json", "model.safetensors.index.json",
                                   "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                   "optimizer.safetensors.index.json", "optimizer-00001-of-00002.safetensors",
                                   "optimizer-00002-of-00002.safetensors"));
  auto index = nlohmann::json::parse(readFile(path + "/model.safetensors.index.json"));
  EXPECT_EQ(index, (nlohmann::json{{"metadata", {{"total_size", 4 * (120 + 7)}}},
                                   {"weight_map",
                                    {{"attn.weight", "model-00001-of-00002.safetensors"},
                                     {"norm.bias", "model-00002-of-00002.safetensors"}}}}));
}

TEST(FilePlan, CheckpointsInAnyNumberOfFilesLoadUnderAnyLayout) {
  for (const Layout &writer : {Alone, Megatron, Padded, Replicated})
    for (const FileBounds &bounds : {FileBounds(), OneTensorEach})
      for (const Layout &reader : {Alone, Padded}) {
        TemporaryDirectory directory;
        std::string path = saveAs(writer, directory.path, bounds);
        EXPECT_EQ(fs::exists(path + "/model.safetensors"), bounds.least > 1);
        EXPECT_THAT(asRanks(reader,
                            [&](RankState &state, Communicator &communicator) {
                              verifyCheckpoint(communicator, path);
                              loadCheckpoint(state, communicator, path);
                              EXPECT_EQ(countWrong(state), 0) << "rank " << communicator.rank();
                            }),
                    Each(""));
      }
}

TEST(FilePlan, AFlippedBitInAnyOfSeveralFilesIsNoticed) {
  TemporaryDirectory directory;
  std::string path = saveAs(Megatron, directory.path, OneTensorEach);
  int64_t tried = 0;
  asRanks(Alone, [&](RankState &, Communicator &communicator) {
    for (const std::string &name : filesOf(path))
      for (size_t byte = 0; byte < fs::file_size(path + "/" + name); byte += 5, ++tried) {
        auto flip = [&] {
          std::fstream file(path + "/" + name, std::ios::in | std::ios::out | std::ios::binary);
          file.seekg(static_cast<std::streamoff>(byte));
          char value = static_cast<char>(file.get() ^ 1 << byte % 8);
          file.seekp(static_cast<std::streamoff>(byte));
          file.put(value);
        };
        flip();
        EXPECT_THROW(verifyCheckpoint(communicator, path), Error) << name << " byte " << byte;
        flip();
      }
    verifyCheckpoint(communicator, path);
  });
  EXPECT_GT(tried, 500);
}

//===----------------------------------------------------------------------===//
// Sizes and writers
//===----------------------------------------------------------------------===//

/// `sizes` parameters of one dimension; dp stores all, tp splits the last one.
abi::Manifest manyOf(const std::vector<int64_t> &sizes, int64_t dp, int64_t tp) {
  abi::Manifest manifest;
  for (auto [name, size] : {std::pair("dp", dp), std::pair("tp", tp)}) {
    abi::Axis &axis = *manifest.mutable_mesh()->add_axes();
    axis.set_name(name);
    axis.set_size(size);
  }
  setArena(*manifest.add_roles(), 0);
  for (size_t i = 0; i < sizes.size(); ++i) {
    bool splits = i + 1 == sizes.size();
    abi::Parameter &parameter = *manifest.add_parameters();
    parameter.set_name("p" + std::to_string(i));
    for (auto *shape :
         {parameter.mutable_file_shape(), parameter.mutable_factored_shape(), parameter.mutable_logical_shape()})
      shape->Add(sizes[i]);
    parameter.add_permutation(0);
    abi::Tensor &tensor = *manifest.mutable_roles(0)->add_tensors();
    tensor.set_parameter(static_cast<int>(i));
    tensor.add_global_shape(sizes[i]);
    tensor.add_local_shape(splits ? sizes[i] / tp : sizes[i]);
    abi::DimSharding &sharding = *tensor.mutable_sharding()->add_dims();
    if (splits) {
      abi::AxisRef &ref = *sharding.add_axes();
      ref.set_axis("tp");
      ref.set_pre(1);
      ref.set_size(tp);
    }
  }
  return manifest;
}

FilePlan planOf(const abi::Manifest &manifest, int rank, const FileBounds &bounds = {}) {
  static CpuDevice device(1);
  Arena none(0, 0);
  return FilePlan(RankState(manifest, rank, device, none), bounds);
}

TEST(FilePlan, HasAboutAsManyFilesAsRanksWithinTheBounds) {
  auto filesAt = [](int64_t dp, const FileBounds &bounds) {
    return planOf(manyOf(std::vector<int64_t>(100, 10), dp, 1), 0, bounds).files.size(); // 4000 bytes
  };
  EXPECT_EQ(filesAt(4, {1, 1 << 20}), 4u);
  EXPECT_EQ(filesAt(1, {1, 1 << 20}), 1u);
  EXPECT_EQ(filesAt(4, {2000, 1 << 20}), 2u) << "none is small";
  EXPECT_EQ(filesAt(1, {1, 400}), 10u);
  for (const TensorFile &file : planOf(manyOf(std::vector<int64_t>(100, 10), 1, 1), 0, {1, 400}).files)
    EXPECT_LE(file.layout.entries.back().end, 400u) << "none is large";
  EXPECT_EQ(planOf(manyOf({1000, 1, 1}, 1, 1), 0, {1, 400}).files.size(), 2u) << "but for one tensor";
  EXPECT_EQ(filesAt(64, {}), 1u) << "a small model lies in one";
}

TEST(FilePlan, EachShardHasOneWriterAndAllHaveAsMuchToWrite) {
  std::vector<int64_t> sizes = {900, 10, 10, 300, 300, 10, 500, 800};
  for (auto [dp, tp] : {std::pair(1, 4), std::pair(4, 1), std::pair(2, 2), std::pair(3, 4)}) {
    abi::Manifest manifest = manyOf(sizes, dp, tp);
    std::vector<std::vector<int>> writers(sizes.size()); // of each tensor
    std::vector<uint64_t> load;
    for (int rank = 0; rank < dp * tp; ++rank) {
      FilePlan plan = planOf(manifest, rank);
      load.push_back(plan.elementsOfMine);
      for (size_t i = 0; i < plan.tensors.size(); ++i)
        if (plan.tensors[i].mine)
          writers[i].push_back(rank);
    }
    for (size_t i = 0; i + 1 < sizes.size(); ++i)
      EXPECT_EQ(writers[i].size(), 1u) << i;
    std::set<int> parts; // of the tensor that is split
    for (int rank : writers.back())
      parts.insert(rank % tp);
    EXPECT_EQ(writers.back().size(), size_t(tp));
    EXPECT_EQ(parts.size(), size_t(tp));
    uint64_t all = std::accumulate(load.begin(), load.end(), uint64_t(0));
    EXPECT_EQ(all, 2830u);
    uint64_t largest = 900 + (dp == 1 ? 800 / tp : 0); // nobody else stores that part
    EXPECT_LE(*std::ranges::max_element(load), std::max<uint64_t>(largest, all / load.size() + 200)) << dp << "," << tp;
  }
}

//===----------------------------------------------------------------------===//
// The order of the file
//===----------------------------------------------------------------------===//

/// File [40, 6 * 35] as [40, 6, 35], logical (35, 6, 40), of which tp = 2 splits the 6: a transposed parameter.
abi::Manifest transposed() {
  abi::Manifest manifest = manyOf({1}, 1, 2);
  abi::Parameter &parameter = *manifest.mutable_parameters(0);
  abi::Tensor &tensor = *manifest.mutable_roles(0)->mutable_tensors(0);
  for (auto *shape :
       {parameter.mutable_file_shape(), parameter.mutable_factored_shape(), parameter.mutable_logical_shape(),
        parameter.mutable_permutation(), tensor.mutable_global_shape(), tensor.mutable_local_shape()})
    shape->Clear();
  for (int64_t size : {40, 210})
    parameter.add_file_shape(size);
  for (int64_t size : {40, 6, 35})
    parameter.add_factored_shape(size);
  for (int dim : {2, 1, 0}) {
    int64_t size = parameter.factored_shape(dim);
    parameter.add_permutation(dim);
    parameter.add_logical_shape(size);
    tensor.add_global_shape(size);
    tensor.add_local_shape(dim == 1 ? 3 : size);
  }
  abi::Sharding sharding;
  sharding.add_dims();
  *sharding.add_dims() = tensor.sharding().dims(0);
  sharding.add_dims();
  *tensor.mutable_sharding() = sharding;
  setArena(*manifest.mutable_roles(0), 4 * 35 * 3 * 40);
  return manifest;
}

/// Calls check(state) for a rank of the transposed parameter whose elements tell their place in the file; on a device
/// whose memory is the host's, and on another.
void onBothDevices(int rank, const std::function<void(const RankState &)> &check) {
  abi::Manifest manifest = transposed();
  auto on = [&](Device &device) {
    std::unique_ptr<Memory> memory = device.allocate(manifest.roles(0).arena_bytes(), 0);
    RankState state(manifest, rank, device, *memory);
    state.write(state.parameters()[0], [](const FileRun &run, std::span<float> values) {
      for (int64_t i = 0; i < run.count; ++i)
        values[i] = static_cast<float>(run.file + i * run.stride);
    });
    check(state);
  };
  CpuDevice near(1);
  FarDevice far([](const abi::Kernel &) { return nullptr; });
  on(near);
  on(far);
}

TEST(FileOrder, PackedElementsAreInTheOrderOfTheFile) {
  for (int rank : {0, 1})
    onBothDevices(rank, [&](const RankState &state) {
      const StateTensor &tensor = state.parameters()[0];
      std::vector<float> packed(4200);
      state.pack(tensor, packed);
      EXPECT_TRUE(std::ranges::is_sorted(packed));
      int64_t ranges = 0, next = 0;
      tensor.box().forEachRange([&](const FileRange &range) {
        EXPECT_EQ(range.packed, next);
        EXPECT_EQ(range.count, 3 * 35) << "whole dimensions join";
        for (int64_t i = 0; i < range.count; ++i)
          EXPECT_EQ(packed[range.packed + i], range.file + i);
        next += range.count;
        ++ranges;
      });
      EXPECT_EQ(ranges, 40);
    });
}

TEST(FileOrder, PartsFollowOneAnother) {
  for (int64_t most : {1, 34, 35, 100, 105, 106, 1000, 4200})
    onBothDevices(1, [&](const RankState &state) {
      const StateTensor &tensor = state.parameters()[0];
      std::vector<float> whole(4200), joined;
      state.pack(tensor, whole);
      tensor.forEachPart(most, [&](const StateTensor &part) {
        EXPECT_LE(part.shard.elements(), most);
        std::vector<float> packed(part.shard.elements());
        state.pack(part, packed);
        part.box().forEachRange([&](const FileRange &range) {
          for (int64_t i = 0; i < range.count; ++i)
            joined.push_back(static_cast<float>(range.file + i));
          EXPECT_EQ(packed[range.packed], range.file);
        });
        joined.resize(joined.size() - packed.size());
        joined.insert(joined.end(), packed.begin(), packed.end());
      });
      EXPECT_EQ(joined, whole) << most;
    });
}

TEST(FileOrder, WhatIsNotFiniteIsNamedByItsPlaceInTheFile) {
  onBothDevices(0, [&](const RankState &state) {
    state.write(state.parameters()[0], [](const FileRun &run, std::span<float> values) {
      for (int64_t i = 0; i < run.count; ++i)
        values[i] = run.file + i * run.stride == 7 * 210 + 40 ? NAN : 1.0F;
    });
    std::vector<float> packed(4200);
    try {
      state.pack(state.parameters()[0], packed);
      ADD_FAILURE() << "taken";
    } catch (const Error &error) {
      EXPECT_EQ(error.exitCode(), ExitCode::NonFinite);
      EXPECT_STREQ(error.what(), "element 1510 of 'p0' is nan");
    }
  });
}

} // namespace
} // namespace dtc::test
