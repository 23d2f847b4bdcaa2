#include "tools/dtc/verify/VerifyEffort.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/mesh.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/timetables.h"
#include "runtime/support/error.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/StepWork.h"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <string_view>

using namespace dtc;

/// Bytes of all buffers that a role's commands touch in a step and an evaluation.
static double touchedBytes(const abi::Manifest &program, const abi::Role &role) {
  std::map<std::string_view, double> bytesOf; // a list
  for (const abi::CommandList &list : program.lists())
    for (const abi::Command &command : list.commands())
      for (uint64_t buffer : command.launch().buffer_bytes())
        bytesOf[list.name()] += static_cast<double>(buffer);
  double bytes = 0;
  for (const abi::Timetable &timetable : role.timetables())
    abi::forEachEntry(timetable, [&](const abi::TimetableEntry &entry) { bytes += bytesOf[entry.list()]; });
  return bytes;
}

VerifyEffort VerifyEffort::of(const abi::Manifest &program) {
  constexpr double flopsPerSecond = 3e9, bytesPerSecond = 3e8, bytesOfNumber = 8, besideArenas = 1.4, compiler = 1e8;
  std::map<const abi::Role *, double> seconds; // of a step
  for (const abi::Role &role : program.roles())
    seconds[&role] = sumOfStep(program, role).flops / flopsPerSecond + touchedBytes(program, role) / bytesPerSecond;
  double ofStep = 0, arenas = 0; // of all ranks
  for (int rank = 0; rank < Mesh(program.mesh()).ranks(); ++rank) {
    const abi::Role &role = abi::roleOf(program, rank);
    ofStep += seconds.at(&role);
    arenas += static_cast<double>(role.arena_bytes() + role.host_bytes());
  }
  // The interpreter keeps one number for as many bytes as the narrowest type has.
  bool isNarrow = program.training().compute() != "f32";
  double narrowest = abi::elementType(isNarrow ? abi::BF16 : abi::F32).bytes;
  return {static_cast<double>(verify::Expectation::draws) * ofStep,
          compiler + besideArenas * arenas / narrowest * bytesOfNumber};
}

static std::string timeText(double seconds) {
  constexpr double minute = 60, most = 100;
  return seconds < most ? fmt::format("{:.0f} s", seconds) : fmt::format("{:.0f} minutes", seconds / minute);
}

void dtc::requireEffort(const VerifyEffort &effort, const std::string &model, const std::string &advice, bool noLimit) {
  constexpr double fewSeconds = 10, mostSeconds = 600, mostBytes = 16e9;
  std::string takes = fmt::format("about {} and {} of memory", timeText(effort.seconds), bytesText(effort.bytes));
  if (!noLimit && (effort.seconds > mostSeconds || effort.bytes > mostBytes))
    throw Error(ExitCode::BadInput,
                fmt::format("{}: interpreting a step of all ranks would take {}; --no-limit does so anyway, {}", model,
                            takes, advice));
  if (effort.seconds > fewSeconds)
    tellNews("interpreting a step of all ranks takes " + takes);
}

verify::Progress dtc::tellProgress() {
  using Clock = std::chrono::steady_clock;
  return [begin = Clock::now(), told = Clock::now()](double part) mutable {
    constexpr std::chrono::seconds pause(10);
    Clock::time_point now = Clock::now();
    if (now - told < pause)
      return;
    told = now;
    constexpr double percent = 100;
    tellNews(fmt::format("{:.0f} % of the ranks' commands have run, after {:.0f} s", percent * part,
                         std::chrono::duration<double>(now - begin).count()));
  };
}
