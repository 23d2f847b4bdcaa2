// dtc calibrate: measures this machine, and writes a cluster file of it.
#include "runtime/abi/atomic_file.h"
#include "runtime/abi/error.h"
#include "runtime/abi/log_line.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/TemporaryFolder.h"
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

namespace {

struct CalibrateOptions {
  std::string output = "cluster.textproto", target;
  std::string devices;             ///< a cluster file whose devices are taken instead of measuring them
  std::string hosts;               ///< "node1,node2": the links between them are measured too
  std::vector<std::string> remote; ///< options of `dtc run` that say how to reach them
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
    if (move.collective == "loaded") { // after all others
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

/// Of ranks that have `threads` threads each.
void addDevice(const std::vector<CalibrationProgram> &programs, int ranks, uint32_t threads, Cluster &cluster) {
  std::vector<Observation> observations;
  std::vector<double> hosts;
  for (const CalibrationProgram &program : programs)
    if (program.run.ranks == ranks) {
      observations.insert(observations.end(), program.kernels.begin(), program.kernels.end());
      hosts.insert(hosts.end(), program.hosts.begin(), program.hosts.end());
    }
  if (observations.empty())
    return;
  Device &device = *cluster.add_devices();
  device.set_name(processorName());
  device.set_threads(threads);
  fitDevice(observations, device);
  device.set_step_seconds(toFourDigits(median(hosts)));
}

/// Runs all programs in turn, and again as long as there is time: what disturbs a machine for a second or two then
/// disturbs one run of several of each.
std::vector<CalibrationProgram> measurePrograms(const CalibrateOptions &options, int cores,
                                                const TemporaryFolder &folder) {
  constexpr int LeastRounds = 2, MostRounds = 4;
  constexpr double Enough = 48; // seconds; the links take some more
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = Clock::now(), before = begin;
  std::vector<CalibrationProgram> programs;
  for (const CalibrationRun &run : calibrationRuns(cores))
    programs.emplace_back(run, options.target, folder.at(fmt::format("{}", programs.size())));
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
  return programs;
}

/// Devices and nodes of a cluster of hosts like this one.
Cluster measureDevices(const CalibrateOptions &options, int cores) {
  TemporaryFolder folder("dtc-calibrate");
  std::vector<CalibrationProgram> programs = measurePrograms(options, cores, folder);
  warnOfLoad(programs);
  Cluster cluster;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  cluster.set_name(host);
  cluster.set_source(fmt::format("dtc calibrate {}, {} programs", DTC_VERSION, programs.size()));
  addDevice(programs, 1, static_cast<uint32_t>(cores), cluster);
  if (cores > 1)
    addDevice(programs, cores, 1, cluster);
  Nodes &nodes = *cluster.add_nodes();
  nodes.set_count(1);
  nodes.set_device(cluster.devices(0).name());
  nodes.set_cores(static_cast<uint32_t>(cores));
  nodes.set_memory_bytes(static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  if (cores > 1)
    *cluster.add_levels() = levelOf("shared memory", Level::SHARED_MEMORY,
                                    measureLinks(cores, {"-n", std::to_string(cores)}, folder.at("links")));
  return cluster;
}

/// One rank on each host, from a folder that all of them see.
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

void calibrate(const CalibrateOptions &options) {
  requireWritable(options.output);
  auto cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  Cluster cluster = options.devices.empty() ? measureDevices(options, cores) : readCluster(options.devices);
  if (!options.hosts.empty())
    addNetwork(options, cluster);
  AtomicFile file(options.output);
  file.append(printCluster(cluster));
  file.publish(0666);
  const Device &device = *cluster.devices().rbegin();
  say("{}: {} cores, {:.3g} flop/s in f32 with one thread each, {:.3g} bytes/s of memory\n", options.output,
      cluster.nodes(0).cores(), device.peaks(0).flops(), device.memory_bandwidth());
  for (const Level &level : cluster.levels())
    say("{}: {:.3g} bytes/s, {:.3g} s for the shortest message\n", level.name(), level.bandwidth(), level.latency());
}

} // namespace

void dtc::addCalibrate(CLI::App &app) {
  auto options = std::make_shared<CalibrateOptions>();
  CLI::App *verb = app.add_subcommand(
      "calibrate", "Measure this machine within a minute, and write a cluster file of it for 'dtc simulate'.");
  verb->footer(
      "\nSmall models are compiled and trained for some steps each, on one rank and on several; nothing else "
      "should run meanwhile.\n\n"
      "Examples:\n"
      "  $ dtc calibrate\n"
      "  $ dtc calibrate -o laptop.textproto && dtc simulate gpt --cluster laptop.textproto\n"
      "  $ dtc calibrate --hosts node1,node2 -o cluster.textproto      # the network too, in a folder of both\n"
      "  $ dtc calibrate --hosts node1,node2 --devices laptop.textproto -o cluster.textproto\n");
  verb->add_option("-o,--output", options->output, "The cluster file")->capture_default_str();
  verb->add_option("--target", options->target,
                   "What is measured, as 'dtc compile' takes it; by default this processor")
      ->check([](const std::string &value) {
        return value.starts_with("cuda") ? "only processors are measured so far; write a GPU's file from its data "
                                           "sheet, as those in examples/clusters are"
                                         : "";
      });
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
  for (const auto &[name, help] : {std::pair{"--remote-shell", "What starts a command on another of --hosts"},
                                   std::pair{"--interface", "On which hosts exchange data, as 'dtc run' takes it"}})
    verb->add_option_function<std::string>(
            name,
            [&remote = options->remote, name = std::string(name)](const std::string &value) {
              remote.insert(remote.end(), {name, value});
            },
            help)
        ->needs(hosts);
  verb->callback([options] { calibrate(*options); });
}
