#include "passes/schedule/buckets/ChooseBuckets.h"

#include "passes/schedule/buckets/Buckets.h"
#include "runtime/abi/mesh.h"
#include "runtime/abi/written.h"
#include "timing/cost/cost.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace dtc {

StartCosts assumedCosts() {
  StartCosts costs;
  costs.links = "links assumed to have 5 us and 25 GB/s, as no cluster was named";
  costs.mostBytes = 1e6;
  costs.of = [](const FlatMove &move, double payload) {
    constexpr double latency = 5e-6, bandwidth = 25e9;
    auto members = static_cast<double>(abi::membersOf(move.group));
    double rounds = move.kind == abi::Collective::ALL_REDUCE ? 2 : 1;
    return StartCost{rounds * (members - 1) * latency, rounds * (members - 1) / members * payload / bandwidth};
  };
  return costs;
}

StartCosts costsOn(const timing::Layout &layout, const abi::Mesh &mesh) {
  StartCosts costs;
  costs.links = "the links of " + layout.cluster().name();
  costs.of = [&layout, mesh = Mesh(mesh)](const FlatMove &move, double payload) {
    std::vector<int> ranks = mesh.group(0, move.group).ranks;
    timing::Span span = layout.spanOf(std::vector<int64_t>(ranks.begin(), ranks.end()));
    timing::CollectiveCost cost = timing::collectiveCost(layout.cluster(), move.kind, payload, span, move.type);
    return StartCost{cost.latency, cost.seconds - cost.latency};
  };
  return costs;
}

namespace {

/// Starts with one name: one in each layer, or a single one.
struct StartClass {
  std::string name;
  bool isOfLayers;
  double bytes;
};

/// Starts of one kind, group and type, in their order.
struct Family {
  const FlatMove *move;
  std::vector<StartClass> classes;
  int64_t layers = 0; ///< in one list
  const FlatRole *role = nullptr;
  int function = -1; ///< the one with the most of them
  size_t starts = 0; ///< there

  double bytesOf(bool ofLayers) const {
    double bytes = 0;
    for (const StartClass &each : classes)
      bytes += each.isOfLayers == ofLayers ? each.bytes : 0;
    return bytes;
  }
};

/// A number of seconds or bytes, for people.
std::string amountText(double value, std::initializer_list<std::pair<double, const char *>> units) {
  std::string text;
  llvm::raw_string_ostream out(text);
  for (auto [unit, name] : units)
    if (value >= unit || unit == std::prev(units.end())->first) {
      out << llvm::format("%.3g ", value / unit) << name;
      break;
    }
  return text;
}
std::string secondsText(double value) { return amountText(value, {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}}); }
std::string bytesText(double value) { return amountText(value, {{1e9, "GB"}, {1e6, "MB"}, {1e3, "KB"}, {1, "bytes"}}); }
std::string countText(int64_t count, const std::string &what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

class Chooser {
public:
  Chooser(const std::vector<const FlatRole *> &roles, const abi::BucketSize &size, const StartCosts &costs)
      : size(size), costs(costs), roles(roles) {}

  ChosenBuckets choose(const std::vector<BucketRule> &given) {
    std::set<std::string> named;
    for (const BucketRule &rule : given)
      named.insert(rule.starts.begin(), rule.starts.end());
    collect(named);
    if (size.kind == abi::BucketSize::Kind::Bytes && largest > 0 && static_cast<double>(size.bytes) > largest)
      chosen.problem = "bucket_bytes " + abi::textOf(size) + " is more than all gradients that a list reduces, " +
                       bytesText(largest) +
                       ": nothing would be reduced until the last of them is ready. Write fewer bytes, or \"auto\"";
    else
      for (auto &[key, family] : families)
        size.kind == abi::BucketSize::Kind::Bytes ? chooseBytes(family) : chooseByCosts(family);
    return std::move(chosen);
  }

private:
  void collect(std::set<std::string> named);
  void chooseBytes(const Family &family);
  void chooseByCosts(const Family &family);
  void chooseParts(const Family &small);
  int64_t mostLayers(const Family &small) const;
  void add(const Family &small, int64_t layers, std::string why);

  abi::BucketSize size;
  const StartCosts &costs;
  const std::vector<const FlatRole *> &roles;
  std::map<std::string, Family> families;
  double largest = 0; ///< bytes of gradients that one list reduces
  ChosenBuckets chosen;
};

} // namespace

/// If functions start the same, the first one names the classes; the one with the most starts serves to try how many
/// can go together.
void Chooser::collect(std::set<std::string> named) {
  for (const FlatRole *role : roles)
    for (size_t number = 0; number < role->functions.size(); ++number) {
      std::map<std::string, std::pair<std::set<int64_t>, size_t>> here; // layers and starts of families
      double reduced = 0;
      for (const FlatCommand &command : role->functions[number].commands) {
        if (!command.mayJoin)
          continue;
        const FlatMove &move = role->moves[static_cast<size_t>(command.move)];
        if (move.kind == abi::Collective::ALL_REDUCE || move.kind == abi::Collective::REDUCE_SCATTER)
          reduced += move.payload;
        std::string key = bucketKey(command, move);
        Family &family = families.try_emplace(key, Family{&move, {}}).first->second;
        if (!command.layers.empty())
          here[key].first.insert(command.layer);
        ++here[key].second;
        if (named.insert(command.name).second)
          family.classes.push_back({command.name, !command.layers.empty(), move.payload});
      }
      largest = std::max(largest, reduced);
      for (auto &[key, found] : here)
        if (Family &family = families.at(key); found.second > family.starts) {
          family.layers = static_cast<int64_t>(found.first.size());
          family.role = role;
          family.function = static_cast<int>(number);
          family.starts = found.second;
        }
    }
}

/// How many layers could be started together, whatever their size.
int64_t Chooser::mostLayers(const Family &small) const {
  BucketRule all{{}, std::max<int64_t>(1, small.layers), "", ""};
  for (const StartClass &each : small.classes)
    all.starts.push_back(each.name);
  const FlatFunction &function = small.role->functions[static_cast<size_t>(small.function)];
  size_t most = 1;
  for (const Bucket &bucket : findBuckets({all}, function, small.role->moves)) {
    std::set<int64_t> layers;
    for (int start : bucket.starts)
      if (const FlatCommand &command = function.commands[static_cast<size_t>(start)]; !command.layers.empty())
        layers.insert(command.layer);
    most = std::max(most, layers.size());
  }
  return static_cast<int64_t>(most);
}

void Chooser::add(const Family &small, int64_t layers, std::string why) {
  BucketRule &rule = chosen.rules.emplace_back(BucketRule{{}, layers, std::move(why), ""});
  for (const StartClass &each : small.classes)
    rule.starts.push_back(each.name);
}

void Chooser::chooseBytes(const Family &family) {
  auto most = static_cast<double>(size.bytes);
  Family small = family;
  llvm::erase_if(small.classes, [&](const StartClass &each) { return each.bytes >= most; });
  double layer = small.bytesOf(true), others = small.bytesOf(false);
  if (layer == 0 || layer + others > most)
    return chooseParts(small);
  int64_t fitting = static_cast<int64_t>((most - others) / layer), layers = std::min(fitting, mostLayers(small));
  if (small.classes.size() > 1 || layers > 1)
    add(small, layers,
        "bucket_bytes " + abi::textOf(size) + ": " + countText(layers, "layer") + " of " + bytesText(layer) + ", " +
            (layers == fitting ? "as many as fit" : "as many as there are before the first is waited for"));
}

/// For a layer that is too large for one bucket: buckets with as many starts as fit, one after the other; likewise for
/// what is in no layer.
void Chooser::chooseParts(const Family &small) {
  for (bool ofLayers : {true, false}) {
    Family part{small.move, {}};
    double bytes = 0;
    auto close = [&] {
      if (part.classes.size() > 1)
        add(part, 1, "bucket_bytes " + abi::textOf(size) + ": " + bytesText(bytes) + ", the next would not fit");
      part.classes.clear();
      bytes = 0;
    };
    for (const StartClass &each : small.classes) {
      if (each.isOfLayers != ofLayers)
        continue;
      if (bytes + each.bytes > static_cast<double>(size.bytes))
        close();
      part.classes.push_back(each);
      bytes += each.bytes;
    }
    close();
  }
}

void Chooser::chooseByCosts(const Family &family) {
  Family small = family;
  llvm::erase_if(small.classes, [&](const StartClass &each) {
    StartCost cost = costs.of(*family.move, each.bytes);
    return cost.latency <= cost.moving || (costs.mostBytes > 0 && each.bytes > costs.mostBytes);
  });
  double layer = small.bytesOf(true), others = small.bytesOf(false);
  if (small.classes.size() < 2 && (layer == 0 || family.layers < 2))
    return;
  // With this many layers in each: the latencies of all starts, and the last one's moving.
  auto seconds = [&](int64_t layers) {
    double starts = std::ceil(static_cast<double>(std::max<int64_t>(1, family.layers)) / static_cast<double>(layers));
    StartCost last = costs.of(*family.move, static_cast<double>(layers) * layer + others);
    return std::pair(starts * last.latency, last.moving);
  };
  int64_t best = 1, most = mostLayers(small);
  for (int64_t layers = 2; layers <= most; ++layers) {
    bool isTooLarge = costs.mostBytes > 0 && static_cast<double>(layers) * layer + others > costs.mostBytes;
    auto sum = [&](int64_t count) { return seconds(count).first + seconds(count).second; };
    if (!isTooLarge && sum(layers) < sum(best))
      best = layers;
  }
  double alone = 0; // in as many starts as there are
  for (const StartClass &each : small.classes)
    alone += costs.of(*family.move, each.bytes).latency * static_cast<double>(each.isOfLayers ? family.layers : 1);
  auto [latency, moving] = seconds(best);
  add(small, best,
      (layer > 0 ? countText(best, "layer") + " together: " : "together: ") + "the starts' latency is " +
          secondsText(latency) + " a list instead of " + secondsText(alone) + ", and the last bucket, " +
          bytesText(static_cast<double>(layer > 0 ? best : 0) * layer + others) + " which nothing hides, moves for " +
          secondsText(moving) + ", by " + costs.links);
}

ChosenBuckets chooseBuckets(const std::vector<const FlatRole *> &roles, const abi::BucketSize &size,
                            const StartCosts &costs, const std::vector<BucketRule> &given) {
  if (size.kind == abi::BucketSize::Kind::None)
    return {};
  return Chooser(roles, size, costs).choose(given);
}

} // namespace dtc
