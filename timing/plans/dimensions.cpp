// The dimensions, one after the other: for each, its values, how a value is set, and how a user writes it.
#include "timing/plans/dimensions.h"
#include "timing/plans/places.h"
#include "timing/timetables/named.h"
#include "timing/timetables/pipedream.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>

namespace dtc::plans {

namespace {

using Values = std::vector<std::string>;

/// In the usual order: the axis that talks most is innermost.
constexpr std::array<std::string_view, 4> usualOrder = {"pp", "dp", "cp", "tp"};

/// As many stages as dt-cut makes (passes/analysis/StageSet.h).
constexpr int64_t mostStagesOfPlans = 128;

std::vector<int64_t> divisorsOf(int64_t number) {
  std::vector<int64_t> small, large;
  for (int64_t divisor = 1; divisor * divisor <= number; ++divisor)
    if (number % divisor == 0) {
      small.push_back(divisor);
      if (divisor * divisor != number)
        large.push_back(number / divisor);
    }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

/// Divisors that are possible, as values.
template <typename IsPossible> Values divisorValues(int64_t number, const IsPossible &isPossible) {
  Values values;
  for (int64_t divisor : divisorsOf(number))
    if (isPossible(divisor))
      values.push_back(std::to_string(divisor));
  return values;
}

/// A number of at least `least`; otherwise 0.
int64_t numberOf(std::string_view text, int64_t least) {
  int64_t number = 0;
  auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && end == text.data() + text.size() && number >= least ? number : 0;
}

std::string readNumber(std::string_view text) {
  int64_t number = numberOf(text, 1);
  return number > 0 ? std::to_string(number) : "";
}

/// One of a list.
template <Values (*list)()> std::string readWord(std::string_view text) {
  Values words = list();
  return std::find(words.begin(), words.end(), text) == words.end() ? "" : std::string(text);
}

constexpr size_t usualPlace(std::string_view axis) {
  return static_cast<size_t>(std::find(usualOrder.begin(), usualOrder.end(), axis) - usualOrder.begin());
}

/// Sets the axis whose usual place this is. One of a single rank is none.
template <size_t axis> void setAxis(Candidate &candidate, const std::string &value) {
  std::vector<MeshAxis> &mesh = candidate.mesh;
  auto isReached = [](const MeshAxis &each) { return usualPlace(each.name) >= axis; };
  auto place = std::find_if(mesh.begin(), mesh.end(), isReached);
  if (place != mesh.end() && place->name == usualOrder[axis])
    place = mesh.erase(place);
  if (int64_t size = numberOf(value, 1); size > 1)
    mesh.insert(place, MeshAxis{std::string(usualOrder[axis]), size});
}

int64_t devicesLeft(const Problem &problem, const Candidate &decided) {
  return problem.devices / (decided.sizeOf("tp") * decided.sizeOf("cp") * decided.sizeOf("pp"));
}

/// Whether all ranks have equally many heads. Fewer key heads than ranks are fine: then queries of a group are split,
/// too (passes/place/Presets.cpp). More of them that do not divide would leave ranks with fewer.
bool doHeadsDivide(const ModelFacts &model, int64_t tp) {
  if (tp == 1)
    return true;
  bool doKeysDivide = model.keyHeads < tp || model.keyHeads % tp == 0;
  bool isWideEnough = model.hidden == 0 || tp <= model.hidden;
  return model.heads > 0 && model.heads % tp == 0 && doKeysDivide && isWideEnough;
}

Values tensorRanks(const Problem &problem, const Candidate &) {
  return divisorValues(problem.devices, [&](int64_t tp) { return doHeadsDivide(problem.model, tp); });
}

/// The host feeds equal pieces of a sequence.
Values contextRanks(const Problem &problem, const Candidate &decided) {
  int64_t sequence = problem.model.sequence;
  return divisorValues(devicesLeft(problem, decided),
                       [&](int64_t cp) { return cp == 1 || (sequence > 0 && sequence % cp == 0); });
}

Values pipelineRanks(const Problem &problem, const Candidate &decided) {
  int64_t most = std::min(problem.model.layers, mostStagesOfPlans);
  return divisorValues(devicesLeft(problem, decided), [&](int64_t pp) { return pp == 1 || pp <= most; });
}

/// All that is left: other ranks would have nothing to do.
Values dataRanks(const Problem &problem, const Candidate &decided) {
  int64_t dp = devicesLeft(problem, decided);
  return problem.model.batch > 0 && problem.model.batch % dp == 0 ? Values{std::to_string(dp)} : Values();
}

/// "pp>dp>tp"; "dp" for a single device, whose mesh is dp=1.
std::string orderOf(const std::vector<MeshAxis> &mesh) {
  std::string text;
  for (const MeshAxis &axis : mesh)
    text += (text.empty() ? "" : ">") + axis.name;
  return text.empty() ? "dp" : text;
}

std::vector<std::string_view> axesOf(std::string_view order) {
  std::vector<std::string_view> axes;
  while (true) {
    size_t end = order.find('>');
    axes.push_back(order.substr(0, end));
    if (end == std::string_view::npos)
      return axes;
    order.remove_prefix(end + 1);
  }
}

bool isUsualBefore(const MeshAxis &a, const MeshAxis &b) { return usualPlace(a.name) < usualPlace(b.name); }

/// Of all orders, in lexicographic order, those whose axes no earlier one spreads likewise.
Values axisOrders(const Problem &problem, const Candidate &decided) {
  Places &places = placesOf(problem);
  std::vector<MeshAxis> mesh = decided.mesh;
  std::sort(mesh.begin(), mesh.end(), isUsualBefore);
  Values values;
  std::vector<std::array<size_t, usualOrder.size()>> spreads;
  do {
    std::vector<int64_t> strides = places.stridesOf(mesh);
    std::array<size_t, usualOrder.size()> spread{};
    for (size_t i = 0; i < mesh.size(); ++i)
      spread[usualPlace(mesh[i].name)] = places.spreadOf(strides[i], mesh[i].size);
    if (std::find(spreads.begin(), spreads.end(), spread) != spreads.end())
      continue;
    spreads.push_back(spread);
    values.push_back(orderOf(mesh));
  } while (std::next_permutation(mesh.begin(), mesh.end(), isUsualBefore));
  return values;
}

void setOrder(Candidate &candidate, const std::string &value) {
  auto place = [&](const MeshAxis &axis) { return value.find(axis.name); }; // no name is a part of another
  std::sort(candidate.mesh.begin(), candidate.mesh.end(),
            [&](const MeshAxis &a, const MeshAxis &b) { return place(a) < place(b); });
}

std::string readOrder(std::string_view text) {
  std::vector<std::string_view> axes = axesOf(text);
  auto isKnown = [](std::string_view axis) { return usualPlace(axis) < usualOrder.size(); };
  bool areKnown = std::all_of(axes.begin(), axes.end(), isKnown);
  std::sort(axes.begin(), axes.end());
  return areKnown && std::adjacent_find(axes.begin(), axes.end()) == axes.end() ? std::string(text) : "";
}

/// All other orders of the axes that there are.
bool isAnotherOrder(const Problem &, const Candidate &decided, const std::string &value) {
  std::vector<std::string_view> wanted = axesOf(value), has;
  for (const MeshAxis &axis : decided.mesh)
    has.push_back(axis.name);
  return std::is_permutation(wanted.begin(), wanted.end(), has.begin(), has.end());
}

Values switchWords() { return {"off", "on"}; }

Values sequenceSplits(const Problem &problem, const Candidate &decided) {
  int64_t tp = decided.sizeOf("tp"), sequence = problem.model.sequence;
  return tp > 1 && sequence > 0 && sequence % (tp * decided.sizeOf("cp")) == 0 ? switchWords() : Values{"off"};
}

constexpr std::string_view hybridPrefix = "hsdp:";

Values stateWords() { return {"ddp", "zero1", "zero2", "zero3", "hsdp:N"}; }

/// hsdp:N gathers parameters among N neighbouring ranks of dp, and all of cp. That pays where these are within a node,
/// or within what a level of links joins: with all axes inside dp they fill it, and cp is one of these axes.
Values stateSplits(const Problem &problem, const Candidate &decided) {
  int64_t dp = decided.sizeOf("dp"), cp = decided.sizeOf("cp");
  if (dp * cp == 1)
    return {"ddp"};
  Values values = {"ddp", "zero1", "zero2", "zero3"};
  const Places &places = placesOf(problem);
  if (dp == 1 || places.fillings().empty())
    return values;
  std::vector<int64_t> strides = places.stridesOf(decided.mesh);
  auto strideOf = [&](std::string_view axis) {
    auto found = std::find_if(decided.mesh.begin(), decided.mesh.end(), [&](auto &each) { return each.name == axis; });
    return found == decided.mesh.end() ? 0 : strides[static_cast<size_t>(found - decided.mesh.begin())];
  };
  const int64_t stride = strideOf("dp");
  if (strideOf("cp") > stride)
    return values;
  for (int64_t filling : places.fillings())
    if (int64_t shards = filling / stride; filling % stride == 0 && shards > 1 && shards < dp && dp % shards == 0)
      values.push_back(fmt::format("{}{}", hybridPrefix, shards));
  return values;
}

/// "hsdp" stands for all of them.
std::string readState(std::string_view text) {
  if (text == "fsdp")
    return "zero3";
  if (text == "hsdp" || text == "ddp" || text == "zero1" || text == "zero2" || text == "zero3")
    return std::string(text);
  int64_t shards = text.starts_with(hybridPrefix) ? numberOf(text.substr(hybridPrefix.size()), 2) : 0;
  return shards > 0 ? fmt::format("{}{}", hybridPrefix, shards) : "";
}

/// What PipeDream refuses (docs/pipelines.md). Tied embeddings are refused when a plan is evaluated.
bool canOverlapSteps(const Problem &problem, const Candidate &decided) {
  bool isScaled = problem.model.compute == abi::F16 || problem.model.gradients == abi::F16;
  return problem.allowsAsynchronous && !isScaled && decided.state == "ddp" && decided.sizeOf("pp") > 1;
}

int64_t batchOfRank(const Problem &problem, const Candidate &decided) {
  return problem.model.batch / decided.sizeOf("dp");
}

/// The fewest that are worth a pipeline whose steps do not overlap.
int64_t leastMicroBatches(const Problem &problem, const Candidate &decided) {
  return std::min(decided.sizeOf("pp"), batchOfRank(problem, decided));
}

/// A single one in a long pipeline is for PipeDream alone, and so comes last.
Values microBatchNumbers(const Problem &problem, const Candidate &decided) {
  int64_t least = leastMicroBatches(problem, decided);
  Values values = divisorValues(batchOfRank(problem, decided), [&](int64_t number) { return number >= least; });
  if (least > 1 && canOverlapSteps(problem, decided))
    values.emplace_back("1");
  return values;
}

Values timetableWords() {
  Values words = {Candidate().timetable};
  for (const timetables::Named &named : timetables::allNamed())
    if (named.name != words.front())
      words.emplace_back(named.name);
  words.emplace_back(timetables::pipedream::name);
  return words;
}

/// With as many stages a rank as `dtc compile` takes where nothing says how many.
bool isPossibleTimetable(const timetables::Named &named, const Problem &problem, const Candidate &decided) {
  int64_t stages = decided.sizeOf("pp") * named.leastPerRank;
  return stages <= std::min(problem.model.layers, mostStagesOfPlans) &&
         timetables::findMisfit(named, {.ranks = static_cast<int32_t>(decided.sizeOf("pp")),
                                        .stagesPerRank = named.leastPerRank,
                                        .microBatches = static_cast<int32_t>(decided.microBatches)})
             .empty();
}

Values possibleTimetables(const Problem &problem, const Candidate &decided) {
  const std::string usual = Candidate().timetable;
  if (decided.sizeOf("pp") == 1)
    return {usual};
  Values values;
  if (decided.microBatches >= leastMicroBatches(problem, decided))
    for (const timetables::Named &named : timetables::allNamed())
      if (isPossibleTimetable(named, problem, decided))
        values.insert(named.name == usual ? values.begin() : values.end(), std::string(named.name));
  if (decided.microBatches == 1 && canOverlapSteps(problem, decided))
    values.emplace_back(timetables::pipedream::name);
  return values;
}

Values recomputeWords() { return {"cheap", "none", "regather", "selective", "full"}; }

/// "regather" gathers activations again, and differs little from "cheap" where none are gathered. Whether parameters
/// that ZeRO splits are gathered again is a choice of its own (docs/choices.md).
Values recomputations(const Problem &, const Candidate &decided) {
  Values values = recomputeWords();
  if (!decided.splitsSequence && decided.sizeOf("cp") == 1)
    std::erase(values, "regather");
  return values;
}

constexpr std::string_view aNumber = "a number, 1 or more";

const std::array<Dimension, 10> dimensionTable = {{
    {"tp", "tensor-parallel ranks", tensorRanks, setAxis<usualPlace("tp")>, readNumber, aNumber},
    {"cp", "context-parallel ranks", contextRanks, setAxis<usualPlace("cp")>, readNumber, aNumber},
    {"pp", "ranks of a pipeline", pipelineRanks, setAxis<usualPlace("pp")>, readNumber, aNumber},
    {"dp", "data-parallel ranks", dataRanks, setAxis<usualPlace("dp")>, readNumber, aNumber},
    {"order", "the mesh's axes, outermost first", axisOrders, setOrder, readOrder,
     "axes of the mesh with '>' between them, outermost first, as in pp>dp>tp", nullptr, isAnotherOrder},
    {"sp", "whether the sequence is split along tp", sequenceSplits,
     [](Candidate &candidate, const std::string &value) { candidate.splitsSequence = value == "on"; },
     readWord<switchWords>, "", switchWords},
    {"state", "how parameters, gradients and the optimizer's state are split over dp and cp", stateSplits,
     [](Candidate &candidate, const std::string &value) { candidate.state = value; }, readState, "", stateWords},
    {"micro-batches", "micro-batches of a step", microBatchNumbers,
     [](Candidate &candidate, const std::string &value) { candidate.microBatches = numberOf(value, 1); }, readNumber,
     aNumber},
    {"timetable", "the order of a pipeline's passes", possibleTimetables,
     [](Candidate &candidate, const std::string &value) { candidate.timetable = value; }, readWord<timetableWords>, "",
     timetableWords},
    {"recompute", "what is recomputed for the backward pass", recomputations,
     [](Candidate &candidate, const std::string &value) { candidate.recompute = value; }, readWord<recomputeWords>, "",
     recomputeWords},
}};

} // namespace

std::span<const Dimension> dimensions() { return dimensionTable; }

} // namespace dtc::plans
