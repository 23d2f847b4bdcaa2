#include "runtime/program/rank_consistency.h"

#include "runtime/comm/local/in_process.h"
#include "runtime/program/train/resume.h"
#include "runtime/support/error.h"
#include "test/runtime/temporary_directory.h"

#include <fmt/format.h>
#include <functional>
#include <gmock/gmock.h>
#include <thread>

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

namespace dtc::test {
namespace {

/// What each of three ranks throws.
std::vector<std::string> onRanks(const std::function<void(Communicator &)> &body) {
  InProcessJob job(3);
  std::vector<std::string> problems(3);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      Arena arena(0, 0);
      std::unique_ptr<Communicator> communicator = job.join(rank, arena);
      try {
        body(*communicator);
      } catch (const Error &error) {
        problems[static_cast<size_t>(rank)] = fmt::format("{}: {}", int(error.exitCode()), error.what());
      }
    });
  threads.clear();
  return problems;
}

std::vector<std::string> withValue(const std::string &name, const std::string &value) {
  return onRanks([&](Communicator &communicator) {
    std::map<std::string, std::string> values = {
        {"learning_rate", "0.001"}, {"schedule", "\"cosine\""}, {"the program", "0123456789abcdef-01 (dp=2)"}};
    if (communicator.rank() == 2)
      values[name] = value;
    requireSameConfiguration(communicator, values);
  });
}

TEST(RankConsistency, NamesTheRankAndTheSettingThatDiffers) {
  EXPECT_THAT(withValue("learning_rate", "0.001"), Each(""));
  EXPECT_THAT(
      withValue("learning_rate", "0.0015"),
      ElementsAre(HasSubstr("3: rank 2 was started with learning_rate = 0.0015, rank 0 with 0.001; "), "3: ", "3: "));
  EXPECT_THAT(withValue("schedule", "")[0], HasSubstr("rank 2 was started with schedule = , rank 0 with \"cosine\"; "));
  EXPECT_THAT(withValue("the program", "0123456789abcdef-02 (dp=2)")[0],
              HasSubstr("the program = 0123456789abcdef-02 (dp=2), rank 0 with 0123456789abcdef-01 (dp=2)"));
  EXPECT_THAT(withValue("unknown", "1")[0], HasSubstr("rank 2 runs another version"));
}

TEST(RankConsistency, NamesTheRankWithOtherData) {
  auto withData = [](const DataFingerprint &other) {
    return onRanks([&](Communicator &communicator) {
      requireSameData(communicator, "--data", communicator.rank() == 1 ? other : DataFingerprint{4000, 0xabc});
    });
  };
  EXPECT_THAT(withData({4000, 0xabc}), Each(""));
  EXPECT_THAT(
      withData({4000, 0xabd}),
      ElementsAre(HasSubstr("3: --data: rank 1 has 4000 bytes with the checksum 0000000000000abd, rank 0 has 4000 "
                            "bytes with the checksum 0000000000000abc; "),
                  "3: ", "3: "));
  EXPECT_THAT(withData({3998, 0xabc})[0], HasSubstr("rank 1 has 3998 bytes"));
}

// A file system between hosts shows each of them the others' files only after some time.
TEST(RankConsistency, RankZeroSaysWhetherAJobThatWasStartedAgainGoesOn) {
  for (int first : {0, 1}) {
    TemporaryDirectory directory;
    std::filesystem::create_directories(directory / "0/checkpoints/step-000005");
    std::vector<std::string> resumed(3);
    onRanks([&](Communicator &communicator) {
      int rank = communicator.rank();
      ProgramOptions options;
      options.startedAgain = true;
      options.weights = "weights";
      options.out = directory / (rank == 0 ? std::to_string(first) : std::to_string(1 - first));
      goOnWhereStartedAgain(options, communicator);
      EXPECT_EQ(options.weights.empty(), first == 0);
      resumed[static_cast<size_t>(rank)] = options.resume.empty() ? "" : "resumed";
    });
    EXPECT_THAT(resumed, Each(first == 0 ? "resumed" : ""));
  }
}

} // namespace
} // namespace dtc::test
