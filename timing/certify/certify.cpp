#include "timing/certify/certify.h"

#include "runtime/abi/judged.h"
#include "runtime/abi/timetables.h"
#include "runtime/support/error.h"
#include "timing/certify/execution.h"

#include <fmt/format.h>
#include <set>
#include <string>

namespace dtc::timing {

/// Runs a step of all ranks, and once more what it may have to redo.
static void runRedone(Execution &execution, State &state, const std::string &timetable, Execution::Step step) {
  execution.run(state, timetable, step);
  if (timetable == abi::stepTimetable)
    execution.redo(state, step);
}

/// Follows runs of one step, of two steps, and so on, until what is under way between two steps is as it was a step
/// before, which takes `most` at the most. Steps that begin nothing that the run does not end are the same in all
/// longer runs.
static uint32_t followSteps(Execution &execution, const std::string &timetable, int64_t ahead, int64_t most) {
  State state = execution.begin(); // of a run that goes on
  int64_t done = 0;                // steps of it
  for (int64_t steps = 1; steps <= most; ++steps) {
    bool repeats = false;
    for (; done < steps - ahead; ++done) {
      std::vector<int64_t> before = state.underWay(done);
      runRedone(execution, state, timetable, {.number = done, .steps = Execution::endless});
      repeats = done > 0 && state.underWay(done + 1) == before;
    }
    State ended = state;
    for (int64_t step = done; step < steps; ++step)
      runRedone(execution, ended, timetable, {.number = step, .steps = steps});
    execution.requireNothingUnderWay(ended, timetable);
    if (most == 1 || repeats)
      return static_cast<uint32_t>(steps);
  }
  throw Error(
      ExitCode::BadInput,
      fmt::format("its {} leaves something else under way after each of {} steps, so nothing is known about later ones",
                  timetable, most));
}

abi::Certificate certify(const abi::Manifest &manifest) {
  Mesh mesh(manifest.mesh());
  std::vector<std::set<Way>> ways;
  std::set<uint32_t> groups;
  std::set<std::string> timetables;
  for (const abi::Role &role : manifest.roles()) {
    for (Way way : ways.emplace_back(waysOf(manifest, role)))
      groups.insert(way.group);
    for (const abi::Timetable &timetable : role.timetables())
      if (timetable.name() != abi::redoTimetable) // is part of steps
        timetables.insert(timetable.name());
  }
  RankClasses ranks = classify(manifest, mesh, ways);
  Meetings meetings(manifest, mesh, ranks, ways);
  Execution execution(meetings);
  abi::Certificate certificate;
  for (const std::string &name : timetables) {
    uint64_t before = execution.commands();
    abi::JudgedTimetable &judged = *certificate.add_timetables();
    judged.set_name(name);
    judged.set_steps(followSteps(execution, name, abi::stepsAhead(manifest, name), abi::stepsToJudge(manifest, name)));
    judged.set_commands(execution.commands() - before);
  }
  certificate.set_judged(abi::hashOfJudged(manifest));
  certificate.set_ranks(static_cast<uint64_t>(mesh.ranks()));
  certificate.set_classes(static_cast<uint32_t>(ranks.classes.size()));
  certificate.set_groups(static_cast<uint32_t>(groups.size()));
  return certificate;
}

} // namespace dtc::timing
