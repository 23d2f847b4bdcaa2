// Maps names from other tools to dtc's names, for messages about unknown names. The names come from torchrun, mpirun,
// srun, Hugging Face's Trainer, Megatron-LM, DeepSpeed, torchtitan, nanoGPT and llm.c.
#pragma once

#include <string>
#include <string_view>

namespace dtc {

/// dtc's key of a setting that another tool calls `name`, treating dashes and underscores alike: "lr" is
/// "learning_rate". Empty if none is known.
std::string_view settingCalled(std::string_view name);

/// What to write instead of an option ("--nproc-per-node") or verb ("train") of other tools, as in "write -n RANKS".
/// This includes options that are settings in dtc, under dtc's names and those of others. Empty if none is known.
std::string adviceOnOption(std::string_view option);
std::string_view adviceOnVerb(std::string_view verb);

} // namespace dtc
