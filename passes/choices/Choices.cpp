// Choices from text, and back.
#include "passes/choices/Choices.h"
#include "passes/choices/PipelineTimetable.h"

#include "runtime/support/suggest.h"
#include "runtime/support/toml.h"
#include "runtime/support/toml_limits.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"

#include <algorithm>
#include <numeric>
#include <sstream>

using llvm::StringRef;
using llvm::Twine;

namespace dtc {

bool OrderRule::operator==(const OrderRule &other) const {
  return list == other.list && move == other.move && isBefore == other.isBefore && anchor == other.anchor &&
         layer == other.layer;
}

namespace {

/// Reads one file.
class ChoicesReader {
public:
  ChoicesReader(StringRef path, Choices &choices, ChoicesError error) : path(path), choices(choices), error(error) {}

  bool read(StringRef text) {
    if (std::optional<TomlExcess> excess = findTomlExcess(text))
      return fail(path + ":" + std::to_string(excess->line), excess->problem);
    toml::table root;
    try {
      root = toml::parse(std::string_view(text.data(), text.size()), path);
    } catch (const toml::parse_error &problem) {
      return fail(at(problem.source()), std::string(problem.description()));
    }
    for (auto &&[key, node] : root)
      if (!readKey(key, node))
        return false;
    return true;
  }

private:
  std::string at(const toml::source_region &region) const { return path + ":" + std::to_string(region.begin.line); }

  bool fail(const std::string &where, const Twine &problem) {
    error(where + ": " + problem);
    return false;
  }

  bool readKey(const toml::key &key, const toml::node &node) {
    using Read = bool (ChoicesReader::*)(const toml::node &);
    static constexpr std::pair<std::string_view, Read> readers[] = {
        {"timetable", &ChoicesReader::readTimetable},
        {"overlap_steps", &ChoicesReader::readOverlapSteps},
        {"layers", &ChoicesReader::readLayers},
        {"crossing", &ChoicesReader::readCrossing},
        {"gather_ahead", &ChoicesReader::readGatherAhead},
        {"recompute", &ChoicesReader::readRecompute},
        {"gathers", &ChoicesReader::readGathers},
        {"rows", &ChoicesReader::readRows},
        {"order", &ChoicesReader::readOrder},
        {"bucket", &ChoicesReader::readBuckets},
        {"bucket_bytes", &ChoicesReader::readBucketSize},
        {"split", &ChoicesReader::readSplits},
        {"split_gradients", &ChoicesReader::readGradientSplits},
    };
    std::vector<std::string_view> known;
    for (auto [name, read] : readers) {
      if (key.str() == name)
        return (this->*read)(node);
      known.push_back(name);
    }
    return fail(at(key.source()), "unknown key '" + std::string(key.str()) + "'" + didYouMean(key.str(), known));
  }

  bool readTimetable(const toml::node &node) {
    std::string name = node.value<std::string>().value_or("");
    if (std::string problem = findUnknownTimetable(name); !problem.empty())
      return fail(at(node.source()), problem);
    choices.timetable = name;
    return true;
  }

  bool readOverlapSteps(const toml::node &node) {
    std::optional<bool> overlaps = node.value_exact<bool>();
    if (!overlaps)
      return fail(at(node.source()), "overlap_steps: true or false");
    choices.overlapSteps = *overlaps;
    return true;
  }

  bool readLayers(const toml::node &node) {
    choices.layers.clear();
    if (const toml::array *layers = node.as_array())
      for (const toml::node &each : *layers)
        choices.layers.push_back(each.value_exact<int64_t>().value_or(0));
    if (choices.layers.empty() || llvm::any_of(choices.layers, [](int64_t n) { return n < 1; }))
      return fail(at(node.source()), "layers: how many layers each stage has, as in layers = [9, 3]");
    return true;
  }

  bool readCrossing(const toml::node &node) {
    choices.crossing.clear();
    auto add = [&](const toml::node &each) {
      std::string way = each.value<std::string>().value_or("");
      if (way != "whole" && way != "sliced")
        return fail(at(each.source()), "crossing: must be \"whole\" or \"sliced\", or a list of these with one for "
                                       "each cut of the pipeline, not '" +
                                           way + "'");
      choices.crossing.push_back(std::move(way));
      return true;
    };
    const toml::array *ways = node.as_array();
    if (!ways || ways->empty())
      return add(node);
    return llvm::all_of(*ways, add);
  }

  bool readGatherAhead(const toml::node &node) {
    std::optional<int64_t> ahead = node.value_exact<int64_t>();
    if (!ahead || *ahead < 0)
      return fail(at(node.source()), "gather_ahead: must be a whole number of readers, 0 or more");
    choices.gatherAhead = static_cast<uint64_t>(*ahead);
    return true;
  }

  /// A text applies to all layers; a table names classes.
  bool readRecompute(const toml::node &node) {
    choices.recompute.clear();
    auto add = [&](std::string layers, const toml::node &how, const std::string &where) {
      std::string text = how.value<std::string>().value_or("");
      std::optional<std::vector<RecomputeRun>> runs = parseRecomputeRuns(text);
      if (!runs)
        return fail(where, "recompute: '" + layers + "' can be " + std::string(abi::recomputeNames) +
                               ", or counts such as \"5 full, 7 cheap\", not '" + text + "'");
      choices.recompute.push_back({std::move(layers), std::move(*runs), where});
      return checkPattern(choices.recompute.back().layers, where);
    };
    const toml::table *table = node.as_table();
    if (!table)
      return add("*", node, at(node.source()));
    for (auto [key, value] : inFileOrder(*table))
      if (!add(std::string(key->str()), *value, at(key->source())))
        return false;
    return true;
  }

  /// A table of patterns over parameters. toml++ sorts keys; the order of the file is what counts. `addRule` takes a
  /// pattern, its text, and the place.
  bool readParameters(const toml::node &node, const Twine &what,
                      llvm::function_ref<bool(const std::string &, const std::string &, const std::string &)> addRule) {
    const toml::table *table = node.as_table();
    if (!table)
      return fail(at(node.source()), what);
    for (auto [key, value] : inFileOrder(*table)) {
      std::string where = at(key->source());
      if (!addRule(std::string(key->str()), value->value<std::string>().value_or(""), where) ||
          !checkPattern(std::string(key->str()), where))
        return false;
    }
    return true;
  }

  bool readGathers(const toml::node &node) {
    choices.gathers.clear();
    return readParameters(node, "gathers: a table such as \"h.*.mlp.c_fc.weight\" = \"shared\"",
                          [&](const std::string &parameters, const std::string &how, const std::string &where) {
                            std::optional<std::vector<GatherRun>> runs = parseGatherRuns(how);
                            if (!runs)
                              return fail(where, "gathers: '" + parameters +
                                                     "' can be \"shared\" or \"again\", or counts such as \"8 again, 4 "
                                                     "shared\", not '" +
                                                     how + "'");
                            choices.gathers.push_back({parameters, std::move(*runs), where});
                            return true;
                          });
  }

  bool readRows(const toml::node &node) {
    choices.rows.clear();
    return readParameters(node, "rows: a table such as \"wte.weight\" = \"gathered\"",
                          [&](const std::string &parameters, const std::string &how, const std::string &where) {
                            if (how != "gathered" && how != "reduced")
                              return fail(where, "rows: '" + parameters +
                                                     "' can be \"gathered\" or \"reduced\", not '" + how + "'");
                            choices.rows.push_back({parameters, how, where});
                            return true;
                          });
  }

  /// A table of patterns, each with a number of parts.
  bool readSplit(const toml::node &node, const char *name, const char *example, std::vector<SplitRule> &rules) {
    const toml::table *table = node.as_table();
    if (!table)
      return fail(at(node.source()), Twine(name) + ": a table such as \"" + example + "\" = 2");
    rules.clear();
    for (auto [key, value] : inFileOrder(*table)) {
      SplitRule rule{std::string(key->str()), value->value_exact<int64_t>().value_or(0), at(key->source())};
      if (rule.parts < 1)
        return fail(rule.where, Twine(name) + ": '" + rule.pattern + "' must be a number of parts, 1 or more");
      if (!checkPattern(rule.pattern, rule.where))
        return false;
      rules.push_back(std::move(rule));
    }
    return true;
  }

  bool readSplits(const toml::node &node) { return readSplit(node, "split", "h.*", choices.split); }
  bool readGradientSplits(const toml::node &node) {
    return readSplit(node, "split_gradients", "wte.weight", choices.splitGradients);
  }

  bool readBucketSize(const toml::node &node) {
    std::string text =
        node.is_integer() ? std::to_string(*node.value<int64_t>()) : node.value<std::string>().value_or("");
    std::optional<abi::BucketSize> size = abi::parseBucketSize(text);
    if (!size)
      return fail(at(node.source()),
                  "bucket_bytes: '" + text +
                      "' is not a size; write a number of bytes above 0, as in \"25MB\", \"auto\" or "
                      "\"none\"");
    choices.bucketSize = *size;
    return true;
  }

  /// Tables of one name in place of those that there are; `usage` says what they are.
  template <typename Rule>
  bool readTables(const toml::node &node, const char *usage, std::vector<Rule> &rules,
                  bool (ChoicesReader::*read)(const toml::table &, Rule &)) {
    const toml::array *tables = node.as_array();
    if (!tables || !tables->is_homogeneous<toml::table>())
      return fail(at(node.source()), usage);
    rules.clear();
    for (const toml::node &each : *tables) {
      Rule &rule = rules.emplace_back();
      rule.where = at(each.source());
      if (!(this->*read)(*each.as_table(), rule))
        return false;
    }
    return true;
  }

  bool readBuckets(const toml::node &node) {
    return readTables(node, "bucket: tables such as [[bucket]] with starts = [\"...\"] and layers = 4", choices.buckets,
                      &ChoicesReader::readBucket);
  }

  bool readBucket(const toml::table &table, BucketRule &rule) {
    for (auto &&[key, node] : table) {
      std::string_view name = key.str();
      constexpr std::string_view known[] = {"starts", "layers", "why"};
      if (name == "layers") {
        rule.layers = node.value_exact<int64_t>().value_or(0);
      } else if (name == "why") {
        rule.why = node.value<std::string>().value_or("");
      } else if (name == "starts") {
        if (const toml::array *starts = node.as_array())
          for (const toml::node &each : *starts)
            rule.starts.push_back(each.value<std::string>().value_or(""));
      } else {
        return fail(at(key.source()), "bucket: unknown key '" + std::string(name) + "'" + didYouMean(name, known));
      }
    }
    if (rule.layers < 1)
      return fail(rule.where, "bucket: layers: must be a number of consecutive layers, 1 or more");
    if (rule.starts.empty() || llvm::is_contained(rule.starts, ""))
      return fail(rule.where, "bucket: starts: the names of collectives that start together");
    return true;
  }

  bool checkPattern(const std::string &pattern, const std::string &where) {
    llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(pattern);
    return glob ? true : fail(where, "'" + pattern + "': " + llvm::toString(glob.takeError()));
  }

  bool readOrder(const toml::node &node) {
    return readTables(node, "order: tables such as [[order]] with move = \"...\" and before = \"...\"", choices.order,
                      &ChoicesReader::readRule);
  }

  bool readRule(const toml::table &table, OrderRule &rule) {
    int anchors = 0;
    for (auto &&[key, node] : table) {
      std::string_view name = key.str();
      bool isBefore = name == "before", isAnchor = isBefore || name == "after";
      std::string *text = name == "list" ? &rule.list : name == "move" ? &rule.move : isAnchor ? &rule.anchor : nullptr;
      constexpr std::string_view known[] = {"list", "move", "before", "after", "layer"};
      if (!text && name != "layer")
        return fail(at(key.source()), "order: unknown key '" + std::string(name) + "'" + didYouMean(name, known));
      if (text ? !node.is_string() : !node.is_integer())
        return fail(at(node.source()), "order: '" + std::string(name) + "' must be a " + (text ? "string" : "number"));
      if (text)
        *text = *node.value<std::string>();
      else
        rule.layer = *node.value<int64_t>();
      anchors += isAnchor;
      rule.isBefore |= isBefore;
    }
    if (rule.move.empty() || anchors != 1 || rule.anchor.empty())
      return fail(rule.where, "order: say which command to 'move', and 'before' or 'after' which");
    return checkPattern(rule.list, rule.where);
  }

  std::string path;
  Choices &choices;
  ChoicesError error;
};

} // namespace

std::optional<Choices> parseChoices(StringRef text, StringRef path, Choices given, ChoicesError error) {
  if (!ChoicesReader(path, given, error).read(text))
    return std::nullopt;
  return given;
}

static std::string quoted(const std::string &text) {
  std::ostringstream out;
  out << toml::value<std::string>(text);
  return out.str();
}

/// A table of the rules' patterns, each with what `printValue` says of its rule.
template <typename Rule, typename PrintValue>
static std::string printTable(const char *name, const std::vector<Rule> &rules, std::string Rule::*pattern,
                              const PrintValue &printValue) {
  std::string text = rules.empty() ? "" : std::string("\n[") + name + "]\n";
  for (const Rule &rule : rules)
    text += quoted(rule.*pattern) + " = " + printValue(rule) + "\n";
  return text;
}

static std::string printSplit(const char *name, const std::vector<SplitRule> &rules) {
  return printTable(name, rules, &SplitRule::pattern, [](const SplitRule &rule) { return std::to_string(rule.parts); });
}

std::string printChoices(const Choices &choices, bool isPipeline) {
  std::string text;
  if (isPipeline) {
    text += "timetable = " + quoted(choices.timetable) + "\n";
    if (choices.overlapSteps)
      text += "overlap_steps = true\n";
    if (!choices.layers.empty())
      text += "layers = [" +
              llvm::join(llvm::map_range(choices.layers, [](int64_t each) { return std::to_string(each); }), ", ") +
              "]\n";
    if (bool isOfAll = llvm::all_equal(choices.crossing); isOfAll && !choices.crossing.empty())
      text += "crossing = " + quoted(choices.crossing.front()) + "\n";
    else if (!isOfAll)
      text += "crossing = [" + llvm::join(llvm::map_range(choices.crossing, quoted), ", ") + "]\n";
  }
  text += "gather_ahead = " + std::to_string(choices.gatherAhead) + "\n";
  text += "bucket_bytes = " + quoted(abi::textOf(choices.bucketSize)) + "\n";
  bool isOfAll = choices.recompute.size() == 1 && choices.recompute.front().layers == "*";
  if (isOfAll)
    text += "recompute = " + quoted(printRecomputeRuns(choices.recompute.front().runs)) + "\n";
  else if (!choices.recompute.empty())
    text += "\n[recompute]\n";
  for (const RecomputeRule &rule : choices.recompute)
    if (!isOfAll)
      text += quoted(rule.layers) + " = " + quoted(printRecomputeRuns(rule.runs)) + "\n";
  text += printTable("gathers", choices.gathers, &GatherRule::parameters,
                     [](const GatherRule &rule) { return quoted(printGatherRuns(rule.runs)); });
  text += printTable("rows", choices.rows, &ParameterRule::parameters,
                     [](const ParameterRule &rule) { return quoted(rule.how); });
  text += printSplit("split", choices.split) + printSplit("split_gradients", choices.splitGradients);
  for (const BucketRule &rule : choices.buckets) {
    text += "\n[[bucket]]\nstarts = [" + llvm::join(llvm::map_range(rule.starts, quoted), ", ") + "]\n";
    if (rule.layers != 1)
      text += "layers = " + std::to_string(rule.layers) + "\n";
    if (!rule.why.empty())
      text += "why = " + quoted(rule.why) + "\n";
  }
  for (const OrderRule &rule : choices.order) {
    text += "\n[[order]]\n";
    if (rule.list != "*")
      text += "list = " + quoted(rule.list) + "\n";
    text +=
        "move = " + quoted(rule.move) + "\n" + (rule.isBefore ? "before = " : "after = ") + quoted(rule.anchor) + "\n";
    if (rule.layer != 0)
      text += "layer = " + std::to_string(rule.layer) + "\n";
  }
  return text;
}

} // namespace dtc
