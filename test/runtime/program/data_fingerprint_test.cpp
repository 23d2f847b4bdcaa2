#include "runtime/program/data_fingerprint.h"

#include "runtime/checkpoint/checksums.h"
#include "runtime/data/token_writer.h"
#include "runtime/support/error.h"
#include "test/runtime/temporary_directory.h"

#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>

using testing::HasSubstr;

namespace dtc::test {
namespace {

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
  // What is between is not read now, and an invalid token is reported when it is.
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
