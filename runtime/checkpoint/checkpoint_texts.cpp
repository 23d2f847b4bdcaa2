#include "runtime/checkpoint/checkpoint_texts.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/error.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace dtc {

/// The model's config.json, true of what lies beside it: state is f32 (file_layout.cpp), whatever the weights came as.
static std::string configOf(const abi::Manifest &manifest) {
  constexpr std::string_view stored = abi::elementType(abi::F32).config;
  if (manifest.model_config_json().empty())
    return "{}\n";
  auto config = nlohmann::ordered_json::parse(manifest.model_config_json(), nullptr, /*allow_exceptions=*/false);
  bool changed = false;
  for (const char *key : {"dtype", "torch_dtype"})
    if (config.is_object() && config.contains(key) && config[key] != stored) {
      config[key] = stored;
      changed = true;
    }
  return changed ? config.dump(2) + "\n" : manifest.model_config_json();
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
