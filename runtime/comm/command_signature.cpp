#include "runtime/comm/command_signature.h"

#include "runtime/abi/commands.h"
#include "runtime/abi/volume.h"
#include "runtime/liveness/control_block.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <initializer_list>
#include <string>

namespace dtc {

static Ticket::Operands operandsOf(const abi::Command &command) {
  if (!command.has_start())
    return {abi::transferOf(command).buffer(), abi::transferOf(command).buffer(), 0, 0};
  const abi::Collective &collective = command.start();
  return {collective.input(), collective.output(),
          collective.has_counts() ? collective.counts() : collective.log_input(), collective.log_output()};
}

void noteOperands(Ticket &own, Parts parts) {
  if (parts.size() > abi::MaximumParts)
    throw Error(ExitCode::BadInput, "the collective of " + abi::valueOf(*parts.front()) + " has " +
                                        std::to_string(parts.size()) + " parts, and one may have " +
                                        std::to_string(abi::MaximumParts) + "; compile the program again");
  std::ranges::transform(parts, own.parts, [](const abi::Command *part) { return operandsOf(*part); });
}

int64_t bytesEach(Parts parts) {
  int64_t bytes = 0;
  for (const abi::Command *part : parts)
    bytes += abi::bytesEach(*part);
  return bytes;
}

std::vector<int> membersOf(const Group &group, const abi::Command &command) {
  if (command.has_start())
    return group.ranks;
  int self = group.ranks[group.self],
      peer = group.ranks[abi::shifted(group.self, abi::transferOf(command).shift(), group.size())];
  return command.has_send() ? std::vector{self, peer} : std::vector{peer, self};
}

static uint64_t hashOf(std::initializer_list<uint64_t> values, uint64_t hash = 0xcbf29ce484222325u) {
  for (uint64_t value : values)
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
  return hash;
}

uint64_t signatureOf(const std::vector<int> &members, Parts parts, uint64_t step) {
  const abi::Command &first = *parts.front();
  if (!first.has_start()) {
    const abi::Transfer &transfer = abi::transferOf(first);
    return hashOf(
        {step, uint64_t(members[0]), uint64_t(members[1]), uint64_t(transfer.type()), uint64_t(transfer.elements())});
  }
  uint64_t hash = hashOf({step});
  for (const abi::Command *part : parts) {
    const abi::Collective &collective = part->start();
    hash = hashOf({uint64_t(collective.kind()), uint64_t(collective.reduction()), uint64_t(collective.type()),
                   uint64_t(collective.outer()), uint64_t(collective.middle()), uint64_t(collective.chunk()),
                   uint64_t(collective.split_first()), uint64_t(collective.root()), uint64_t(collective.has_counts())},
                  hash);
  }
  for (int member : members)
    hash = hashOf({uint64_t(member)}, hash);
  return hash;
}

void throwMismatch(int self, int other, const abi::Command &command, uint64_t step) {
  std::string what = (command.has_start() ? "collective of " : "transfer of ") + abi::valueOf(command);
  throw Error("ranks " + std::to_string(self) + " and " + std::to_string(other) + " disagree about the " + what +
              " (the first is in step " + std::to_string(step) +
              "): their command lists or their steps do not match; start all ranks from one program file and one "
              "checkpoint");
}

void requireCounts(const abi::Collective &collective, std::span<const int32_t> counts, const std::vector<int> &ranks) {
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts[i] < 0 || counts[i] > collective.middle())
      throw Error("in the all-to-all of " + collective.value() + " rank " + std::to_string(ranks[i / ranks.size()]) +
                  " is to send rank " + std::to_string(ranks[i % ranks.size()]) + " " + std::to_string(counts[i]) +
                  " rows, and counts lie between 0 and " + std::to_string(collective.middle()) +
                  ": look at what computes them");
}

void throwUnknownKind(const abi::Collective &collective) {
  throw Error(ExitCode::BadInput, "the program has a collective of unknown kind " + std::to_string(collective.kind()) +
                                      "; run it with the runtime it was made for");
}

} // namespace dtc
