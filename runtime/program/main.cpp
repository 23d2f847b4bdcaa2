// The executable that every compiled program consists of, apart from its payload: one rank.
#include "runtime/abi/container.h"
#include "runtime/abi/judged.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/version.h"
#include "runtime/checkpoint/checksums.h"
#include "runtime/comm/link_probe.h"
#include "runtime/config/training_config.h"
#include "runtime/device/cpu_device.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/validate.h"
#include "runtime/kernels/cpu/kernels.h"
#include "runtime/kernels/cuda/library.h"
#include "runtime/launch/rank.h"
#include "runtime/liveness/flight_record.h"
#include "runtime/program/evaluate/evaluation.h"
#include "runtime/program/sample/generator.h"
#include "runtime/program/start/connection.h"
#include "runtime/program/start/cpu_features.h"
#include "runtime/program/start/interrupt.h"
#include "runtime/program/start/kernel_library.h"
#include "runtime/program/start/lost_file.h"
#include "runtime/program/start/options.h"
#include "runtime/program/train/trainer.h"
#include "runtime/support/error.h"
#include "runtime/support/limits.h"
#include "runtime/support/log_line.h"
#include "runtime/support/output_file.h"
#include "runtime/support/seconds.h"
#include "runtime/support/standard_files.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <new>
#include <optional>
#include <thread>

using namespace dtc;

static std::string meshText(const abi::Mesh &mesh) {
  std::string axes;
  for (const abi::Axis &axis : mesh.axes())
    axes += fmt::format("{}{}={}", axes.empty() ? "" : ",", axis.name(), axis.size());
  return axes;
}

/// Requires that as many ranks were started as the program was compiled for.
static void checkWorld(const abi::Manifest &manifest, const RankIdentity &identity) {
  int ranks = Mesh(manifest.mesh()).ranks();
  if (identity.world == ranks)
    return;
  // Every rank finds this; one reports it.
  std::string message = fmt::format("this program was compiled for {} rank{} (mesh {}), but {} started{}; start it by "
                                    "'dtc run -n {} PROGRAM', or compile it for another mesh",
                                    ranks, ranks == 1 ? "" : "s", meshText(manifest.mesh()), identity.world,
                                    identity.launcher.empty() ? "" : " (by " + identity.launcher + ")", ranks);
  throw Error(ExitCode::BadInput, identity.rank == 0 ? message : "");
}

/// Requires the certificate that these command lists were proven free of deadlock when they were compiled.
static void requireCertificate(const abi::Manifest &manifest, const RankIdentity &identity) {
  if (manifest.has_certificate() && manifest.certificate().judged() == abi::hashOfJudged(manifest))
    return;
  throw Error(ExitCode::BadInput,
              identity.rank == 0
                  ? fmt::format("this program {}; compile it again, or run it as it is with --without-certificate, and "
                                "it may hang",
                                manifest.has_certificate() ? "was changed after it got its certificate against deadlock"
                                                           : "has no certificate against deadlock")
                  : "");
}

/// What a checkpoint records about the program that wrote it: its hash and its layout.
static std::string describeProgram(const ProgramFile &program, const abi::Manifest &manifest) {
  return fmt::format("{} ({})", programHash(program.manifest(), program.kernels()), meshText(manifest.mesh()));
}

/// The compiled settings with the user's changes.
static abi::Training effectiveSettings(const abi::Manifest &manifest, const ProgramOptions &options,
                                       const RankIdentity &identity) {
  abi::Training training = manifest.training();
  try {
    changeTraining(training, options.settings);
  } catch (const Error &error) { // every rank finds it; one reports it
    throw Error(error.exitCode(), identity.rank == 0 ? error.what() : "");
  }
  if (options.steps)
    training.set_steps(*options.steps);
  return training;
}

/// A program either trains or generates.
static void requireItsKind(const abi::Manifest &manifest, const ProgramOptions &options, const RankIdentity &identity) {
  auto refuse = [&](ExitCode code, const char *words) { throw Error(code, identity.rank == 0 ? words : ""); };
  if (manifest.has_generation() && options.sample.empty())
    refuse(ExitCode::Usage, "--sample is required: this program generates text; or start it by 'dtc sample PROGRAM'");
  if (!manifest.has_generation() && !options.sample.empty())
    refuse(ExitCode::Usage, "--sample: this program trains; for one that generates write 'dtc compile MODEL --generate "
                            "POSITIONS -o PROGRAM'");
  if (!manifest.has_generation() && options.data.empty() && options.probeLinks.empty())
    refuse(ExitCode::Usage, "--data is required; --help lists all options");
}

/// Reports what ended this rank, unless another rank has the message, and notifies peers and launcher.
static int report(const RankIdentity &identity, const char *words, ExitCode code) {
  // A wrong command line is the same for all.
  bool toldElsewhere = !*words || (code == ExitCode::Usage && identity.rank != 0);
  if (code != ExitCode::PeerLost && identity.world > 1)
    reportFailure(identity.rendezvous, identity.localRank, identity.localWorld, identity.rank,
                  toldElsewhere ? "" : words);
  std::string who = identity.world > 1 ? fmt::format("rank {}: ", identity.rank) : "";
  if (!toldElsewhere)
    logError(who + words);
  return static_cast<int>(code);
}

/// Writes the flight record, as `dtc run` does for its ranks: one rank of this host that has not failed writes it for
/// all.
static void recordFlight(const ControlBlock &host, const abi::Manifest &manifest, const RankIdentity &identity) {
  std::optional<FailureNotice> failure = host.failure();
  int first = 0;
  while (failure && first + 1 < host.ranks() && host.nameOf(first) == failure->rank)
    ++first;
  if (host.self() == first)
    writeFlightRecord(
        host, [&](int rank, const CommandPlace &place) { return describePlace(manifest, rank, place); },
        identity.hasSeveralHosts() ? fmt::format("from-rank-{}", host.nameOf(0)) : "");
}

/// Reports any exception.
static int reportException(const RankIdentity &identity, const std::exception &error) {
  if (const auto *ours = dynamic_cast<const Error *>(&error))
    return report(identity, ours->what(), ours->exitCode());
  if (dynamic_cast<const std::bad_alloc *>(&error))
    return report(identity, "out of memory; use more ranks, a smaller batch or a machine with more", ExitCode::Runtime);
  return report(identity, wordsOf(error).c_str(), ExitCode::Runtime);
}

static Connection::Options connectionOptions(const ProgramFile &program, const ProgramOptions &options,
                                             const RankIdentity &identity) {
  return {.program = programHash(program.manifest(), program.kernels()),
          .patience = {fromSeconds(options.startTimeout), fromSeconds(options.watchdog)},
          .shareGpu = options.shareGpu,
          .verifyTransfers = options.verifyTransfers,
          .end = [&identity](const Error &error) { std::_Exit(report(identity, error.what(), error.exitCode())); }};
}

/// What --version says.
static std::string programVersion() {
  std::string text = versionText("a program made by dtc");
  abi::Manifest manifest;
  try {
    manifest = parseManifest(ProgramFile::self().manifest(), "this program");
  } catch (const Error &) { // the bare runtime executable, or a damaged program
    return text;
  }
  return fmt::format("{}target   {}\nmodel    {} for {}", text, manifest.target(), manifest.model_name(),
                     meshText(manifest.mesh()));
}

/// How fast the ranks of this job exchange data, for `dtc calibrate`: the command lists are left alone.
static int probeLinks(const ProgramOptions &options, CpuDevice &device, Connection &connection) {
  std::unique_ptr<Memory> memory = device.allocate(LinkProbeBytes, 0);
  connection.connect(nullptr, *memory);
  std::vector<MeasuredMove> moves = dtc::probeLinks(connection.ranks());
  if (connection.ranks().rank() == 0) {
    AtomicFile file(options.probeLinks);
    file.append(writeMoves(moves));
    file.publish(0600);
  }
  connection.ranks().barrier(); // a rank's memory is gone when it leaves
  return 0;
}

static int runRank(const ProgramOptions &options, const RankIdentity &identity) {
  ProgramFile program = ProgramFile::self();
  abi::Manifest manifest = parseManifest(program.manifest(), "this program");
  requireItsKind(manifest, options, identity);
  checkWorld(manifest, identity);
  if (!options.withoutCertificate)
    requireCertificate(manifest, identity);
  if (!abi::isForGpus(manifest))
    requireCpuFeatures(manifest);
  abi::Training training = effectiveSettings(manifest, options, identity);
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  int threads = options.threads ? options.threads : std::max(1, cores / identity.localWorld);

  const abi::Role &role = abi::roleOf(manifest, identity.rank);
  std::optional<KernelLibrary> code; // loaded once peers can be notified of errors in it
  std::optional<CudaDevice> gpu;
  std::optional<CpuDevice> cpu;
  if (abi::isForGpus(manifest))
    gpu.emplace(manifest, program.kernels(), cuda::LocalRank{identity.localRank, identity.localWorld, options.shareGpu},
                cuda::makeLibraryKernels({options.tuned, options.tf32, ""}), options.graphs);
  else
    cpu.emplace(threads, [&code](const abi::Kernel &kernel) {
      return kernel.library() ? kernels::find(kernel.symbol()) : code->find(kernel.symbol());
    });
  Device &device = gpu ? static_cast<Device &>(*gpu) : *cpu;
  std::unique_ptr<Memory> memory, hostMemory; // destroyed after the connection, which shows the first one to peers
  Connection connection(identity, manifest, connectionOptions(program, options, identity));
  if (cpu && !options.probeLinks.empty())
    return probeLinks(options, *cpu, connection);
  if (gpu)
    connection.join(*gpu);
  memory = device.allocate(role.arena_bytes(), role.shared_begin());
  if (role.host_bytes() > 0)
    hostMemory = device.allocateHost(role.host_bytes());
  connection.connect(gpu ? &*gpu : nullptr, *memory);
  try {
    if (!abi::isForGpus(manifest))
      code.emplace(program.kernels());
    Executor executor(manifest, connection.ranks(), device, *memory, hostMemory.get());
    if (!options.evaluation.empty()) {
      Evaluation(executor, training, options).run();
      return 0;
    }
    if (manifest.has_generation())
      return Generator(executor, training.seed(), options, describeProgram(program, manifest), threads).run();
    return Trainer(executor, training, options, describeProgram(program, manifest), threads).run();
  } catch (const std::exception &error) {
    if (*error.what()) // otherwise another rank reports
      connection.ranks().poison(wordsOf(error));
    if (const ControlBlock *host = connection.ranks().meetingPlace(); host && identity.launcher != "dtc run")
      recordFlight(*host, manifest, identity);
    if (gpu) // otherwise exit would wait for its work: a collective that peers no longer join
      std::_Exit(reportException(identity, error));
    throw;
  }
}

int main(int argc, char **argv) {
  reserveStandardFiles();
  std::signal(SIGXFSZ, SIG_IGN); // a full disk quota is an error of the call that meets it
  RankIdentity identity;
  try {
    identity = discoverRank(processEnvironment());
    ProgramOptions options = parseOptions(argc, argv, programVersion);
    options.startedAgain = identity.generation > 0;
    if (options.evaluation.empty()) // an evaluation has nothing to save
      catchInterrupts();
    catchLostFiles(
        [&identity](const std::string &words) { std::_Exit(report(identity, words.c_str(), ExitCode::BadInput)); });
    return runRank(options, identity);
  } catch (const std::exception &error) {
    return reportException(identity, error);
  }
}
