#include "runtime/program/agreement.h"

#include "runtime/checkpoint/checksums.h"
#include "runtime/comm/local/in_process.h"
#include "runtime/data/token_writer.h"
#include "runtime/program/train/resume.h"
#include "runtime/support/error.h"
#include "test/runtime/temporary_directory.h"

#include <cstring>
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

TEST(Agreement, NamesTheRankAndTheSettingThatDiffers) {
  EXPECT_THAT(withValue("learning_rate", "0.001"), Each(""));
  EXPECT_THAT(
      withValue("learning_rate", "0.0015"),
      ElementsAre(HasSubstr("3: rank 2 was started with learning_rate = 0.0015, rank 0 with 0.001; "), "3: ", "3: "));
  EXPECT_THAT(withValue("schedule", "")[0], HasSubstr("rank 2 was started with schedule = , rank 0 with \"cosine\"; "));
  EXPECT_THAT(withValue("the program", "0123456789abcdef-02 (dp=2)")[0],
              HasSubstr("the program = 0123456789abcdef-02 (dp=2), rank 0 with 0123456789abcdef-01 (dp=2)"));
  EXPECT_THAT(withValue("unknown", "1")[0], HasSubstr("rank 2 runs another version"));
}

TEST(Agreement, NamesTheRankWithOtherData) {
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

// A file system between hosts shows each of them in its own time what another has written.
TEST(Agreement, RankZeroSaysWhetherAJobThatWasStartedAgainGoesOn) {
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

//===----------------------------------------------------------------------===//
// Fingerprints
//===----------------------------------------------------------------------===//

class FingerprintTest : public testing::Test {
protected:
  /// A token file of zeros, which takes no space on disk.
  std::string zeros(const char *name, int32_t tokens) {
    std::string path = directory / name;
    writeTokenFile(path, std::vector<uint16_t>(1, 0));
    std::filesystem::resize_file(path, 1024 + 2 * static_cast<uint64_t>(tokens));
    put(path, 8, tokens);
    return path;
  }

  template <typename T> static void put(const std::string &path, uint64_t byte, T value) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(byte));
    file.write(reinterpret_cast<const char *>(&value), sizeof(value));
  }

  TemporaryDirectory directory;
};

TEST_F(FingerprintTest, OfSmallFilesIsOfAllOfThem) {
  std::string path = zeros("small", 1000);
  TokenData data({path});
  DataFingerprint before = fingerprintOf(data);
  EXPECT_EQ(before, fingerprintOf(data, /*whole=*/true));
  EXPECT_EQ(before.bytes, 2000u);
  put<uint16_t>(path, 1024 + 2 * 777, 1);
  EXPECT_NE(fingerprintOf(TokenData({path})), before);
  EXPECT_NE(fingerprintOf(TokenData({path, path})), fingerprintOf(TokenData({path})));
}

// Where documents begin decides what attention sees.
TEST_F(FingerprintTest, IsOfTheIndexToo) {
  auto write = [&](int first) {
    TokenFileWriter writer(directory / "a.bin", {.format = TokenFile::Format::Megatron});
    for (int token = 0; token < 8; ++token) {
      writer.append(std::vector<uint16_t>{0});
      if (token == first)
        writer.endDocument();
    }
    writer.publish();
    return fingerprintOf(TokenData({directory / "a.bin"}));
  };
  DataFingerprint before = write(2);
  EXPECT_EQ(before, write(2));
  EXPECT_NE(before, write(3));
}

TEST_F(FingerprintTest, OfLargeFilesIsOfBlocksFromTheFirstToTheLast) {
  constexpr int32_t Tokens = 100'000'000; // 200 MB
  std::string path = zeros("large", Tokens);
  TokenData data({path});
  std::vector<std::span<const std::byte>> blocks = sampleOf(data.files()[0].bytes());
  const std::byte *begin = data.files()[0].bytes().data();
  ASSERT_EQ(blocks.size(), 1024u);
  EXPECT_EQ(blocks.front().data(), begin);
  EXPECT_EQ(blocks.back().data() + blocks.back().size(), begin + 2 * Tokens);
  for (size_t i = 1; i < blocks.size(); ++i) {
    EXPECT_EQ(blocks[i].size(), 65536u);
    EXPECT_NEAR(static_cast<double>(blocks[i].data() - blocks[i - 1].data()), (2.0 * Tokens - 65536) / 1023, 8192);
  }
  DataFingerprint before = fingerprintOf(data), whole = fingerprintOf(data, /*whole=*/true);
  EXPECT_NE(before, whole);
  for (size_t block : {0, 500, 1023}) { // its last token
    auto byte = static_cast<uint64_t>(blocks[block].data() + 65534 - begin);
    put<uint16_t>(path, 1024 + byte, 1);
    EXPECT_NE(fingerprintOf(TokenData({path})), before) << block;
    put<uint16_t>(path, 1024 + byte, 0);
  }
  EXPECT_EQ(fingerprintOf(TokenData({path})), before);
  EXPECT_NE(fingerprintOf(TokenData({zeros("shorter", Tokens - 1)})), before);
  // What lies between is not read now, and a token that is none is told when it is.
  auto between = static_cast<size_t>(blocks[500].data() + 65536 - begin) / 2;
  put<uint16_t>(path, 1024 + 2 * between, 300);
  TokenData changed({path});
  EXPECT_EQ(fingerprintOf(changed), before);
  EXPECT_NE(fingerprintOf(changed, /*whole=*/true), whole);
  EXPECT_NO_THROW(changed.checkVocabulary(256));
  std::vector<int32_t> out(10);
  changed.copyTokens(between - 10, out, 256);
  for (auto copy : std::initializer_list<std::function<void()>>{[&] { changed.copyTokens(between - 9, out, 256); },
                                                                [&] { changed.copyTargets(between, out, -100, 256); }})
    try {
      copy();
      ADD_FAILURE() << "taken";
    } catch (const Error &error) {
      EXPECT_EQ(error.exitCode(), ExitCode::BadInput);
      EXPECT_THAT(error.what(),
                  HasSubstr(fmt::format("position {} is 300, but the model's vocabulary has 256", between)));
    }
  put<uint16_t>(path, 1024 + 2 * static_cast<uint64_t>(Tokens - 1), 300);
  EXPECT_THROW(TokenData({path}).checkVocabulary(256), Error) << "in the last block";
}

} // namespace
} // namespace dtc::test
