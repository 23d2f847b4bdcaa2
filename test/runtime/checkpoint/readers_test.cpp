// Hosts with different files: all ranks load the same from them, or nothing begins.
#include "runtime/checkpoint/readers.h"

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/integrity.h"
#include "runtime/support/error.h"
#include "test/runtime/checkpoint/states.h"
#include "test/runtime/temporary_directory.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <mutex>

namespace fs = std::filesystem;

namespace dtc::test {
namespace {

/// Ranks 0 and 2 see the folder "here", ranks 1 and 3 the folder "there".
const Layout Four{2, 2, {"", "tp", "", ""}, ""};

class ReadersTest : public testing::Test {
protected:
  std::string root(int rank) { return directory / (rank % 2 ? "there" : "here"); }
  static std::string nameOf(int64_t step) { return fmt::format("step-{:06}", step); }

  /// Checkpoints after these steps in "here", and copies of them in "there".
  void save(std::initializer_list<int64_t> steps) {
    for (int64_t step : steps)
      EXPECT_THAT(asRanks(Four,
                          [&](RankState &state, Communicator &communicator) {
                            fill(state);
                            saveCheckpoint(state, communicator, root(0),
                                           {.step = step, .samples = 4 * step, .seed = 6, .sequenceLength = 16});
                          }),
                  Each(""));
    fs::copy(root(0), root(1), fs::copy_options::recursive);
  }

  void flipLastByte(const std::string &path) {
    std::string text = readFile(path);
    text.back() = static_cast<char>(text.back() ^ 0x40);
    std::ofstream(path, std::ios::binary) << text;
  }

  std::vector<std::string> loadWeights(bool verify = true) {
    return asRanks(Four, [&](RankState &state, Communicator &communicator) {
      dtc::loadWeights(state, communicator, root(state.rank()) + "/" + nameOf(5), verify);
    });
  }

  /// The step from which every rank resumes, or what it threw. `suffixes`: what follows "here" and "there".
  std::vector<std::string> resume(std::array<std::string, 2> suffixes = {}, bool verify = true) {
    std::vector<std::string> steps(4);
    std::mutex mutex;
    std::vector<std::string> problems = asRanks(Four, [&](RankState &state, Communicator &communicator) {
      int rank = state.rank();
      std::string path = chooseCheckpoint(communicator, root(rank) + suffixes[static_cast<size_t>(rank % 2)], verify,
                                          [&](const std::string &message) {
                                            std::lock_guard lock(mutex);
                                            warnings.push_back(message);
                                          });
      EXPECT_THAT(path, HasSubstr(root(rank)));
      steps[static_cast<size_t>(rank)] = std::to_string(loadCheckpoint(state, communicator, path, verify).step);
    });
    for (size_t rank = 0; rank < 4; ++rank)
      steps[rank] += problems[rank];
    return steps;
  }

  TemporaryDirectory directory;
  std::vector<std::string> warnings;
};

TEST_F(ReadersTest, RanksOfOneFolderShareItsParts) {
  save({5});
  std::array<std::array<int, 4>, 2> timesRead = {};
  std::mutex mutex;
  asRanks(Four, [&](RankState &state, Communicator &communicator) {
    Readers readers(communicator, root(state.rank()));
    EXPECT_FALSE(readers.shareOneFolder());
    EXPECT_EQ(readers.isFirst(), state.rank() < 2);
    std::lock_guard lock(mutex);
    for (size_t part = 0; part < 4; ++part)
      timesRead[static_cast<size_t>(state.rank() % 2)][part] += readers.isMine(part);
  });
  EXPECT_THAT(timesRead, Each(ElementsAre(1, 1, 1, 1)));
  asRanks(Four, [&](RankState &, Communicator &communicator) {
    EXPECT_TRUE(Readers(communicator, root(0) + "/.").shareOneFolder());
  });
}

TEST_F(ReadersTest, WeightsThatDifferAreNamed) {
  save({5});
  EXPECT_THAT(loadWeights(), Each(""));
  std::string file = root(1) + "/" + nameOf(5) + "/model.safetensors";
  flipLastByte(file);                 // of norm.bias
  for (bool verify : {true, false}) { // published models have no checksums
    std::vector<std::string> problems = loadWeights(verify);
    EXPECT_THAT(problems, Each(HasSubstr("exit code 3: ")));
    EXPECT_THAT(problems[0] + problems[1] + problems[3], AllOf(HasSubstr("'norm.bias'"), HasSubstr(file)));
    if (!verify)
      EXPECT_THAT(problems[0], AllOf(HasSubstr("rank 1 loads it from (on "), HasSubstr(", rank 0 from (on "),
                                     HasSubstr(root(0) + "/step-000005/model.safetensors'")));
  }
}

// Another run's checkpoint is complete in itself.
TEST_F(ReadersTest, CheckpointsOfOtherRunsAreNamed) {
  save({5});
  fs::remove_all(root(1));
  asRanks(Four, [&](RankState &state, Communicator &communicator) {
    for (const StateTensor &tensor : state.parameters())
      state.write(tensor, [](const FileRun &, std::span<float> values) { std::ranges::fill(values, 0.f); });
    saveCheckpoint(state, communicator, root(1), {.step = 5, .samples = 20, .seed = 6, .sequenceLength = 16});
  });
  EXPECT_THAT(loadWeights()[0], AllOf(HasSubstr("tensor 'attn.weight'"), HasSubstr("rank 1 loads it")));
  for (bool verify : {true, false})
    EXPECT_THAT(resume({}, verify)[0], AllOf(HasSubstr("tensor 'attn.weight'"), HasSubstr("rank 1 loads it")));
  asRanks(Four, [&](RankState &state, Communicator &communicator) {
    fill(state);
    saveCheckpoint(state, communicator, root(1), {.step = 5, .samples = 24, .seed = 6, .sequenceLength = 16});
  });
  EXPECT_THAT(resume()[0], HasSubstr("rank 1 would continue after step 5 of '" + root(1)));
}

TEST_F(ReadersTest, EachHostHoldsAllThatItLoadsAgainstTheChecksums) {
  save({5});
  EXPECT_THAT(resume(), Each("5"));
  for (const char *name : {"model.safetensors", "optimizer.safetensors", "config.json", "trainer_state.json"})
    for (int host : {0, 1}) {
      std::string path = root(host) + "/" + nameOf(5) + "/" + name;
      std::string before = readFile(path);
      for (size_t back : {size_t(1), size_t(64)}) { // in the last tensor of each file, and in the first
        std::string text = before;
        char &byte = text[text.size() - std::min(back, text.size())];
        byte = static_cast<char>(byte ^ 0x40);
        std::ofstream(path, std::ios::binary) << text;
        EXPECT_THAT(resume(), Each(HasSubstr("exit code 3"))) << path << " " << back;
      }
      std::ofstream(path, std::ios::binary) << before;
    }
  EXPECT_THAT(resume(), Each("5"));
}

TEST_F(ReadersTest, AllGoOnFromTheStepThatRankZeroChose) {
  save({5, 10});
  EXPECT_THAT(resume(), Each("10"));
  EXPECT_THAT(resume({"/step-000005", "/step-000010"}),
              AllOf(Each(HasSubstr("exit code 3")),
                    testing::Contains(AllOf(HasSubstr("rank 0 chose the one of step 5, but rank 1's host has '"),
                                            HasSubstr("there/step-000010'")))));
  EXPECT_THAT(resume({"/step-000005", ""}), Each("5")) << "a folder that holds it too";
  EXPECT_THAT(warnings, IsEmpty());
  for (int host : {1, 0}) { // which lacks the newest; then both do
    fs::remove_all(root(host) + "/" + nameOf(10));
    EXPECT_THAT(resume(), Each("5"));
  }
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("rank 0 chose the one of step 10, but rank 1's host has '")));
}

} // namespace
} // namespace dtc::test
