#include "tools/dtc/forecast/MadeAgain.h"

#include "runtime/abi/marks.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/roles.h"
#include "timing/cost/cost.h"
#include "tools/dtc/Layers.h"
#include "tools/dtc/Program.h"

#include <algorithm>

namespace dtc {

static std::string describe(const abi::Manifest &manifest, const abi::Command &command) {
  std::string what = command.has_start() ? kindText(command.start()) : abi::nameOf(command.work().kind());
  return what + " at " + locationText(manifest, command);
}

static double secondsOf(const abi::Role &role, const abi::CommandList &list, int number, const CollectiveTimes &times) {
  const abi::Command &command = list.commands(number);
  if (command.has_start())
    return times.of(role, list, number).seconds;
  return timing::kernelSeconds(times.layout().deviceOf(abi::firstRankOf(role)), timing::workOf(command));
}

std::vector<MadeAgain> madeAgain(const abi::Manifest &manifest, const abi::Role &role, const CollectiveTimes *times) {
  LayerNames names(manifest);
  std::vector<MadeAgain> rows;
  for (const abi::CommandList &list : abi::Resolver(manifest, role).all())
    for (int64_t number = 0, runs = timesInStep(role, list); runs > 0 && number < list.commands_size(); ++number) {
      const abi::Command &command = list.commands(static_cast<int>(number));
      if (!command.is_again() || command.has_wait())
        continue;
      std::string what = names.generalise(describe(manifest, command)).text;
      auto row = std::ranges::find(rows, what, &MadeAgain::what);
      if (row == rows.end())
        row = rows.insert(row, {"", what, {}, {}, times ? std::optional(0.0) : std::nullopt});
      if (command.has_layer()) {
        const abi::Layer &layer = manifest.layers(static_cast<int>(command.layer()));
        row->layers = layer.list() + ".*";
        row->numbers.insert(layer.number());
      }
      row->work += totalsOf(manifest, command) * runs;
      if (times)
        *row->seconds += static_cast<double>(runs) * secondsOf(role, list, static_cast<int>(number), *times);
    }
  return rows;
}

std::vector<MadeAgain> sumByLayers(const std::vector<MadeAgain> &rows) {
  std::vector<MadeAgain> sums;
  for (const MadeAgain &row : rows) {
    auto sum = std::ranges::find(sums, row.layers, &MadeAgain::layers);
    if (sum == sums.end()) {
      sums.push_back(row);
      sums.back().what.clear();
      continue;
    }
    sum->numbers.insert(row.numbers.begin(), row.numbers.end());
    sum->work += row.work;
    if (row.seconds)
      *sum->seconds += *row.seconds;
  }
  return sums;
}

} // namespace dtc
