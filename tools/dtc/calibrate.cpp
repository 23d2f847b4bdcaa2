// dtc calibrate: measures this machine, and writes a cluster file of it.
#include "runtime/abi/atomic_file.h"
#include "runtime/abi/error.h"
#include "runtime/abi/log_line.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/TemporaryFolder.h"
#include "tools/dtc/Verbs.h"
#include "tools/dtc/forecast/CalibrationRuns.h"
#include "tools/dtc/forecast/LinkProbe.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <thread>
#include <unistd.h>

using namespace dtc;
using namespace dtc::timing;

namespace {

struct CalibrateOptions {
  std::string output = "cluster.textproto", target;
};

std::string processorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      return line.substr(std::min(line.size(), line.find(':') + 2));
  return "processor";
}

/// Of what ranks of one host do to each other's memory.
Level levelOf(const std::vector<MeasuredMove> &moves) {
  Level level;
  level.set_name("shared memory");
  level.set_transport(Level::SHARED_MEMORY);
  level.set_processor_share(1);
  double shortest = moves.front().seconds, most = 0;
  for (const MeasuredMove &move : moves) {
    Measured &measured = *level.add_measured();
    measured.set_collective(move.collective);
    measured.set_ranks(static_cast<uint32_t>(move.ranks));
    measured.set_bytes(move.bytes);
    measured.set_seconds(toFourDigits(move.seconds));
    shortest = std::min(shortest, measured.seconds());
    if (move.collective == "broadcast" && move.bytes > most) { // of which every rank reads all
      most = move.bytes;
      level.set_bandwidth(toFourDigits(move.bytes / measured.seconds()));
    }
  }
  level.set_latency(shortest);
  return level;
}

/// By how much steps of one run differ: half of them lie within the median times 1 ± this.
double spreadOf(const CalibrationResult &result) {
  std::vector<double> steps = result.steps;
  std::ranges::sort(steps);
  return steps.size() < 2 ? 0 : (steps.back() - steps.front()) / (2 * steps[steps.size() / 2]);
}

void warnOfLoad(const std::vector<CalibrationResult> &results) {
  constexpr double Much = 0.1;
  std::vector<double> spreads;
  for (const CalibrationResult &result : results)
    spreads.push_back(spreadOf(result));
  double typical = median(spreads), worst = *std::ranges::max_element(spreads);
  if (typical > Much)
    tellWarning(fmt::format("steps of one program differ by {:.0f}%, and by {:.0f}% at worst: something else runs on "
                            "this machine, or it changes its clock; calibrate again when it is idle",
                            100 * typical, 100 * worst));
}

/// Of ranks that have `threads` threads each.
void addDevice(const std::vector<CalibrationResult> &results, int ranks, uint32_t threads, Cluster &cluster) {
  std::vector<Observation> observations;
  std::vector<double> hosts;
  for (const CalibrationResult &result : results)
    if (result.run.ranks == ranks) {
      observations.insert(observations.end(), result.kernels.begin(), result.kernels.end());
      hosts.insert(hosts.end(), result.hosts.begin(), result.hosts.end());
    }
  if (observations.empty())
    return;
  Device &device = *cluster.add_devices();
  device.set_name(processorName());
  device.set_threads(threads);
  fitDevice(observations, device);
  device.set_step_seconds(toFourDigits(median(hosts)));
}

Cluster clusterOf(const std::vector<CalibrationResult> &results, int cores, int ranks) {
  Cluster cluster;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  cluster.set_name(host);
  cluster.set_source(fmt::format("dtc calibrate {}, {} runs", DTC_VERSION, results.size()));
  addDevice(results, 1, static_cast<uint32_t>(cores), cluster);
  if (ranks > 1)
    addDevice(results, ranks, static_cast<uint32_t>(std::max(1, cores / ranks)), cluster);
  Nodes &nodes = *cluster.add_nodes();
  nodes.set_count(1);
  nodes.set_device(cluster.devices(0).name());
  nodes.set_cores(static_cast<uint32_t>(cores));
  nodes.set_memory_bytes(static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  if (ranks > 1)
    *cluster.add_levels() = levelOf(probeLinks(ranks));
  return cluster;
}

void calibrate(const CalibrateOptions &options) {
  requireWritable(options.output);
  auto cores = static_cast<int>(std::thread::hardware_concurrency());
  int ranks = std::max(1, cores);
  TemporaryFolder folder("dtc-calibrate");
  std::vector<CalibrationResult> results;
  std::vector<CalibrationRun> runs = calibrationRuns(ranks);
  for (const CalibrationRun &run : runs) {
    results.push_back(carryOut(run, options.target, folder.at("run")));
    say("{:2} of {}  {:<36} {:.1f} ms a step\n", results.size(), runs.size(), run.name(),
        1e3 * median(results.back().steps));
  }
  warnOfLoad(results);
  Cluster cluster = clusterOf(results, cores, ranks);
  AtomicFile file(options.output);
  file.append(printCluster(cluster));
  file.publish(0666);
  say("{}: {} cores, {:.3g} flop/s in f32 with one thread each, {:.3g} bytes/s of memory\n", options.output, cores,
      cluster.devices().rbegin()->peaks(0).flops(), cluster.devices().rbegin()->memory_bandwidth());
}

} // namespace

void dtc::addCalibrate(CLI::App &app) {
  auto options = std::make_shared<CalibrateOptions>();
  CLI::App *verb = app.add_subcommand(
      "calibrate", "Measure this machine within a minute, and write a cluster file of it for 'dtc simulate'.");
  verb->footer("\nSmall models are compiled and trained for some steps each, on one rank and on several; nothing else "
               "should run meanwhile.\n\n"
               "Examples:\n"
               "  $ dtc calibrate\n"
               "  $ dtc calibrate -o laptop.textproto && dtc simulate gpt --cluster laptop.textproto\n");
  verb->add_option("-o,--output", options->output, "The cluster file")->capture_default_str();
  verb->add_option("--target", options->target,
                   "What is measured, as 'dtc compile' takes it; by default this processor");
  verb->callback([options] { calibrate(*options); });
}
