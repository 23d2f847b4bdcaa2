#include "runtime/program/start/other_options.h"

#include <map>

namespace dtc {

const std::vector<std::string> &optionsOf(Command command) {
  static const std::map<Command, std::vector<std::string>> options = {
      // Not --profile: most people who write that want a trace of a run (runtime/config/habits.cpp).
      {Command::Compile,
       {"--mesh", "--strategy",         "--timetable", "--overlap-steps", "--choices",         "--config",
        "--set",  "--remarks",          "--target",    "--memory-limit",  "--schedule-effort", "--generate",
        "--rows", "--prompt-positions", "--no-cache",  "--compile-to",    "--locations",       "--output",
        "-o",     "--cluster",          "--silence",   "--advice",        "--reference-batch", "--reference-rate"}},
      // Those that no other command has.
      {Command::Plan,
       {"--devices", "--fix", "--forbid", "--allow", "--margin", "--tokens", "--days", "--price", "--effort",
        "--refine", "--front", "--report"}},
      {Command::Verify,
       {"--mesh", "--strategy", "--timetable", "--overlap-steps", "--choices", "--config", "--set", "--remarks",
        "--model", "--size", "--full-size", "--no-limit", "--code", "--no-code", "--cluster"}},
      {Command::Run,
       {"--ranks", "--max-restarts", "--hosts", "--nnodes", "--node-rank", "--server", "--interface", "--remote-shell",
        "--log-dir", "--start-timeout", "--grace", "--share-gpu", "-n"}},
      {Command::Program,
       {"--data",
        "--validation-data",
        "--data-format",
        "--out",
        "--steps",
        "--resume",
        "--resume-anyway",
        "--no-verify-checkpoint",
        "--verify-transfers",
        "--without-certificate",
        "--weights",
        "--threads",
        "--share-gpu",
        "--no-graphs",
        "--tune",
        "--tf32",
        "--start-timeout",
        "--watchdog",
        "--set",
        "--trace",
        "--replay-check",
        "--log-losses",
        "--tensorboard",
        "--eval-only",
        "--sample"}}};
  return options.at(command);
}

} // namespace dtc
