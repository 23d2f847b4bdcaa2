#include "runtime/checkpoint/find_checkpoints.h"

#include "runtime/checkpoint/checkpoint_texts.h"
#include "runtime/checkpoint/checksums.h"
#include "runtime/support/error.h"
#include "runtime/weights/model_directory.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <functional>

namespace fs = std::filesystem;

namespace dtc {

std::vector<std::string> listCheckpoints(const std::string &folder) {
  std::error_code ignored;
  std::vector<std::pair<int64_t, std::string>> found;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder, ignored))
    if (std::optional<int64_t> step = checkpointStep(entry.path()))
      found.push_back({*step, entry.path()});
  std::ranges::sort(found, std::greater<>());
  std::vector<std::string> paths;
  for (auto &[step, path] : found)
    paths.push_back(path);
  return paths;
}

std::optional<int64_t> checkpointStep(const std::string &path) {
  constexpr std::string_view prefix = "step-";
  fs::path folder(path);
  std::string name = folder.has_filename() ? folder.filename() : folder.parent_path().filename(); // also for "step-1/"
  int64_t step;
  if (!name.starts_with(prefix))
    return std::nullopt;
  auto [end, problem] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
  if (problem != std::errc() || end != name.data() + name.size())
    return std::nullopt;
  return step;
}

std::vector<std::string> findCheckpoints(const std::string &path) {
  std::error_code ignored;
  for (const char *file : {TrainerStateFile, ChecksumFile})
    if (fs::exists(fs::path(path) / file, ignored))
      return {path};
  if (SafetensorsModel::present(path))
    return {path};
  for (const std::string &folder : {path, (fs::path(path) / "checkpoints").string()})
    if (std::vector<std::string> found = listCheckpoints(folder); !found.empty())
      return found;
  throw Error(ExitCode::BadInput, fmt::format("there is no checkpoint in '{}'", path));
}

} // namespace dtc
