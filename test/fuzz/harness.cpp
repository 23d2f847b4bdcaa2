#include "test/fuzz/harness.h"

#include "runtime/support/error.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <new>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DTC_FUZZ_ASAN
#endif
#endif

// A sanitizer's report ends the child like a crash; so does an allocation beyond the limit.
extern "C" const char *__asan_default_options() {
  return "abort_on_error=1:detect_leaks=0:max_allocation_size_mb=1024:hard_rss_limit_mb=1536:quarantine_size_mb=16";
}
extern "C" const char *__ubsan_default_options() { return "halt_on_error=1:abort_on_error=1:print_stacktrace=1"; }

namespace dtc::fuzz {

namespace {

constexpr int64_t MostMegabytes = 1024;
constexpr int MostCpuSeconds = 5, MostSeconds = 60; // the second limit is for sleeping: a busy machine is not a finding
constexpr uint64_t MutantsPerChild = 250;
constexpr int MostReports = 20;

/// What children tell the parent, in shared memory.
struct Progress {
  uint64_t at; ///< the mutant being run
  uint64_t accepted, refused;
  int64_t megabytes, slowestMs;
  char problem[2048]; ///< of the mutant that ended the child; empty: a signal ended it
};

struct Figures {
  uint64_t crashes = 0, hangs = 0, large = 0, wrong = 0;
  uint64_t findings() const { return crashes + hangs + large + wrong; }
};

int64_t nowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int64_t peakMegabytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss >> 10;
}

void setTimer(int cpuSeconds, int seconds) {
  itimerval cpu = {};
  cpu.it_value.tv_sec = cpuSeconds;
  setitimer(ITIMER_PROF, &cpu, nullptr);
  alarm(seconds);
}

/// What is wrong with this mutant; empty: nothing.
std::string runOne(const Target &target, const std::string &mutant, Progress &progress, bool verbose) {
  try {
    target.run(mutant);
    if (target.mustRefuse)
      return "was not noticed";
    ++progress.accepted;
    if (verbose)
      fmt::print(stderr, "{}: accepted\n", progress.at);
  } catch (const Error &error) {
    ++progress.refused;
    if (verbose)
      fmt::print(stderr, "{}: {}\n", progress.at, error.what());
  } catch (const Finding &finding) {
    return finding.what();
  } catch (const std::bad_alloc &) {
    return "ran out of memory";
  } catch (const std::exception &error) {
    return fmt::format("ended by an exception that is no Error: {}", error.what());
  }
  return "";
}

[[noreturn]] void runChild(const Target &target, const HarnessOptions &options, uint64_t end, Progress &progress) {
#ifndef DTC_FUZZ_ASAN // its shadow needs terabytes of address space
  rlimit limit = {uint64_t(8) << 30, uint64_t(8) << 30};
  setrlimit(RLIMIT_AS, &limit);
#endif
  rlimit noCore = {0, 0};
  setrlimit(RLIMIT_CORE, &noCore);
  for (; progress.at < end; ++progress.at) {
    Random random(options.seed, progress.at);
    std::string mutant = target.mutate(random);
    int64_t before = nowMs();
    setTimer(MostCpuSeconds, MostSeconds);
    std::string problem = runOne(target, mutant, progress, options.verbose);
    setTimer(0, 0);
    progress.slowestMs = std::max(progress.slowestMs, nowMs() - before);
    progress.megabytes = std::max(progress.megabytes, peakMegabytes());
    if (problem.empty() && peakMegabytes() > MostMegabytes)
      problem = fmt::format("took {} MB of memory", peakMegabytes());
    if (!problem.empty()) {
      std::snprintf(progress.problem, sizeof(progress.problem), "%s", problem.c_str());
      _exit(1);
    }
  }
  _exit(0);
}

/// Counts and reports how a child ended early.
void addFinding(const Target &target, const HarnessOptions &options, const Progress &progress, int status,
                Figures &figures) {
  int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  std::string what = progress.problem;
  if (signal == SIGPROF || signal == SIGALRM) {
    ++figures.hangs;
    what = signal == SIGPROF ? fmt::format("ran for more than {} s", MostCpuSeconds)
                             : fmt::format("slept for more than {} s", MostSeconds);
  } else if (what.empty() || what.starts_with("ended by") || what.starts_with("ran out")) {
    ++figures.crashes;
    if (what.empty())
      what = signal ? fmt::format("ended by signal {} ({})", signal, strsignal(signal)) : "ended the process";
  } else {
    ++(what.starts_with("took ") ? figures.large : figures.wrong);
  }
  if (figures.findings() > MostReports)
    return;
  fmt::print("{}: mutant {} of seed {}: {}\n", target.name, progress.at, options.seed, what);
  if (!options.artifacts.empty()) {
    std::filesystem::create_directories(options.artifacts);
    Random random(options.seed, progress.at);
    std::ofstream(fmt::format("{}/{}-{}", options.artifacts, target.name, progress.at), std::ios::binary)
        << target.mutate(random);
  }
}

} // namespace

bool runMutants(const Target &target, const HarnessOptions &options) {
  void *memory = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw Error("no memory to share with children");
  auto &progress = *new (memory) Progress();
  Figures figures;
  progress.at = options.first;
  uint64_t end = options.first + options.count;
  while (progress.at < end) {
    std::fflush(nullptr);
    progress.problem[0] = '\0';
    pid_t child = fork();
    if (child == 0)
      runChild(target, options, std::min(end, progress.at + MutantsPerChild), progress);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
      throw Error("cannot start a process");
    if (status != 0) {
      addFinding(target, options, progress, status, figures);
      ++progress.at;
    }
  }
  fmt::print(
      "{}: {} mutants, {} accepted, {} refused, {} crashes, {} hangs, {} over {} MB, {} wrong; at most {} MB and "
      "{:.2f} s\n",
      target.name, options.count, progress.accepted, progress.refused, figures.crashes, figures.hangs, figures.large,
      MostMegabytes, figures.wrong, progress.megabytes, double(progress.slowestMs) / 1000);
  // If all mutants are refused, or all accepted, they test little: then the mutator is at fault.
  bool tested = progress.refused > 0 && (target.mustRefuse || progress.accepted > 0);
  tested |= options.count < 100; // a few may well be alike
  if (!tested && figures.findings() == 0)
    fmt::print("{}: its mutants are all alike; the mutator or a seed is wrong\n", target.name);
  munmap(memory, sizeof(Progress));
  return tested && figures.findings() == 0;
}

int runTargets(const std::vector<Target> &targets, int argc, char **argv) {
  HarnessOptions options;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    std::string value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--verbose")
      options.verbose = true;
    else if (!word.starts_with("--"))
      names.push_back(word);
    else if (++i; word == "--artifacts")
      options.artifacts = value;
    else if (uint64_t number = std::strtoull(value.c_str(), nullptr, 10); word == "--count")
      options.count = number;
    else if (word == "--seed")
      options.seed = number;
    else if (word == "--first")
      options.first = number;
  }
  bool good = true;
  for (const std::string &name : names)
    if (std::ranges::none_of(targets, [&](const Target &target) { return target.name == name; })) {
      fmt::print(stderr, "no target '{}'\n", name);
      return 2;
    }
  for (const Target &target : targets)
    if (names.empty() || std::ranges::find(names, target.name) != names.end())
      good &= runMutants(target, options);
  return good ? 0 : 1;
}

} // namespace dtc::fuzz
