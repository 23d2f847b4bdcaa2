// The size of the file in which the processes of a job meet.
#include "runtime/meeting/job_file.h"
#include "test/runtime/temporary_directory.h"

#include <array>
#include <atomic>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <thread>

namespace dtc::test {
namespace {

uint64_t sizeOf(const JobFile &file) {
  struct stat status;
  EXPECT_EQ(fstat(file.descriptor(), &status), 0);
  return status.st_size;
}

TEST(JobFile, GrowsButNeverShrinks) {
  TemporaryDirectory root;
  JobFile file(root / "dtc/job", 0);
  file.grow(8192, /*allocate=*/true);
  file.grow(4096, /*allocate=*/true);
  EXPECT_EQ(sizeOf(file), 8192u);
  file.grow(4096, /*allocate=*/false);
  EXPECT_EQ(sizeOf(file), 8192u);
  file.grow(1 << 20, /*allocate=*/false);
  EXPECT_EQ(sizeOf(file), uint64_t(1 << 20));
}

// A rank that takes the memory back that another has just mapped ends that rank by SIGBUS.
TEST(JobFile, RanksThatGrowItAtOnceGetTheLargest) {
  TemporaryDirectory root;
  constexpr std::array<uint64_t, 2> Bytes = {4096, 65536};
  for (int round = 0; round < 500; ++round) {
    std::string name = root / ("dtc/job" + std::to_string(round));
    JobFile first(name, 0), second(name, 1);
    std::atomic<int> ready = 0;
    auto grow = [&](JobFile &file, uint64_t bytes) {
      for (++ready; ready < 2;) // both at once
        ;
      file.grow(bytes, /*allocate=*/true);
      EXPECT_GE(sizeOf(file), bytes);
    };
    std::thread other([&] { grow(second, Bytes[1]); });
    grow(first, Bytes[0]);
    other.join();
    ASSERT_EQ(sizeOf(first), Bytes[1]) << "in round " << round;
    second.removeName();
  }
}

} // namespace
} // namespace dtc::test
