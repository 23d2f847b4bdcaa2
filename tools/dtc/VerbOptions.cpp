#include "tools/dtc/VerbOptions.h"

#include <cmath>

namespace dtc {

template <class Take> static std::vector<CLI::Option *> addAll(CLI::App &verb, NamedOptions options, const Take &take) {
  std::vector<CLI::Option *> added;
  for (const auto &[name, help] : options)
    added.push_back(verb.add_option_function<std::string>(
        name, [take, name = name](const std::string &value) { take(name, value); }, help));
  return added;
}

std::vector<CLI::Option *> handOn(CLI::App &verb, std::vector<std::string> &words, NamedOptions options) {
  return addAll(verb, options, [&words](const std::string &name, const std::string &value) {
    words.insert(words.end(), {name, value});
  });
}

std::vector<CLI::Option *> handOn(CLI::App &verb, std::map<std::string, std::string> &values, NamedOptions options) {
  return addAll(verb, options, [&values](const std::string &name, const std::string &value) { values[name] = value; });
}

CLI::Option *takeRepeated(CLI::Option *option, const char *type) {
  return option->type_name(type)->take_all()->allow_extra_args(false);
}

CLI::Validator positiveNumber() {
  return {[](const std::string &text) {
            double value = 0;
            bool isNumber = CLI::detail::lexical_cast(text, value) && std::isfinite(value);
            return isNumber && value > 0 ? "" : "'" + text + "' is not a number above 0";
          },
          "", ""};
}

} // namespace dtc
