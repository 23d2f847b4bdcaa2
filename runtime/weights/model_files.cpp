#include "runtime/weights/model_files.h"

#include "runtime/support/error.h"
#include "runtime/support/escape.h"
#include "runtime/support/mapped_file.h"

#include <fmt/format.h>

namespace fs = std::filesystem;

namespace dtc {

/// The files besides weights and config.json that make a model directory usable, under the names that transformers
/// expects.
static constexpr const char *CarriedFiles[] = {"tokenizer.json",
                                               "tokenizer_config.json",
                                               "special_tokens_map.json",
                                               "added_tokens.json",
                                               "vocab.json",
                                               "merges.txt",
                                               "vocab.txt",
                                               "tokenizer.model",
                                               "spiece.model",
                                               "generation_config.json",
                                               "chat_template.jinja",
                                               "chat_template.json"};

/// Programs and checkpoints pass these files on with their own permissions. A link in somebody's model directory may
/// point to a private file of its reader.
static void requireMeantForOthers(const fs::path &path, const fs::path &directory) {
  std::error_code unknown;
  if (!fs::is_symlink(path, unknown))
    return;
  fs::perms others = fs::perms::group_read | fs::perms::others_read;
  fs::perms model = fs::status(directory / "config.json", unknown).permissions(),
            file = fs::status(path, unknown).permissions();
  if ((model & ~file & others) != fs::perms::none)
    throw Error(ExitCode::BadInput,
                fmt::format("{}: it is a link to '{}', which fewer may read than the model's config.json; what is "
                            "made of the model would carry it. Copy it here if that is meant, or remove the link",
                            path.string(), escaped(fs::canonical(path, unknown).string())));
}

std::vector<abi::ModelFile> readModelFiles(const fs::path &directory,
                                           const std::function<void(const std::string &)> &warn) {
  constexpr uint64_t Most = 64'000'000; // the largest known tokenizers have some 20 MB
  std::vector<abi::ModelFile> files;
  for (const char *name : CarriedFiles) {
    fs::path path = directory / name;
    std::error_code problem;
    if (!fs::exists(path, problem))
      continue;
    requireMeantForOthers(path, directory);
    MappedFile file(path);
    if (file.bytes().size() > Most) {
      warn(fmt::format(
          "{}: {} bytes are too many to store with the model (at most {}); copy it next to the checkpoints yourself",
          path.string(), file.bytes().size(), Most));
      continue;
    }
    abi::ModelFile &carried = files.emplace_back();
    carried.set_name(name);
    carried.set_content(file.bytes().data(), file.bytes().size());
  }
  return files;
}

} // namespace dtc
