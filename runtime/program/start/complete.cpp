#include "runtime/program/start/complete.h"

#include <algorithm>
#include <utility>

namespace dtc {

namespace {

struct Candidate {
  std::string word, description;
};

/// The first part of it, not longer than a line of a terminal has room for.
std::string shortened(const std::string &description) {
  constexpr size_t Most = 70;
  std::string text = description;
  for (const char *end : {". ", "; ", " (", "\n"})
    text.resize(std::min(text.find(end), text.size()));
  if (text.ends_with('.'))
    text.pop_back();
  if (text.size() <= Most)
    return text;
  size_t space = text.rfind(' ', Most);
  return text.substr(0, space == std::string::npos ? Most : space) + " ...";
}

bool takesValue(const CLI::Option &option) { return option.get_items_expected_max() > 0; }

/// The values that an option's check lists, which its type shows as "TEXT:{gpipe,1f1b}", or that are known otherwise.
std::vector<std::string> valuesOf(const CLI::Option &option, const KnownValues &values) {
  for (const std::string &name : option.get_lnames())
    if (auto found = values.find("--" + name); found != values.end())
      return found->second;
  std::string type = option.get_type_name();
  size_t begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos)
    return {};
  return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

std::vector<Candidate> optionsOf(const CLI::App &app) {
  std::vector<Candidate> candidates;
  for (const CLI::Option *option : app.get_options())
    if (!option->get_group().empty()) // else it is hidden
      for (const std::string &name : option->get_lnames())
        candidates.push_back({"--" + name, shortened(option->get_description())});
  return candidates;
}

std::vector<Candidate> verbsOf(const CLI::App &app) {
  std::vector<Candidate> candidates;
  for (const CLI::App *verb : app.get_subcommands([](const CLI::App *) { return true; }))
    candidates.push_back({verb->get_name(), shortened(verb->get_description())});
  return candidates;
}

const CLI::App *verbCalled(const CLI::App &app, const std::string &name) {
  for (const CLI::App *verb : app.get_subcommands([](const CLI::App *) { return true; }))
    if (verb->get_name() == name)
      return verb;
  return nullptr;
}

/// Where a word stands: in which verb, and behind which option that waits for its value.
struct Place {
  const CLI::App *app;
  const CLI::Option *open = nullptr;
  size_t next = 0; ///< the first word that is neither a verb nor an option or its value
};

Place placeBehind(const CLI::App &app, const std::vector<std::string> &words, size_t count) {
  Place place{&app, nullptr, count};
  for (size_t i = 0; i < count; ++i) {
    const std::string &word = words[i];
    if (std::exchange(place.open, nullptr))
      continue;
    if (word.size() > 1 && word[0] == '-') {
      const CLI::Option *option = place.app->get_option_no_throw(word.substr(0, word.find('=')));
      if (option && takesValue(*option) && word.find('=') == std::string::npos)
        place.open = option;
    } else if (const CLI::App *verb = verbCalled(*place.app, word); verb && place.next == count) {
      place.app = verb;
    } else {
      place.next = std::min(place.next, i);
    }
  }
  return place;
}

std::string join(const std::vector<Candidate> &candidates, const std::string &begin, const std::string &prefix) {
  std::string text;
  for (const auto &[word, description] : candidates)
    if (word.starts_with(begin))
      text += prefix + word + (description.empty() ? "" : "\t" + description) + "\n";
  return text;
}

/// Those that begin so; where an option takes any text, files.
std::string completeValue(const CLI::Option &option, const KnownValues &values, const std::string &begin,
                          const std::string &prefix) {
  if (size_t plus = begin.find('+'); plus != std::string::npos) // as in megatron-sp+zero3
    return completeValue(option, values, begin.substr(plus + 1), prefix + begin.substr(0, plus + 1));
  std::vector<Candidate> candidates;
  bool orFiles = false;
  for (const std::string &value : valuesOf(option, values))
    value == AlsoFiles ? void(orFiles = true) : candidates.push_back({value, ""});
  orFiles |= candidates.empty() && option.get_type_name().starts_with("TEXT");
  return join(candidates, begin, prefix) + (orFiles ? AlsoFiles + std::string("\n") : "");
}

} // namespace

std::string completions(const CLI::App &app, const std::vector<std::string> &words, const KnownValues &values) {
  if (words.empty())
    return "";
  const std::string &last = words.back();
  Place place = placeBehind(app, words, words.size() - 1);
  if (place.open)
    return completeValue(*place.open, values, last, "");
  if (size_t equals = last.find('='); last.starts_with("--") && equals != std::string::npos) {
    const CLI::Option *option = place.app->get_option_no_throw(last.substr(0, equals));
    return option ? completeValue(*option, values, last.substr(equals + 1), last.substr(0, equals + 1)) : "";
  }
  if (last.starts_with('-'))
    return join(optionsOf(*place.app), last, "");
  std::vector<Candidate> verbs = verbsOf(*place.app);
  return verbs.empty() ? AlsoFiles + std::string("\n") : join(verbs, last, "");
}

std::vector<std::string> behindOptions(const CLI::App &verb, const std::vector<std::string> &words) {
  if (words.empty())
    return {};
  size_t next = placeBehind(verb, words, words.size() - 1).next;
  return next + 1 < words.size() ? std::vector<std::string>(words.begin() + static_cast<long>(next), words.end())
                                 : std::vector<std::string>();
}

} // namespace dtc
