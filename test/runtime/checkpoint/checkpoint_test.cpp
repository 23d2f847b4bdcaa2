#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/find_checkpoints.h"
#include "test/runtime/program/manifests.h"

#include "runtime/abi/random.h"
#include "runtime/checkpoint/normal.h"
#include "runtime/comm/local/in_process.h"
#include "runtime/support/error.h"
#include "test/runtime/checkpoint/states.h"
#include "test/runtime/temporary_directory.h"

#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sys/resource.h>
#include <thread>

namespace dtc::test {
namespace {

/// Both parameters [columns] and [7, columns], split over tp in their last dimension.
abi::Manifest largeManifest(int64_t columns) {
  abi::Manifest manifest = manifestOf({1, 2, {"", "", "", ""}, "tp"});
  manifest.mutable_roles(0)->clear_tensors();
  uint64_t offset = 0;
  for (int parameter : {0, 1}) {
    abi::Tensor &tensor = *manifest.mutable_roles(0)->add_tensors();
    tensor.set_kind(abi::Tensor::PARAMETER);
    tensor.set_parameter(parameter);
    tensor.set_address(offset);
    abi::Parameter &declared = *manifest.mutable_parameters(parameter);
    for (auto *shape : {declared.mutable_file_shape(), declared.mutable_factored_shape(),
                        declared.mutable_logical_shape(), declared.mutable_permutation()})
      shape->Clear();
    for (int64_t size : parameter == 0 ? std::vector{columns} : std::vector{int64_t(7), columns}) {
      bool isLast = size == columns;
      declared.add_permutation(declared.permutation_size());
      for (auto *shape :
           {declared.mutable_file_shape(), declared.mutable_factored_shape(), declared.mutable_logical_shape()})
        shape->Add(size);
      tensor.add_global_shape(size);
      tensor.add_local_shape(isLast ? (size + 1) / 2 : size);
      abi::DimSharding &sharding = *tensor.mutable_sharding()->add_dims();
      if (!isLast)
        continue;
      abi::AxisRef &ref = *sharding.add_axes();
      ref.set_axis("tp");
      ref.set_pre(1);
      ref.set_size(2);
    }
    offset += 4 * (parameter == 0 ? 1 : 7) * ((columns + 1) / 2);
  }
  setArena(*manifest.mutable_roles(0), offset);
  return manifest;
}

const TrainerState Trained{.step = 12, .samples = 345, .seed = 6, .sequenceLength = 16};

std::string save(const Layout &layout, const std::string &root) {
  std::string path;
  EXPECT_THAT(asRanks(layout,
                      [&](RankState &state, Communicator &communicator) {
                        fill(state);
                        std::string saved = saveCheckpoint(state, communicator, root, Trained);
                        if (communicator.rank() == 0)
                          path = saved;
                      }),
              Each(""));
  return path;
}

TEST(Checkpoint, LoadsUnderAnyOtherLayout) {
  for (const Layout &writer : {Alone, Megatron, Padded, Replicated})
    for (const Layout &reader : {Alone, Megatron, Padded, Replicated}) {
      TemporaryDirectory directory;
      std::string path = save(writer, directory.path);
      std::vector<std::string> problems = asRanks(reader, [&](RankState &state, Communicator &communicator) {
        TrainerState trainer = loadCheckpoint(state, communicator, path);
        EXPECT_EQ(trainer.step, 12);
        EXPECT_EQ(trainer.samples, 345);
        EXPECT_EQ(trainer.seed, 6u);
        EXPECT_EQ(countWrong(state), 0) << "rank " << communicator.rank();
      });
      EXPECT_THAT(problems, Each(""));
    }
}

// File element (e, a, b, c) of [4, 30] seen as [4, 3, 2, 5] is logical element (a, b, c, e).
TEST(Checkpoint, HoldsTheModelFilesOwnNamesShapesAndOrder) {
  TemporaryDirectory directory;
  std::string path = save(Padded, directory.path);
  EXPECT_THAT(path, testing::EndsWith("/step-000012"));
  SafetensorsFile file(path + "/model.safetensors");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  const SafetensorsEntry *weight = file.find("attn.weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->shape, (std::vector<int64_t>{4, 30}));
  std::vector<float> values(120);
  file.read(*weight, 0, 1, std::span<float>(values));
  for (int e = 0; e < 4; ++e)
    for (int rest = 0; rest < 30; ++rest)
      EXPECT_EQ(values[e * 30 + rest], rest * 4 + e);
  EXPECT_NE(SafetensorsFile(path + "/optimizer.safetensors").find("norm.bias.exp_avg"), nullptr);
  EXPECT_EQ(readFile(path + "/config.json"), "{\"model_type\": \"test\"}\n");
  EXPECT_EQ(nlohmann::json::parse(readFile(path + "/trainer_state.json"))["step"], 12);
}

TEST(Checkpoint, ReplacesOneOfTheSameStep) {
  TemporaryDirectory directory;
  std::string path = save(Alone, directory.path);
  std::ofstream(path + "/leftover") << "old";
  EXPECT_EQ(save(Alone, directory.path), path);
  EXPECT_FALSE(std::filesystem::exists(path + "/leftover"));
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

// A file size limit stands for a full disk: reserving the space fails in the same place.
TEST(Checkpoint, AFullDiskLeavesTheOldOneIntact) {
  TemporaryDirectory directory;
  std::string path = save(Megatron, directory.path);
  signal(SIGXFSZ, SIG_IGN);
  rlimit before, small{500, RLIM_INFINITY};
  getrlimit(RLIMIT_FSIZE, &before);
  small.rlim_max = before.rlim_max;
  setrlimit(RLIMIT_FSIZE, &small);
  std::vector<std::string> problems = asRanks(Megatron, [&](RankState &state, Communicator &communicator) {
    TrainerState later = Trained;
    later.step = 13;
    saveCheckpoint(state, communicator, directory.path, later);
  });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(problems[0], AllOf(HasSubstr("exit code 1: the checkpoint after step 13: cannot write '"),
                                 HasSubstr("File too large; free some space"), HasSubstr("are as they were")));
  EXPECT_EQ(problems[1], "exit code 1: ");
  EXPECT_EQ(findCheckpoints(directory.path).front(), path);
  for (const auto &entry : std::filesystem::directory_iterator(directory.path))
    EXPECT_EQ(entry.path(), path) << "no half of one";
  EXPECT_THAT(asRanks(Megatron,
                      [&](RankState &state, Communicator &communicator) { loadCheckpoint(state, communicator, path); }),
              Each(""));
}

TEST(TrainerState, TellsADropoutThatIsNotTheModelsOwn) {
  abi::Training training;
  training.set_dropout(-1);
  EXPECT_FALSE(settingsOf(training).contains("dropout"));
  training.set_dropout(0);
  EXPECT_EQ(settingsOf(training).at("dropout"), "0.0");
}

TEST(Checkpoint, TryingLeavesNothing) {
  TemporaryDirectory directory;
  tryCheckpoints(directory / "run/checkpoints");
  EXPECT_FALSE(std::filesystem::exists(directory / "run/checkpoints"));
  std::string path = save(Alone, directory / "checkpoints");
  tryCheckpoints(directory / "checkpoints");
  for (const auto &entry : std::filesystem::directory_iterator(directory / "checkpoints"))
    EXPECT_EQ(entry.path(), path);
  directory.write("file", "");
  EXPECT_THROW(tryCheckpoints(directory / "file"), Error);
}

// A user's own link to a larger disk stays; a link of another user is not followed.
TEST(Checkpoint, ALinkToAFolderIsFollowedIfItIsOnesOwn) {
  TemporaryDirectory directory;
  std::string link = directory / "checkpoints";
  std::filesystem::create_directory(directory / "disk");
  std::filesystem::create_directory_symlink("disk", link);
  tryCheckpoints(link);
  TrainerState bad = Trained;
  asRanks(Alone, [&](RankState &state, Communicator &communicator) {
    state.write(state.parameters()[0], [](const FileRun &, std::span<float> values) {
      std::ranges::fill(values, std::numeric_limits<float>::infinity());
    });
    saveCheckpoint(state, communicator, link, bad);
  });
  EXPECT_TRUE(std::filesystem::is_symlink(link)) << "also when the first one fails";
  save(Alone, link);
  EXPECT_TRUE(std::filesystem::exists(directory / "disk/step-000012/model.safetensors"));
  if (geteuid() != 0)
    GTEST_SKIP() << "needs root, to make another user's link";
  ASSERT_EQ(lchown(link.c_str(), 65534, 65534), 0);
  EXPECT_THROW(tryCheckpoints(link), Error);
}

/// Rank 0's message about loading `path` into `manifest`.
std::string refusal(const abi::Manifest &manifest, const std::string &path) {
  return asRanks(manifest, 1,
                 [&](RankState &state, Communicator &communicator) { loadCheckpoint(state, communicator, path); })[0];
}

TEST(Checkpoint, ThatDoesNotFitTheProgramNamesTheFirstDifference) {
  TemporaryDirectory directory;
  std::string path = save(Alone, directory.path);
  abi::Manifest renamed = manifestOf(Alone);
  renamed.mutable_parameters(1)->set_name("norm.gain");
  EXPECT_THAT(refusal(renamed, path), AllOf(HasSubstr("exit code 3"), HasSubstr("no tensor 'norm.gain'")));

  abi::Manifest reshaped = manifestOf(Alone);
  reshaped.mutable_parameters(0)->set_file_shape(0, 30);
  reshaped.mutable_parameters(0)->set_file_shape(1, 4);
  EXPECT_THAT(refusal(reshaped, path), AllOf(HasSubstr("'attn.weight'"), HasSubstr("[4, 30]"), HasSubstr("[30, 4]")));

  abi::Manifest fewer = manifestOf(Alone);
  fewer.mutable_roles(0)->mutable_tensors()->RemoveLast();
  fewer.mutable_roles(0)->mutable_tensors()->RemoveLast();
  EXPECT_THAT(refusal(fewer, path), HasSubstr("has a tensor 'norm.bias', which the program does not train"));

  abi::Manifest optimizer = manifestOf(Alone);
  for (abi::Tensor &tensor : *optimizer.mutable_roles(0)->mutable_tensors())
    if (tensor.kind() == abi::Tensor::SLOT)
      tensor.set_slot("momentum_buffer");
  EXPECT_THAT(refusal(optimizer, path), HasSubstr("no tensor 'attn.weight.momentum_buffer'"));

  abi::Manifest longer = manifestOf(Alone);
  longer.mutable_training()->set_sequence_length(32);
  EXPECT_THAT(refusal(longer, path), AllOf(HasSubstr("sequence_length 16"), HasSubstr("32")));
}

TEST(Checkpoint, DamagedOnesAreRefused) {
  TemporaryDirectory directory;
  std::string path = save(Alone, directory.path), state = path + "/trainer_state.json", good = readFile(state);
  auto withState = [&](const std::string &text) {
    std::ofstream(state) << text;
    return refusal(manifestOf(Alone), path);
  };
  EXPECT_THAT(withState("nonsense"), HasSubstr("not a JSON object"));
  EXPECT_THAT(withState("{\"format_version\": 7}"), HasSubstr("format version 7"));
  EXPECT_THAT(withState("{\"format_version\": 1}"), HasSubstr("reads versions 2 to 3"));
  for (const char *version : {"2", "3"})
    EXPECT_THAT(withState(fmt::format("{{\"format_version\": {}, \"step\": \"x\"}}", version)), HasSubstr("'step'"));
  withState(good);
  std::filesystem::resize_file(path + "/optimizer.safetensors", 600);
  EXPECT_THAT(refusal(manifestOf(Alone), path), HasSubstr("optimizer.safetensors"));
}

TEST(Checkpoint, TheLatestIsTheOneOfTheMostSteps) {
  TemporaryDirectory directory;
  for (const char *name : {"step-000009", "step-1000000", "step-000100", "step-2000000.tmp", "step-x"})
    std::filesystem::create_directories(directory.path / "checkpoints" / name);
  EXPECT_THAT(findCheckpoints(directory.path).front(), testing::EndsWith("checkpoints/step-1000000"));
  EXPECT_THROW(findCheckpoints(directory / "nothing"), Error);
}

// Far more than one piece: with rows that do not fill pieces evenly and, on the second rank, padding after each.
TEST(State, LargeTensorsGoInPieces) {
  for (int64_t columns : {90001, 1300000})
    EXPECT_THAT(asRanks(largeManifest(columns), 2,
                        [&](RankState &state, Communicator &communicator) {
                          fill(state);
                          EXPECT_EQ(countWrong(state), 0);
                          int64_t elements = 0, local = -1;
                          state.read(state.parameters()[1], [&](const FileRun &run, std::span<const float> values) {
                            EXPECT_GT(run.local, std::exchange(local, run.local));
                            EXPECT_EQ(size_t(run.count), values.size());
                            EXPECT_LE(values.size_bytes(), Device::PieceBytes);
                            elements += run.count;
                          });
                          EXPECT_EQ(elements, 7 * (columns / 2 + (communicator.rank() == 0 && columns % 2)));
                        }),
                Each(""));
}

TEST(InitialWeights, AreTheSameUnderEveryLayout) {
  for (const Layout &layout : {Alone, Megatron, Padded})
    EXPECT_THAT(asRanks(layout,
                        [&](RankState &state, Communicator &) {
                          state.initialize(3, 2);
                          for (const StateTensor &tensor : state.parameters()) {
                            uint32_t stream = random::stream(3, 0, 1000000 + tensor.tensor->parameter());
                            state.read(tensor, [&](const FileRun &run, std::span<const float> values) {
                              for (int64_t i = 0; i < run.count; ++i)
                                EXPECT_EQ(values[i], float(0.5 * random::normal(stream, run.logical + i)));
                            });
                          }
                        }),
                Each(""));
}

// The vectorized loop gives what the definition gives, wherever a range begins or ends.
TEST(InitialWeights, InBulkFollowTheDefinition) {
  for (auto [first, count] : {std::pair(0, 5000), std::pair(511, 2), std::pair(1000, 513)}) {
    std::vector<float> values(count);
    fillNormal(values, 77, first, 0.02);
    for (int i = 0; i < count; ++i)
      EXPECT_FLOAT_EQ(values[i], float(0.02 * random::normal(77, first + i))) << first + i;
  }
}

TEST(InitialWeights, ComeFromAModelDirectory) {
  TemporaryDirectory directory;
  std::string path = save(Alone, directory.path);
  EXPECT_THAT(asRanks(Padded,
                      [&](RankState &state, Communicator &) {
                        fill(state);
                        for (const StateTensor &tensor : state.parameters())
                          state.write(tensor, [&](const FileRun &, std::span<float> values) {
                            std::ranges::fill(values, -1.0F);
                          });
                        state.load(state.parameters(), SafetensorsModel(path), path);
                        EXPECT_EQ(countWrong(state), 0);
                      }),
              Each(""));
}

} // namespace
} // namespace dtc::test
