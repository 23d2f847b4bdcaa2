// The lock of --out exists as long as the run, and still belongs to one run at a time.
#include "runtime/program/output_directory.h"

#include "runtime/support/error.h"
#include "test/runtime/temporary_directory.h"

#include <atomic>
#include <functional>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

using testing::HasSubstr;
namespace fs = std::filesystem;

/// Replaces the C library's, to do something between opening and locking.
static thread_local std::function<void()> beforeLocking;
extern "C" int flock(int file, int operation) {
  if (std::function<void()> action = std::exchange(beforeLocking, nullptr))
    action();
  return static_cast<int>(syscall(SYS_flock, file, operation));
}

namespace dtc::test {
namespace {

class OutputDirectoryTest : public testing::Test {
protected:
  std::string refusal() const {
    try {
      OutputDirectory second(out);
    } catch (const Error &error) {
      return error.what();
    }
    return "";
  }

  TemporaryDirectory directory;
  std::string out = directory / "some/where/out", lock = out + "/lock";
};

TEST_F(OutputDirectoryTest, NothingIsLeftOfARunThatWroteNothing) {
  {
    OutputDirectory held(out);
    EXPECT_THAT(readFile(lock), HasSubstr("process " + std::to_string(getpid())));
    EXPECT_THAT(refusal(), HasSubstr("is writing there"));
    EXPECT_TRUE(fs::exists(lock)) << "who is refused does not remove it";
  }
  EXPECT_FALSE(fs::exists(directory / "some"));
  fs::create_directories(out);
  {
    OutputDirectory held(out);
  }
  EXPECT_TRUE(fs::is_empty(out)) << "it was there before";
  {
    OutputDirectory held(out);
    std::ofstream(out + "/result") << "precious";
  }
  EXPECT_TRUE(fs::exists(out + "/result"));
  EXPECT_FALSE(fs::exists(lock));
}

// The earlier run ends, and another begins, between our opening and our locking of the lock's file.
TEST_F(OutputDirectoryTest, ALockWithoutANameIsNone) {
  fs::create_directories(out);
  beforeLocking = [&] {
    fs::remove(lock);
    std::ofstream(lock) << "of another";
  };
  OutputDirectory held(out);
  EXPECT_THAT(refusal(), HasSubstr("is writing there"));
}

TEST_F(OutputDirectoryTest, AnothersLockIsNotRemoved) {
  {
    OutputDirectory held(out);
    fs::rename(out, directory / "moved");
    fs::create_directories(out);
    std::ofstream(lock) << "of another";
  }
  EXPECT_EQ(readFile(lock), "of another");
}

TEST_F(OutputDirectoryTest, OneAtATimeHowOftenItComesAndGoes) {
  std::atomic<int> holders = 0, most = 0, times = 0;
  auto work = [&] {
    for (int i = 0; i < 500; ++i)
      try {
        OutputDirectory held(out);
        most = std::max<int>(most, ++holders);
        ++times;
        --holders;
      } catch (const Error &error) {
        EXPECT_EQ(error.exitCode(), ExitCode::BadInput) << error.what();
      }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back(work);
  }
  EXPECT_EQ(most, 1);
  EXPECT_GT(times, 0);
  EXPECT_FALSE(fs::exists(lock));
}

} // namespace
} // namespace dtc::test
