#include "runtime/abi/container.h"

#include "runtime/support/error.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace dtc {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;
namespace fs = std::filesystem;

/// Makes program files from this very test: it is an ELF file at hand.
class ContainerTest : public testing::Test {
protected:
  void SetUp() override {
    directory = (fs::temp_directory_path() / "dtc-container-XXXXXX").string();
    ASSERT_TRUE(mkdtemp(directory.data()));
  }
  void TearDown() override { fs::remove_all(directory); }

  std::string path(const std::string &name) const { return directory + "/" + name; }

  long filesInDirectory() const { return std::distance(fs::directory_iterator(directory), fs::directory_iterator()); }
  static std::string contents(const std::string &file) {
    std::ifstream stream(file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  }
  static void store(const std::string &file, const std::string &bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
  }

  static std::string refusalOf(const std::string &file) {
    try {
      ProgramFile program(file);
      return "";
    } catch (const Error &error) {
      EXPECT_EQ(error.exitCode(), ExitCode::BadInput);
      return error.what();
    }
  }

  std::string directory;
  const std::string manifest = "a manifest\0with a zero"s, kernels = std::string(10007, 'k');
};

TEST_F(ContainerTest, ReadsBackWhatWasWritten) {
  writeProgram("/proc/self/exe", manifest, kernels, path("program"));
  ProgramFile program(path("program"));
  EXPECT_EQ(program.manifest(), manifest);
  EXPECT_EQ(program.kernels(), kernels);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(program.kernels().data()) % 4096, 0u);
  EXPECT_EQ(filesInDirectory(), 1); // no temporary file stays
}

TEST_F(ContainerTest, TheFileStillRunsAndIsExecutable) {
  writeProgram("/proc/self/exe", manifest, kernels, path("program"));
  EXPECT_EQ(std::system((path("program") + " --gtest_list_tests > " + path("list")).c_str()), 0);
  EXPECT_THAT(contents(path("list")), HasSubstr("TheFileStillRunsAndIsExecutable"));
}

// A program is itself a runtime: compiling from one replaces its payload.
TEST_F(ContainerTest, APayloadIsReplacedNotStacked) {
  writeProgram("/proc/self/exe", manifest, kernels, path("first"));
  writeProgram(path("first"), "other", "", path("second"));
  ProgramFile program(path("second"));
  EXPECT_EQ(program.manifest(), "other");
  EXPECT_EQ(program.kernels(), "");
  EXPECT_LT(fs::file_size(path("second")), fs::file_size(path("first")));
}

TEST_F(ContainerTest, EveryTruncationIsRefused) {
  writeProgram("/proc/self/exe", manifest, kernels, path("program"));
  std::string whole = contents(path("program"));
  for (size_t bytes : {size_t(0), size_t(1), size_t(63), size_t(64), size_t(5000), whole.size() - 20000,
                       whole.size() - 10000, whole.size() - 57, whole.size() - 1}) {
    fs::copy_file(path("program"), path("cut"), fs::copy_options::overwrite_existing);
    fs::resize_file(path("cut"), bytes);
    EXPECT_THAT(refusalOf(path("cut")), HasSubstr(path("cut"))) << bytes;
  }
}

/// Opens the file with one bit of it flipped, a bit that follows from the position, and flips it back.
class FlippedBit {
public:
  FlippedBit(const std::string &path, size_t position)
      : file(path, std::ios::in | std::ios::out | std::ios::binary), position(position) {
    flip();
  }
  ~FlippedBit() { flip(); }

private:
  void flip() {
    file.seekg(static_cast<std::streamoff>(position));
    char byte = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(position));
    file.put(static_cast<char>(byte ^ (1 << position % 8)));
    file.flush();
  }
  std::fstream file;
  size_t position;
};

TEST_F(ContainerTest, EveryChangedBitOfRuntimePayloadPaddingAndFooterIsNoticed) {
  writeProgram("/proc/self/exe", manifest, kernels, path("program"));
  std::string whole = contents(path("program"));
  size_t manifestAt = whole.rfind(manifest), footerAt = whole.size() - 56;
  std::vector<size_t> positions = {manifestAt,     manifestAt + manifest.size() - 1,
                                   manifestAt - 1, manifestAt + manifest.size(), // paddings
                                   footerAt - 1,   footerAt - 5000};
  for (size_t i = 0; i < 56; ++i)
    positions.push_back(footerAt + i);
  // Across the runtime, at distances that share no factor with pages or instructions.
  for (size_t at = 0; at < manifestAt; at += manifestAt / 500 | 1)
    positions.push_back(at);
  for (size_t position : positions) {
    FlippedBit flipped(path("program"), position);
    EXPECT_NE(refusalOf(path("program")), "") << "byte " << position << " of " << whole.size();
  }
  EXPECT_EQ(refusalOf(path("program")), ""); // all are back
}

TEST_F(ContainerTest, RefusalsSayWhatTheFileIsInstead) {
  EXPECT_THAT(refusalOf(path("absent")), HasSubstr("No such file"));
  EXPECT_THAT(refusalOf(directory), HasSubstr("not a regular file"));
  EXPECT_THAT(refusalOf("/proc/self/exe"), HasSubstr("an executable that carries none"));
  store(path("text"), std::string(1000, 'x'));
  EXPECT_THAT(refusalOf(path("text")), HasSubstr("not a 64-bit ELF file"));
}

TEST_F(ContainerTest, AFailedWriteLeavesTheOldFileAndNothingElse) {
  writeProgram("/proc/self/exe", manifest, kernels, path("program"));
  EXPECT_THROW(writeProgram(path("absent"), "new", "", path("program")), Error);
  EXPECT_THROW(writeProgram("/proc/self/exe", "new", "", path("no/such/directory")), Error);
  fs::create_directory(path("occupied"));
  EXPECT_THROW(writeProgram("/proc/self/exe", "new", "", path("occupied")), Error);
  EXPECT_EQ(ProgramFile(path("program")).manifest(), manifest);
  EXPECT_EQ(filesInDirectory(), 2); // the program and the directory
}

} // namespace
} // namespace dtc
