// What is written when a job fails: whatever is at its path, the job ends.
#include "runtime/liveness/flight_record.h"

#include "runtime/comm/local/in_process.h"
#include "test/runtime/temporary_directory.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

namespace dtc::test {
namespace {

TEST(FlightRecord, NothingInItsPlaceIsWaitedForOrWrittenThrough) {
  TemporaryDirectory directory;
  InProcessJob job(1);
  Arena arena(4096, 0);
  auto communicator = job.join(0, arena);
  communicator->whereabouts().noteFolder(directory.path.string());
  auto write = [&] { return writeFlightRecord(*communicator->meetingPlace(), [](int, auto &) { return ""; }, ""); };
  std::string path = directory / "flight-record.txt";
  EXPECT_EQ(write(), path);
  EXPECT_THAT(readFile(path), testing::HasSubstr("rank 0: step 0"));
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(write(), "") << "a pipe that nobody reads";
  EXPECT_TRUE(std::filesystem::is_fifo(path));
}

} // namespace
} // namespace dtc::test
