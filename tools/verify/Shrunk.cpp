#include "tools/verify/Shrunk.h"

#include "runtime/abi/commands.h"
#include "runtime/abi/marks.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/timetables.h"
#include "tools/verify/Collectives.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <set>

namespace dtc::verify {

namespace {

/// A place in the model: ".attn" of layer 3; outside the layers the whole name.
struct Place {
  std::optional<int64_t> layer; ///< its number
  std::string within;
};

/// A collective, as its list starts it.
struct Started {
  std::string text, kind; ///< for people; "all-reduce over tp", and its value's and its own place within the layers
  /// Numbers of layers: that of its own place, and those of the places that it names.
  std::array<std::optional<int64_t>, 3> layers;
  int64_t before = 0; ///< the layer of the collective before it in the list, or the stage's first
  bool isPart = false; ///< of the same collective of several parts as the one before it

  /// A layer relative to this collective: its distance from the layer before, or from the collective's own layer.
  std::optional<int64_t> relative(size_t which) const {
    if (!layers[which])
      return std::nullopt;
    return *layers[which] - (which > 0 && layers[0] ? *layers[0] : before);
  }
};

/// Numbers of a stage's first and last layer.
struct LayerRange {
  int64_t first = 0, last = -1;
  int64_t size() const { return last - first + 1; }
};

} // namespace

static LayerRange rangeOf(const abi::Manifest &manifest, uint32_t stage) {
  if (stage >= uint32_t(manifest.stages_size()) || manifest.stages(int(stage)).layers().empty())
    return {};
  std::set<int64_t> numbers;
  for (uint32_t layer : manifest.stages(static_cast<int>(stage)).layers())
    numbers.insert(manifest.layers(static_cast<int>(layer)).number());
  return {*numbers.begin(), *numbers.rbegin()};
}

/// The layer is the longest prefix of the name, in whole parts, that names one.
static Place placeOf(const std::string &name, const std::map<std::string, int64_t> &numbers) {
  for (size_t end = name.size(); end != std::string::npos && end > 0; end = name.rfind('.', end - 1))
    if (auto layer = numbers.find(name.substr(0, end)); layer != numbers.end())
      return {layer->second, name.substr(end)};
  return {std::nullopt, name};
}

/// Of a resolved list.
static std::vector<Started> startsOf(const abi::CommandList &list, const abi::Manifest &manifest) {
  std::map<std::string, int64_t> numbers;
  for (const abi::Layer &layer : manifest.layers())
    numbers[abi::nameOf(layer)] = layer.number();
  std::vector<Started> all;
  for (int number = 0; number < list.commands_size(); ++number) {
    const abi::Command &command = list.commands(number);
    if (!command.has_start())
      continue;
    std::string location = abi::locationOf(manifest, command);
    Place value = placeOf(command.start().value(), numbers), where = placeOf(location, numbers);
    abi::Collective named = command.start();
    named.set_value(value.within);
    Started started{
        describe(command.start(), manifest) + " at " + location, describe(named, manifest) + " at " + where.within, {}};
    started.isPart = abi::isPart(list, number);
    if (command.has_layer() && command.layer() < uint32_t(manifest.layers_size()))
      started.layers[0] = manifest.layers(static_cast<int>(command.layer())).number();
    started.layers[1] = value.layer;
    started.layers[2] = where.layer;
    all.push_back(std::move(started));
  }
  return all;
}

namespace {
/// A list that a role runs, resolved for the first entry that runs it.
struct RunList {
  abi::CommandList list;
  uint32_t stage;
};
} // namespace

/// In the order in which the role's timetables name them.
static std::vector<RunList> listsOf(const abi::Manifest &manifest, const abi::Role &role) {
  abi::Resolver resolver(manifest, role);
  std::set<std::string_view> known;
  std::vector<RunList> lists;
  for (const abi::Timetable &timetable : role.timetables())
    abi::forEachEntry(timetable, [&](const abi::TimetableEntry &entry) {
      if (known.insert(entry.list()).second)
        lists.push_back({resolver.resolve(entry), entry.stage()});
    });
  return lists;
}

//===----------------------------------------------------------------------===//
// Buckets
//===----------------------------------------------------------------------===//

namespace {

/// Kinds of collectives that are parts of one start anywhere, so that a list starts those of several layers at once:
/// how many layers depends on how many there are. So each row of kinds that meet in buckets is compared by itself.
class BucketRows {
public:
  void add(const std::vector<Started> &starts) {
    for (size_t i = 1; i < starts.size(); ++i)
      if (starts[i].isPart) {
        std::string one = first(starts[i].kind), other = first(starts[i - 1].kind);
        rows[std::max(one, other)] = std::min(one, other);
      }
  }
  /// Of all lists of a program.
  void add(const abi::Manifest &manifest) {
    for (const abi::Role &role : manifest.roles())
      for (const RunList &each : listsOf(manifest, role))
        add(startsOf(each.list, manifest));
  }

  /// The starts of each row, in order, keyed by one of its kinds; under "" the starts of no bucket.
  std::map<std::string, std::vector<Started>> split(const std::vector<Started> &starts, const LayerRange &range) {
    std::map<std::string, std::vector<Started>> split;
    for (const Started &each : starts)
      split[rowOf(each.kind)].push_back(each);
    for (auto &[row, own] : split) {
      int64_t before = range.first;
      for (Started &each : own) {
        each.before = before;
        before = each.layers[0].value_or(before);
      }
    }
    return split;
  }

  std::string rowOf(const std::string &kind) { return rows.contains(kind) ? first(kind) : ""; }

private:
  std::string first(const std::string &kind) {
    std::string known = rows.try_emplace(kind, kind).first->second;
    return known == kind ? kind : first(known);
  }
  std::map<std::string, std::string> rows; ///< by kind: a smaller kind of the same row, or the kind itself
};

} // namespace

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

/// The same collective in another layer of the same program.
static bool isRepeated(const Started &a, const Started &b) {
  for (size_t i = 0; i < a.layers.size(); ++i)
    if (a.relative(i) != b.relative(i))
      return false;
  return a.kind == b.kind;
}

/// The same collective in programs whose stages have different layers: relative to each other, or to the stage's first
/// or last layer.
static bool areAlike(const Started &a, const LayerRange &ofA, const Started &b, const LayerRange &ofB) {
  for (size_t i = 0; i < a.layers.size(); ++i) {
    if (a.layers[i].has_value() != b.layers[i].has_value())
      return false;
    if (a.layers[i] && a.relative(i) != b.relative(i) && *a.layers[i] - ofA.first != *b.layers[i] - ofB.first &&
        *a.layers[i] - ofA.last != *b.layers[i] - ofB.last)
      return false;
  }
  return a.kind == b.kind;
}

/// The length of the sequence before `at` that is repeated `times` times from there, moving one layer forward or back
/// each time; 0 where there is none.
static size_t findRepeated(const std::vector<Started> &all, size_t at, size_t times) {
  auto layerAt = [&](size_t place) {
    return place < all.size() ? all[place].before : all.back().layers[0].value_or(all.back().before);
  };
  for (size_t length = 1; length <= at && at + length * times <= all.size(); ++length) {
    if (std::abs(layerAt(at + length) - layerAt(at)) != 1)
      continue;
    size_t same = 0;
    while (same < length * times && isRepeated(all[at + same], all[at + same - length]))
      ++same;
    if (same == length * times)
      return length;
  }
  return 0;
}

static std::string compareOrder(const std::vector<Started> &shrunk, const LayerRange &fewer,
                                const std::vector<Started> &full, const LayerRange &all) {
  size_t i = 0, more = static_cast<size_t>(std::max<int64_t>(all.size() - fewer.size(), 0));
  for (size_t j = 0; i < shrunk.size() || j < full.size();) {
    if (i < shrunk.size() && j < full.size() && areAlike(shrunk[i], fewer, full[j], all)) {
      ++i;
      ++j;
    } else if (size_t length = more == 0 ? 0 : findRepeated(full, j, more); length > 0) {
      j += length * more;
    } else {
      return fmt::format("collective {}: the shrunk program has {}, the full one {}", j,
                         i < shrunk.size() ? shrunk[i].text : "no more", j < full.size() ? full[j].text : "no more");
    }
  }
  return "";
}

/// Compares the collectives that are started alone, and each row of kinds that meet in buckets.
static std::string compareRows(const std::vector<Started> &shrunk, const LayerRange &fewer,
                               const std::vector<Started> &full, const LayerRange &all, BucketRows &rows) {
  auto few = rows.split(shrunk, fewer), many = rows.split(full, all);
  for (auto &[row, starts] : many)
    few[row];
  for (auto &[row, starts] : few)
    if (std::string difference = compareOrder(starts, fewer, many[row], all); !difference.empty())
      return difference;
  return "";
}

//===----------------------------------------------------------------------===//
// Classes
//===----------------------------------------------------------------------===//

namespace {

/// What a layer does: everything, to compare layers of one program; its collectives, to compare programs of different
/// sizes.
struct LayerDuties {
  std::string all, collectives;
  std::multiset<std::string> inBuckets{}; ///< collectives whose place in the order is a bucket's, not the layer's
};

} // namespace

static bool startAlike(const LayerDuties &one, const LayerDuties &other) {
  return one.collectives == other.collectives && one.inBuckets == other.inBuckets;
}

/// The layers of a stage, in order; neighbours that do the same are listed once.
static std::vector<LayerDuties> classesOf(const abi::Manifest &manifest, uint32_t stage, BucketRows &rows) {
  LayerRange range = rangeOf(manifest, stage);
  std::map<int64_t, LayerDuties> duties;
  for (const abi::Role &role : manifest.roles())
    for (size_t index = 0; const RunList &each : listsOf(manifest, role)) {
      ++index;
      if (each.stage != stage)
        continue;
      for (const Started &started : startsOf(each.list, manifest)) {
        if (!started.layers[0])
          continue;
        LayerDuties &own = duties[*started.layers[0]];
        std::string text = fmt::format("{}: {} {} {}\n", index, started.kind, started.relative(1).value_or(0),
                                       started.relative(2).value_or(0));
        if (rows.rowOf(started.kind).empty())
          own.collectives += text;
        else
          own.inBuckets.insert(text);
      }
      for (const abi::Command &command : each.list.commands())
        if (command.has_layer() && command.has_launch())
          duties[manifest.layers(static_cast<int>(command.layer())).number()].all +=
              fmt::format("{}: {} of {} at {} on {}\n", index, static_cast<int>(command.direction()),
                          command.launch().kernel(), command.location(),
                          fmt::join(command.launch().buffer_bytes(), " "));
    }
  std::vector<LayerDuties> classes;
  for (int64_t layer = range.first; layer <= range.last; ++layer)
    if (const LayerDuties &own = duties[layer];
        classes.empty() || classes.back().all != own.all || !startAlike(classes.back(), own))
      classes.push_back(own);
  return classes;
}

std::vector<int64_t> layersToKeep(const abi::Manifest &full) {
  std::set<std::string_view> names;
  for (const abi::Layer &layer : full.layers())
    names.insert(layer.list());
  std::vector<int64_t> kept;
  BucketRows rows;
  rows.add(full);
  for (int stage = 0; stage < full.stages_size(); ++stage) {
    int64_t count = full.stages(stage).layers_size();
    bool isSimple = names.size() == 1 && rangeOf(full, static_cast<uint32_t>(stage)).size() == count;
    auto classes = static_cast<int64_t>(isSimple ? classesOf(full, static_cast<uint32_t>(stage), rows).size() : count);
    kept.push_back(std::min(count, std::max<int64_t>(classes, 2)));
  }
  return kept;
}

/// Stages with equally many layers are not compared: there sizes decide which kernels there are, and all layers are
/// run.
static std::string compareClasses(const abi::Manifest &shrunk, const abi::Manifest &full, uint32_t stage,
                                  BucketRows &rows) {
  if (rangeOf(shrunk, stage).size() == rangeOf(full, stage).size())
    return "";
  std::vector<LayerDuties> few = classesOf(shrunk, stage, rows), all = classesOf(full, stage, rows);
  if (few.size() != all.size())
    return fmt::format("stage {}: the shrunk program has {} classes of layers, the full one {}", stage, few.size(),
                       all.size());
  for (size_t i = 0; i < all.size(); ++i)
    if (!startAlike(few[i], all[i]))
      return fmt::format("stage {}: layers of class {} start other collectives in the shrunk program than in the full "
                         "one",
                         stage, i);
  return "";
}

std::string compareCollectives(const abi::Manifest &shrunk, const abi::Manifest &full) {
  if (shrunk.roles_size() != full.roles_size() || shrunk.stages_size() != full.stages_size())
    return fmt::format("the shrunk program has {} roles and {} stages, the full one {} and {}", shrunk.roles_size(),
                       shrunk.stages_size(), full.roles_size(), full.stages_size());
  BucketRows rows;
  rows.add(shrunk);
  rows.add(full);
  for (int role = 0; role < full.roles_size(); ++role) {
    std::vector<RunList> a = listsOf(shrunk, shrunk.roles(role)), b = listsOf(full, full.roles(role));
    if (a.size() != b.size())
      return fmt::format("the shrunk program has {} lists, the full one {}", a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      LayerRange fewer = rangeOf(shrunk, a[i].stage), all = rangeOf(full, b[i].stage);
      if (std::string difference =
              compareRows(startsOf(a[i].list, shrunk), fewer, startsOf(b[i].list, full), all, rows);
          !difference.empty())
        return fmt::format("list '{}', {}", b[i].list.name(), difference);
    }
  }
  for (int stage = 0; stage < full.stages_size(); ++stage)
    if (std::string difference = compareClasses(shrunk, full, static_cast<uint32_t>(stage), rows); !difference.empty())
      return difference;
  return "";
}

} // namespace dtc::verify
