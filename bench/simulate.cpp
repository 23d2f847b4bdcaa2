// How many commands of a program's step are simulated per second: simulate PROGRAM CLUSTER [ROUNDS].
#include "timing/events/simulate.h"
#include "bench/program.h"
#include "runtime/abi/timetables.h"
#include "timing/events/step.h"

#include <fmt/format.h>

using namespace dtc;

int main(int argc, char **argv) {
  abi::Manifest manifest = manifestOf(argc, argv, 2, "simulate PROGRAM CLUSTER [ROUNDS]");
  timing::Step step = timing::readStep(manifest, abi::stepTimetable);
  timing::Cluster cluster = timing::readCluster(argv[2]);
  timing::Layout layout(cluster, manifest.mesh());
  timing::Simulator simulator(step, layout);
  timing::Simulated simulated;
  double time = median(timesOf(argc > 3 ? std::atoi(argv[3]) : 99, [&] { simulated = simulator.run(); }));
  fmt::print("{} commands of {} classes of ranks in {:.3g} ms: {:.3g} million a second\n", simulated.actions,
             simulator.classes().count(), 1e3 * time, 1e-6 * static_cast<double>(simulated.actions) / time);
}
