#include "tools/dtc/report/RunTrace.h"

#include "runtime/abi/marks.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

namespace dtc {

static std::string textAt(const nlohmann::json &object, const char *key) {
  auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

static double numberAt(const nlohmann::json &object, const char *key) {
  auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

static int64_t wholeAt(const nlohmann::json &object, const char *key) {
  auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

std::string_view nameOf(SliceKind kind) {
  switch (kind) {
  case SliceKind::Forward:
    return abi::nameOf(abi::FORWARD);
  case SliceKind::InputGradient:
    return abi::nameOf(abi::INPUT_GRADIENT);
  case SliceKind::WeightGradient:
    return abi::nameOf(abi::WEIGHT_GRADIENT);
  case SliceKind::Update:
    return abi::nameOf(abi::UPDATE);
  case SliceKind::Kernel:
    return "other kernels";
  case SliceKind::Start:
    return "start";
  case SliceKind::Wait:
    return "wait";
  case SliceKind::Exchange:
    return "communication";
  case SliceKind::Copy:
    return "copies";
  }
  return "";
}

static bool isOfPass(const std::string &direction) {
  return direction == abi::nameOf(abi::FORWARD) || direction == abi::nameOf(abi::INPUT_GRADIENT) ||
         direction == abi::nameOf(abi::WEIGHT_GRADIENT);
}

static SliceKind kindOf(const std::string &category, const std::string &direction) {
  static const std::map<std::string_view, SliceKind> categories = {{"start", SliceKind::Start},
                                                                   {"wait", SliceKind::Wait},
                                                                   {"collective", SliceKind::Exchange},
                                                                   {"transfer", SliceKind::Exchange},
                                                                   {"copy", SliceKind::Copy}};
  if (auto found = categories.find(category); found != categories.end())
    return found->second;
  for (SliceKind kind : {SliceKind::Forward, SliceKind::InputGradient, SliceKind::WeightGradient, SliceKind::Update})
    if (direction == nameOf(kind))
      return kind;
  return SliceKind::Kernel;
}

namespace {
/// Processes the events one by one, so that a trace of many ranks is never in memory as JSON.
class Reader {
public:
  void take(const nlohmann::json &event) {
    std::string phase = textAt(event, "ph");
    if (phase == "M" && textAt(event, "name") == "thread_name")
      laneNames[{wholeAt(event, "pid"), wholeAt(event, "tid")}] =
          event.contains("args") ? textAt(event["args"], "name") : "";
    else if (phase == "X")
      takeSlice(event);
  }

  RunTrace finish() {
    double first = std::numeric_limits<double>::max();
    forEachTime([&](double &begin, double *) { first = std::min(first, begin); });
    forEachTime([&](double &begin, double *end) {
      begin -= first;
      if (end)
        *end -= first;
    });
    for (auto &[rank, its] : trace.ranks)
      for (auto &[thread, lane] : its.lanes) {
        std::ranges::stable_sort(lane.slices, {}, &TraceSlice::begin);
        auto name = laneNames.find({rank, thread});
        lane.name = name == laneNames.end() ? fmt::format("thread {}", thread) : name->second;
      }
    return std::move(trace);
  }

private:
  void takeSlice(const nlohmann::json &event) {
    static const nlohmann::json none = nlohmann::json::object();
    RankTrace &rank = trace.ranks[wholeAt(event, "pid")];
    double begin = numberAt(event, "ts"), length = std::max(numberAt(event, "dur"), 0.0);
    std::string category = textAt(event, "cat"), name = textAt(event, "name");
    if (category == "step") {
      int64_t number = 0;
      size_t space = std::min(name.rfind(' '), name.size() - 1);
      std::from_chars(name.data() + space + 1, name.data() + name.size(), number);
      rank.steps.push_back({number, begin, begin + length});
      return;
    }
    auto found = event.find("args");
    const nlohmann::json &arguments = found != event.end() && found->is_object() ? *found : none;
    std::string location = textAt(arguments, "location");
    std::string layer = textAt(arguments, "layer"), direction = textAt(arguments, "direction");
    bool saysWhere = location.empty() || name.find(location) != std::string::npos;
    rank.lanes[wholeAt(event, "tid")].slices.push_back({.begin = begin,
                                                        .length = length,
                                                        .name = numberOf(saysWhere ? name : name + " · " + location),
                                                        .work = numberIn(trace.classes, classNumbers, name),
                                                        .kind = kindOf(category, direction),
                                                        .list = numberOf(textAt(arguments, "list")),
                                                        .command = wholeAt(arguments, "command"),
                                                        .layer = layer.empty() ? -1 : layerNumberOf(layer),
                                                        .isOfPass = isOfPass(direction)});
  }

  /// Calls visit(begin, end) for slices (whose end is null: they have a duration) and steps.
  template <typename Visit> void forEachTime(Visit visit) {
    for (auto &[number, rank] : trace.ranks) {
      for (auto &[thread, lane] : rank.lanes)
        for (TraceSlice &slice : lane.slices)
          visit(slice.begin, nullptr);
      for (RankTrace::Step &step : rank.steps)
        visit(step.begin, &step.end);
    }
  }

  using Numbers = std::unordered_map<std::string, uint32_t>;
  static uint32_t numberIn(std::vector<std::string> &all, Numbers &numbers, const std::string &name) {
    auto [place, isNew] = numbers.try_emplace(name, static_cast<uint32_t>(all.size()));
    if (isNew)
      all.push_back(name);
    return place->second;
  }
  uint32_t numberOf(const std::string &name) { return numberIn(trace.names, nameNumbers, name); }
  int32_t layerNumberOf(const std::string &name) {
    return static_cast<int32_t>(numberIn(trace.layers, layerNumbers, name));
  }

  RunTrace trace;
  std::map<std::pair<int64_t, int64_t>, std::string> laneNames; // by rank and thread
  Numbers nameNumbers, classNumbers, layerNumbers;
};
} // namespace

RunTrace RunTrace::parse(std::string_view text, const std::string &path) {
  constexpr int EventDepth = 2; // in the list "traceEvents" of one object
  Reader reader;
  auto take = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json &parsed) {
    if (depth != EventDepth || event != nlohmann::json::parse_event_t::object_end)
      return true;
    reader.take(parsed);
    return false;
  };
  try {
    [[maybe_unused]] nlohmann::json rest = nlohmann::json::parse(text, take);
  } catch (const nlohmann::json::exception &error) {
    throw Error(ExitCode::BadInput, fmt::format("'{}' is not a complete trace: {}", path, error.what()));
  }
  return reader.finish();
}

bool RankTrace::isInStep(const TraceSlice &slice) const {
  return std::ranges::any_of(steps,
                             [&](const Step &step) { return slice.begin >= step.begin && slice.begin < step.end; });
}

double RunTrace::end() const {
  double last = 0;
  for (const auto &[number, rank] : ranks)
    for (const auto &[thread, lane] : rank.lanes)
      for (const TraceSlice &slice : lane.slices)
        last = std::max(last, slice.end());
  return last;
}

} // namespace dtc
