#include "runtime/launch/rank.h"

#include "runtime/meeting/job_file.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <fmt/format.h>
#include <string_view>

namespace dtc {

namespace {

/// The names that one launcher uses.
struct Launcher {
  const char *name;
  const char *rank;
  const char *world;
  const char *localRank;
  const char *localWorld; ///< ranks on this host
  const char *job;        ///< distinguishes jobs on one host
  const char *step;       ///< distinguishes the steps of one job
};

constexpr Launcher Launchers[] = {
    {"dtc run", "DTC_RANK", "DTC_WORLD", "DTC_LOCAL_RANK", "DTC_LOCAL_WORLD", nullptr, nullptr},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE", nullptr},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_JOB_ID",
     "SLURM_STEP_ID"},
};

int number(const char *name, const std::string &text) {
  int value;
  auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value < 0)
    throw Error(ExitCode::BadInput,
                fmt::format("the environment variable {} is '{}', which is not a rank or a count", name, text));
  return value;
}

int number(const Environment &environment, const char *name, int otherwise) {
  std::optional<std::string> text = environment(name);
  return text ? number(name, *text) : otherwise;
}

/// Slurm lists the tasks of all nodes: "4", or for several "4(x2),3".
int tasksOnNode(const char *name, const std::string &text, int node) {
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find(',', at), text.size());
    std::string part = text.substr(at, end - at), times = "1";
    if (size_t open = part.find("(x"); open != std::string::npos && part.ends_with(')')) {
      times = part.substr(open + 2, part.size() - open - 3);
      part.resize(open);
    }
    int tasks = number(name, part);
    node -= number(name, times);
    if (node < 0)
      return tasks;
    at = end + 1;
  }
  throw Error(ExitCode::BadInput,
              fmt::format("the environment variable {} is '{}', which does not give the number of tasks on this node",
                          name, text));
}

/// The first of Slurm's "node[03-05,7],other".
std::string firstNode(const std::string &nodes) {
  size_t open = nodes.find_first_of("[,");
  if (open == std::string::npos || nodes[open] == ',')
    return nodes.substr(0, open);
  size_t end = nodes.find_first_of("-,]", open);
  return nodes.substr(0, open) + nodes.substr(open + 1, end - open - 1);
}

/// Where the ranks of several hosts meet.
std::string serverOf(const Environment &environment, const Launcher &launcher) {
  if (std::optional<std::string> server = environment("DTC_SERVER"))
    return *server;
  for (const char *prefix : {"", "PET_"}) {
    auto named = [&](const char *name) { return std::string(prefix) + name; };
    if (std::optional<std::string> address = environment(named("MASTER_ADDR").c_str())) {
      int port = number(environment, named("MASTER_PORT").c_str(), DefaultPort);
      bool isTaken = environment("TORCHELASTIC_USE_AGENT_STORE") == "True"; // torchrun itself listens there
      return fmt::format("{}:{}", address->find(':') == std::string::npos ? *address : "[" + *address + "]",
                         port + isTaken);
    }
  }
  std::optional<std::string> nodes = environment("SLURM_STEP_NODELIST");
  if (std::string_view(launcher.name) == "srun" && nodes) {
    // Jobs that share a node meet at ports of their own.
    int job = number(environment, "SLURM_JOB_ID", 0), step = number(environment, "SLURM_STEP_ID", 0);
    return fmt::format("{}:{}", firstNode(*nodes), 20000 + (int64_t(job) * 16 + step) % 10000);
  }
  throw Error(ExitCode::BadInput,
              fmt::format("{} spread the ranks over several hosts, and nothing says where they meet; set DTC_SERVER to "
                          "HOST:{} on all of them, HOST being where rank 0 runs",
                          launcher.name, DefaultPort));
}

/// From `dtc run`; otherwise a name made from values that the launcher gives equally to all ranks of the job.
std::string meetingPlace(const Environment &environment, const Launcher &launcher) {
  if (!launcher.job) {
    std::optional<std::string> path = environment("DTC_RENDEZVOUS");
    if (!path)
      throw Error(ExitCode::BadInput,
                  "the environment variable DTC_RENDEZVOUS is missing; start the ranks by 'dtc run'");
    // A named file might be removed when it looks abandoned.
    if (!path->starts_with("/proc/"))
      throw Error(ExitCode::BadInput, fmt::format("the environment variable DTC_RENDEZVOUS is '{}', which 'dtc run' "
                                                  "does not set; start the ranks by 'dtc run'",
                                                  *path));
    return *path;
  }
  std::string name = fmt::format("{}-{}", launcher.name, environment(launcher.job).value_or(""));
  if (launcher.step)
    name += "-" + environment(launcher.step).value_or("0");
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-')
      c = '_';
  return fmt::format("{}/{}", JobFile::directoryIn("/dev/shm"), name); // private to this user
}

/// Which of a launcher's hosts this is, and which ranks it has.
void locate(RankIdentity &identity, const Environment &environment, const Launcher &launcher) {
  identity.localRank = number(environment, launcher.localRank, identity.rank);
  std::string local = environment(launcher.localWorld).value_or(std::to_string(identity.world));
  identity.localWorld = std::string_view(launcher.name) == "srun"
                            ? tasksOnNode(launcher.localWorld, local, number(environment, "SLURM_NODEID", 0))
                            : number(launcher.localWorld, local);
  if (identity.localWorld > identity.world)
    throw Error(ExitCode::BadInput, fmt::format("{} says that {} of {} ranks are on this host", launcher.name,
                                                identity.localWorld, identity.world));
  bool isDtcRun = !launcher.job;
  if (isDtcRun || identity.localWorld == identity.world) {
    if (identity.world > 1)
      identity.rendezvous = meetingPlace(environment, launcher);
    identity.server = isDtcRun ? environment("DTC_SERVER").value_or("") : "";
    identity.hasServer = isDtcRun;
  } else {
    identity.server = serverOf(environment, launcher);
  }
  const char *generation = isDtcRun ? "DTC_GENERATION" : "TORCHELASTIC_RESTART_COUNT";
  identity.generation = static_cast<uint32_t>(number(environment, generation, 0));
}

} // namespace

RankIdentity discoverRank(const Environment &environment) {
  for (const Launcher &launcher : Launchers) {
    std::optional<std::string> rank = environment(launcher.rank), world = environment(launcher.world);
    bool outsideStep = std::string_view(launcher.name) == "srun" && !environment("SLURM_STEP_ID");
    if (!rank || !world || outsideStep)
      continue;
    RankIdentity identity;
    identity.rank = number(launcher.rank, *rank);
    identity.world = number(launcher.world, *world);
    identity.launcher = launcher.name;
    if (identity.rank >= identity.world)
      throw Error(ExitCode::BadInput, fmt::format("{} says rank {} of {}, but ranks are numbered from 0", launcher.name,
                                                  identity.rank, identity.world));
    locate(identity, environment, launcher);
    return identity;
  }
  return {};
}

} // namespace dtc
