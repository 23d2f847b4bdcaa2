// What users of other tools call things, and what these are called here: for messages about unknown names. The names are
// those of torchrun, mpirun, srun, Hugging Face's Trainer, Megatron-LM, DeepSpeed, torchtitan, nanoGPT and llm.c.
#pragma once

#include <string>
#include <string_view>

namespace dtc {

/// Our key of a setting that another tool calls `name`, dashes and underscores alike: "lr" is "learning_rate". Empty
/// where none is known.
std::string_view settingCalled(std::string_view name);

/// What to write instead of an option ("--nproc-per-node") or verb ("train") of other tools, as in "write -n RANKS".
/// Options that are settings here are among them, under our names and those of others. Empty where none is known.
std::string adviceOnOption(std::string_view option);
std::string_view adviceOnVerb(std::string_view verb);

} // namespace dtc
