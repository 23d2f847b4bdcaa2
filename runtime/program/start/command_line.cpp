#include "runtime/program/start/command_line.h"

#include "runtime/config/habits.h"
#include "runtime/support/suggest.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <vector>

namespace dtc {

/// `app` and the verb within the verb that the command line chose, outermost first.
static std::vector<const CLI::App *> chosenVerbs(const CLI::App &app) {
  std::vector<const CLI::App *> chain = {&app};
  for (std::vector<CLI::App *> chosen = app.get_subcommands(); !chosen.empty(); chosen = chosen[0]->get_subcommands())
    chain.push_back(chosen[0]);
  return chain;
}

bool parseWhole(std::string_view text, int64_t &value) {
  auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size();
}

static bool isDigits(const std::string &text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

CLI::Validator atLeast(int64_t least) {
  return {[least](const std::string &text) {
            int64_t value;
            return parseWhole(text, value) && value < least ? text + " is less than " + std::to_string(least) : "";
          },
          "", ""};
}

void takeSize(CLI::Option *option) {
  // CLI11 reads the number of a size without noticing a sign or that it does not fit.
  auto problem = [](const std::string &size) {
    int64_t number;
    size_t digits = std::min(size.find_first_not_of("0123456789"), size.size());
    return parseWhole(size.substr(0, digits), number) ? "" : size + " is not a size; write for example 16GB or 512MiB";
  };
  option->transform(CLI::AsSizeValue(/*kb_is_1000=*/true));
  option->transform(CLI::Validator(problem, "", "")); // runs before the other
}

/// What is wrong with a value of an option of this type (CLI11's name for it), or nothing.
static std::string valueProblem(const std::string &type, const std::string &value) {
  if (value.empty())
    return "the value is empty; is a variable not set?";
  int64_t whole;
  if (type == "INT" && !parseWhole(value, whole)) // CLI11 takes the nearest number that fits
    return value + " is not a whole number" + (isDigits(value) ? " of 64 bits" : "");
  double real;
  if (type == "FLOAT" && (std::sscanf(value.c_str(), "%lf", &real) != 1 || !std::isfinite(real)))
    return value + " is not a finite number";
  return "";
}

void checkValues(CLI::App &app) {
  for (CLI::Option *option : app.get_options())
    if (option->get_items_expected_max() > 0) // no flag; as a transformation it comes before the other checks
      option->transform(CLI::Validator([type = option->get_type_name().substr(0, option->get_type_name().find(':'))](
                                           const std::string &value) { return valueProblem(type, value); },
                                       "", ""));
  for (CLI::App *verb : app.get_subcommands([](CLI::App *) { return true; }))
    checkValues(*verb);
}

/// One dash goes with one letter, and the rest of the word is its value: "-np 2" is "-n p 2".
static std::string joinedLetters(const CLI::App &app, int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    bool isJoined = word.size() > 2 && word[0] == '-' && std::isalpha(static_cast<unsigned char>(word[1])) &&
                    std::isalpha(static_cast<unsigned char>(word[2]));
    std::string option = word.substr(0, 2);
    if (isJoined && app.get_option_no_throw(option))
      return "; '" + word + "' is " + option + " with the value '" + word.substr(2) + "', write " + option + " VALUE";
  }
  return "";
}

/// What to write for the first word that the innermost verb has neither as verb nor as option: what a word of other
/// tools is called here, or else the nearest name. Without a word, the verbs.
static std::string suggestion(const CLI::App &app, int argc, char **argv, const std::vector<OtherOptions> &others) {
  std::vector<const CLI::App *> chain = chosenVerbs(app);
  std::vector<std::string> verbs, options;
  for (const CLI::App *each : chain.back()->get_subcommands([](const CLI::App *) { return true; }))
    verbs.push_back(each->get_name());
  for (const CLI::Option *option : chain.back()->get_options())
    for (const std::string &name : option->get_lnames())
      options.push_back("--" + name);
  auto isOption = [&](const std::string &word) { return chain.back()->get_option_no_throw(word) != nullptr; };
  for (int i = static_cast<int>(chain.size()); i < argc; ++i) {
    std::string word = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
    if (word.starts_with('-') && isOption(word))
      continue;
    for (const OtherOptions &other : others)
      if (std::ranges::find(other.names, word) != other.names.end())
        return "; '" + word + "' " + other.advice;
    bool isVerb = i == static_cast<int>(chain.size()) && !word.starts_with('-') && !verbs.empty();
    if (!isVerb && !word.starts_with("--"))
      continue;
    const std::vector<std::string> &names = isVerb ? verbs : options;
    if (std::ranges::find(names, word) != names.end())
      continue;
    if (std::string advice = isVerb ? std::string(adviceOnVerb(word)) : adviceOnOption(word); !advice.empty())
      return "; '" + word + "': " + advice;
    if (std::string found = nearest(word, names); !found.empty())
      return "; '" + word + "' is unknown, did you mean '" + found + "'?";
    if (isVerb)
      return "; '" + word + "' is none of " + CLI::detail::join(verbs, ", ");
  }
  return static_cast<int>(chain.size()) < argc || verbs.empty() ? "" : "; verbs are " + CLI::detail::join(verbs, ", ");
}

std::string usageProblem(const CLI::App &app, const CLI::ParseError &error, int argc, char **argv,
                         const std::vector<OtherOptions> &others) {
  // A misspelled name is an unexpected word, or the reason why another one is missing.
  bool unknown = dynamic_cast<const CLI::ExtrasError *>(&error) || dynamic_cast<const CLI::RequiredError *>(&error);
  return error.what() +
         (unknown ? suggestion(app, argc, argv, others) : joinedLetters(*chosenVerbs(app).back(), argc, argv));
}

std::string chosenVerb(const CLI::App &app) {
  std::string text;
  for (const CLI::App *each : chosenVerbs(app))
    text += (text.empty() ? "" : " ") + each->get_name();
  return text;
}

} // namespace dtc
