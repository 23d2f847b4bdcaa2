// How many commands of a program's step are simulated in a second: simulate PROGRAM CLUSTER [ROUNDS].
#include "runtime/abi/container.h"
#include "runtime/abi/timetables.h"
#include "timing/events/step.h"
#include "timing/events/simulate.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <vector>

using namespace dtc;

int main(int argc, char **argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: simulate PROGRAM CLUSTER [ROUNDS]\n");
    return 2;
  }
  ProgramFile file(argv[1]);
  abi::Manifest manifest;
  if (!manifest.ParseFromString(std::string(file.manifest())))
    return 3;
  timing::Step step = timing::readStep(manifest, abi::stepTimetable);
  timing::Cluster cluster = timing::readCluster(argv[2]);
  timing::Layout layout(cluster, manifest.mesh());
  timing::Simulator simulator(step, layout);
  std::vector<double> seconds;
  timing::Simulated simulated;
  for (int round = 0, rounds = argc > 3 ? std::atoi(argv[3]) : 99; round < rounds; ++round) {
    auto begin = std::chrono::steady_clock::now();
    simulated = simulator.run();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::ranges::sort(seconds);
  double median = seconds[seconds.size() / 2];
  fmt::print("{} commands of {} classes of ranks in {:.3g} ms: {:.3g} million a second\n", simulated.actions,
             simulator.classes().count(), 1e3 * median, 1e-6 * static_cast<double>(simulated.actions) / median);
}
