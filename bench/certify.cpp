// How long the certificate of a program takes: certify PROGRAM [ROUNDS].
#include "timing/certify/certify.h"
#include "runtime/abi/container.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <vector>

using namespace dtc;

int main(int argc, char **argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: certify PROGRAM [ROUNDS]\n");
    return 2;
  }
  ProgramFile file(argv[1]);
  abi::Manifest manifest;
  if (!manifest.ParseFromString(std::string(file.manifest())))
    return 3;
  abi::Certificate certificate;
  std::vector<double> seconds;
  for (int round = 0, rounds = argc > 2 ? std::atoi(argv[2]) : 3; round < rounds; ++round) {
    auto begin = std::chrono::steady_clock::now();
    certificate = timing::certify(manifest);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::ranges::sort(seconds);
  uint64_t commands = 0;
  for (const abi::JudgedTimetable &judged : certificate.timetables())
    commands += judged.commands();
  fmt::print("{} ranks, {} classes, {} groups, {} commands: {:.3f} s (least {:.3f}, most {:.3f})\n",
             certificate.ranks(), certificate.classes(), certificate.groups(), commands, seconds[seconds.size() / 2],
             seconds.front(), seconds.back());
}
