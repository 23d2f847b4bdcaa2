#include "runtime/launch/rank.h"

#include "runtime/abi/error.h"

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <fmt/format.h>
#include <string_view>
#include <unistd.h>

namespace dtc {

Environment processEnvironment() {
  return [](const char *name) -> std::optional<std::string> {
    const char *value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

namespace {

/// The names that one launcher uses.
struct Launcher {
  const char *name;
  const char *rank;
  const char *world;
  const char *localWorld; ///< ranks on this host
  const char *job;        ///< tells jobs on one host apart
  const char *step;       ///< tells apart what one job runs
};

constexpr Launcher Launchers[] = {
    {"dtc run", "DTC_RANK", "DTC_WORLD", "DTC_WORLD", nullptr, nullptr},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE", nullptr},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_JOB_ID", "SLURM_STEP_ID"},
};

int number(const char *name, const std::string &text) {
  int value;
  auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value < 0)
    throw Error(ExitCode::BadInput,
                fmt::format("the environment variable {} is '{}', which is no rank or count", name, text));
  return value;
}

/// `dtc run` says where; otherwise a name made of what the launcher gives all ranks of the job alike.
std::string meetingPlace(const Environment &environment, const Launcher &launcher) {
  if (!launcher.job) {
    std::optional<std::string> path = environment("DTC_RENDEZVOUS");
    if (!path)
      throw Error(ExitCode::BadInput,
                  "the environment variable DTC_RENDEZVOUS is missing; start the ranks by 'dtc run'");
    // A name would be one that we may remove when it looks abandoned.
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
  return fmt::format("/dev/shm/dtc-{}/{}", geteuid(), name); // a directory that is this user's alone: comm/job_file.h
}

} // namespace

RankIdentity discoverRank(const Environment &environment) {
  for (const Launcher &launcher : Launchers) {
    std::optional<std::string> rank = environment(launcher.rank), world = environment(launcher.world);
    bool outsideStep = std::string_view(launcher.name) == "srun" && !environment("SLURM_STEP_ID");
    if (!rank || !world || outsideStep)
      continue;
    RankIdentity identity{number(launcher.rank, *rank), number(launcher.world, *world), launcher.name, ""};
    if (identity.rank >= identity.world)
      throw Error(ExitCode::BadInput, fmt::format("{} says rank {} of {}, but ranks are numbered from 0", launcher.name,
                                                  identity.rank, identity.world));
    // For several hosts Slurm writes "4(x2)" or "4,3", the others a smaller number.
    std::string local = environment(launcher.localWorld).value_or(*world);
    if (local.find_first_of("(,") != std::string::npos || number(launcher.localWorld, local) != identity.world)
      throw Error(ExitCode::BadInput, fmt::format("{} spread the {} ranks over several hosts ({} on this one); today "
                                                  "all ranks have to share one host",
                                                  launcher.name, identity.world, local));
    if (identity.world > 1)
      identity.rendezvous = meetingPlace(environment, launcher);
    return identity;
  }
  return {};
}

} // namespace dtc
