#include "runtime/program/start/other_options.h"

namespace dtc {

static const std::vector<std::string> &compileOptions() {
  static const std::vector<std::string> names = {"--mesh",
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
  return names;
}

static const std::vector<std::string> &verifyOptions() {
  static const std::vector<std::string> names = {"--mesh",     "--strategy", "--timetable", "--choices", "--config",
                                                 "--set",      "--remarks",  "--model",     "--size",    "--full-size",
                                                 "--no-limit", "--code",     "--no-code",   "--cluster"};
  return names;
}

static const std::vector<std::string> &runOptions() {
  static const std::vector<std::string> names = {
      "--ranks",        "--max-restarts", "--hosts",         "--nnodes", "--node-rank", "--server", "--interface",
      "--remote-shell", "--log-dir",      "--start-timeout", "--grace",  "--share-gpu", "-n"};
  return names;
}

static const std::vector<std::string> &programOptions() {
  static const std::vector<std::string> names = {"--data",
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
  return names;
}

const std::vector<std::string> &optionsOf(Command command) {
  switch (command) {
  case Command::Compile:
    return compileOptions();
  case Command::Verify:
    return verifyOptions();
  case Command::Run:
    return runOptions();
  case Command::Program:
    return programOptions();
  }
  return programOptions();
}

} // namespace dtc
