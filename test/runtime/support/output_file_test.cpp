// Files appear whole or not at all, whatever is in their way.
#include "runtime/support/output_file.h"

#include "runtime/support/error.h"
#include "test/runtime/failing_close.h"
#include "test/runtime/temporary_directory.h"

#include <cerrno>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

using testing::HasSubstr;
namespace fs = std::filesystem;

namespace dtc::test {
namespace {

class AtomicFileTest : public testing::Test {
protected:
  /// Writes "new" to `path`; returns what went wrong.
  static std::string write(const std::string &path) {
    try {
      AtomicFile file(path);
      file.append("new");
      file.publish(0666);
    } catch (const Error &error) {
      EXPECT_EQ(error.exitCode(), ExitCode::Runtime);
      return error.what();
    }
    return "";
  }

  size_t entries() const { return std::distance(fs::directory_iterator(directory.path), fs::directory_iterator()); }

  TemporaryDirectory directory;
  std::string path = directory / "file";
};

TEST_F(AtomicFileTest, AppearsWhenItIsWhole) {
  directory.write("file", "old");
  {
    AtomicFile file(path);
    file.append("new");
    EXPECT_EQ(readFile(path), "old");
  }
  EXPECT_EQ(readFile(path), "old") << "nobody published it";
  EXPECT_EQ(entries(), 1u);
  EXPECT_EQ(write(path), "");
  EXPECT_EQ(readFile(path), "new");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFileTest, AFailureToCloseLeavesTheOldOne) {
  directory.write("file", "old");
  closeProblem = EDQUOT;
  std::string problem = write(path);
  closeProblem = 0;
  EXPECT_THAT(problem, HasSubstr("cannot write '" + path + "': Disk quota exceeded; free some space"));
  EXPECT_EQ(readFile(path), "old");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFileTest, OnlyFilesAreReplaced) {
  mkfifo(path.c_str(), 0600);
  EXPECT_THAT(write(path), HasSubstr("it is not a regular file, and would be replaced"));
  EXPECT_TRUE(fs::is_fifo(path));
  EXPECT_THAT(write(directory.path), HasSubstr("it is a directory"));
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFileTest, LinksStayAndLead) {
  directory.write("file", "old");
  fs::create_symlink("file", directory / "link");
  fs::create_symlink("link", directory / "second");
  EXPECT_EQ(write(directory / "second"), "");
  EXPECT_TRUE(fs::is_symlink(directory / "link"));
  EXPECT_TRUE(fs::is_symlink(directory / "second"));
  EXPECT_EQ(readFile(path), "new");
  fs::remove(path);
  EXPECT_THAT(write(directory / "second"), HasSubstr("it is a link that leads nowhere"));
}

// In a folder that another user may write, that user would choose which of this user's files is replaced.
TEST_F(AtomicFileTest, AnotherUsersLinkIsNotFollowed) {
  if (geteuid() != 0)
    GTEST_SKIP() << "needs root, to make another user's link";
  directory.write("file", "old");
  fs::create_symlink("file", directory / "link");
  ASSERT_EQ(lchown((directory / "link").c_str(), 65534, 65534), 0);
  EXPECT_THAT(write(directory / "link"), HasSubstr("it is a link that user 65534 has made; remove it"));
  EXPECT_EQ(readFile(path), "old");
}

class OutputFileTest : public testing::Test {
protected:
  static std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

  TemporaryDirectory directory;
  std::string path = directory / "file";
};

TEST_F(OutputFileTest, EachWriterLeavesTheOthersParts) {
  OutputFile first(path);
  first.reserve(6);
  first.write(0, bytes("abc"));
  OutputFile second(path);
  second.write(3, bytes("def"));
  first.finish();
  second.finish();
  EXPECT_EQ(readFile(path), "abcdef");
}

TEST_F(OutputFileTest, ATextReplacesALongerOne) {
  writeFile(path, "longer");
  writeFile(path, "new");
  EXPECT_EQ(readFile(path), "new");
}

TEST_F(OutputFileTest, AFailureToCloseIsTold) {
  closeProblem = EDQUOT;
  std::string problem;
  try {
    writeFile(path, "new");
  } catch (const Error &error) {
    problem = error.what();
  }
  closeProblem = 0;
  EXPECT_THAT(problem, HasSubstr("cannot write '" + path + "': Disk quota exceeded; free some space"));
}

} // namespace
} // namespace dtc::test
