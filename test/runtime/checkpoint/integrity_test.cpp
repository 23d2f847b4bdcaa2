// What happens to files between writing and reading: on the way to disk, and years later.
#include "runtime/checkpoint/integrity.h"
#include "test/runtime/program/manifests.h"

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/comm/local/in_process.h"
#include "runtime/device/cpu_device.h"
#include "runtime/support/error.h"
#include "runtime/support/output_file.h"
#include "test/refusal.h"
#include "test/runtime/temporary_directory.h"

#include <cmath>
#include <cstdio>
#include <functional>
#include <gmock/gmock.h>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

//===----------------------------------------------------------------------===//
// The way to disk, observed: these take the place of the C library's
//===----------------------------------------------------------------------===//

static std::mutex diskMutex;
static std::vector<std::string> diskEvents; // "sync PATH", "rename PATH"
static int exchangeProblem = 0;             // the errno with which names are not exchanged, or 0

extern "C" int fsync(int descriptor) {
  char path[4096] = "";
  if (readlink(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), path, sizeof(path) - 1) > 0) {
    std::lock_guard lock(diskMutex);
    diskEvents.push_back("sync " + std::string(path));
  }
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

extern "C" int renameat2(int from, const char *fromPath, int to, const char *toPath, unsigned flags) {
  {
    std::lock_guard lock(diskMutex);
    diskEvents.push_back("rename " + std::string(fromPath));
  }
  if (flags & RENAME_EXCHANGE && exchangeProblem != 0) {
    errno = exchangeProblem;
    return -1;
  }
  return static_cast<int>(syscall(SYS_renameat2, from, fromPath, to, toPath, flags));
}

namespace dtc::test {
namespace {

/// Two parameters, of which tp splits the first; each has one moment.
abi::Manifest manifestOf(int tp) {
  abi::Manifest manifest;
  manifest.set_model_name("test");
  manifest.set_model_config_json("{\"model_type\": \"test\", \"n_head\": 4}\n");
  manifest.mutable_training()->set_sequence_length(16);
  abi::Axis &axis = *manifest.mutable_mesh()->add_axes();
  axis.set_name("tp");
  axis.set_size(tp);
  uint64_t offset = 0;
  manifest.add_roles();
  for (int parameter : {0, 1}) {
    abi::Parameter &declared = *manifest.add_parameters();
    declared.set_name(parameter == 0 ? "split.weight" : "whole.bias");
    for (auto *shape :
         {declared.mutable_file_shape(), declared.mutable_factored_shape(), declared.mutable_logical_shape()})
      shape->Add(8);
    declared.add_permutation(0);
    for (abi::Tensor::Kind kind : {abi::Tensor::PARAMETER, abi::Tensor::SLOT}) {
      abi::Tensor &tensor = *manifest.mutable_roles(0)->add_tensors();
      tensor.set_kind(kind);
      if (kind == abi::Tensor::SLOT)
        tensor.set_slot("exp_avg");
      tensor.set_parameter(parameter);
      tensor.set_address(offset);
      tensor.add_global_shape(8);
      tensor.add_local_shape(parameter == 0 ? 8 / tp : 8);
      abi::DimSharding &sharding = *tensor.mutable_sharding()->add_dims();
      if (parameter == 0) {
        abi::AxisRef &ref = *sharding.add_axes();
        ref.set_axis("tp");
        ref.set_pre(1);
        ref.set_size(tp);
      }
      offset += 64;
    }
  }
  test::setArena(*manifest.mutable_roles(0), offset);
  return manifest;
}

/// Runs `body` as every rank; returns what each threw.
using Body = std::function<void(RankState &, Communicator &)>;
std::vector<std::string> asRanks(const abi::Manifest &manifest, const Body &body) {
  int ranks = Mesh(manifest.mesh()).ranks();
  InProcessJob job(ranks);
  std::vector<std::string> problems(ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Arena arena(manifest.roles(0).arena_bytes(), 0);
      std::unique_ptr<Communicator> communicator = job.join(rank, arena);
      CpuDevice device(1);
      RankState state(manifest, rank, device, arena);
      for (const auto *tensors : {&state.parameters(), &state.moments()})
        for (const StateTensor &tensor : *tensors)
          state.write(tensor, [](const FileRun &run, std::span<float> values) {
            std::iota(values.begin(), values.end(), static_cast<float>(1 + run.local));
          });
      try {
        body(state, *communicator);
      } catch (const Error &error) {
        problems[rank] = "exit code " + std::to_string(int(error.exitCode())) + ": " + error.what();
      }
    });
  threads.clear();
  return problems;
}

TrainerState stateAt(int64_t step) {
  return {.step = step, .samples = 4 * step, .seed = 6, .sequenceLength = 16, .program = "p"};
}

class IntegrityTest : public testing::Test {
protected:
  std::string save(int64_t step, int64_t keep = 0) {
    EXPECT_THAT(asRanks(manifest,
                        [&](RankState &state, Communicator &communicator) {
                          saveCheckpoint(state, communicator, directory.path, stateAt(step), keep);
                        }),
                Each(""));
    char name[32];
    std::snprintf(name, sizeof(name), "step-%06d", static_cast<int>(step));
    return directory / name;
  }

  std::vector<std::string> verify(const std::string &path) {
    return asRanks(manifest, [&](RankState &, Communicator &communicator) { verifyCheckpoint(communicator, path); });
  }

  /// What every rank chose, its warnings, or what it threw.
  std::vector<std::string> choose(const std::string &path, bool verify = true) {
    std::mutex mutex;
    std::vector<std::string> chosen(Mesh(manifest.mesh()).ranks());
    std::vector<std::string> problems = asRanks(manifest, [&](RankState &, Communicator &communicator) {
      chosen[communicator.rank()] = chooseCheckpoint(communicator, path, verify, [&](const std::string &message) {
        std::lock_guard lock(mutex);
        warnings.push_back(message);
      });
    });
    for (size_t rank = 0; rank < chosen.size(); ++rank)
      chosen[rank] += problems[rank];
    return chosen;
  }

  static void flip(const std::string &path, size_t byte, int bit) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(byte));
    char value = static_cast<char>(file.get() ^ 1 << bit);
    file.seekp(static_cast<std::streamoff>(byte));
    file.put(value);
  }

  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto &entry : fs::directory_iterator(directory.path))
      found.push_back(entry.path().filename());
    std::ranges::sort(found);
    return found;
  }

  TemporaryDirectory directory;
  abi::Manifest manifest = manifestOf(2);
  std::vector<std::string> warnings;
};

TEST_F(IntegrityTest, AFlippedBitAnywhereIsNoticed) {
  std::string path = save(1);
  EXPECT_THAT(verify(path), Each(""));
  int64_t tried = 0;
  std::vector<std::string> unnoticed;
  asRanks(manifestOf(1), [&](RankState &, Communicator &communicator) {
    for (const auto &entry : fs::directory_iterator(path))
      for (size_t bit = 0; bit < 8 * entry.file_size(); ++bit, ++tried) {
        flip(entry.path(), bit / 8, static_cast<int>(bit % 8));
        try {
          verifyCheckpoint(communicator, path);
          unnoticed.push_back(entry.path().string() + " bit " + std::to_string(bit));
        } catch (const Error &error) {
          EXPECT_EQ(error.exitCode(), ExitCode::BadInput);
          EXPECT_THAT(error.what(), HasSubstr(path));
        }
        flip(entry.path(), bit / 8, static_cast<int>(bit % 8));
      }
  });
  EXPECT_THAT(unnoticed, testing::IsEmpty());
  EXPECT_GT(tried, 8000);
  EXPECT_THAT(verify(path), Each(""));
}

// Each tensor is read by one of the ranks: none is left out.
TEST_F(IntegrityTest, DamageOfAnyTensorIsNoticedWhoeverReadsIt) {
  std::string path = save(1);
  for (const char *name : {"model.safetensors", "optimizer.safetensors"}) {
    size_t size = fs::file_size(path + "/" + name);
    for (size_t back : {64, 60, 32, 4}) { // in the first and second tensor of each
      flip(path + "/" + name, size - back, 3);
      std::vector<std::string> problems = verify(path);
      EXPECT_THAT(problems, Each(HasSubstr("exit code 3")));
      EXPECT_THAT(problems[0] + problems[1],
                  AllOf(HasSubstr(name), HasSubstr(back > 32 ? "split.weight" : "whole.bias"),
                        HasSubstr("damaged or changed")));
      flip(path + "/" + name, size - back, 3);
    }
  }
}

TEST_F(IntegrityTest, AMissingFileIsNoticed) {
  std::string path = save(1);
  for (const char *name :
       {"config.json", "trainer_state.json", "model.safetensors", "optimizer.safetensors", "checksums.txt"}) {
    fs::rename(path + "/" + name, directory / "aside");
    EXPECT_THAT(verify(path)[0], AllOf(HasSubstr("exit code 3"), HasSubstr(name))) << name;
    fs::rename(directory / "aside", path + "/" + name);
  }
  EXPECT_THAT(verify(path), Each(""));
}

// Files next to the shards of a checkpoint would be read instead of them.
TEST_F(IntegrityTest, AFileThatWasNotWrittenWithItIsNotRead) {
  std::string path = save(1);
  for (const char *name : {"model.safetensors", "optimizer.safetensors"}) { // as a checkpoint of several files has them
    std::string list = readFile(path + "/checksums.txt");
    std::vector<ChecksumEntry> others;
    for (const ChecksumEntry &entry : parseChecksums(list, ""))
      if (entry.file != name)
        others.push_back(entry);
    std::ofstream(path + "/checksums.txt") << printChecksums(others);
    EXPECT_THAT(verify(path)[0], AllOf(HasSubstr("exit code 3"), HasSubstr(std::string("/") + name),
                                       HasSubstr("is not listed in checksums.txt"), HasSubstr("remove it")));
    std::ofstream(path + "/checksums.txt") << list;
  }
  std::ofstream(path + "/README.md") << "kept for the paper";
  EXPECT_THAT(verify(path), Each(""));
}

TEST_F(IntegrityTest, AFolderHoldsTheStepThatItIsNamedAfter) {
  std::string path = save(3), other = directory / "step-000007", best = directory / "best";
  auto load = [&](const std::string &from) {
    return asRanks(manifest,
                   [&](RankState &state, Communicator &communicator) { loadCheckpoint(state, communicator, from); });
  };
  fs::rename(path, other);
  for (const char *end : {"", "/"})
    EXPECT_THAT(load(other + end)[0],
                AllOf(HasSubstr(other), HasSubstr("trainer_state.json is of step 3, "), HasSubstr("'step-000003'")));
  fs::rename(other, best);
  EXPECT_THAT(load(best), Each("")) << "a name that tells no step";
}

TEST_F(IntegrityTest, ADamagedLatestGivesWayToTheOneBefore) {
  std::string first = save(1), second = save(2), third = save(3);
  EXPECT_THAT(choose(directory.path), Each(third));
  EXPECT_THAT(warnings, testing::IsEmpty());
  flip(third + "/model.safetensors", fs::file_size(third + "/model.safetensors") - 1, 0);
  fs::remove(second + "/config.json");
  EXPECT_THAT(choose(directory.path), Each(first));
  EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr(third), HasSubstr("whole.bias"), HasSubstr("the one before it")),
                                    AllOf(HasSubstr(second), HasSubstr("config.json"))));
  // A checkpoint that is given by name is not replaced by another, unless it may be taken as it is.
  EXPECT_THAT(choose(third)[0] + choose(third)[1], AllOf(HasSubstr("is damaged"), HasSubstr("--no-verify-checkpoint")));
  EXPECT_THAT(choose(third, false), Each(third));
  fs::remove(first + "/config.json");
  EXPECT_THAT(choose(directory.path)[0], AllOf(HasSubstr("exit code 3"), HasSubstr(first), HasSubstr("no other one")));
}

TEST_F(IntegrityTest, WhatIsNotFiniteIsNotSaved) {
  std::string before = save(1);
  for (float bad : {NAN, INFINITY, -INFINITY})
    for (bool moment : {false, true}) {
      std::vector<std::string> problems = asRanks(manifest, [&](RankState &state, Communicator &communicator) {
        if (communicator.rank() == 1) // elements 4 to 7 of the file
          state.write((moment ? state.moments() : state.parameters())[0],
                      [bad](const FileRun &run, std::span<float> values) {
                        std::iota(values.begin(), values.end(), static_cast<float>(1 + run.local));
                        values[2] = bad;
                      });
        saveCheckpoint(state, communicator, directory.path, stateAt(2));
      });
      EXPECT_EQ(problems[0], "exit code 5: ");
      EXPECT_THAT(problems[1], AllOf(HasSubstr("exit code 5: after step 2: element 6 of 'split.weight"),
                                     HasSubstr("no checkpoint was written")));
      EXPECT_THAT(names(), ElementsAre("step-000001"));
    }
  EXPECT_THAT(verify(before), Each(""));
}

TEST_F(IntegrityTest, AllIsOnDiskBeforeItIsPublished) {
  diskEvents.clear();
  std::string path = save(1);
  auto published = std::ranges::find_if(diskEvents, [](auto &event) { return event.starts_with("rename "); });
  ASSERT_NE(published, diskEvents.end());
  std::string unfinished = published->substr(7);
  std::vector<std::string> before(diskEvents.begin(), published), after(published + 1, diskEvents.end());
  EXPECT_THAT(before, testing::Contains("sync " + unfinished));
  for (const auto &entry : fs::directory_iterator(path))
    EXPECT_THAT(before, testing::Contains("sync " + unfinished + "/" + entry.path().filename().string()));
  EXPECT_THAT(after, testing::Contains("sync " + directory.path.string())) << "the new name";
}

TEST_F(IntegrityTest, KeepsTheNewestAndNeverRemovesLaterOnes) {
  for (int64_t step : {1, 2, 9, 3, 4})
    save(step);
  EXPECT_EQ(names().size(), 5u);
  save(5, /*keep=*/2);
  EXPECT_THAT(names(), ElementsAre("step-000004", "step-000005", "step-000009"));
  save(6, /*keep=*/1);
  EXPECT_THAT(names(), ElementsAre("step-000006", "step-000009"));
}

TEST_F(IntegrityTest, ItIsAModelDirectoryWithTheModelsFiles) {
  manifest.set_model_config_json(R"({"model_type": "test", "torch_dtype": "bfloat16", "dtype": "float16"})");
  abi::ModelFile &file = *manifest.add_model_files();
  file.set_name("tokenizer.json");
  file.set_content(std::string("a\0b", 3));
  std::string path = save(1);
  EXPECT_EQ(readFile(path + "/tokenizer.json"), std::string("a\0b", 3));
  auto config = nlohmann::json::parse(readFile(path + "/config.json"));
  EXPECT_EQ(config, (nlohmann::json{{"model_type", "test"}, {"torch_dtype", "float32"}, {"dtype", "float32"}}));
  flip(path + "/tokenizer.json", 1, 0);
  EXPECT_THAT(verify(path)[0], HasSubstr("tokenizer.json"));
  file.set_name("../tokenizer.json");
  EXPECT_THAT(asRanks(manifest,
                      [&](RankState &state, Communicator &communicator) {
                        saveCheckpoint(state, communicator, directory.path, stateAt(2));
                      })[0],
              HasSubstr("a file named '../tokenizer.json'"));
}

TEST_F(IntegrityTest, AbsurdTrainerStatesAreRefused) {
  std::string path = save(1) + "/trainer_state.json";
  nlohmann::ordered_json good = nlohmann::ordered_json::parse(readFile(path));
  auto refusal = [&](const std::string &text) -> std::string {
    std::ofstream(path) << text;
    return refusalOf([&] { readTrainerState(path); });
  };
  EXPECT_EQ(refusal(good.dump()), "no error");
  for (const char *key : {"step", "samples", "seed", "sequence_length"})
    for (const nlohmann::ordered_json &value : std::initializer_list<nlohmann::ordered_json>{
             -1, 1.5, 1e300, UINT64_MAX, "7", nullptr, true, nlohmann::ordered_json::array({1})}) {
      nlohmann::ordered_json changed = good;
      changed[key] = value;
      EXPECT_THAT(refusal(changed.dump()), AllOf(HasSubstr(path), HasSubstr("'" + std::string(key) + "'")));
    }
  nlohmann::ordered_json many = good;
  many["samples"] = INT64_MAX;
  EXPECT_THAT(refusal(many.dump()), HasSubstr("its 'samples' is 9223372036854775807, not a whole number from 0 to"));
  std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_THAT(refusal(deep), HasSubstr("nested more than 64 deep"));
  EXPECT_THAT(refusal("{\"step\": " + deep + "}"), HasSubstr("nested more than 64 deep"));
  EXPECT_THAT(refusal(std::string(11'000'000, ' ')), HasSubstr("at most 10000000"));
  for (const auto &[key, value] : good.items()) {
    nlohmann::ordered_json lacking = good;
    lacking.erase(key);
    if (key != "model") // for people
      EXPECT_THAT(refusal(lacking.dump()), HasSubstr("no '" + key + "'"));
  }
}

TEST(Publishing, ReplacesAFolderWhereNamesCannotBeExchanged) {
  for (int problem : {0, EINVAL, EXDEV}) {
    TemporaryDirectory folder;
    for (const char *name : {"step", "step.tmp"}) {
      fs::create_directory(folder / name);
      folder.write(std::string(name) + "/content", name);
    }
    exchangeProblem = problem;
    publishDirectory(folder / "step.tmp", folder / "step");
    exchangeProblem = 0;
    std::ifstream file(folder / "step/content");
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "step.tmp") << problem;
    EXPECT_FALSE(fs::exists(folder / "step.tmp"));
  }
}

} // namespace
} // namespace dtc::test
