// Kills a rank at a place of its program: `strike PID WHAT [LIST [FIRST LAST]]`. WHAT is "launch", "copy", "exchange"
// (a collective's command, or its wait) or "between" (of lists), LIST the name of a command list, and FIRST and LAST
// are numbers of commands there. The rank is stopped when it is seen at the place, and killed if it is still there;
// otherwise it continues. Prints the place. Exits with 1 when the rank was not seen there within 30 s.
#include "runtime/abi/container.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/validate.h"
#include "runtime/liveness/control_block.h"
#include "runtime/support/error.h"

#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <sys/mman.h>

using namespace dtc;
using Clock = std::chrono::steady_clock;

namespace {

std::string contents(const std::string &path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// A variable of the environment of a process.
std::string variable(pid_t process, const std::string &name) {
  std::string all = '\0' + contents(fmt::format("/proc/{}/environ", process));
  size_t at = all.find('\0' + name + '=');
  if (at == std::string::npos)
    throw Error(fmt::format("process {} has no {}", process, name));
  return all.c_str() + at + name.size() + 2;
}

class Rank {
public:
  explicit Rank(pid_t process)
      : process(process), self(std::stoi(variable(process, "DTC_LOCAL_RANK"))),
        number(std::stoi(variable(process, "DTC_RANK"))),
        manifest(parseManifest(ProgramFile(fmt::format("/proc/{}/exe", process)).manifest(), "the program")),
        meeting(map(), std::stoi(variable(process, "DTC_LOCAL_WORLD")), -1, [](int) { return true; }) {}

  CommandPlace place() const { return meeting.whereabouts(self).last().place; }
  std::string describe(const CommandPlace &place) const { return describePlace(manifest, number, place); }
  const std::string &list(const CommandPlace &place) const { return manifest.lists(int(place.list)).name(); }
  const abi::Command &command(const CommandPlace &place) const {
    return manifest.lists(int(place.list)).commands(int(place.command));
  }
  bool isStopped() const {
    std::string status = contents(fmt::format("/proc/{}/stat", process));
    return status[status.rfind(')') + 2] == 'T';
  }
  void send(int signal) const { kill(process, signal); }
  bool isGone() const { return kill(process, 0) != 0; }

private:
  void *map() const {
    std::string path = variable(process, "DTC_RENDEZVOUS"); // /proc/self/fd/N
    path.replace(0, strlen("/proc/self"), fmt::format("/proc/{}", process));
    int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    uint64_t bytes = ControlBlock::bytesFor(std::stoi(variable(process, "DTC_LOCAL_WORLD")));
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
      throw Error(fmt::format("cannot see where process {} meets the others", process));
    return memory;
  }

  pid_t process;
  int self, number;
  abi::Manifest manifest;
  ControlBlock meeting;
};

struct Target {
  std::string what, list;
  uint32_t first = 0, last = UINT32_MAX;
};

bool matches(const Rank &rank, const CommandPlace &place, const Target &target) {
  if (!place.isInList())
    return target.what == "between";
  const abi::Command &command = rank.command(place);
  return target.what == (command.has_launch() ? "launch"
                         : command.has_copy() ? "copy"
                                              : "exchange") &&
         (target.list.empty() || target.list == rank.list(place)) && target.first <= place.command &&
         place.command <= target.last;
}

int strike(const Rank &rank, const Target &target) {
  for (auto end = Clock::now() + std::chrono::seconds(30); Clock::now() < end && !rank.isGone();) {
    if (!matches(rank, rank.place(), target))
      continue;
    rank.send(SIGSTOP);
    while (!rank.isStopped() && !rank.isGone())
      ;
    CommandPlace place = rank.place();
    bool hit = matches(rank, place, target);
    rank.send(hit ? SIGKILL : SIGCONT);
    if (hit) {
      fmt::print("{}\n", place.isInList() ? rank.describe(place) : "between lists");
      return 0;
    }
  }
  return 1;
}

} // namespace

int main(int argc, char **argv) {
  try {
    std::vector<std::string> words(argv + 1, argv + argc);
    Target target{words.at(1), words.size() > 2 ? words[2] : ""};
    if (words.size() > 4) {
      target.first = std::stoi(words[3]);
      target.last = std::stoi(words[4]);
    }
    return strike(Rank(std::stoi(words.at(0))), target);
  } catch (const std::exception &error) {
    fmt::print(stderr, "strike: {}\n", error.what());
    return 2;
  }
}
