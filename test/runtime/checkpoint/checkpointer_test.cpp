// Checkpoints that are written while the state continues to change.
#include "runtime/checkpoint/checkpointer.h"
#include "test/runtime/program/manifests.h"

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/integrity.h"
#include "runtime/device/cpu_device.h"
#include "test/runtime/checkpoint/states.h"
#include "test/runtime/temporary_directory.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <gmock/gmock.h>
#include <mutex>
#include <sys/resource.h>

namespace fs = std::filesystem;

namespace dtc::test {
namespace {

TrainerState after(int64_t step) { return {.step = step, .samples = 1, .seed = 6, .sequenceLength = 16}; }

/// A different number at each place, and for each `value`.
float valueAt(float value, int64_t place) { return value + static_cast<float>(place % 7919); }

void setAll(const RankState &state, float value) {
  for (const auto *tensors : {&state.parameters(), &state.moments()})
    for (const StateTensor &tensor : *tensors)
      state.write(tensor, [&](const FileRun &run, std::span<float> values) {
        for (size_t i = 0; i < values.size(); ++i)
          values[i] = valueAt(value, run.logical + static_cast<int64_t>(i));
      });
}

bool holdsAll(const RankState &state, float value) {
  bool same = true;
  for (const auto *tensors : {&state.parameters(), &state.moments()})
    for (const StateTensor &tensor : *tensors)
      state.read(tensor, [&](const FileRun &run, std::span<const float> values) {
        for (size_t i = 0; i < values.size(); ++i)
          same &= values[i] == valueAt(value, run.logical + static_cast<int64_t>(i));
      });
  return same;
}

/// The exchange at the end of a step.
std::optional<std::string> exchangeNews(Checkpointer &checkpointer, Communicator &communicator, const StepNews &own) {
  std::vector<StepNews> all;
  for (int64_t packed : communicator.exchange(own.pack()))
    all.push_back(StepNews::unpack(packed));
  return checkpointer.take(all);
}

std::optional<std::string> exchangeNews(Checkpointer &checkpointer, Communicator &communicator) {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return exchangeNews(checkpointer, communicator, checkpointer.news());
}

std::vector<std::string> namesIn(const fs::path &folder) {
  std::vector<std::string> names;
  for (const auto &entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

/// One parameter of `elements`, of which all `ranks` store all: on host memory.
std::vector<std::string> onHosts(int64_t elements, int ranks, const Body &body) {
  abi::Manifest manifest;
  manifest.mutable_training()->set_sequence_length(16);
  abi::Axis &axis = *manifest.mutable_mesh()->add_axes();
  axis.set_name("dp");
  axis.set_size(ranks);
  test::setArena(*manifest.add_roles(), static_cast<uint64_t>(2 * elements * 4));
  for (int number : {0, 1}) {
    abi::Parameter &parameter = *manifest.add_parameters();
    parameter.set_name("p" + std::to_string(number));
    for (auto *shape :
         {parameter.mutable_file_shape(), parameter.mutable_factored_shape(), parameter.mutable_logical_shape()})
      shape->Add(elements);
    parameter.add_permutation(0);
    abi::Tensor &tensor = *manifest.mutable_roles(0)->add_tensors();
    tensor.set_parameter(number);
    tensor.set_address(static_cast<uint64_t>(number * elements * 4));
    tensor.add_global_shape(elements);
    tensor.add_local_shape(elements);
  }
  InProcessJob job(ranks);
  std::vector<std::string> problems(static_cast<size_t>(ranks));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Arena arena(static_cast<uint64_t>(elements * 8), 0);
      std::unique_ptr<Communicator> communicator = job.join(rank, arena);
      CpuDevice device(1);
      RankState state(manifest, rank, device, arena);
      try {
        body(state, *communicator);
      } catch (const Error &error) {
        problems[static_cast<size_t>(rank)] =
            "exit code " + std::to_string(int(error.exitCode())) + ": " + error.what();
      }
    });
  threads.clear();
  return problems;
}

/// Two ranks with checkpointers of their state; neither fails.
void withCheckpointers(const std::string &root, const Checkpointer::Options &options,
                       const std::function<void(Communicator &, Checkpointer &)> &body) {
  EXPECT_THAT(asRanks(Megatron,
                      [&](RankState &state, Communicator &communicator) {
                        fill(state);
                        Checkpointer checkpointer(state, communicator, root, options);
                        body(communicator, checkpointer);
                      }),
              Each(""));
}

TEST(StepNews, SurvivesPacking) {
  for (int signal : {0, 2, 15, 64})
    for (int phases : {0, 1, 3})
      for (int failure : {0, 1, 5})
        for (int64_t interval : {int64_t(0), int64_t(1), StepNews::MostInterval}) {
          StepNews news = StepNews::unpack(StepNews{signal, phases, failure, interval}.pack());
          EXPECT_EQ(news.signal, signal);
          EXPECT_EQ(news.phases, phases);
          EXPECT_EQ(news.failure, failure);
          EXPECT_EQ(news.interval, interval);
        }
}

// Whatever else is reported, up to the largest.
TEST(StepNews, TellsHowLongARankComputedToFiveDigits) {
  for (double seconds : {0.0, 1e-6, 3.3e-4, 0.0125, 1.0, 61.5, 3600.0}) {
    StepNews news = StepNews::unpack(StepNews{64, 3, 5, StepNews::MostInterval, seconds}.pack());
    EXPECT_NEAR(news.computed, seconds, 2e-5 * seconds + 1e-10);
    EXPECT_EQ(news.interval, StepNews::MostInterval);
    EXPECT_EQ(news.signal, 64);
  }
  EXPECT_GT(StepNews::unpack(StepNews{0, 0, 0, 0, 1e9}.pack()).computed, 4000) << "longer is told as more than an hour";
  EXPECT_EQ(StepNews::unpack(StepNews{0, 0, 0, 0, -1}.pack()).computed, 0);
}

// So large that the copy takes some milliseconds: a step that does not wait for it spoils it.
TEST(Checkpointer, WritesTheStateAsItWasWhenBegun) {
  TemporaryDirectory directory;
  std::vector<std::string> problems = onHosts(8 << 20, 2, [&](RankState &state, Communicator &communicator) {
    EXPECT_TRUE(state.readsAside());
    Checkpointer checkpointer(state, communicator, directory.path, {});
    checkpointer.prepare();
    for (int step : {1, 2, 3}) {
      setAll(state, static_cast<float>(step));
      checkpointer.begin(after(step));
      checkpointer.awaitCopy();
      EXPECT_FALSE(checkpointer.isCopying());
      setAll(state, -1);
      checkpointer.finish();
    }
    for (int step : {1, 2, 3}) {
      std::string path = directory / ("step-00000" + std::to_string(step));
      verifyCheckpoint(communicator, path);
      EXPECT_EQ(loadCheckpoint(state, communicator, path).step, step);
      EXPECT_TRUE(holdsAll(state, static_cast<float>(step)));
    }
  });
  EXPECT_THAT(problems, Each(""));
  EXPECT_THAT(namesIn(directory.path), ElementsAre("step-000001", "step-000002", "step-000003"));
}

// Where the host cannot read the state while the device works, it is copied on return.
TEST(Checkpointer, CopiesAtOnceFromADeviceOfItsOwn) {
  TemporaryDirectory directory;
  EXPECT_THAT(asRanks(Padded,
                      [&](RankState &state, Communicator &communicator) {
                        EXPECT_FALSE(state.readsAside());
                        fill(state);
                        Checkpointer checkpointer(state, communicator, directory.path, {});
                        checkpointer.begin(after(4));
                        setAll(state, -1);
                        std::string path = *checkpointer.finish();
                        loadCheckpoint(state, communicator, path);
                        EXPECT_EQ(countWrong(state), 0);
                      }),
              Each(""));
}

// It has no exchange of its own: it shares those of the steps, and the third one shows that it is complete.
TEST(Checkpointer, GoesOnWithTheExchangesOfSteps) {
  TemporaryDirectory directory;
  withCheckpointers(directory.path, {}, [&](Communicator &communicator, Checkpointer &checkpointer) {
    EXPECT_EQ(exchangeNews(checkpointer, communicator), std::nullopt) << "none under way";
    checkpointer.begin(after(7));
    std::optional<std::string> path;
    int steps = 0;
    for (; !path && steps < 10000; ++steps)
      path = exchangeNews(checkpointer, communicator);
    EXPECT_EQ(path, directory / "step-000007");
    EXPECT_GE(steps, 3);
    EXPECT_EQ(exchangeNews(checkpointer, communicator), std::nullopt) << "told once";
    EXPECT_EQ(checkpointer.finish(), std::nullopt);
    verifyCheckpoint(communicator, *path);
  });
}

// Called by rank 0, between two steps.
TEST(Checkpointer, TellsOfACheckpointAsSoonAsItIsThere) {
  TemporaryDirectory directory;
  EXPECT_THAT(asRanks(Megatron,
                      [&](RankState &state, Communicator &communicator) {
                        fill(state);
                        std::atomic<int64_t> told = 0;
                        Checkpointer checkpointer(state, communicator, directory.path,
                                                  {.onPublished = [&](int64_t step) { told = step; }});
                        checkpointer.begin(after(7));
                        std::optional<std::string> path;
                        while (!path) {
                          StepNews own = checkpointer.news();
                          if (own.phases == 3)
                            EXPECT_EQ(told, 7) << "before the ranks tell each other";
                          path = exchangeNews(checkpointer, communicator, own);
                        }
                        EXPECT_EQ(told, communicator.rank() == 0 ? 7 : 0);
                      }),
              Each(""));
}

// The other rank has not written yet, then not hashed yet: nobody continues before it has.
TEST(Checkpointer, NoRankGoesOnBeforeAllAreReady) {
  TemporaryDirectory directory;
  withCheckpointers(directory.path, {}, [&](Communicator &communicator, Checkpointer &checkpointer) {
    checkpointer.begin(after(1));
    for (int phases : {1, 2}) {
      while (checkpointer.news().phases < phases)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::vector<StepNews> all(2, {.phases = phases});
      all[1 - communicator.rank()].phases = phases - 1;
      EXPECT_EQ(checkpointer.take(all), std::nullopt);
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      EXPECT_EQ(checkpointer.news().phases, phases);
      communicator.barrier();
      exchangeNews(checkpointer, communicator);
    }
    checkpointer.finish();
  });
}

TEST(Checkpointer, ThatEndsEarlyLeavesNothing) {
  TemporaryDirectory directory;
  asRanks(Alone, [&](RankState &state, Communicator &communicator) {
    fill(state);
    Checkpointer checkpointer(state, communicator, directory / "checkpoints", {});
    checkpointer.begin(after(1));
  });
  EXPECT_FALSE(fs::exists(directory / "checkpoints"));
}

//===----------------------------------------------------------------------===//
// What fails
//===----------------------------------------------------------------------===//

/// The message of each rank when the checkpoint after step 2 fails in the background; the one after step 1 exists.
std::vector<std::string> failing(const fs::path &root, const std::function<void(RankState &)> &spoil) {
  return asRanks(Megatron, [&](RankState &state, Communicator &communicator) {
    fill(state);
    Checkpointer checkpointer(state, communicator, root, {});
    checkpointer.begin(after(1));
    EXPECT_EQ(checkpointer.finish(), root / "step-000001");
    spoil(state);
    communicator.barrier();
    checkpointer.begin(after(2));
    checkpointer.awaitCopy();
    for (int steps = 0; steps < 20000; ++steps) // training continues until the failure is reported
      EXPECT_EQ(exchangeNews(checkpointer, communicator), std::nullopt);
    ADD_FAILURE() << "nothing was told";
  });
}

TEST(Checkpointer, AFolderThatVanishesIsTold) {
  TemporaryDirectory directory;
  std::vector<std::string> problems = failing(directory / "run", [&](RankState &state) {
    if (state.rank() == 0)
      fs::rename(directory / "run", directory / "moved");
  });
  EXPECT_THAT(problems[0], AllOf(HasSubstr("exit code 1: the checkpoint after step 2: cannot write '"),
                                 HasSubstr("run/step-000002."), HasSubstr("No such file or directory")));
  EXPECT_EQ(problems[1], "exit code 1: ");
  EXPECT_FALSE(fs::exists(directory / "run")) << "made again, it would look as if all were well";
  EXPECT_THAT(namesIn(directory / "moved"), ElementsAre("step-000001"));
}

// Between writing and reading back: the disk failed, not the user.
TEST(Checkpointer, WhatCannotBeReadBackIsNoBadInput) {
  TemporaryDirectory directory;
  std::vector<std::string> problems = asRanks(Alone, [&](RankState &state, Communicator &communicator) {
    fill(state);
    Checkpointer checkpointer(state, communicator, directory / "run", {});
    checkpointer.begin(after(1));
    while (checkpointer.news().phases < 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    fs::rename(directory / "run", directory / "moved");
    checkpointer.finish();
  });
  EXPECT_THAT(problems[0], AllOf(HasSubstr("exit code 1: the checkpoint after step 1: cannot read '"),
                                 HasSubstr("No such file or directory")));
}

TEST(Checkpointer, AFullDiskIsToldByTheRankThatMeetsIt) {
  TemporaryDirectory directory;
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  std::vector<std::string> problems = failing(directory.path, [&](RankState &state) {
    if (state.rank() == 0) {
      rlimit small{500, before.rlim_max};
      setrlimit(RLIMIT_FSIZE, &small);
    }
  });
  setrlimit(RLIMIT_FSIZE, &before);
  // Both may hit it: the limit applies to the process. One reports it.
  std::ranges::sort(problems);
  EXPECT_EQ(problems[0], "exit code 1: ");
  EXPECT_THAT(problems[1], AllOf(HasSubstr("exit code 1: the checkpoint after step 2: cannot write '"),
                                 HasSubstr("File too large"), HasSubstr("are as they were")));
  EXPECT_THAT(namesIn(directory.path), ElementsAre("step-000001"));
}

TEST(Checkpointer, WhatIsNotFiniteIsToldByTheRankThatHoldsIt) {
  TemporaryDirectory directory;
  std::vector<std::string> problems = failing(directory.path, [&](RankState &state) {
    if (state.rank() == 1)
      setAll(state, INFINITY);
  });
  EXPECT_EQ(problems[0], "exit code 5: ");
  EXPECT_THAT(problems[1],
              AllOf(HasSubstr("exit code 5: after step 2: element "), HasSubstr(" is inf; no checkpoint")));
  EXPECT_THAT(namesIn(directory.path), ElementsAre("step-000001"));
}

/// Addresses that this process has.
uint64_t addressBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0;
  file >> pages;
  return pages * 4096;
}

TEST(Checkpointer, WithoutMemoryForACopyTrainingWaits) {
  TemporaryDirectory directory;
  rlimit before;
  getrlimit(RLIMIT_AS, &before);
  std::vector<std::string> warnings;
  constexpr int64_t Elements = 16 << 20;
  std::vector<std::string> problems = onHosts(Elements, 1, [&](RankState &state, Communicator &communicator) {
    setAll(state, 3);
    Checkpointer checkpointer(state, communicator, directory.path,
                              {.warn = [&](const std::string &message) { warnings.push_back(message); }});
    for (int step : {1, 2}) {
      rlimit small{addressBytes() + 64'000'000, before.rlim_max};
      setrlimit(RLIMIT_AS, &small);
      checkpointer.begin(after(step));
      setrlimit(RLIMIT_AS, &before);
      EXPECT_EQ(checkpointer.news().phases, 1) << "written on return";
      checkpointer.finish();
    }
    verifyCheckpoint(communicator, directory / "step-000002");
  });
  EXPECT_THAT(problems, Each(""));
  EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("128 MiB"), HasSubstr("training waits while checkpoints"))));
}

//===----------------------------------------------------------------------===//
// Old ones
//===----------------------------------------------------------------------===//

// Two are kept. The newest on disk is damaged while the next one is written: at every moment, one of the others is
// good.
TEST(Checkpointer, PrunesWhenTheNewOneIsThereAndNotBefore) {
  TemporaryDirectory directory;
  withCheckpointers(directory.path, {.keep = 2}, [&](Communicator &communicator, Checkpointer &checkpointer) {
    for (int step : {1, 2}) {
      checkpointer.begin(after(step));
      checkpointer.finish();
    }
    checkpointer.begin(after(3));
    if (communicator.rank() == 0)
      fs::resize_file(directory / "step-000002/model.safetensors", 100);
    EXPECT_TRUE(fs::exists(directory / "step-000001/checksums.txt")) << "3 is not there yet";
    communicator.barrier();
    std::string chosen = chooseCheckpoint(communicator, directory.path, true, [](auto &) {});
    EXPECT_EQ(chosen, directory / "step-000001");
    checkpointer.finish();
    chosen = chooseCheckpoint(communicator, directory.path, true, [](auto &) {});
    EXPECT_EQ(chosen, directory / "step-000003");
  });
  EXPECT_THAT(namesIn(directory.path), ElementsAre("step-000002", "step-000003"));
}

} // namespace
} // namespace dtc::test
