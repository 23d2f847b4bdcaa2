#include "timing/events/forecast.h"

#include "runtime/abi/timetables.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace dtc::timing {

double Forecast::mean(double RankForecast::*part) const {
  double sum = 0;
  int64_t count = 0;
  for (const RankForecast &each : ranks) {
    sum += each.*part * static_cast<double>(each.ranks);
    count += each.ranks;
  }
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

static RankForecast rankForecast(const Step &step, const EqualRanks &classes, int number, const Simulated &simulated) {
  const ClassTimes &times = simulated.classes[number];
  RankForecast rank;
  rank.rank = classes.representativeOf(number);
  rank.ranks = classes.sizeOf(number);
  rank.role = step.roles[step.roleOf[rank.rank]].name;
  rank.host = times.host;
  rank.compute = times.compute;
  rank.stolen = times.stolen;
  rank.moving = times.moving();
  rank.idle = simulated.seconds - times.end + times.late();
  rank.sent = times.moved;
  for (double busy : times.busy)
    rank.busy.push_back(busy / simulated.seconds);
  return rank;
}

std::vector<RankForecast> rankForecasts(const Step &step, const EqualRanks &classes, const Simulated &simulated) {
  std::vector<RankForecast> ranks;
  for (int number = 0; number < classes.count(); ++number)
    ranks.push_back(rankForecast(step, classes, number, simulated));
  return ranks;
}

/// For each command the class that waits longest for it.
static std::vector<Culprit> culpritsOf(const Step &step, const EqualRanks &classes, const Simulated &simulated) {
  std::map<std::pair<uint32_t, uint32_t>, Culprit> worst;
  for (int number = 0; number < classes.count(); ++number)
    for (const Exposed &each : simulated.classes[number].exposed) {
      Culprit &culprit = worst[{each.list, each.command}];
      if (each.late + each.moving > culprit.late + culprit.moving)
        culprit = {classes.representativeOf(number),
                   step.lists[each.list].name,
                   each.command,
                   each.late,
                   each.moving,
                   each.times};
    }
  std::vector<Culprit> culprits;
  for (auto &[key, culprit] : worst)
    if (culprit.late + culprit.moving > 0)
      culprits.push_back(std::move(culprit));
  std::sort(culprits.begin(), culprits.end(), [](const Culprit &one, const Culprit &other) {
    double first = one.late + one.moving, second = other.late + other.moving;
    return std::tie(second, one.list, one.command) < std::tie(first, other.list, other.command);
  });
  return culprits;
}

/// The type in which most of the products' work is done.
static abi::DataType productType(const Step &step) {
  std::map<abi::DataType, double> flops;
  for (const KernelWork &work : step.works)
    if (work.kind == abi::Work::PRODUCT)
      flops[work.type] += work.flops;
  auto most =
      std::max_element(flops.begin(), flops.end(), [](auto &one, auto &other) { return one.second < other.second; });
  return most == flops.end() ? abi::F32 : most->first;
}

double peakFlopsOf(const Step &step, const Layout &layout, const EqualRanks &classes) {
  abi::DataType type = productType(step);
  double flops = 0;
  for (int number = 0; number < classes.count(); ++number) {
    const Device &device = layout.deviceOf(classes.representativeOf(number));
    flops += static_cast<double>(classes.sizeOf(number)) * peakFlops(device, type);
  }
  return flops;
}

/// Adds what a rank of a class runs: its kernels' time, by class, and its flops.
static void addKernels(const Step &step, const Layout &layout, const EqualRanks &classes, int number,
                       const Conditions &conditions, Forecast &forecast) {
  int rank = classes.representativeOf(number);
  double share = static_cast<double>(classes.sizeOf(number)) / static_cast<double>(layout.ranks());
  for (const StepEntry &entry : step.roles[step.roleOf[rank]].entries) {
    const StepList &list = step.lists[entry.list];
    for (const Action &action : list.actions) {
      if (action.kind != Action::Kind::Launch && action.kind != Action::Kind::Copy)
        continue;
      const KernelWork &work = step.works[action.index];
      auto measured = conditions.measured.find({list.name, action.command});
      double seconds =
          measured != conditions.measured.end() ? measured->second : kernelSeconds(layout.deviceOf(rank), work);
      forecast.kernels[work.kind] += share * seconds * classes.slownessOf(number);
      if (work.kind == abi::Work::PRODUCT || work.kind == abi::Work::ATTENTION)
        forecast.executedFlops += work.flops * static_cast<double>(classes.sizeOf(number));
    }
  }
}

Forecast forecast(const abi::Manifest &manifest, const Step &step, const Layout &layout, const Conditions &conditions,
                  Watcher *watcher) {
  Simulator simulator(step, layout, conditions);
  const EqualRanks &classes = simulator.classes();
  Simulated simulated = simulator.run(watcher);
  Forecast result;
  result.seconds = simulated.seconds;
  result.band = layout.cluster().uncertainty();
  result.bound = lowerBound(step, layout, conditions, simulated);
  result.ranks = rankForecasts(step, classes, simulated);
  result.peakFlops = peakFlopsOf(step, layout, classes);
  for (int number = 0; number < classes.count(); ++number) {
    addKernels(step, layout, classes, number, conditions, result);
    double busy = 0;
    for (double level : simulated.classes[number].busy)
      busy += level;
    result.moved += busy * static_cast<double>(classes.sizeOf(number)) / static_cast<double>(layout.ranks());
  }
  result.culprits = culpritsOf(step, classes, simulated);
  const abi::Training &training = manifest.training();
  result.tokens = static_cast<double>(training.global_batch()) * static_cast<double>(training.sequence_length());
  result.modelFlops = result.tokens * manifest.flops_per_token();
  return result;
}

/// What one run takes more than another that is one step shorter.
static RankForecast difference(const RankForecast &longer, const RankForecast &shorter, double seconds, double before) {
  RankForecast rank = longer;
  for (double RankForecast::*part :
       {&RankForecast::host, &RankForecast::compute, &RankForecast::stolen, &RankForecast::moving, &RankForecast::idle})
    rank.*part -= shorter.*part;
  for (size_t level = 0; level < rank.sent.size(); ++level)
    rank.sent[level] -= shorter.sent[level];
  for (size_t level = 0; level < rank.busy.size(); ++level)
    rank.busy[level] = (longer.busy[level] * (seconds + before) - shorter.busy[level] * before) / seconds;
  return rank;
}

/// Of each command, whichever ranks wait longest for it in the two.
static std::vector<Culprit> difference(std::vector<Culprit> longer, const std::vector<Culprit> &shorter) {
  for (Culprit &culprit : longer)
    for (const Culprit &each : shorter)
      if (each.list == culprit.list && each.command == culprit.command) {
        culprit.late = std::max(0.0, culprit.late - each.late);
        culprit.moving = std::max(0.0, culprit.moving - each.moving);
        culprit.times -= each.times;
      }
  std::erase_if(longer, [](const Culprit &each) { return each.late + each.moving <= 0; });
  std::ranges::stable_sort(longer, std::greater(), [](const Culprit &each) { return each.late + each.moving; });
  return longer;
}

/// All steps are alike but for the first of a run, before which others begin, and for the last ones, behind which none
/// do.
static Forecast forecastInARow(const abi::Manifest &manifest, const Layout &layout, const Conditions &conditions) {
  const int64_t steps = abi::stepsAhead(manifest, abi::stepTimetable) + 2;
  Forecast shorter = forecast(manifest, readStep(manifest, abi::stepTimetable, steps), layout, conditions);
  Forecast result = forecast(manifest, readStep(manifest, abi::stepTimetable, steps + 1), layout, conditions);
  result.seconds -= shorter.seconds;
  result.moved -= shorter.moved;
  result.executedFlops -= shorter.executedFlops;
  for (auto &[kind, seconds] : result.kernels)
    seconds -= shorter.kernels[kind];
  result.culprits = difference(std::move(result.culprits), shorter.culprits);
  result.bound = {};
  for (size_t number = 0; number < result.ranks.size(); ++number) {
    RankForecast &rank = result.ranks[number];
    rank = difference(rank, shorter.ranks[number], result.seconds, shorter.seconds);
    if (double work = rank.host + rank.compute; work > result.bound.seconds) {
      result.bound.seconds = work;
      result.bound.ofClass = static_cast<int>(number);
    }
  }
  return result;
}

Forecast forecastStep(const abi::Manifest &manifest, const Layout &layout, const Conditions &conditions) {
  if (abi::stepsAhead(manifest, abi::stepTimetable) > 0)
    return forecastInARow(manifest, layout, conditions);
  return forecast(manifest, readStep(manifest, abi::stepTimetable), layout, conditions);
}

} // namespace dtc::timing
