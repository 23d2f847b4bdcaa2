// dtc calibrate: measures this machine and writes a cluster file for it.
#include "runtime/support/error.h"
#include "runtime/support/log_line.h"
#include "runtime/support/output_file.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/FoundGpu.h"
#include "tools/dtc/TemporaryFolder.h"
#include "tools/dtc/VerbOptions.h"
#include "tools/dtc/Verbs.h"
#include "tools/dtc/forecast/CalibrationRuns.h"
#include "tools/dtc/forecast/Spread.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <thread>
#include <unistd.h>

using namespace dtc;
using namespace dtc::timing;

static constexpr const char *calibrateFooter =
    "\nSmall models are compiled and trained for some steps each, on one rank and on several; nothing else "
    "should run meanwhile.\n\n"
    "Examples:\n"
    "  $ dtc calibrate\n"
    "  $ dtc calibrate -o laptop.textproto && dtc simulate gpt --cluster laptop.textproto\n"
    "  $ dtc calibrate --hosts node1,node2 -o cluster.textproto      # the network too, in a folder of both\n"
    "  $ dtc calibrate --hosts node1,node2 --devices laptop.textproto -o cluster.textproto\n"
    "  $ dtc calibrate --target cuda --links examples/clusters/h100x8.textproto -o node.textproto\n";

namespace {

struct CalibrateOptions {
  std::string output = "cluster.textproto", target;
  std::string devices;             ///< a cluster file whose devices are taken instead of being measured
  std::string hosts;               ///< "node1,node2": the links between them are measured too
  std::vector<std::string> remote; ///< options of `dtc run` that say how to reach them
  std::string programs;            ///< a folder in which programs are compiled, or have been before
  bool compileOnly = false;
  std::string links; ///< for GPUs: a cluster file whose nodes and links are taken

  bool isForGpu() const { return target.starts_with("cuda"); }
};

std::string processorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      return line.substr(std::min(line.size(), line.find(':') + 2));
  return "processor";
}

Level levelOf(const char *name, Level::Transport transport, const std::vector<MeasuredMove> &moves) {
  Level level;
  level.set_name(name);
  level.set_transport(transport);
  level.set_processor_share(transport == Level::SHARED_MEMORY ? 1 : 0); // where cores copy and wait for each other
  double shortest = 0, most = 0;
  for (const MeasuredMove &move : moves) {
    if (move.collective == "loaded") { // measured after all others
      if (transport == Level::TCP)
        level.set_loaded_latency(std::max(toFourDigits(move.seconds), shortest));
      continue;
    }
    Measured &measured = *level.add_measured();
    measured.set_collective(move.collective);
    measured.set_ranks(static_cast<uint32_t>(move.ranks));
    measured.set_bytes(move.bytes);
    measured.set_seconds(toFourDigits(move.seconds));
    if (transport == Level::TCP)
      measured.set_processor_seconds(std::min(toFourDigits(move.processorSeconds), measured.seconds()));
    if (move.collective != "send")
      continue;
    if (shortest == 0 || measured.seconds() < shortest)
      shortest = measured.seconds();
    if (move.bytes > most) {
      most = move.bytes;
      level.set_bandwidth(toFourDigits(move.bytes / measured.seconds()));
    }
  }
  level.set_latency(shortest);
  return level;
}

void warnOfLoad(const std::vector<CalibrationProgram> &programs) {
  std::vector<double> spreads;
  for (const CalibrationProgram &program : programs)
    spreads.push_back(spreadOf(program.steps));
  if (std::string warning = loadWarning(spreads); !warning.empty())
    tellWarning(warning);
}

/// Adds `device` as programs of this many ranks show it.
void addDevice(const std::vector<CalibrationProgram> &programs, int ranks, timing::Device device, Cluster &cluster) {
  std::vector<Observation> observations;
  for (const CalibrationProgram &program : programs)
    if (program.run.ranks == ranks)
      observations.insert(observations.end(), program.kernels.begin(), program.kernels.end());
  fitDevice(observations, device);
  *cluster.add_devices() = std::move(device);
}

/// With this many ranks on it, each with `threads`.
void addProcessor(const std::vector<CalibrationProgram> &programs, int ranks, int threads, Cluster &cluster) {
  std::vector<double> hosts;
  for (const CalibrationProgram &program : programs)
    if (program.run.ranks == ranks)
      hosts.insert(hosts.end(), program.hosts.begin(), program.hosts.end());
  timing::Device device;
  device.set_name(processorName());
  device.set_threads(static_cast<uint32_t>(threads));
  device.set_step_seconds(toFourDigits(median(hosts)));
  addDevice(programs, ranks, device, cluster);
}

/// Compiles the programs that are not there yet.
std::vector<CalibrationProgram> compilePrograms(const std::string &target, const std::vector<CalibrationRun> &runs,
                                                const std::filesystem::path &folder) {
  std::vector<CalibrationProgram> programs;
  for (const CalibrationRun &run : runs)
    programs.emplace_back(run, target, folder / std::to_string(programs.size()));
  return programs;
}

/// Runs all programs in turn, and again while there is time: a disturbance of a second or two then affects only one of
/// several runs of each program.
void measurePrograms(std::vector<CalibrationProgram> &programs) {
  constexpr int LeastRounds = 2, MostRounds = 4;
  constexpr double Enough = 48; // seconds; measuring the links takes some more
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = Clock::now(), before = begin;
  for (int round = 0; round < MostRounds; ++round) {
    std::chrono::duration<double> passed = Clock::now() - begin, last = Clock::now() - before;
    if (round >= LeastRounds && (passed + last).count() > Enough)
      break;
    before = Clock::now();
    for (CalibrationProgram &program : programs)
      program.carryOut();
    say("round {} of {} programs\n", round + 1, programs.size());
  }
  for (const CalibrationProgram &program : programs)
    say("{:<36} {:6.1f} ms a step, within {:.1f}%\n", program.run.name(), 1e3 * median(program.steps),
        100 * spreadOf(program.steps));
  warnOfLoad(programs);
}

uint64_t hostMemory() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

/// A cluster that states where its figures come from.
Cluster beginCluster(size_t programs) {
  Cluster cluster;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  cluster.set_name(host);
  cluster.set_source(fmt::format("dtc calibrate {}, {} programs", DTC_VERSION, programs));
  return cluster;
}

/// Measures the devices and nodes of a cluster of hosts like this one.
Cluster measureProcessor(std::vector<CalibrationProgram> &programs, int cores, const TemporaryFolder &folder) {
  measurePrograms(programs);
  Cluster cluster = beginCluster(programs.size());
  addProcessor(programs, 1, cores, cluster);
  if (cores > 1)
    addProcessor(programs, cores, 1, cluster);
  Nodes &nodes = *cluster.add_nodes();
  nodes.set_count(1);
  nodes.set_device(cluster.devices(0).name());
  nodes.set_cores(static_cast<uint32_t>(cores));
  nodes.set_memory_bytes(hostMemory());
  if (cores > 1)
    *cluster.add_levels() = levelOf("shared memory", Level::SHARED_MEMORY,
                                    measureLinks(cores, {"-n", std::to_string(cores)}, folder.at("links")));
  return cluster;
}

/// The cluster of that file, with the measured devices in place of its own.
Cluster withLinksOf(const std::string &path, Cluster measured) {
  Cluster cluster = readCluster(path);
  for (Nodes &nodes : *cluster.mutable_nodes())
    nodes.set_device(measured.devices(0).name());
  *cluster.mutable_devices() = measured.devices();
  cluster.set_source(fmt::format("devices: {}; links: {}", measured.source(), cluster.source()));
  return cluster;
}

/// A node with one such GPU; or as many, and the links between them, as `--links` states.
Cluster measureGpu(const CalibrateOptions &options, std::vector<CalibrationProgram> &programs, const FoundGpu &gpu) {
  measurePrograms(programs);
  Cluster cluster = beginCluster(programs.size());
  timing::Device device;
  device.set_name(gpu.model);
  device.set_memory_bytes(gpu.memoryBytes);
  device.set_step_seconds(toFourDigits(takeOffTracing(programs)));
  addDevice(programs, 1, device, cluster);
  Nodes &nodes = *cluster.add_nodes();
  nodes.set_count(1);
  nodes.set_device(gpu.model);
  nodes.set_devices(1);
  nodes.set_memory_bytes(hostMemory());
  return options.links.empty() ? cluster : withLinksOf(options.links, cluster);
}

/// Runs one rank on each host, from a folder that all of them see.
void addNetwork(const CalibrateOptions &options, Cluster &cluster) {
  auto hosts = static_cast<int>(std::ranges::count(options.hosts, ',')) + 1;
  std::filesystem::path beside = std::filesystem::absolute(options.output).parent_path();
  TemporaryFolder folder(".dtc-calibrate", beside);
  std::vector<std::string> words = {"--hosts", options.hosts};
  words.insert(words.end(), options.remote.begin(), options.remote.end());
  *cluster.add_levels() = levelOf("network", Level::TCP, measureLinks(hosts, words, folder.at("links")));
  cluster.mutable_nodes()->DeleteSubrange(1, cluster.nodes_size() - 1);
  cluster.mutable_nodes(0)->set_count(static_cast<uint32_t>(hosts));
}

Cluster measure(const CalibrateOptions &options) {
  auto cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  TemporaryFolder folder("dtc-calibrate");
  FoundGpu gpu;
  if (options.isForGpu() && !options.compileOnly)
    gpu = findGpu();
  std::vector<CalibrationProgram> programs =
      compilePrograms(options.target == "cuda" ? gpu.target : options.target,
                      options.isForGpu() ? gpuCalibrationRuns() : calibrationRuns(cores),
                      options.programs.empty() ? folder.at("programs") : options.programs);
  if (options.compileOnly)
    return {};
  return options.isForGpu() ? measureGpu(options, programs, gpu) : measureProcessor(programs, cores, folder);
}

void describe(const std::string &path, const Cluster &cluster) {
  const timing::Device &device = *cluster.devices().rbegin();
  const Nodes &nodes = cluster.nodes(0);
  std::string what = isOfProcessors(nodes) ? fmt::format("{} cores", nodes.cores()) : device.name();
  say("{}: {}, {:.3g} flop/s in {}{}, {:.3g} bytes/s of memory\n", path, what, device.peaks(0).flops(),
      device.peaks(0).type(), isOfProcessors(nodes) ? " with one thread each" : "", device.memory_bandwidth());
  for (const Level &level : cluster.levels())
    say("{}: {:.3g} bytes/s, {:.3g} s for the shortest message\n", level.name(), level.bandwidth(), level.latency());
}

/// Checked before a minute is spent on measuring. Throws Error.
void check(const CalibrateOptions &options) {
  if (options.target == "cuda" && options.compileOnly)
    throw Error(ExitCode::Usage, "--compile-only: for which GPUs? Write --target cuda:sm_90, or another one that 'dtc "
                                 "compile' takes");
  if (options.isForGpu() && !options.hosts.empty())
    throw Error(ExitCode::Usage,
                "--hosts measures links between processors; take those between GPUs from a cluster file "
                "with --links");
  if (!options.links.empty() && !options.isForGpu())
    throw Error(ExitCode::Usage, "--links is for GPUs, with --target cuda; those between processors are measured");
  if (!options.links.empty() && isOfProcessors(readCluster(options.links).nodes(0)))
    throw Error(ExitCode::BadInput, options.links + ": it is a cluster of processors; --links takes one of GPUs");
}

void calibrate(const CalibrateOptions &options) {
  check(options);
  if (!options.compileOnly)
    requireWritable(options.output);
  Cluster cluster = options.devices.empty() ? measure(options) : readCluster(options.devices);
  if (options.compileOnly)
    return;
  if (!options.hosts.empty())
    addNetwork(options, cluster);
  AtomicFile file(options.output);
  file.append(printCluster(cluster));
  file.publish(0666);
  describe(options.output, cluster);
}

} // namespace

void dtc::addCalibrate(CLI::App &app) {
  auto [verb, options] = addVerb<CalibrateOptions>(
      app, "calibrate", "Measure this machine within a minute, and write a cluster file of it for 'dtc simulate'.",
      calibrateFooter);
  verb->add_option("-o,--output", options->output, "The cluster file")->capture_default_str();
  verb->add_option(
      "--target", options->target,
      "What to measure: a target of 'dtc compile', or cuda for the GPU of this machine; by default this processor");
  CLI::Option *programs =
      verb->add_option("--programs", options->programs,
                       "Compile programs into this folder, or take those that a calibration compiled there before: for "
                       "a machine without a compiler");
  verb->add_flag("--compile-only", options->compileOnly, "Compile programs and measure nothing")->needs(programs);
  verb->add_option("--links", options->links,
                   "Of a GPU: take nodes, and the links between GPUs, from this cluster file");
  CLI::Option *hosts =
      verb->add_option("--hosts", options->hosts,
                       "Hosts like this one, which comes first: the links between them are measured too, as 'dtc run "
                       "--hosts' uses them. The folder of the file is one that all of them see")
          ->check([](const std::string &value) {
            bool isList = value.find(',') != std::string::npos && value.find(':') == std::string::npos;
            return isList ? "" : fmt::format("write two hosts or more, each once, as node1,node2; not '{}'", value);
          });
  verb->add_option("--devices", options->devices,
                   "Take devices, and links within a host, from this cluster file; measure the links between --hosts")
      ->needs(hosts);
  for (CLI::Option *option :
       handOn(*verb, options->remote,
              {{"--remote-shell", "What starts a command on another of --hosts"},
               {"--interface", "The interface on which hosts exchange data, as for 'dtc run'"}}))
    option->needs(hosts);
  verb->callback([options] { calibrate(*options); });
}
