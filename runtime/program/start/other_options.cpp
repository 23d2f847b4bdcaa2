#include "runtime/program/start/other_options.h"

namespace dtc {

namespace {

/// The options of each part that has some of its own.
struct Options {
  std::vector<std::string> compile = {"--mesh",
                                      "--strategy",
                                      "--timetable",
                                      "--choices",
                                      "--config",
                                      "--set",
                                      "--remarks",
                                      "--target",
                                      "--memory-limit",
                                      "--schedule-effort",
                                      "--generate",
                                      "--rows",
                                      "--prompt-positions",
                                      "--no-cache",
                                      "--compile-to",
                                      "--locations",
                                      "--output",
                                      "-o",
                                      "--cluster"};
  std::vector<std::string> verify = {"--mesh",     "--strategy", "--timetable", "--choices", "--config",
                                     "--set",      "--remarks",  "--model",     "--size",    "--full-size",
                                     "--no-limit", "--code",     "--no-code",   "--cluster"};
  std::vector<std::string> run = {
      "--ranks",        "--max-restarts", "--hosts",         "--nnodes", "--node-rank", "--server", "--interface",
      "--remote-shell", "--log-dir",      "--start-timeout", "--grace",  "--share-gpu", "-n"};
  std::vector<std::string> program = {"--data",
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
                                      "--sample"};
};

} // namespace

const std::vector<std::string> &optionsOf(Command command) {
  static const Options options;
  switch (command) {
  case Command::Compile:
    return options.compile;
  case Command::Verify:
    return options.verify;
  case Command::Run:
    return options.run;
  case Command::Program:
    return options.program;
  }
  return options.program;
}

} // namespace dtc
