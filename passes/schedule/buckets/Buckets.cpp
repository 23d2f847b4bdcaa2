#include "passes/schedule/buckets/Buckets.h"

#include "runtime/abi/commands.h"
#include "runtime/support/suggest.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>

namespace dtc {

std::string bucketKey(const FlatCommand &start, const FlatMove &move) {
  auto number = [](auto value) { return std::to_string(static_cast<int>(value)); };
  return number(start.direction) + " " + number(move.kind) + " " + number(move.reduction) + " " + number(move.type) +
         " " + move.group.SerializeAsString();
}

/// For each command the first one that must come after it.
static std::vector<int> firstBehind(const FlatFunction &function) {
  std::vector<int> first(function.commands.size(), std::numeric_limits<int>::max());
  for (size_t number = 0; number < function.commands.size(); ++number)
    for (int before : function.commands[number].after)
      first[static_cast<size_t>(before)] = std::min(first[static_cast<size_t>(before)], static_cast<int>(number));
  return first;
}

namespace {

/// A bucket that may get more parts.
struct Open {
  std::vector<int> starts;
  std::set<int64_t> layers;
  int limit = std::numeric_limits<int>::max(); ///< the first command that must come after one of them

  bool takes(int number, const FlatCommand &start, const BucketRule &rule) const {
    return number < limit && starts.size() < abi::MaximumParts &&
           (start.layers.empty() || layers.contains(start.layer) || layers.size() < static_cast<size_t>(rule.layers));
  }
};

} // namespace

std::vector<Bucket> findBuckets(const std::vector<BucketRule> &rules, const FlatFunction &function,
                                const std::vector<FlatMove> &moves) {
  std::unordered_map<std::string, const BucketRule *> ruleOf;
  for (const BucketRule &rule : rules)
    for (const std::string &start : rule.starts)
      ruleOf[start] = &rule;
  std::vector<int> behind = firstBehind(function);
  std::map<std::pair<const BucketRule *, std::string>, Open> open;
  std::vector<Bucket> buckets;
  auto close = [&](Open &bucket, const BucketRule *rule) {
    if (bucket.starts.size() > 1)
      buckets.push_back({std::move(bucket.starts), rule});
    bucket = {};
  };
  for (size_t i = 0; i < function.commands.size(); ++i) {
    const FlatCommand &command = function.commands[i];
    auto rule = command.mayJoin ? ruleOf.find(command.name) : ruleOf.end();
    if (rule == ruleOf.end())
      continue;
    auto number = static_cast<int>(i);
    Open &bucket = open[{rule->second, bucketKey(command, moves[static_cast<size_t>(command.move)])}];
    if (!bucket.takes(number, command, *rule->second))
      close(bucket, rule->second);
    bucket.starts.push_back(number);
    bucket.limit = std::min(bucket.limit, behind[i]);
    if (!command.layers.empty())
      bucket.layers.insert(command.layer);
  }
  for (auto &[key, bucket] : open)
    close(bucket, key.first);
  std::ranges::sort(buckets, {}, [](const Bucket &bucket) { return bucket.starts.back(); });
  return buckets;
}

FlatOrder orderOf(const std::vector<Bucket> &buckets, const FlatFunction &function) {
  // What replaces the command at a place: nothing, or several.
  std::map<int, std::vector<int>> instead;
  for (const Bucket &bucket : buckets) {
    std::vector<int> waits;
    for (int start : bucket.starts) {
      instead[start] = {};
      waits.push_back(function.commands[static_cast<size_t>(start)].users.front());
      instead[waits.back()] = {};
    }
    instead[bucket.starts.back()] = bucket.starts;
    instead[*std::ranges::min_element(waits)] = waits;
  }
  FlatOrder order;
  for (int number : foundOrder(function))
    if (auto other = instead.find(number); other != instead.end())
      order.insert(order.end(), other->second.begin(), other->second.end());
    else
      order.push_back(number);
  return order;
}

std::string findUnknownStart(const std::vector<BucketRule> &rules, const std::vector<const FlatRole *> &roles) {
  std::set<std::string> known, others;
  for (const FlatRole *role : roles)
    for (const FlatFunction &function : role->functions)
      for (const FlatCommand &command : function.commands)
        if (command.kind == FlatCommand::Kind::Start)
          (command.mayJoin ? known : others).insert(command.name);
  for (const BucketRule &rule : rules)
    for (const std::string &start : rule.starts)
      if (!known.contains(start))
        return rule.where + ": bucket: " +
               (others.contains(start) ? "'" + start +
                                             "' neither reduces a gradient nor gathers a parameter, or other "
                                             "stages take part: it starts by itself"
                                       : "no collective is called '" + start + "'" + didYouMean(start, known));
  return "";
}

} // namespace dtc
