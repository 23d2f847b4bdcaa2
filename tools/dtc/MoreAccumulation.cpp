// dtc-compile accumulation: which number of micro-batches would make ranks wait less. dtc explain --order asks it.
#include "tools/dtc/MoreAccumulation.h"

#include "runtime/abi/error.h"
#include "runtime/abi/timetables.h"
#include "tools/dtc/CompileModel.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/Verbs.h"
#include "tools/dtc/forecast/Room.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace dtc;

/// With so many times the micro-batches, each as it is, and all that was chosen; nothing where there is no such
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

/// The least power of two from four on that makes ranks hardly wait: each micro-batch more costs the same, once there
/// are some that are neither the first nor the last. 0: none that a training would have.
static int64_t findTimes(const Waiting &twice, const Waiting &fourTimes) {
  constexpr int64_t most = 32;
  for (int64_t times = 4; times <= most; times *= 2) {
    double more = static_cast<double>(times - 2) / 2;
    Waiting foretold{twice.step + more * (fourTimes.step - twice.step),
                     twice.moving + more * (fourTimes.moving - twice.moving)};
    if (!foretold.isNotable())
      return times;
  }
  return 0;
}

std::optional<MoreAccumulation> dtc::findMoreAccumulation(const abi::Manifest &program, const std::string &path,
                                                          const std::string &model, const timing::Layout &layout) {
  Waiting now = waitingOf(timing::readStep(program, abi::stepTimetable), layout);
  if (!now.isNotable() || (model.empty() && program.model_config_json().empty()))
    return std::nullopt;
  auto with = [&](int64_t times) { return tryTimes(times, program, path, model, layout); };
  int64_t times = 2;
  std::optional<MoreAccumulation> found = with(times);
  if (found && found->then.isNotable()) {
    std::optional<MoreAccumulation> four = with(4);
    times = four ? findTimes(found->then, four->then) : 0;
    found = times > 4 ? with(times) : times == 4 ? four : std::nullopt;
  }
  if (!found || found->then.isNotable())
    return std::nullopt;
  found->tokenTime = found->then.step / (static_cast<double>(times) * now.step);
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
