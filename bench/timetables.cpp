// How fast timetables are generated and checked: timetables [RANKS] [STAGES_PER_RANK] [MICRO_BATCHES] [ROUNDS].
#include "timing/timetables/check.h"
#include "timing/timetables/named.h"
#include "timing/timetables/simulate.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <vector>

using namespace dtc::timetables;

/// Seconds of work(), the median and the least of `rounds`.
template <typename Work> static std::pair<double, double> measure(int rounds, Work &&work) {
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) {
    auto begin = std::chrono::steady_clock::now();
    work();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::ranges::sort(seconds);
  return {seconds[seconds.size() / 2], seconds.front()};
}

int main(int argc, char **argv) {
  auto argument = [&](int index, int usual) { return argc > index ? std::atoi(argv[index]) : usual; };
  Shape shape{argument(1, 64), argument(2, 4), argument(3, 512)};
  int rounds = argument(4, 9);
  for (const Named &named : allNamed()) {
    Shape each = shape;
    each.stagesPerRank = std::min(std::max(shape.stagesPerRank, named.leastPerRank), named.mostPerRank);
    if (!findMisfit(named, each).empty())
      continue;
    size_t entries = 0;
    bool isGood = true;
    auto [median, least] = measure(rounds, [&] {
      Timetable timetable = generate(named, each);
      entries = countEntries(timetable);
      isGood = findFault(timetable, 1 << 30).empty() && findWeightsOutOfOrder(timetable).empty();
    });
    Timetable timetable = generate(named, each);
    double simulated = measure(rounds, [&] { simulate(timetable, equalCosts(timetable.stages())); }).first;
    auto count = static_cast<double>(entries);
    fmt::print("| {} | {} | {} | {:.1f} | {:.1f} | {:.1f} |{}\n", named.name, each.stagesPerRank, entries,
               count / median / 1e6, count / least / 1e6, count / simulated / 1e6, isGood ? "" : " wrong");
  }
}
