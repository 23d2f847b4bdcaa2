#include "runtime/program/run_description.h"

#include "runtime/config/training_config.h"
#include "runtime/program/run_files.h"
#include "runtime/support/output_file.h"

#include <filesystem>
#include <fmt/format.h>

namespace dtc {

std::string describeMesh(const abi::Mesh &mesh) {
  std::string text;
  for (const abi::Axis &axis : mesh.axes())
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", axis.name(), axis.size());
  return text;
}

/// Everything that determines the run except the model and its layout.
static std::string settingsText(const abi::Manifest &manifest, const abi::Training &training) {
  return fmt::format("# The settings of this run; it had the mesh {}. To have them again: dtc compile --config\n\n{}",
                     describeMesh(manifest.mesh()), printTraining(training));
}

void describeRun(const std::string &folder, const abi::Manifest &manifest, const abi::Training &training) {
  auto write = [&](const char *name, const std::string &content) {
    AtomicFile file(std::filesystem::path(folder) / name);
    file.append(content);
    file.publish(0666);
  };
  write(RunFiles::Settings, settingsText(manifest, training));
  abi::Manifest shorter = manifest;
  shorter.clear_model_files(); // every checkpoint has them
  write(RunFiles::Manifest, shorter.SerializeAsString());
}

} // namespace dtc
