// A disk that is full, full for a while, or whose error appears only when a file is closed. A file size limit stands
// for a full disk: a write fails at the same place.
#include "runtime/observe/log_file.h"

#include "runtime/support/error.h"
#include "test/runtime/failing_close.h"
#include "test/runtime/temporary_directory.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using testing::AllOf;
using testing::HasSubstr;

namespace dtc::test {
namespace {

class LogFileTest : public testing::Test {
protected:
  LogFileTest() {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
  }
  ~LogFileTest() override { limit(before.rlim_cur); }

  void limit(rlim_t bytes) const {
    rlimit limits{bytes, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limits);
  }

  static std::string closingError(LogFile &log) {
    try {
      log.close();
    } catch (const Error &error) {
      return "exit code " + std::to_string(static_cast<int>(error.exitCode())) + ": " + error.what();
    }
    return "";
  }

  /// What trying a path is answered.
  static std::string refusal(const std::string &path) {
    try {
      LogFile log(path);
    } catch (const Error &error) {
      return "exit code " + std::to_string(static_cast<int>(error.exitCode())) + ": " + error.what();
    }
    return "";
  }

  rlimit before;
  TemporaryDirectory directory;
  std::string path = directory / "log";
};

TEST_F(LogFileTest, LinesAreThereAtOnce) {
  LogFile log(path);
  log.begin(false);
  EXPECT_EQ(log.append(1, "one\n"), "");
  EXPECT_EQ(readFile(path), "one\n");
  EXPECT_EQ(log.append(2, "two\n"), "");
  EXPECT_EQ(closingError(log), "");
  EXPECT_EQ(readFile(path), "one\ntwo\n");
}

TEST_F(LogFileTest, TryingChangesNothing) {
  {
    LogFile log(path);
  }
  EXPECT_FALSE(std::filesystem::exists(path)) << "what was not there";
  std::filesystem::create_symlink(directory / "elsewhere", path);
  {
    LogFile log(path);
  }
  EXPECT_TRUE(std::filesystem::is_symlink(path));
  EXPECT_FALSE(std::filesystem::exists(directory / "elsewhere"));
  std::filesystem::remove(path);
  directory.write("log", "earlier\n");
  {
    LogFile log(path);
  }
  EXPECT_EQ(readFile(path), "earlier\n");
  {
    LogFile log(path);
    log.begin(true);
    EXPECT_EQ(log.append(1, "one\n"), "");
  }
  EXPECT_EQ(readFile(path), "earlier\none\n");
  {
    LogFile log(path);
    log.begin(false);
  }
  EXPECT_EQ(readFile(path), "");
}

TEST_F(LogFileTest, WhatCannotBeWrittenIsSaidWithWhatToDo) {
  EXPECT_THAT(refusal(directory.path), AllOf(HasSubstr("exit code 1: cannot write"), HasSubstr("Is a directory")));
  EXPECT_THAT(refusal(directory / "no/log"), AllOf(HasSubstr("exit code 1: cannot write"), HasSubstr("No such file"),
                                                   HasSubstr("make the folder '" + directory / "no" + "' first")));
  directory.write("file", "");
  EXPECT_THAT(refusal(directory / "file/log"), AllOf(HasSubstr("exit code 1: "), HasSubstr("Not a directory")));
  mkfifo(path.c_str(), 0600);
  EXPECT_THAT(refusal(path), HasSubstr("nobody reads this pipe"));
}

// A pipe with a reader gets every line, also when it is full for a while.
TEST_F(LogFileTest, APipeIsWaitedFor) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  LogFile log("/proc/self/fd/" + std::to_string(ends[1]));
  log.begin(false);
  EXPECT_EQ(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
  EXPECT_EQ(log.append(1, "one\n"), "");
  char text[8] = "";
  EXPECT_EQ(read(ends[0], text, sizeof(text)), 4);
  EXPECT_STREQ(text, "one\n");
  close(ends[0]);
  close(ends[1]);
}

TEST_F(LogFileTest, AFullDiskIsToldOnceAndAtTheEnd) {
  LogFile log(path);
  log.begin(false);
  EXPECT_EQ(log.append(1, "one\n"), "");
  limit(6);
  std::string told = log.append(2, "two\n");
  EXPECT_THAT(told, AllOf(HasSubstr("step 2: cannot write '" + path + "': File too large"),
                          HasSubstr("free some space"), HasSubstr("Training goes on")));
  EXPECT_EQ(readFile(path), "one\n") << "whole lines";
  EXPECT_EQ(log.append(3, "three\n"), "") << "once is enough";
  EXPECT_THAT(closingError(log), AllOf(HasSubstr("exit code 1: cannot write '" + path + "': File too large"),
                                       HasSubstr("it lacks what belongs to step 2 and later")));
  EXPECT_EQ(readFile(path), "one\n");
}

TEST_F(LogFileTest, ADiskThatWasFullForAWhileCostsNothing) {
  LogFile log(path);
  log.begin(false);
  EXPECT_EQ(log.append(1, "one\n"), "");
  limit(6);
  EXPECT_NE(log.append(2, "two\n"), "");
  EXPECT_EQ(log.append(3, "three\n"), "");
  limit(before.rlim_cur);
  EXPECT_THAT(log.append(4, "four\n"), AllOf(HasSubstr("step 4: "), HasSubstr("nothing is missing from it")));
  EXPECT_EQ(readFile(path), "one\ntwo\nthree\nfour\n");
  limit(20);
  EXPECT_NE(log.append(5, "five\n"), "") << "a second time is told again";
  limit(before.rlim_cur);
  EXPECT_EQ(closingError(log), "") << "the last moment is early enough";
  EXPECT_EQ(readFile(path), "one\ntwo\nthree\nfour\nfive\n");
}

// The buffer has a limit, and then lines are lost for good.
TEST_F(LogFileTest, ADiskThatStaysFullTakesNoEndlessMemory) {
  LogFile log(path);
  log.begin(false);
  limit(1);
  std::string line(1 << 20, 'x');
  line.back() = '\n';
  for (int step = 1; step <= 20; ++step)
    EXPECT_EQ(log.append(step, line).empty(), step > 1);
  limit(before.rlim_cur);
  EXPECT_EQ(log.append(21, "last\n"), "") << "it cannot say that nothing lacks";
  EXPECT_THAT(closingError(log), HasSubstr("it lacks what belongs to step 1 and later"));
  EXPECT_EQ(std::filesystem::file_size(path), (16u << 20));
}

TEST_F(LogFileTest, AFileThatIsRemovedIsMadeAgainAndTold) {
  LogFile log(path);
  log.begin(false);
  EXPECT_EQ(log.append(1, "one\n"), "");
  std::filesystem::remove(path);
  EXPECT_THAT(log.append(2, "two\n"), AllOf(HasSubstr("step 2: '" + path + "' was removed"), HasSubstr("a new file")));
  EXPECT_EQ(log.append(3, "three\n"), "");
  EXPECT_EQ(readFile(path), "two\nthree\n");
  std::filesystem::rename(path, directory / "log.1"); // as for an archive
  EXPECT_THAT(log.append(4, "four\n"), HasSubstr("step 4: "));
  EXPECT_EQ(readFile(directory / "log.1"), "two\nthree\n");
  EXPECT_EQ(closingError(log), "");
  EXPECT_EQ(readFile(path), "four\n");
}

TEST_F(LogFileTest, LinesOfStepsThatAreDoneAgainGo) {
  directory.write("log", "{\"step\":1}\n{\"step\":2}\n{\"step\":10}\n{\"step\":1");
  LogFile log(path);
  log.goOnAfter(2);
  EXPECT_EQ(log.append(3, "{\"step\":3}\n"), "");
  EXPECT_EQ(readFile(path), "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
}

TEST_F(LogFileTest, AnotherUsersLinkIsNotFollowed) {
  if (geteuid() != 0)
    GTEST_SKIP() << "needs root, to make another user's link";
  directory.write("precious", "precious\n");
  std::filesystem::create_symlink("precious", path);
  EXPECT_EQ(refusal(path), "");
  ASSERT_EQ(lchown(path.c_str(), 65534, 65534), 0);
  EXPECT_THAT(refusal(path), AllOf(HasSubstr("exit code 1: cannot write '" + path), HasSubstr("user 65534 has made")));
  EXPECT_EQ(readFile(path), "precious\n");
}

TEST_F(LogFileTest, AFailureToCloseIsAFailure) {
  LogFile log(path);
  log.begin(false);
  EXPECT_EQ(log.append(1, "one\n"), "");
  closeProblem = EDQUOT;
  std::string error = closingError(log);
  closeProblem = 0;
  EXPECT_THAT(error, HasSubstr("exit code 1: cannot write '" + path + "': Disk quota exceeded"));
}

} // namespace
} // namespace dtc::test
