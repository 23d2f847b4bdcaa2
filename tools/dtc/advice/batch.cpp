// Lints of how a step's batch is divided: over ranks, and into micro-batches.
#include "tools/dtc/advice/Lints.h"

#include "runtime/abi/sources.h"
#include "runtime/abi/timetables.h"
#include "timing/timetables/csv.h"
#include "timing/timetables/named.h"
#include "timing/timetables/simulate.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/advice/Traffic.h"
#include "tools/dtc/forecast/ForecastText.h"
#include "tools/dtc/forecast/Room.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace dtc {

namespace {

int64_t microBatchesOf(const abi::Manifest &program) { return std::max<int64_t>(1, program.training().accumulation()); }

/// Samples of a micro-batch, over all ranks.
int64_t rowsOf(const abi::Manifest &program) { return program.training().global_batch() / microBatchesOf(program); }

/// The largest divisor of `of` that divides `also`, too, and is no larger than `most`.
int64_t largestDivisor(int64_t of, int64_t also, int64_t most) {
  int64_t size = std::min(of, most);
  while (size > 1 && (of % size != 0 || also % size != 0))
    --size;
  return std::max<int64_t>(1, size);
}

// batch-smaller-than-dp

/// In how many parts the ranks of an axis have the samples, by rows or by positions.
int64_t partsOfSamples(const abi::Manifest &program, std::string_view axis) {
  int64_t most = 1;
  for (const abi::Role &role : program.roles())
    for (const abi::Tensor &tensor : role.tensors()) {
      if (!abi::isOfSamples(tensor))
        continue;
      int64_t parts = 1;
      for (const abi::DimSharding &dim : tensor.sharding().dims())
        for (const abi::AxisRef &ref : dim.axes())
          parts *= ref.axis() == axis ? ref.size() : 1;
      most = std::max(most, parts);
    }
  return most;
}

/// A preset refuses such a batch. A strategy of one's own may split it over a part of dp.
std::optional<Finding> batchSmallerThanDp(const AdviceFacts &facts) {
  const abi::Manifest &program = facts.program;
  int64_t ranks = axisSize(program.mesh(), "dp"), rows = rowsOf(program), parts = partsOfSamples(program, "dp");
  if (rows >= ranks || parts >= ranks)
    return std::nullopt;
  int64_t batch = program.training().global_batch(), fitting = largestDivisor(ranks, rows, rows);
  std::string remedy =
      batch % ranks == 0
          ? fmt::format("--set accumulation={}, which gives each rank a sample of every micro-batch", batch / ranks)
          : fmt::format("--set global_batch={}, or dp={} and the other ranks along tp, cp or pp",
                        ranks * microBatchesOf(program), fitting);
  return Finding{
      "batch-smaller-than-dp",
      fmt::format("a micro-batch has {} sample{} for {} ranks along dp, which have {} different part{} of it: "
                  "{} of them repeat what others compute",
                  rows, rows == 1 ? "" : "s", ranks, parts, parts == 1 ? "" : "s", ranks - parts),
      remedy, 1 - static_cast<double>(parts) / static_cast<double>(ranks)};
}

// few-micro-batches

/// Idle time relative to a rank's work, which a pipeline need not have: with GPipe and 1F1B (p-1)/m, so m = 4 p
/// micro-batches are just below it. From there on Huang et al. found the bubble negligible (GPipe, arXiv:1811.06965,
/// section 2.3).
constexpr double mostBubble = 0.25;

/// Of a step by itself, with stages that take equally long. Nothing where there is no such timetable.
std::optional<double> bubbleOf(const std::string &timetable, int64_t ranks, int64_t stages, int64_t microBatches) {
  timetables::Timetable made;
  if (const timetables::Named *named = timetables::findNamed(timetable)) {
    timetables::Shape shape = {static_cast<int32_t>(ranks), static_cast<int32_t>(stages / ranks),
                               static_cast<int32_t>(microBatches)};
    if (!timetables::findMisfit(*named, shape).empty())
      return std::nullopt;
    made = timetables::generate(*named, shape);
  } else if (timetable.find(',') != std::string::npos) {
    // The text of a file, which the compiler has checked.
    made = timetables::readCsv(timetable, "the timetable");
    if (made.microBatches != microBatches)
      return std::nullopt;
  } else {
    return std::nullopt;
  }
  return timetables::simulate(made, timetables::equalCosts(made.stages())).bubbleOverhead();
}

/// The fewest micro-batches of the same global batch with which the bubble is small enough; 0: none of the batch's
/// divisors. Each rank along dp gets equally many samples.
int64_t enoughMicroBatches(const abi::Manifest &program, int64_t ranks) {
  constexpr int64_t most = 64; // for each rank: a step of more has many more launches
  int64_t batch = program.training().global_batch(), data = axisSize(program.mesh(), "dp");
  for (int64_t count = microBatchesOf(program) + 1; count <= std::min(batch, most * ranks); ++count) {
    if (batch % count != 0 || batch / count % data != 0)
      continue;
    std::optional<double> bubble = bubbleOf(program.timetable(), ranks, program.stages_size(), count);
    if (bubble && *bubble <= mostBubble)
      return count;
  }
  return 0;
}

/// The first of the common timetables with which the bubble of these micro-batches is small enough; empty: none.
std::string betterTimetable(const abi::Manifest &program, int64_t ranks) {
  for (const char *name : {"1f1b", "interleaved", "zb-h1", "zbv"}) {
    int64_t stages = ranks * timetables::findNamed(name)->leastPerRank;
    if (stages > program.layers_size())
      continue;
    std::optional<double> bubble = bubbleOf(name, ranks, stages, microBatchesOf(program));
    if (bubble && *bubble <= mostBubble)
      return name;
  }
  return "";
}

std::string bubbleRemedy(const abi::Manifest &program, int64_t ranks) {
  if (int64_t enough = enoughMicroBatches(program, ranks))
    return fmt::format("--set accumulation={}, with the same global batch", enough);
  if (std::string better = betterTimetable(program, ranks); !better.empty())
    return "--timetable " + better;
  constexpr int64_t ofEachRank = 4; // micro-batches: (p-1)/m is then below a quarter
  int64_t enough = ofEachRank * ranks;
  std::optional<double> then = bubbleOf(program.timetable(), ranks, program.stages_size(), enough);
  return fmt::format("{}--set accumulation={} --set global_batch={}, or fewer ranks along pp",
                     then && *then <= mostBubble ? "" : "--timetable 1f1b ", enough, enough * rowsOf(program));
}

std::optional<Finding> fewMicroBatches(const AdviceFacts &facts) {
  const abi::Manifest &program = facts.program;
  int64_t ranks = axisSize(program.mesh(), "pp");
  if (ranks < 2 || program.stages_size() < ranks || abi::stepsAhead(program, abi::stepTimetable) > 0)
    return std::nullopt;
  std::optional<double> bubble = bubbleOf(program.timetable(), ranks, program.stages_size(), microBatchesOf(program));
  if (!bubble || *bubble <= mostBubble)
    return std::nullopt;
  double share = *bubble / (1 + *bubble);
  std::string title = timetables::findNamed(program.timetable()) ? program.timetable() : "a CSV file's timetable";
  std::string text = fmt::format("with {} micro-batch{} a step, {} over {} ranks is idle for {:.3g} of its work, over "
                                 "{:.3g}, and {} of a step, even where all stages take equally long",
                                 microBatchesOf(program), microBatchesOf(program) == 1 ? "" : "es", title, ranks,
                                 *bubble, mostBubble, percentText(share));
  if (facts.forecast)
    text += fmt::format(" (predicted for the program: {})", percentText(facts.forecast->bubbleFraction()));
  return Finding{"few-micro-batches", text, bubbleRemedy(program, ranks), share};
}

// needless-accumulation

/// Of a device's memory, or a node's: an estimate that is nearer than this to all of it does not count as fitting.
/// Drivers and communication libraries take a gigabyte or two of 80 (docs/clusters.md), and plans of larger
/// micro-batches fit less tightly than in proportion.
constexpr double usableMemory = 0.9;

/// Whether bytes of a category of Role.memory are as many whatever a micro-batch has. All others count as growing with
/// it, also those that do not.
bool isOfParameters(const std::string &category) {
  static constexpr std::array<std::string_view, 5> all = {"parameters", "copies in 16 bits", "optimizer state",
                                                          "gradients", "alignment"};
  return std::ranges::find(all, category) != all.end();
}

/// What ranks need where a micro-batch has this many times the samples: roles with their bytes, and nothing else.
abi::Manifest withLargerRows(const abi::Manifest &program, int64_t times) {
  abi::Manifest larger;
  *larger.mutable_mesh() = program.mesh();
  larger.set_target(program.target());
  auto further = static_cast<uint64_t>(times - 1);
  for (const abi::Role &role : program.roles()) {
    abi::Role &added = *larger.add_roles();
    added.set_name(role.name());
    *added.mutable_ranks() = role.ranks();
    added.set_host_bytes(role.host_bytes() * static_cast<uint64_t>(times));
    uint64_t grows = 0;
    for (const abi::MemoryUse &use : role.memory())
      grows += isOfParameters(use.category()) ? 0 : use.bytes();
    added.set_arena_bytes(role.arena_bytes() + further * grows);
  }
  larger.add_kernels()->set_scratch_bytes(scratchBytes(program) * static_cast<uint64_t>(times));
  return larger;
}

/// How often a list runs for micro-batches of a step other than its last, and for the last one.
struct FurtherRuns {
  int64_t times = 0, lastTimes = 0;
};

std::map<std::string_view, FurtherRuns> furtherRunsOf(const abi::Role &role, int64_t microBatches) {
  std::map<std::string_view, FurtherRuns> runs;
  abi::forEachEntry(abi::timetableOf(role, abi::stepTimetable), [&](const abi::TimetableEntry &entry) {
    if (!entry.has_micro_batch())
      return;
    FurtherRuns &run = runs[entry.list()];
    (entry.micro_batch() + 1 < microBatches ? run.times : run.lastTimes) += 1;
  });
  return runs;
}

int64_t launchesOf(const abi::CommandList &list) {
  return std::ranges::count_if(list.commands(), &abi::Command::has_launch);
}

/// What the further micro-batches cost a rank, beside their samples: launches; adding to the gradients that there are,
/// which are read and written once more; and waiting for what moves over dp in each of them, as with zero2 and zero3.
double secondsOfFurther(const AdviceFacts &facts) {
  const abi::Manifest &program = facts.program;
  int64_t count = microBatchesOf(program);
  double most = 0, share = static_cast<double>(count - 1) / static_cast<double>(count);
  CommandSet ofOthers, ofAll; // in lists of all micro-batches but the last, and of all
  for (const RoleTraffic &traffic : trafficOf(program)) {
    std::map<std::string_view, FurtherRuns> runs = furtherRunsOf(*traffic.role, count);
    const timing::Device &device = facts.layout->deviceOf(traffic.first);
    int64_t launches = 0;
    double gradients = 0;
    for (const abi::CommandList &list : program.lists())
      if (auto run = runs.find(list.name()); run != runs.end() && run->second.times > 0)
        launches += run->second.times * launchesOf(list);
    for (const abi::MemoryUse &use : traffic.role->memory())
      gradients += use.category() == "gradients" ? static_cast<double>(use.bytes()) : 0;
    most = std::max(most, static_cast<double>(launches) * device.launch_seconds() +
                              2 * static_cast<double>(count - 1) * gradients / device.memory_bandwidth());
    for (const Moved &moved : traffic.moves)
      if (auto run = runs.find(moved.list->name()); run != runs.end() && run->second.times > 0)
        if (isOver(program.groups(static_cast<int>(moved.group)), "dp"))
          (run->second.lastTimes > 0 ? ofAll : ofOthers).emplace(moved.list->name(), moved.number);
  }
  return most + waitedFor(*facts.forecast, ofOthers) + share * waitedFor(*facts.forecast, ofAll);
}

std::optional<Finding> needlessAccumulation(const AdviceFacts &facts) {
  const abi::Manifest &program = facts.program;
  int64_t count = microBatchesOf(program);
  if (!facts.layout || !facts.forecast || count < 2 || program.stages_size() > 1) // a pipeline lives on micro-batches
    return std::nullopt;
  std::vector<Room> rooms = roomOf(withLargerRows(program, count), *facts.layout);
  auto fits = [](const Room &room) { return room.needs <= usableMemory * room.has; };
  if (rooms.empty() || !std::ranges::all_of(rooms, fits))
    return std::nullopt;
  const Room &fullest = *std::ranges::max_element(rooms, {}, [](const Room &room) { return room.needs / room.has; });
  double seconds = secondsOfFurther(facts), share = std::min(1.0, seconds / facts.forecast->seconds);
  return Finding{
      "needless-accumulation",
      fmt::format(
          "a step has {} micro-batches, and its {} samples fit into one: {} of {}, at most {}, if "
          "everything but parameters, optimizer state and gradients grows with the micro-batch; the further ones cost "
          "about {} of a step of {} ({})",
          count, program.training().global_batch(), bytesText(fullest.needs), bytesText(fullest.has),
          percentText(usableMemory),
          secondsText(seconds), secondsText(facts.forecast->seconds), percentText(share)),
      "--set accumulation=1, with the same global batch", share};
}

// load-imbalance

/// The coefficient of variation of ranks' compute, which `dtc report` and runs show, too. With two halves of the ranks
/// that differ by a tenth it is 0.05: the slower half then makes a step 5% longer.
constexpr double mostVariation = 0.05;

struct Loads {
  double mean = 0, variation = 0; ///< seconds; standard deviation over the mean
  const timing::RankForecast *least = nullptr, *most = nullptr;
};

Loads loadsOfRanks(const timing::Forecast &forecast) {
  Loads loads;
  loads.mean = forecast.compute();
  double squares = 0, count = 0;
  for (const timing::RankForecast &each : forecast.ranks) {
    double difference = each.compute - loads.mean;
    squares += difference * difference * static_cast<double>(each.ranks);
    count += static_cast<double>(each.ranks);
    if (!loads.least || each.compute < loads.least->compute)
      loads.least = &each;
    if (!loads.most || each.compute > loads.most->compute)
      loads.most = &each;
  }
  if (loads.mean > 0)
    loads.variation = std::sqrt(squares / count) / loads.mean;
  return loads;
}

std::string loadRemedy(const AdviceFacts &facts, const Loads &loads) {
  bool differ = facts.layout->deviceIndexOf(loads.least->rank) != facts.layout->deviceIndexOf(loads.most->rank);
  if (facts.program.stages_size() > 1)
    return fmt::format("cut the layers otherwise: 'dtc compile --cluster' cuts by costs{} unless the strategy or the "
                       "choices say how many layers a stage has; more stages than one a rank (--timetable interleaved) "
                       "can be cut more evenly, and so can fewer ranks along pp",
                       differ ? ", with fewer layers on slower devices," : "");
  if (differ)
    return "give a job devices of one kind, or a pipeline (pp) whose stages are cut by costs";
  return "choose sizes and axes that divide each other, so that ranks have equal parts";
}

std::optional<Finding> loadImbalance(const AdviceFacts &facts) {
  if (!facts.layout || !facts.forecast || facts.forecast->seconds <= 0)
    return std::nullopt;
  Loads loads = loadsOfRanks(*facts.forecast);
  if (loads.variation <= mostVariation)
    return std::nullopt;
  return Finding{"load-imbalance",
                 fmt::format("kernels take unequal times: from {} (rank {}, {}) to {} (rank {}, {}) a step, a "
                             "coefficient of variation of {:.3g}, over {:.3g}",
                             secondsText(loads.least->compute), loads.least->rank, loads.least->role,
                             secondsText(loads.most->compute), loads.most->rank, loads.most->role, loads.variation,
                             mostVariation),
                 loadRemedy(facts, loads), std::min(1.0, (loads.most->compute - loads.mean) / facts.forecast->seconds)};
}

} // namespace

std::span<const Lint> batchLints() {
  static constexpr std::array<Lint, 4> all = {{
      {"batch-smaller-than-dp", "a micro-batch has fewer samples than dp has ranks, and some have none of their own",
       batchSmallerThanDp},
      {"few-micro-batches",
       "a pipeline's bubble is over 0.25 of its work, for stages that take equally long: (p-1)/m with 1f1b",
       fewMicroBatches},
      {"needless-accumulation",
       "a step without a pipeline has several micro-batches, and would fit into 90% of the memory as one",
       needlessAccumulation},
      {"load-imbalance", "the coefficient of variation of what ranks compute in a step is over 0.05", loadImbalance},
  }};
  return all;
}

} // namespace dtc
