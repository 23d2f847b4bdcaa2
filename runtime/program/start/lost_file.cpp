#include "runtime/program/start/lost_file.h"

#include <cinttypes>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fmt/format.h>
#include <fstream>
#include <utility>

namespace dtc {

static std::function<void(const std::string &)> endWith;

/// The file that is mapped at an address; empty where there is none.
static std::string fileAt(uintptr_t address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin, end;
    int path = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %*s %*s %*s %*s %n", &begin, &end, &path) == 2 &&
        begin <= address && address < end)
      return line.substr(static_cast<size_t>(path));
  }
  return "";
}

/// The signal is this thread's own failed read of a file's bytes: no library function is under way that could not be
/// called again. Where it was another memory, the read fails once more and ends the process.
static void onBusError(int number, siginfo_t *info, void *) {
  std::signal(number, SIG_DFL);
  std::string path = fileAt(reinterpret_cast<uintptr_t>(info->si_addr));
  if (path.starts_with('/') && !path.starts_with("/dev/shm/") && !path.starts_with("/memfd:"))
    endWith(fmt::format("cannot read '{}': it became shorter while it was in use, or its disk failed; restore it, then "
                        "go on with --resume. A file that a run reads must stay as it is",
                        path));
}

void catchLostFiles(std::function<void(const std::string &words)> end) {
  endWith = std::move(end);
  struct sigaction action = {};
  action.sa_sigaction = onBusError;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

} // namespace dtc
