#include "runtime/checkpoint/checkpoint_texts.h"

#include "runtime/abi/element_type.h"
#include "runtime/support/error.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace dtc {

std::string configStoredAs(const std::string &text, abi::DataType type) {
  std::string_view stored = abi::elementType(type).config;
  auto config = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  bool changed = false;
  for (const char *key : {"dtype", "torch_dtype"})
    if (config.is_object() && config.contains(key) && config[key] != stored) {
      config[key] = stored;
      changed = true;
    }
  if (config.is_object() && !config.contains("dtype") && !config.contains("torch_dtype") && type != abi::F32) {
    config["dtype"] = stored;
    changed = true;
  }
  return changed ? config.dump(2) + "\n" : text;
}

/// States the type of the weights next to it: state is f32 (file_layout.cpp), whatever type the weights were loaded
/// from.
static std::string configOf(const abi::Manifest &manifest) {
  const std::string &text = manifest.model_config_json();
  return text.empty() ? "{}\n" : configStoredAs(text, abi::F32);
}

std::vector<TextFile> checkpointTexts(const abi::Manifest &manifest, const TrainerState &trainer,
                                      const FilePlan &plan) {
  std::vector<TextFile> texts = {{ConfigFile, configOf(manifest)},
                                 {TrainerStateFile, printTrainerState(trainer, manifest.model_name())}};
  for (const abi::ModelFile &file : manifest.model_files()) {
    if (file.name().empty() || file.name().find('/') != std::string::npos || file.name() == "..")
      throw Error(ExitCode::BadInput, fmt::format("damaged program: it carries a file named '{}'", file.name()));
    texts.push_back({file.name(), file.content()});
  }
  texts.insert(texts.end(), plan.indexes.begin(), plan.indexes.end());
  return texts;
}

} // namespace dtc
