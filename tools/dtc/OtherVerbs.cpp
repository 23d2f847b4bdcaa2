#include "tools/dtc/OtherVerbs.h"

#include "runtime/config/habits.h"
#include "runtime/program/start/other_options.h"
#include "runtime/support/error.h"
#include "runtime/support/escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace fs = std::filesystem;

using namespace dtc;

std::string dtc::shellWord(const std::string &word) {
  constexpr const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos)
    return word;
  std::string text = "'";
  for (char c : word)
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

static bool isModel(const std::string &path) {
  std::error_code unknown;
  return fs::path(path).extension() == ".mlir" || fs::exists(fs::path(path) / "config.json", unknown);
}

std::string dtc::programNameFor(const std::string &model) {
  std::error_code unknown;
  fs::path path = fs::absolute(model, unknown).lexically_normal();
  fs::path name = path.has_filename() ? path.stem() : path.parent_path().stem(); // "tiny/" ends in an empty name
  return (name.empty() ? "model" : name.string()) + ".train";
}

/// It is written to the folder where the command is typed.
static std::string programName(const std::string &model) { return shellWord(programNameFor(model)); }

/// What follows the program in a command that works.
static const char *rest(const std::string &verb) { return verb == "run" ? " --data FILE" : ""; }

/// The options of `command`, except those that mean something else to most people, such as a setting.
static std::vector<std::string> plainOptions(Command command) {
  std::vector<std::string> names;
  std::ranges::copy_if(optionsOf(command), std::back_inserter(names), [](const std::string &name) {
    std::string advice = adviceOnOption(name);
    return advice.empty() || advice.find(name) != std::string::npos;
  });
  return names;
}

/// The commands that compile the typed words into a program and then do what was wanted with it.
static std::string compileThen(const std::string &verb, const std::vector<std::string> &words) {
  auto model = std::ranges::find_if(words, isModel);
  if (model == words.end() || verb == "run")
    return fmt::format("dtc compile MODEL OPTIONS -o PROGRAM && dtc {} PROGRAM{}", verb, rest(verb));
  std::string typed, program = programName(*model);
  for (const std::string &word : words)
    typed += word == "--json" ? "" : " " + shellWord(word);
  return fmt::format("dtc compile{} -o {} && dtc {} {}", typed, program, verb, program);
}

/// For verbs that take a program.
static std::vector<OtherOptions> elsewhereThanProgram(const std::string &verb, const std::vector<std::string> &words) {
  std::vector<OtherOptions> all = {
      {plainOptions(Command::Compile),
       fmt::format("is an option of 'dtc compile', and 'dtc {}' takes the program that it "
                   "writes. Write: {}",
                   verb, compileThen(verb, words))},
      {plainOptions(Command::Verify), "is an option of 'dtc verify'"},
      {plainOptions(Command::Program),
       "is an option of the program and goes after it: dtc run OPTIONS PROGRAM ARGUMENTS"}};
  if (verb != "run")
    all.push_back({plainOptions(Command::Run), "is an option of 'dtc run'"});
  return all;
}

/// For verbs that take a model.
static std::vector<OtherOptions> elsewhereThanModel(const std::string &verb, const std::vector<std::string> &words) {
  auto found = std::ranges::find_if(words, isModel);
  std::string model = found == words.end() ? "MODEL" : shellWord(*found);
  std::string program = found == words.end() ? "PROGRAM" : programName(*found);
  std::string first = fmt::format("Write: dtc compile {} -o {}, then dtc run ", model, program);
  bool compiles = verb == "compile";
  return {
      {plainOptions(Command::Plan),
       fmt::format("is an option of 'dtc plan', which looks for a mesh and a strategy. Write: dtc plan {} --cluster "
                   "FILE",
                   model)},
      {plainOptions(compiles ? Command::Verify : Command::Compile),
       fmt::format("is an option of 'dtc {}'", compiles ? "verify" : "compile")},
      {plainOptions(Command::Run), fmt::format("is an option of 'dtc run'. {}OPTIONS {} --data FILE", first, program)},
      {plainOptions(Command::Program), fmt::format("is an option of the program. {}{} ARGUMENTS", first, program)}};
}

/// For `dtc plan`, which decides what options of other verbs say.
static std::vector<OtherOptions> elsewhereThanPlan() {
  return {{{"--mesh"}, "is what 'dtc plan' looks for. To fix an axis of it, write for example --fix tp=8"},
          {{"--strategy"}, "is what 'dtc plan' looks for. To fix a part of it, write for example --fix zero3"},
          {{"--timetable"}, "is what 'dtc plan' looks for. To fix it, write for example --fix 1f1b"},
          {plainOptions(Command::Compile), "is an option of 'dtc compile', which the first of the commands that 'dtc "
                                           "plan' prints runs"},
          {plainOptions(Command::Run), "is an option of 'dtc run', which the second of the commands that 'dtc plan' "
                                       "prints runs"},
          {plainOptions(Command::Program), "is an option of the program, which the second of the commands that 'dtc "
                                           "plan' prints runs"}};
}

std::vector<OtherOptions> dtc::optionsElsewhere(const std::string &verb, int argc, char **argv) {
  std::vector<std::string> words(argv + std::min(argc, 2), argv + argc);
  if (verb == "inspect" || verb == "explain" || verb == "run")
    return elsewhereThanProgram(verb, words);
  if (verb == "compile" || verb == "verify")
    return elsewhereThanModel(verb, words);
  if (verb == "plan")
    return elsewhereThanPlan();
  return {};
}

void dtc::requireNoModel(const std::string &path, const std::string &verb) {
  std::error_code unknown;
  if (isModel(path)) {
    std::string program = programName(path);
    throw Error(ExitCode::BadInput,
                fmt::format("'{}' is a model; 'dtc {}' takes a program, which 'dtc compile' makes of it. Write: dtc "
                            "compile {} -o {} && dtc {} {}{}",
                            path, verb, shellWord(path), program, verb, program, rest(verb)));
  }
  if (fs::is_directory(path, unknown))
    throw Error(
        ExitCode::BadInput,
        fmt::format("'{}' is not a regular file but a directory without a config.json; 'dtc {}' takes a program, "
                    "which is the file that 'dtc compile -o' writes",
                    path, verb));
}
