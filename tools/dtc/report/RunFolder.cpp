#include "tools/dtc/report/RunFolder.h"

#include "runtime/checkpoint/find_checkpoints.h"
#include "runtime/config/training_config.h"
#include "runtime/executor/validate.h"
#include "runtime/program/run_files.h"
#include "runtime/support/error.h"
#include "runtime/support/mapped_file.h"

#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace dtc {

namespace {
class FolderReader {
public:
  explicit FolderReader(const std::string &path) { run.path = path; }

  RunFolder read() {
    requireRun();
    readSettings();
    readManifest();
    readMetrics();
    readCheckpoints();
    if (isThere(RunFiles::Trace))
      run.trace = inFolder(RunFiles::Trace);
    run.isGoingOn = isHeld();
    return std::move(run);
  }

private:
  std::string inFolder(const char *name) const { return fs::path(run.path) / name; }
  bool isThere(const char *name) const {
    std::error_code unknown;
    return fs::is_regular_file(inFolder(name), unknown);
  }
  void requireRun() const;
  void readSettings();
  void readManifest();
  void readMetrics();
  void readLine(std::string_view line);
  void readCheckpoints();
  bool isHeld() const;

  RunFolder run;
  int64_t damagedLines = 0; // of metrics
};
} // namespace

void FolderReader::requireRun() const {
  std::error_code unknown;
  constexpr const char *remedy = "name the folder that --out of 'dtc run' named, by default dtc-out";
  if (!fs::exists(run.path, unknown))
    throw Error(ExitCode::BadInput, fmt::format("'{}': there is no such folder; {}", run.path, remedy));
  if (!fs::is_directory(run.path, unknown))
    throw Error(ExitCode::BadInput, fmt::format("'{}' is a file; {}", run.path, remedy));
  if (!isThere(RunFiles::Metrics) && !isThere(RunFiles::Settings))
    throw Error(ExitCode::BadInput, fmt::format("'{}' is not the folder of a run: it has neither {} nor {}; {}",
                                                run.path, RunFiles::Metrics, RunFiles::Settings, remedy));
}

void FolderReader::readSettings() {
  if (!isThere(RunFiles::Settings)) {
    run.remarks.push_back(fmt::format("There is no {}: the run's settings are not known.", RunFiles::Settings));
    return;
  }
  try {
    run.settings = readTraining(inFolder(RunFiles::Settings), {});
  } catch (const Error &error) {
    run.remarks.push_back(fmt::format("The settings cannot be read: {}.", error.what()));
  }
}

void FolderReader::readManifest() {
  if (!isThere(RunFiles::Manifest)) {
    run.remarks.push_back(fmt::format("There is no {}, which runs of an older dtc did not write: memory, communication "
                                      "and the sharding of parameters are not shown.",
                                      RunFiles::Manifest));
    return;
  }
  try {
    std::string path = inFolder(RunFiles::Manifest);
    run.manifest = parseManifest(MappedFile(path).text(), path);
  } catch (const Error &error) {
    run.remarks.push_back(fmt::format("The description of the program cannot be read: {}.", error.what()));
  }
}

void FolderReader::readLine(std::string_view line) {
  nlohmann::json fields = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!fields.is_object() || !fields.contains("step") || !fields["step"].is_number_integer()) {
    ++damagedLines;
    return;
  }
  int64_t step = fields["step"];
  for (const auto &[key, value] : fields.items()) {
    if (key == "step" || key == "time")
      continue;
    Series &series = run.metrics[key];
    series.forgetFrom(step);
    series.add(step, value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN());
  }
  run.lastStep = step;
}

void FolderReader::readMetrics() {
  if (!isThere(RunFiles::Metrics)) {
    run.remarks.push_back(fmt::format("There is no {}: nothing is known of its steps.", RunFiles::Metrics));
    return;
  }
  MappedFile file(inFolder(RunFiles::Metrics));
  std::string_view text = file.text();
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    if (end > at)
      readLine(text.substr(at, end - at));
    at = end + 1;
  }
  if (damagedLines > 0)
    run.remarks.push_back(fmt::format("{} has {} damaged line{}, left out here.", RunFiles::Metrics, damagedLines,
                                      damagedLines == 1 ? "" : "s"));
}

void FolderReader::readCheckpoints() {
  std::error_code unknown;
  std::string folder = inFolder(RunFiles::Checkpoints);
  if (!fs::is_directory(folder, unknown))
    return;
  if (std::vector<std::string> all = listCheckpoints(folder); !all.empty())
    run.checkpoint = checkpointStep(all.front());
}

/// Whether a running process holds the folder: see OutputDirectory.
bool FolderReader::isHeld() const {
  int lock = open(inFolder(RunFiles::Lock).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (lock < 0)
    return false;
  bool isHeld = flock(lock, LOCK_SH | LOCK_NB) != 0;
  close(lock);
  return isHeld;
}

RunFolder RunFolder::read(const std::string &path) { return FolderReader(path).read(); }

} // namespace dtc
