#include "tools/dtc/report/Communication.h"

#include "runtime/abi/commands.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/volume.h"
#include "runtime/abi/written.h"
#include "tools/dtc/Program.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>

namespace dtc {

using Json = nlohmann::ordered_json;

namespace {
/// What identifies a row: kind, axes, bytes of the whole value.
using Row = std::tuple<std::string, std::string, double>;

struct Total {
  int64_t times = 0;  // in a step
  double sent = 0;    // bytes, each time
  double seconds = 0; // sum of all that were measured
  int64_t measured = 0;
};

/// One place in the program: its row, and what a rank sends there.
struct Place {
  Row row;
  double sent;
};
} // namespace

static Place placeOf(const abi::Manifest &manifest, const abi::Command &command) {
  const abi::Group &group = manifest.groups(static_cast<int>(abi::groupOf(command)));
  std::string axes = groupText(group, manifest.mesh());
  if (command.has_start()) {
    int64_t members = abi::membersOf(group);
    return {{kindText(command.start()), axes, abi::payloadBytes(command.start(), members)},
            abi::sentBytes(command.start(), members)};
  }
  const abi::Transfer &transfer = abi::transferOf(command);
  auto bytes = static_cast<double>(abi::bytesOf(transfer.type(), static_cast<uint64_t>(transfer.elements())));
  return {{command.has_send() ? "send" : "receive", axes, bytes}, command.has_send() ? bytes : 0};
}

/// Seconds, and how often: by list and command.
using Times = std::map<std::pair<std::string, int64_t>, std::pair<double, int64_t>>;

/// Over all ranks that play the role.
static Times measuredTimes(const abi::Role &role, const RunTrace &trace) {
  Times times;
  constexpr double microsecond = 1e-6;
  for (const auto &[number, rank] : trace.ranks) {
    bool plays =
        role.ranks().empty() || std::ranges::any_of(role.ranks(), [rank = number](const abi::RankRange &range) {
          return abi::contains(range, rank);
        });
    if (!plays)
      continue;
    for (const auto &[thread, lane] : rank.lanes)
      for (const TraceSlice &slice : lane.slices)
        if (slice.kind == SliceKind::Exchange) {
          auto &[seconds, count] = times[{trace.names[slice.list], slice.command}];
          seconds += slice.length * microsecond;
          ++count;
        }
  }
  return times;
}

static std::map<Row, Total> totalsOf(const abi::Manifest &manifest, const abi::Role &role, const RunTrace *trace) {
  std::map<Row, Total> totals;
  Times measured = trace ? measuredTimes(role, *trace) : Times();
  for (const abi::CommandList &list : abi::Resolver(manifest, role).all()) {
    int64_t times = timesInStep(role, list);
    for (int i = 0; times > 0 && i < list.commands_size(); ++i) {
      if (!abi::communicates(list.commands(i)))
        continue;
      Place place = placeOf(manifest, list.commands(i));
      Total &total = totals[place.row];
      total.times += times;
      total.sent = place.sent;
      if (auto found = measured.find({list.name(), i}); found != measured.end()) {
        total.seconds += found->second.first;
        total.measured += found->second.second;
      }
    }
  }
  return totals;
}

Json communicationJson(const abi::Manifest &manifest, const RunTrace *trace) {
  Json rows = Json::array();
  for (const abi::Role &role : manifest.roles())
    for (const auto &[row, total] : totalsOf(manifest, role, trace)) {
      const auto &[kind, axes, bytes] = row;
      Json answer = {
          {"role", role.name()},     {"kind", kind}, {"axes", axes}, {"bytes", bytes}, {"times_a_step", total.times},
          {"sent_bytes", total.sent}};
      if (total.measured > 0)
        answer["seconds"] = total.seconds / static_cast<double>(total.measured);
      rows.push_back(std::move(answer));
    }
  return rows;
}

} // namespace dtc
