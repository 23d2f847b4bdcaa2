// Ranks that meet under a name (srun, torchrun), disturbed by other users, dead jobs and full file systems.
#include "runtime/comm/local/shared_memory.h"
#include "runtime/meeting/job_file.h"
#include "runtime/support/error.h"
#include "test/conformance/ranks.h"
#include "test/runtime/temporary_directory.h"

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace dtc::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uid_t Nobody = 65534;

/// The errno of `attempt` as another user, 0 when it succeeds.
int asNobody(const std::function<bool()> &attempt) {
  pid_t child = fork();
  if (child == 0) {
    if (setgid(Nobody) != 0 || setuid(Nobody) != 0)
      _exit(255);
    _exit(attempt() ? 0 : errno);
  }
  int status;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

class NamedMeeting : public testing::Test {
protected:
  void SetUp() override {
    name = freshName();
    directory = std::filesystem::path(name).parent_path();
  }
  void TearDown() override { std::filesystem::remove_all(directory); }

  /// Why rank 0 of `ranks` cannot connect.
  std::string refusal(int ranks = 1, const std::string &path = "") const {
    try {
      Arena arena(1 << 20, 0);
      connectSharedMemory({path.empty() ? name : path, 0, ranks, std::chrono::milliseconds(300)}, arena);
      return "connected";
    } catch (const Error &error) {
      return error.what();
    }
  }

  std::string name, directory;
};

TEST_F(NamedMeeting, OtherUsersCannotReachTheArenas) {
  if (geteuid() != 0)
    GTEST_SKIP() << "needs root, to become another user";
  JobFile file(name, 0);
  struct stat status;
  ASSERT_EQ(stat(name.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  EXPECT_EQ(asNobody([&] { return open(name.c_str(), O_RDONLY) >= 0; }), EACCES);
  EXPECT_EQ(asNobody([&] { return open(name.c_str(), O_RDWR) >= 0; }), EACCES);
  EXPECT_EQ(asNobody([&] { return unlink(name.c_str()) == 0; }), EACCES);
  // Even one that guesses the next job's name cannot take it.
  EXPECT_EQ(asNobody([&] { return open((name + "1").c_str(), O_RDWR | O_CREAT, 0666) >= 0; }), EACCES);
}

TEST_F(NamedMeeting, ADirectoryOfAnotherUserIsRefused) {
  if (geteuid() != 0)
    GTEST_SKIP() << "needs root, to become another user";
  ASSERT_EQ(mkdir(directory.c_str(), 0700), 0);
  ASSERT_EQ(chown(directory.c_str(), Nobody, Nobody), 0);
  EXPECT_THAT(refusal(), AllOf(HasSubstr(directory), HasSubstr("belongs to user 65534, not to user 0")));
}

// Another user who creates the directory first cannot keep this user from meeting.
TEST_F(NamedMeeting, ADirectoryOfAnotherUserIsPassedOver) {
  if (geteuid() != 0)
    GTEST_SKIP() << "needs root, to become another user";
  TemporaryDirectory root;
  std::string first = root / "dtc-0", second = first + ".1";
  EXPECT_EQ(JobFile::directoryIn(root.path), first);
  ASSERT_EQ(mkdir(first.c_str(), 0700), 0);
  EXPECT_EQ(JobFile::directoryIn(root.path), first);
  ASSERT_EQ(chown(first.c_str(), Nobody, Nobody), 0);
  EXPECT_EQ(JobFile::directoryIn(root.path), second);
  ASSERT_EQ(mkdir(second.c_str(), 0700), 0);
  ASSERT_EQ(rmdir(first.c_str()), 0);
  EXPECT_EQ(JobFile::directoryIn(root.path), second) << "where the ranks are that came before";
}

TEST_F(NamedMeeting, AFileOfAnotherUserIsRefused) {
  if (geteuid() != 0)
    GTEST_SKIP() << "needs root, to become another user";
  ASSERT_EQ(mkdir(directory.c_str(), 0700), 0);
  close(open(name.c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_EQ(chown(name.c_str(), Nobody, Nobody), 0);
  EXPECT_THAT(refusal(), AllOf(HasSubstr(name), HasSubstr("belongs to user 65534")));
}

TEST_F(NamedMeeting, WhatOthersMayEnterIsRefused) {
  ASSERT_EQ(mkdir(directory.c_str(), 0700), 0);
  ASSERT_EQ(chmod(directory.c_str(), 0711), 0);
  EXPECT_THAT(refusal(), AllOf(HasSubstr(directory), HasSubstr("open to other users")));
  ASSERT_EQ(chmod(directory.c_str(), 0700), 0);
  close(open(name.c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_EQ(chmod(name.c_str(), 0660), 0);
  EXPECT_THAT(refusal(), AllOf(HasSubstr(name), HasSubstr("open to other users")));
}

TEST_F(NamedMeeting, LinksAreNotFollowed) {
  TemporaryDirectory elsewhere;
  std::string victim = elsewhere.write("victim", "precious");
  ASSERT_EQ(chmod(victim.c_str(), 0600), 0);
  ASSERT_EQ(mkdir(directory.c_str(), 0700), 0);
  ASSERT_EQ(symlink(victim.c_str(), name.c_str()), 0);
  EXPECT_THAT(refusal(), HasSubstr("cannot open " + name));
  ASSERT_EQ(unlink(name.c_str()), 0);
  if (link(victim.c_str(), name.c_str()) == 0) // not across file systems
    EXPECT_THAT(refusal(), HasSubstr("not a file of its own"));
  EXPECT_EQ(readFile(victim), "precious");

  std::string other = elsewhere / "directory";
  ASSERT_EQ(mkdir(other.c_str(), 0700), 0);
  std::string linked = elsewhere / "linked";
  ASSERT_EQ(symlink(other.c_str(), linked.c_str()), 0);
  EXPECT_THAT(refusal(1, linked + "/job"), HasSubstr("cannot open " + linked));
}

// A rank is killed while the job starts: its file stays, and says that rank 1 joined and that the job failed.
TEST_F(NamedMeeting, WhatADeadJobLeftIsMadeAnew) {
  pid_t child = fork();
  if (child == 0) {
    Arena arena(4096, 0);
    connectSharedMemory({name, 1, 2}, arena);
    _exit(0);
  }
  struct stat before, after;
  while (stat(name.c_str(), &before) != 0 || before.st_size == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_EQ(stat(name.c_str(), &after), 0) << "nothing was left behind";

  auto begin = std::chrono::steady_clock::now();
  pid_t late = fork(); // a rank that takes this one for the dead one does not wait
  if (late == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    Arena arena(4096, 0);
    connectSharedMemory({name, 1, 2}, arena)->barrier();
    _exit(0);
  }
  Arena arena(4096, 0);
  EXPECT_NO_THROW(connectSharedMemory({name, 0, 2, std::chrono::milliseconds(5000)}, arena)->barrier());
  int status = -1;
  waitpid(late, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
}

// A job that gives up late does not take the name from the next one.
TEST_F(NamedMeeting, ANameIsRemovedByItsOwnerAlone) {
  auto first = std::make_unique<JobFile>(name, 0);
  ASSERT_EQ(unlink(name.c_str()), 0);
  JobFile second(name, 0);
  first->removeName();
  EXPECT_TRUE(std::filesystem::exists(name));
  second.removeName();
  EXPECT_FALSE(std::filesystem::exists(name));
}

TEST_F(NamedMeeting, AFullFileSystemIsAnErrorThatNamesTheBytes) {
  // Mounted in a child's own namespace: the mount disappears with the child.
  std::string report = directory + ".report";
  pid_t child = fork();
  if (child == 0) {
    bool mounted = mkdir(directory.c_str(), 0700) == 0 && unshare(CLONE_NEWNS) == 0 &&
                   mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                   mount("tmpfs", directory.c_str(), "tmpfs", 0, "size=1m,mode=0700") == 0;
    if (!mounted)
      _exit(77);
    auto failures = ProcessJob({2, 8 << 20, 0}, [](Communicator &, Arena &) {}, directory + "/job", 5000).join();
    int hog = open((directory + "/hog").c_str(), O_RDWR | O_CREAT, 0600);
    for (off_t page = 0; posix_fallocate(hog, page * 4096, 4096) == 0; ++page) // until it is full
      ;
    auto control = ProcessJob({2}, [](Communicator &, Arena &) {}, directory + "/job", 5000).join();
    std::ofstream(report) << failures[0] << "\n" << failures[1] << "\n" << control[0] << "\n";
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  if (WEXITSTATUS(status) == 77)
    GTEST_SKIP() << "needs the right to mount";
  ASSERT_EQ(status, 0);
  std::string said = readFile(report);
  std::filesystem::remove(report);
  EXPECT_THAT(said, testing::MatchesRegex("exit code 1: the ranks need 1[0-9]{7} bytes of shared memory, but the "
                                          "file system of [^\n]* has [0-9]+ available;[^\n]*\n"
                                          "exit code 4: rank 0 was lost: the ranks need[^\n]*\n"
                                          "exit code 1: the ranks need [0-9]+ bytes [^\n]* has 0 available;[^\n]*\n"));
}

} // namespace
} // namespace dtc::test
