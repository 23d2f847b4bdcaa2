// dtc-compile accumulation: how many micro-batches would make ranks wait less. dtc explain --order runs it.
#include "tools/dtc/MoreAccumulation.h"

#include "runtime/abi/timetables.h"
#include "runtime/support/error.h"
#include "tools/dtc/CompileModel.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/Verbs.h"
#include "tools/dtc/forecast/Room.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace dtc;

/// Simulates this many times the micro-batches, each as it is, with all choices kept. Nothing where there is no such
/// program, or no room for it.
static std::optional<MoreAccumulation> tryTimes(int64_t times, const abi::Manifest &program, const std::string &path,
                                                const std::string &model, const timing::Layout &layout) {
  abi::Manifest more = program;
  abi::Training &training = *more.mutable_training();
  training.set_accumulation(times * training.accumulation());
  training.set_global_batch(times * training.global_batch());
  try {
    abi::Manifest planned = LoadedModel(more, path, model).compile(/*generateCode=*/false).manifest;
    if (!std::ranges::all_of(roomOf(planned, layout), &Room::isEnough))
      return std::nullopt;
    Waiting then = waitingOf(timing::readStep(planned, abi::stepTimetable), layout);
    return MoreAccumulation{training.accumulation(), training.global_batch(), then, 1};
  } catch (const Error &) {
    return std::nullopt;
  }
}

/// How long ranks wait with this many times the micro-batches.
struct Point {
  int64_t times;
  Waiting waiting;
};

/// The smallest power of two above `more` that makes ranks hardly wait: once some micro-batches are neither the first
/// nor the last, each further one costs the same. 0: no number that a training run would use.
static int64_t findTimes(const Point &few, const Point &more) {
  constexpr int64_t most = 32;
  for (int64_t times = 2 * more.times; times <= most; times *= 2) {
    double further = static_cast<double>(times - more.times) / static_cast<double>(more.times - few.times);
    Waiting foretold{more.waiting.step + further * (more.waiting.step - few.waiting.step),
                     more.waiting.moving + further * (more.waiting.moving - few.waiting.moving)};
    if (!foretold.isNotable())
      return times;
  }
  return 0;
}

std::optional<MoreAccumulation> dtc::findMoreAccumulation(const abi::Manifest &program, const std::string &path,
                                                          const std::string &model, const timing::Layout &layout) {
  constexpr int64_t many = 4; // micro-batches, some of which are neither the first nor the last
  Point few{1, waitingOf(timing::readStep(program, abi::stepTimetable), layout)};
  double stepNow = few.waiting.step;
  if (!few.waiting.isNotable() || (model.empty() && program.model_config_json().empty()))
    return std::nullopt;
  int64_t times = 2;
  auto tryNext = [&] { return tryTimes(times, program, path, model, layout); };
  std::optional<MoreAccumulation> found = tryNext();
  if (found && found->then.isNotable() && program.training().accumulation() < many) {
    few = {times, found->then};
    times = 4;
    found = tryNext();
  }
  if (found && found->then.isNotable()) {
    times = findTimes(few, {times, found->then});
    found = times > 0 ? tryNext() : std::nullopt;
  }
  if (!found || found->then.isNotable())
    return std::nullopt;
  found->tokenTime = found->then.step / (static_cast<double>(times) * stepNow);
  return found;
}

void dtc::addAccumulation(CLI::App &app) {
  auto path = std::make_shared<std::string>(), cluster = std::make_shared<std::string>();
  CLI::App *verb = app.add_subcommand("accumulation", "How many micro-batches would make ranks wait less; dtc explain "
                                                      "asks this.");
  verb->group("");
  verb->add_option("PROGRAM", *path, "What dtc compile wrote")->required();
  verb->add_option("--cluster", *cluster, "A cluster file: how long ranks wait there")->required();
  verb->callback([path, cluster] {
    abi::Manifest program = readManifest(*path);
    std::optional<MoreAccumulation> found =
        findMoreAccumulation(program, *path, "", layoutOn(*cluster, program.mesh()));
    printJson({{"remedy", found ? toJson(*found) : nlohmann::ordered_json(nullptr)}});
  });
}
