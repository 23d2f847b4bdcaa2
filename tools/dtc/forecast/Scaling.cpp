#include "tools/dtc/forecast/Scaling.h"

#include "runtime/abi/timetables.h"
#include "runtime/support/error.h"
#include "timing/cost/scaling.h"
#include "timing/events/forecast.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/forecast/Room.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>

namespace dtc {

constexpr const char *GrowingAxis = "dp";

double ScaledSteps::growth(const ScaledStep &step) const {
  return static_cast<double>(step.devices) / static_cast<double>(base.devices);
}

double ScaledSteps::speedup(const ScaledStep &step) const { return step.tokensPerSecond() / base.tokensPerSecond(); }

double ScaledSteps::efficiency(const ScaledStep &step) const { return speedup(step) / growth(step); }

std::optional<double> ScaledSteps::serialShare() const {
  std::vector<timing::Speedup> speedups;
  for (const ScaledStep &step : sizes)
    if (step.isKnown() && step.devices > base.devices && step.devices % base.devices == 0)
      speedups.push_back({step.devices / base.devices, speedup(step)});
  if (speedups.empty())
    return std::nullopt;
  return isWeak ? timing::serialShareByGustafson(speedups) : timing::serialShareByAmdahl(speedups);
}

double Scaling::targetTokens() const { return timing::computeOptimalTokens(parameters); }
double Scaling::targetFlops() const { return timing::trainingFlops(parameters, targetTokens()); }

/// How many devices the axes other than dp take.
static int64_t devicesOfOthers(const std::string &mesh) {
  int64_t product = 1;
  for (const std::string &part : CLI::detail::split(mesh, ','))
    if (std::string axis = part.substr(0, part.find('=')); axis != GrowingAxis)
      product *= axisSize(mesh, axis);
  return product;
}

std::string meshFor(const std::string &mesh, int64_t devices) {
  int64_t others = devicesOfOthers(mesh);
  if (devices % others != 0)
    throw Error(ExitCode::BadInput,
                fmt::format("{} devices are not a multiple of the {} of the mesh {}", devices, others, mesh));
  std::string text, growing = fmt::format("{}={}", GrowingAxis, devices / others);
  bool isThere = false;
  for (const std::string &part : CLI::detail::split(mesh, ',')) {
    bool grows = part.substr(0, part.find('=')) == GrowingAxis;
    text += (text.empty() ? "" : ",") + (grows ? growing : part);
    isThere = isThere || grows;
  }
  if (isThere || text.empty())
    return isThere ? text : growing;
  return growing + "," + text;
}

namespace {

/// Compiles and simulates, each question once.
class Steps {
public:
  Steps(const timing::Cluster &cluster, const ScaleRequest &request) : cluster(cluster), request(request) {}

  /// `batch` 0: the batch of the settings.
  ScaledStep of(int64_t devices, int64_t batch) {
    auto [known, isNew] = done.try_emplace({devices, batch});
    if (isNew) {
      known->second = simulate(devices, batch);
      if (known->second.isKnown())
        done.emplace(std::pair(devices, known->second.batch), known->second);
    }
    return done.at({devices, batch});
  }

  std::string model;
  double parameters = 0;

private:
  ScaledStep simulate(int64_t devices, int64_t batch) {
    ScaledStep step;
    step.devices = devices;
    try {
      step.mesh = meshFor(request.mesh, devices);
      abi::Manifest manifest = request.compile(step.mesh, batch);
      timing::Layout layout(cluster, manifest.mesh());
      timing::Forecast forecast = timing::forecastStep(manifest, layout);
      step.batch = manifest.training().global_batch();
      step.threads = layout.deviceOf(0).threads();
      step.seconds = forecast.seconds;
      step.tokens = forecast.tokens;
      step.communication = (forecast.moving() + forecast.stolen()) / forecast.seconds;
      for (const Room &room : roomOf(manifest, layout))
        if (!room.isEnough() && room.needs / room.has > step.needs / step.has) {
          step.needs = room.needs;
          step.has = room.has;
        }
      model = manifest.model_name();
      parameters = static_cast<double>(totalParameters(manifest));
    } catch (const Error &error) {
      if (error.exitCode() == ExitCode::Runtime)
        throw; // of this machine, whatever the size
      step.problem = error.what();
    }
    return step;
  }

  const timing::Cluster &cluster;
  const ScaleRequest &request;
  std::map<std::pair<int64_t, int64_t>, ScaledStep> done;
};

} // namespace

/// The first of the sizes, or one device, which a mesh of dp alone has, if it is known.
static ScaledStep baseOf(const std::vector<ScaledStep> &sizes, const ScaledStep &one) {
  if (one.isKnown())
    return one;
  return *std::ranges::find_if(sizes, &ScaledStep::isKnown);
}

Scaling scale(const timing::Cluster &cluster, const ScaleRequest &request) {
  Steps steps(cluster, request);
  Scaling scaling;
  scaling.weak.isWeak = true;
  scaling.cluster = cluster.name();
  for (int64_t devices : request.sizes)
    scaling.strong.sizes.push_back(steps.of(devices, 0));
  auto first = std::ranges::find_if(scaling.strong.sizes, &ScaledStep::isKnown);
  if (first == scaling.strong.sizes.end())
    throw Error(ExitCode::BadInput, fmt::format("--scale: none of the sizes can be simulated; {} devices: {}",
                                                request.sizes.front(), scaling.strong.sizes.front().problem));
  scaling.strong.base = baseOf(scaling.strong.sizes, steps.of(1, 0));
  // What each device has at the smallest size, each device has at every size.
  auto growing = [&](int64_t devices) -> ScaledStep {
    if (first->batch * devices % first->devices == 0)
      return steps.of(devices, first->batch * devices / first->devices);
    ScaledStep step;
    step.devices = devices;
    step.problem = fmt::format("{} samples on {} devices are not a whole number on {}; choose another global_batch",
                               first->batch, first->devices, devices);
    return step;
  };
  for (int64_t devices : request.sizes)
    scaling.weak.sizes.push_back(growing(devices));
  scaling.weak.base = baseOf(scaling.weak.sizes, growing(1));
  scaling.model = steps.model;
  scaling.parameters = steps.parameters;
  return scaling;
}

} // namespace dtc
