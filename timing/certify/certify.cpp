#include "timing/certify/certify.h"

#include "runtime/abi/judged.h"
#include "runtime/abi/timetables.h"
#include "runtime/support/error.h"
#include "timing/certify/execution.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <string>

namespace dtc::timing {

/// The most steps in a row that it may take until one repeats the one before.
static int64_t mostSteps(const abi::Manifest &manifest, const std::string &timetable) {
  int64_t most = 1;
  for (const abi::Role &role : manifest.roles())
    most = std::max(most, abi::stepsToJudge(abi::timetableOf(role, timetable)));
  return most;
}

/// Follows step after step. Before each it also tries that step as the last one.
static uint32_t followSteps(Execution &execution, const std::string &timetable, int64_t most) {
  State state = execution.begin();
  for (int64_t step = 0; step < most; ++step) {
    State ended = state;
    execution.run(ended, timetable, {.isFirst = step == 0, .isLast = true});
    execution.requireNothingUnderWay(ended, timetable);
    if (most == 1)
      return 1;
    std::vector<int64_t> before = state.underWay();
    execution.run(state, timetable, {.isFirst = step == 0, .isLast = false});
    if (step > 0 && state.underWay() == before)
      return static_cast<uint32_t>(step + 1);
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
    judged.set_steps(followSteps(execution, name, mostSteps(manifest, name)));
    judged.set_commands(execution.commands() - before);
  }
  certificate.set_judged(abi::hashOfJudged(manifest));
  certificate.set_ranks(static_cast<uint64_t>(mesh.ranks()));
  certificate.set_classes(static_cast<uint32_t>(ranks.classes.size()));
  certificate.set_groups(static_cast<uint32_t>(groups.size()));
  return certificate;
}

} // namespace dtc::timing
