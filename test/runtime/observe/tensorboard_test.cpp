#include "runtime/observe/tensorboard.h"

#include "test/runtime/temporary_directory.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <iterator>

using namespace dtc;
using namespace dtc::test;
using testing::HasSubstr;

namespace {

// RFC 3720, B.4.
TEST(Crc32c, IsThatOfTheStandard) {
  std::string ascending, descending;
  for (char i = 0; i < 32; ++i) {
    ascending += i;
    descending += static_cast<char>(31 - i);
  }
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c(ascending), 0x46dd794eu);
  EXPECT_EQ(crc32c(descending), 0x113fdb5cu);
}

std::string readFile(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The same events as test/e2e/events/record.py has written by TensorBoard's own writer: the same bytes.
TEST(EventWriter, WritesWhatTensorBoardWrites) {
  TemporaryDirectory directory;
  std::string folder = directory / "";
  {
    EventWriter writer(folder);
    writer.goOnAfter(1);
    EXPECT_EQ(writer.append(1, 1700000001.5, {{"loss_metrics/global_avg_loss", 5.25}, {"lr", 0.001}}), "");
    EXPECT_EQ(writer.append(2, 1700000002.5, {{"loss_metrics/global_avg_loss", 4.5}, {"lr", 0.0005}}), "");
    EXPECT_EQ(writer.append(300, 1700000300.5, {{"loss_metrics/global_avg_loss", -1e-30}, {"lr", 3e38}}), "");
    writer.close();
  }
  std::string ours = readFile(std::filesystem::directory_iterator(folder)->path());
  std::string theirs = readFile(DTC_SOURCE_DIR "/test/e2e/events/recorded.tfevents");
  // The version comes first, with the time of writing; theirs names the writer too. Then a start of step 2, likewise.
  EXPECT_THAT(ours, HasSubstr("\x1a\x0d"
                              "brain.Event:2"));
  EXPECT_THAT(ours, HasSubstr(std::string("\x10\x02\x3a\x02\x08\x01")));
  size_t firstOfSteps = theirs.find(std::string("H=\0\0\0\0\0\0\0", 9)) + 1;
  ASSERT_NE(firstOfSteps, 0u);
  std::string steps = theirs.substr(firstOfSteps);
  ASSERT_GE(ours.size(), steps.size());
  EXPECT_EQ(ours.substr(ours.size() - steps.size()), steps);
}

TEST(EventWriter, LeavesNothingOfARunThatDoesNotBegin) {
  TemporaryDirectory directory;
  std::string folder = directory / "";
  { EventWriter writer(folder); }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

} // namespace
