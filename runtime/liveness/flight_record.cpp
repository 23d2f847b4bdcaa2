#include "runtime/liveness/flight_record.h"

#include "runtime/support/error.h"
#include "runtime/support/output_file.h"

#include <chrono>
#include <fmt/format.h>

namespace dtc {

std::string printFlightRecord(const ControlBlock &control, const DescribePlace &describe) {
  std::string text = "The last commands of each rank when the job stopped, the newest last.\n";
  if (std::optional<FailureNotice> notice = control.failure())
    text += describeFailure(*notice) + "\n";
  int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
  for (int rank = 0; rank < control.ranks(); ++rank) {
    const Whereabouts &there = control.whereabouts(rank);
    int name = control.nameOf(rank);
    text +=
        fmt::format("\nrank {}: step {}, {} commands{}{}\n", name, there.last().step, there.countMoves(),
                    there.isWaiting() ? "; waits for others" : "",
                    there.lastCheckpoint() ? fmt::format("; checkpoint after step {}", there.lastCheckpoint()) : "");
    for (const Whereabouts::Visit &visit : there.visits())
      text += fmt::format("  {:9.3f} s ago  step {}  {}\n", static_cast<double>(now - visit.begin) / 1e9, visit.step,
                          visit.place.isInList() ? describe(name, visit.place) : "between lists");
  }
  return text;
}

std::string writeFlightRecord(const ControlBlock &control, const DescribePlace &describe, const std::string &node) {
  std::string folder;
  for (int rank = 0; rank < control.ranks() && folder.empty(); ++rank)
    folder = control.whereabouts(rank).folder();
  if (folder.empty())
    return "";
  std::string path = fmt::format("{}/flight-record{}{}.txt", folder, node.empty() ? "" : ".", node);
  try {
    AtomicFile file(path); // never waits, for example for a pipe
    file.append(printFlightRecord(control, describe));
    file.publish(0666);
    return path;
  } catch (const Error &) {
    return "";
  }
}

} // namespace dtc
