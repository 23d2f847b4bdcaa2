#include "tools/dtc/VerifyEffort.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/error.h"
#include "runtime/comm/mesh.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/StepWork.h"

#include <fmt/format.h>

#include <chrono>

using namespace dtc;

/// Bytes of all buffers that a role's commands touch in a step and an evaluation.
static double touchedBytes(const abi::Role &role) {
  double bytes = 0;
  for (const auto *timetable : {&role.step(), &role.evaluation(), &role.refresh()})
    for (const abi::TimetableEntry &entry : *timetable)
      for (const abi::CommandList &list : role.lists())
        if (list.name() == entry.list())
          for (const abi::Command &command : list.commands())
            for (uint64_t buffer : command.launch().buffer_bytes())
              bytes += static_cast<double>(buffer);
  return bytes;
}

VerifyEffort VerifyEffort::of(const abi::Manifest &program) {
  constexpr double flopsPerSecond = 3e9, bytesPerSecond = 3e8, bytesOfNumber = 8, besideArenas = 1.4, compiler = 1e8;
  const abi::Role &role = program.roles(0);
  double ranks = Mesh(program.mesh()).ranks();
  double ofStep = sumOfStep(program, role).flops / flopsPerSecond + touchedBytes(role) / bytesPerSecond;
  // The interpreter keeps a number for as many bytes as the narrowest type has.
  bool isNarrow = program.training().compute() != "f32";
  double narrowest = abi::elementType(isNarrow ? abi::BF16 : abi::F32).bytes;
  double numbers = ranks * static_cast<double>(role.arena_bytes()) / narrowest;
  return {static_cast<double>(verify::Expectation::draws) * ranks * ofStep,
          compiler + besideArenas * numbers * bytesOfNumber};
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
    sayProblem("interpreting a step of all ranks takes " + takes);
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
    sayProblem(fmt::format("{:.0f} % of the ranks' commands have run, after {:.0f} s", percent * part,
                           std::chrono::duration<double>(now - begin).count()));
  };
}
