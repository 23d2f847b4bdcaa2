// How long the certificate of a program takes: certify PROGRAM [ROUNDS].
#include "timing/certify/certify.h"
#include "bench/program.h"

#include <fmt/format.h>

using namespace dtc;

int main(int argc, char **argv) {
  abi::Manifest manifest = manifestOf(argc, argv, 1, "certify PROGRAM [ROUNDS]");
  abi::Certificate certificate;
  std::vector<double> times =
      timesOf(argc > 2 ? std::atoi(argv[2]) : 3, [&] { certificate = timing::certify(manifest); });
  uint64_t commands = 0;
  for (const abi::JudgedTimetable &judged : certificate.timetables())
    commands += judged.commands();
  fmt::print("{} ranks, {} classes, {} groups, {} commands: {:.3f} s (least {:.3f}, most {:.3f})\n",
             certificate.ranks(), certificate.classes(), certificate.groups(), commands, times[times.size() / 2],
             times.front(), times.back());
}
