// The validator's part for sends and receives, which needs more than one rank's lists.
#include "runtime/abi/commands.h"
#include "runtime/abi/element_type.h"
#include "runtime/abi/mesh.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/timetables.h"
#include "runtime/abi/written.h"
#include "runtime/executor/refuse.h"
#include "runtime/executor/validate.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

namespace dtc {

namespace {

/// The destination of a role's transfer: a group, and a shift within it.
struct Way {
  uint32_t group;
  int64_t shift;
  auto operator<=>(const Way &) const = default;
};

using Messages = std::vector<const abi::Transfer *>;

/// What a role sends and receives over a timetable.
struct Traffic {
  std::map<Way, Messages> sent, received;
};

class TransferChecker {
public:
  explicit TransferChecker(const abi::Manifest &manifest) : manifest(manifest), mesh(manifest.mesh()) {}

  void check(std::string_view timetable) const;

private:
  Traffic trafficOf(const abi::Role &role, const abi::Timetable &timetable, const abi::Unrolled &entries) const;
  void check(std::string_view timetable, size_t run) const;
  int64_t membersOf(uint32_t group) const { return abi::membersOf(manifest.groups(static_cast<int>(group))); }
  void compare(const abi::Role &sender, const Messages &sent, const abi::Role &receiver, const Messages &received,
               std::string_view timetable) const;

  const abi::Manifest &manifest;
  Mesh mesh;
};

} // namespace

Traffic TransferChecker::trafficOf(const abi::Role &role, const abi::Timetable &timetable,
                                   const abi::Unrolled &entries) const {
  std::map<std::string_view, Messages> sends, receives;
  for (const abi::CommandList &list : manifest.lists())
    for (const abi::Command &command : list.commands())
      if (command.has_send() || command.has_recv())
        (command.has_send() ? sends : receives)[list.name()].push_back(&abi::transferOf(command));
  Traffic traffic;
  int64_t total = 0;
  for (const abi::TimedEntry &timed : entries)
    for (auto [from, to] : {std::pair(&sends, &traffic.sent), std::pair(&receives, &traffic.received)}) {
      auto messages = from->find(timed.entry->list());
      if (messages == from->end())
        continue;
      total += static_cast<int64_t>(messages->second.size());
      if (total > ManifestLimits::Transfers)
        refuseProgram(
            fmt::format("role '{}' sends and receives more than 2^22 times in its {}", role.name(), timetable.name()));
      for (const abi::Transfer *message : messages->second)
        (*to)[{message->group(), abi::shifted(0, message->shift(), membersOf(message->group()))}].push_back(message);
    }
  return traffic;
}

void TransferChecker::compare(const abi::Role &sender, const Messages &sent, const abi::Role &receiver,
                              const Messages &received, std::string_view timetable) const {
  if (sent.size() != received.size())
    refuseProgram(fmt::format("in its {} role '{}' sends {} times to role '{}', which receives {} times from it",
                              timetable, sender.name(), sent.size(), receiver.name(), received.size()));
  for (size_t i = 0; i < sent.size(); ++i)
    if (sent[i]->type() != received[i]->type() || sent[i]->elements() != received[i]->elements())
      refuseProgram(fmt::format(
          "in its {} role '{}' sends {} elements of {} ('{}') to role '{}', which receives {} of {} ('{}')", timetable,
          sender.name(), sent[i]->elements(), abi::nameOf(sent[i]->type()), sent[i]->value(), receiver.name(),
          received[i]->elements(), abi::nameOf(received[i]->type()), received[i]->value()));
}

/// All roles redo a step, or none does (validateRedo).
void TransferChecker::check(std::string_view timetable) const {
  size_t runs = 0;
  for (const abi::Role &role : manifest.roles())
    runs = std::max(runs, abi::runsToJudge(role, abi::timetableOf(role, timetable)).size());
  for (size_t run = 0; run < runs; ++run)
    check(timetable, run);
}

void TransferChecker::check(std::string_view timetable, size_t run) const {
  int64_t steps = abi::stepsToJudge(manifest, timetable);
  std::map<const abi::Role *, Traffic> traffic;
  bool any = false;
  for (const abi::Role &role : manifest.roles()) {
    const abi::Timetable &own = abi::timetableOf(role, timetable);
    std::vector<abi::Unrolled> entries = abi::runsToJudge(role, own, steps);
    if (run >= entries.size())
      continue;
    Traffic &moved = traffic[&role] = trafficOf(role, own, entries[run]);
    any |= !moved.sent.empty() || !moved.received.empty();
  }
  if (!any)
    return;
  std::vector<const abi::Role *> roles(mesh.ranks(), &manifest.roles(0));
  for (const abi::Role &role : manifest.roles())
    for (const abi::RankRange &range : role.ranks())
      abi::forEachRank(range, [&](uint64_t rank) { return roles[rank] = &role; });
  // Ranks of equal roles need not be compared again.
  std::set<std::tuple<const abi::Role *, const abi::Role *, bool, Way>> compared;
  for (int rank = 0; rank < mesh.ranks(); ++rank)
    for (bool sends : {true, false})
      for (const auto &[way, messages] : sends ? traffic[roles[rank]].sent : traffic[roles[rank]].received) {
        int peer = mesh.neighbour(rank, manifest.groups(static_cast<int>(way.group)), way.shift);
        if (!compared.insert({roles[rank], roles[peer], sends, way}).second)
          continue;
        auto &others = sends ? traffic[roles[peer]].received : traffic[roles[peer]].sent;
        const Messages &back = others[{way.group, abi::shifted(0, -way.shift, membersOf(way.group))}];
        if (sends)
          compare(*roles[rank], messages, *roles[peer], back, timetable);
        else
          compare(*roles[peer], back, *roles[rank], messages, timetable);
      }
}

void validateTransfers(const abi::Manifest &manifest) {
  TransferChecker checker(manifest);
  std::set<std::string_view> names;
  for (const abi::Role &role : manifest.roles())
    for (const abi::Timetable &timetable : role.timetables())
      names.insert(timetable.name());
  for (std::string_view name : names)
    checker.check(name);
}

} // namespace dtc
