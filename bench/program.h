// What the measurements of a compiled program's step share.
#pragma once

#include "bench/timing.h"
#include "runtime/abi/container.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace dtc {

/// The manifest of the program that the first argument names. Ends the process where there are not more than `least`
/// arguments, the program's own name included, or no manifest that can be read.
inline abi::Manifest manifestOf(int argc, char **argv, int least, const char *usage) {
  if (argc <= least) {
    std::fprintf(stderr, "usage: %s\n", usage);
    std::exit(2);
  }
  ProgramFile file(argv[1]);
  abi::Manifest manifest;
  if (!manifest.ParseFromString(std::string(file.manifest())))
    std::exit(3);
  return manifest;
}

/// How long `work` takes in each of the rounds, in seconds, the shortest time first.
template <typename Work> std::vector<double> timesOf(int rounds, const Work &work) {
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    double begin = seconds();
    work();
    times.push_back(seconds() - begin);
  }
  std::ranges::sort(times);
  return times;
}

} // namespace dtc
