// Whole runs of a compiled program, as processes: the fixture.
#pragma once

#include "runtime/abi/container.h"
#include "runtime/abi/judged.h"
#include "runtime/data/token_writer.h"
#include "runtime/launch/supervisor.h"
#include "runtime/program/data_fingerprint.h"
#include "runtime/support/log_line.h"
#include "test/runtime/program/toy_model.h"
#include "test/runtime/temporary_directory.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace dtc::test {

using Arguments = std::vector<std::string>;

/// A job of supervised ranks in the background.
class Job {
public:
  Job(const std::string &program, int ranks, Arguments arguments, std::string outputPath) : outputPath(outputPath) {
    std::filesystem::remove(outputPath); // of an earlier job
    supervisor = fork();
    if (supervisor != 0)
      return;
    int file = open(outputPath.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    arguments.insert(arguments.begin(), program);
    SupervisorResult result = superviseRanks({.command = arguments, .ranks = ranks});
    if (!result.words.empty())
      logError(result.words);
    _exit(result.exitCode);
  }
  ~Job() { join(); }

  int join() {
    int status = 0;
    if (supervisor > 0 && waitpid(supervisor, &status, 0) == supervisor)
      code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    supervisor = -1;
    return code;
  }

  void signal(int number) const { kill(supervisor, number); }

  std::vector<pid_t> ranks() const {
    std::ifstream file("/proc/" + std::to_string(supervisor) + "/task/" + std::to_string(supervisor) + "/children");
    std::vector<pid_t> all;
    for (pid_t child; file >> child;)
      all.push_back(child);
    return all;
  }

  /// Whether `text` appears in the output within some seconds.
  bool awaitOutput(const std::string &text) const {
    for (int i = 0; i < 1000; ++i) {
      if (readFile(outputPath).find(text) != std::string::npos)
        return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

private:
  std::string outputPath;
  pid_t supervisor;
  int code = -1;
};

class TrainingTest : public testing::Test {
protected:
  TrainingTest() {
    std::vector<uint16_t> tokens;
    for (int i = 0; i < 2000; ++i)
      tokens.push_back(static_cast<uint16_t>(i * i % 7 % 5));
    data = directory / "tokens.bin";
    writeTokenFile(data, tokens);
  }

  std::string compile(const std::string &name, const ToyOptions &options) {
    return writeToy(name, toyManifest(options));
  }
  /// Not proven not to deadlock: some toys are made to.
  std::string writeToy(const std::string &name, dtc::abi::Manifest manifest) {
    manifest.mutable_certificate()->set_judged(dtc::abi::hashOfJudged(manifest));
    writeProgram(DTC_PROGRAM, manifest.SerializeAsString(), readFile(DTC_TOY_KERNELS), directory / name);
    return directory / name;
  }

  Job start(const std::string &program, int ranks, Arguments arguments) {
    for (const char *argument : {"--threads", "1", "--data"})
      arguments.push_back(argument);
    arguments.push_back(data);
    return Job(program, ranks, arguments, directory / "output");
  }

  int run(const std::string &program, int ranks, const Arguments &arguments) {
    int code = start(program, ranks, arguments).join();
    output = readFile(directory / "output");
    return code;
  }

  /// The lines of --log-losses.
  std::vector<std::string> losses(const std::string &name) {
    std::istringstream file(readFile(directory / name));
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);)
      lines.push_back(line);
    return lines;
  }

  std::vector<std::string> train(const std::string &program, int ranks, const std::string &name, Arguments more = {}) {
    Arguments arguments = {"--out", directory / name, "--log-losses", directory / (name + ".losses")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_EQ(run(program, ranks, arguments), 0) << output;
    return losses(name + ".losses");
  }

  static void expectNear(const std::vector<std::string> &a, const std::vector<std::string> &b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      double x = std::stod(a[i].substr(a[i].find(' '))), y = std::stod(b[i].substr(b[i].find(' ')));
      EXPECT_NEAR(x, y, 1e-5 * std::abs(x)) << "line " << i;
    }
  }

  TemporaryDirectory directory;
  std::string data, output;
};

} // namespace dtc::test
