// dtc run: starts the ranks of a program, on this machine or on several.
#include "runtime/abi/container.h"
#include "runtime/abi/mesh.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/timetables.h"
#include "runtime/checkpoint/checksums.h"
#include "runtime/executor/executor.h"
#include "runtime/launch/cluster.h"
#include "runtime/launch/rank.h"
#include "runtime/program/start/command_line.h"
#include "runtime/support/error.h"
#include "runtime/support/seconds.h"
#include "tools/dtc/OtherVerbs.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/Verbs.h"

#include <charconv>
#include <filesystem>
#include <fmt/ranges.h>
#include <iostream>

using namespace dtc;

namespace {
struct RunOptions {
  int ranks = 0, nodes = 1, node = 0, maxRestarts = 0;
  std::string server, hosts, remoteShell = "ssh", interface, logFolder;
  double grace = 120, startTimeout = 60;
  bool shareGpu = false, tokenFromInput = false;
  std::vector<std::string> command;
};
} // namespace

static constexpr const char *runFooter =
    "\nWrite dtc run [-n RANKS] [--max-restarts N] PROGRAM [ARGUMENTS of the program].\n"
    "Exit codes: the program's; 4 a rank was lost, 6 starting again made no progress, 128+n stopped by signal n.\n\n"
    "Examples:\n"
    "  $ dtc run gpt --data book.bin\n"
    "  $ dtc run -n 4 gpt --data book.bin --resume dtc-out\n"
    "  $ dtc run --hosts node1:4,node2:4 gpt --data book.bin      # starts those on node2 by ssh\n"
    "  $ dtc run --nnodes 2 --node-rank 1 --server node1:29400 gpt --data book.bin      # on each host, with its "
    "number\n"
    "  $ dtc run gpt --help      # what follows PROGRAM is the program's own\n";

/// A program is a file, never a name to look up in PATH.
static std::vector<std::string> asPath(std::vector<std::string> command) {
  if (command.front().find('/') == std::string::npos)
    command.front() = "./" + command.front();
  return command;
}

/// "a:4,b:4,c"; a host without a number has as many ranks as `ranks`.
static std::vector<RemoteHost> parseHosts(const std::string &text, int ranks) {
  std::vector<RemoteHost> hosts;
  for (size_t at = 0; at <= text.size();) {
    size_t end = std::min(text.find(',', at), text.size());
    std::string part = text.substr(at, end - at);
    RemoteHost host{part, ranks};
    if (size_t colon = part.rfind(':'); colon != std::string::npos) {
      host.name = part.substr(0, colon);
      auto [stop, problem] = std::from_chars(part.data() + colon + 1, part.data() + part.size(), host.ranks);
      if (problem != std::errc() || stop != part.data() + part.size() || host.ranks < 1)
        host.name.clear();
    }
    if (host.name.empty() || host.name.starts_with('-'))
      throw CLI::ValidationError("--hosts", "write it as host,host or host:ranks,host:ranks, not '" + text + "'");
    hosts.push_back(host);
    at = end + 1;
  }
  return hosts;
}

/// What starts a node's launcher there: this executable, in this folder, with the same program.
static std::string remoteCommand(const RunOptions &options, const ClusterOptions &cluster, int node, int ranks) {
  std::vector<std::string> words = {std::filesystem::read_symlink("/proc/self/exe"),
                                    "run",
                                    "--token-from-stdin",
                                    "--nnodes",
                                    std::to_string(cluster.node.nodes),
                                    "--node-rank",
                                    std::to_string(node),
                                    "--server",
                                    cluster.server.text(),
                                    "--grace",
                                    std::to_string(options.grace),
                                    "--start-timeout",
                                    std::to_string(options.startTimeout),
                                    "-n",
                                    std::to_string(ranks)};
  if (!options.logFolder.empty())
    words.insert(words.end(), {"--log-dir", options.logFolder});
  words.insert(words.end(), options.command.begin(), options.command.end());
  std::string line = "cd " + shellWord(std::filesystem::current_path()) + " && exec";
  for (const std::string &word : words)
    line += " " + shellWord(word);
  return line;
}

static std::string tokenOf(const RunOptions &options) {
  std::string token;
  if (options.tokenFromInput) {
    std::getline(std::cin, token);
    return token;
  }
  Environment environment = processEnvironment();
  bool isGiven = environment("DTC_TOKEN") || environment("DTC_TOKEN_FILE");
  return options.hosts.empty() || isGiven ? job::readToken(environment) : job::newToken();
}

/// How the ranks are spread over hosts.
static void placeNodes(const RunOptions &options, ClusterOptions &cluster) {
  std::string server = options.server;
  if (!options.hosts.empty()) {
    std::vector<RemoteHost> hosts = parseHosts(options.hosts, options.ranks ? options.ranks : 1);
    cluster.node = {0, static_cast<int>(hosts.size()), hosts.front().ranks, ""};
    if (server.empty())
      server = hosts.front().name + ":" + std::to_string(DefaultPort);
    cluster.hosts.assign(hosts.begin() + 1, hosts.end());
  } else {
    cluster.node = {options.node, options.nodes, options.ranks ? options.ranks : cluster.world / options.nodes, ""};
  }
  cluster.local.ranks = cluster.node.ranks;
  if (cluster.node.nodes == 1)
    return;
  Environment environment = processEnvironment();
  if (std::optional<std::string> master = environment("PET_MASTER_ADDR"); master && server.empty())
    server = *master + ":" + environment("PET_MASTER_PORT").value_or(std::to_string(DefaultPort));
  if (server.empty())
    throw CLI::RequiredError("--server (or DTC_SERVER)");
  cluster.server = job::parseEndpoint(server, "--server");
  cluster.token = tokenOf(options);
}

/// "it had stages 1 and 6 of the pipeline".
static std::string stagesText(const std::vector<uint32_t> &stages) {
  return fmt::format("it had stage{} {} of the pipeline", stages.size() == 1 ? "" : "s", fmt::join(stages, " and "));
}

static int run(const RunOptions &options) {
  ClusterOptions cluster;
  cluster.local.command = options.command;
  cluster.local.stopGrace = fromSeconds(options.grace);
  cluster.local.logFolder = options.logFolder;
  cluster.maxRestarts = options.maxRestarts;
  cluster.patience.start = fromSeconds(options.startTimeout);
  requireNoModel(options.command.front(), "run");
  // Reads the whole program, so that a damaged one is refused by code that is not part of it.
  ProgramFile program(options.command.front());
  abi::Manifest manifest = readManifest(options.command.front());
  cluster.world = Mesh(manifest.mesh()).ranks();
  placeNodes(options, cluster);
  if (cluster.node.nodes == 1 && !options.ranks)
    cluster.local.ranks = cluster.world;
  cluster.node.program = programHash(program.manifest(), program.kernels());
  cluster.describe = [&](int rank, const CommandPlace &place) { return describePlace(manifest, rank, place); };
  cluster.local.describe = cluster.describe;
  if (manifest.stages_size() > 1)
    cluster.local.describeRank = [&](int rank) { return stagesText(abi::stagesOf(abi::roleOf(manifest, rank))); };
  cluster.remoteShell = {options.remoteShell};
  cluster.remoteCommand = [&](int node, int ranks) { return remoteCommand(options, cluster, node, ranks); };
  if (!options.interface.empty())
    setenv("DTC_INTERFACE", options.interface.c_str(), 1);
  if (!options.logFolder.empty())
    std::filesystem::create_directories(options.logFolder);
  return runCluster(cluster);
}

int dtc::runHere(std::vector<std::string> command) {
  RunOptions options;
  options.command = asPath(std::move(command));
  return run(options);
}

static void addOptions(CLI::App &verb, RunOptions &options) {
  verb.add_option("-n,--ranks", options.ranks,
                  "Processes to start on each host; by default as many as the program's mesh has ranks for it")
      ->check(atLeast(1));
  verb.add_option("--max-restarts", options.maxRestarts,
                  "Start again from the last good checkpoint, at most this many times, when a rank is lost")
      ->capture_default_str()
      ->check(atLeast(0));
  verb.add_option("--hosts", options.hosts, "Hosts to run on, this one first: host:ranks,host:ranks")
      ->excludes(
          verb.add_option("--nnodes", options.nodes,
                          "The number of hosts, when 'dtc run' is started on each by hand or by another launcher")
              ->envname("PET_NNODES")
              ->check(atLeast(1)));
  verb.add_option("--node-rank", options.node, "Which of these this is; 0 is where the ranks meet")
      ->envname("PET_NODE_RANK")
      ->check(atLeast(0));
  verb.add_option("--server", options.server, "host:port of node 0, where the ranks of several hosts meet")
      ->envname("DTC_SERVER");
  verb.add_option("--interface", options.interface,
                  "Name or address of the interface on which ranks of several hosts exchange data")
      ->envname("DTC_INTERFACE");
  verb.add_option("--remote-shell", options.remoteShell, "What starts a command on another of --hosts")
      ->capture_default_str();
  verb.add_option("--log-dir", options.logFolder, "Folder for what each rank but the first prints: rank-00001.log ...");
  verb.add_option("--start-timeout", options.startTimeout, "Seconds that hosts and ranks have to join")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 1e6));
  verb.add_option("--grace", options.grace,
                  "Seconds that ranks have for a checkpoint after SIGINT, SIGTERM or SIGHUP before they are killed")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e6));
  verb.add_flag("--share-gpu", options.shareGpu,
                "Let several ranks of a program for GPUs work on one, to try a layout; for speed, one each");
  verb.add_flag("--token-from-stdin", options.tokenFromInput)->group(""); // for --hosts: nobody else needs it
}

void dtc::addRun(CLI::App &app, int &exitCode) {
  auto [verb, options] = addVerb<RunOptions>(
      app, "run",
      "Run a program on local ranks, or on several hosts, and look after them: when one fails, the others stop.",
      runFooter);
  addOptions(*verb, *options);
  verb->prefix_command(); // all words from the first one that is not ours belong to the program
  verb->callback([options, verb, &exitCode] {
    if (verb->remaining().empty())
      throw CLI::RequiredError("PROGRAM");
    if (verb->remaining().front().empty())
      throw CLI::ValidationError("PROGRAM", "the value is empty; is a variable not set?");
    if (verb->remaining().front().starts_with('-'))
      throw CLI::ExtrasError({verb->remaining().front()});
    if (options->node >= options->nodes)
      throw CLI::ValidationError("--node-rank", "nodes are numbered from 0, below --nnodes");
    options->command = asPath(verb->remaining());
    if (options->shareGpu)
      options->command.insert(options->command.begin() + 1, "--share-gpu");
    exitCode = run(*options);
  });
}
