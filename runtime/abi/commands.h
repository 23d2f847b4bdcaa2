// What the commands that start something have in common.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>

namespace dtc::abi {

/// Whether it starts something in which other ranks take part: a collective, a send or a receive.
inline bool communicates(const Command &command) {
  return command.has_start() || command.has_send() || command.has_recv();
}

/// Whether it is a copy that overlaps launches. Other copies run in the order of the launches.
inline bool startsCopy(const Command &command) { return command.has_copy() && command.copy().has_token(); }

/// Whether it starts something that runs until the wait with the same token.
inline bool isStart(const Command &command) { return communicates(command) || startsCopy(command); }

/// A send or a receive.
inline const Transfer &transferOf(const Command &command) {
  return command.has_send() ? command.send() : command.recv();
}

/// The token of a wait, or of a command for which isStart() holds; 0 for other commands.
inline uint32_t tokenOf(const Command &command) {
  return command.has_wait()    ? command.wait().token()
         : command.has_start() ? command.start().token()
         : command.has_copy()  ? command.copy().token()
                               : transferOf(command).token();
}
/// Likewise, the token's space: each place of this space has its own token.
inline uint32_t tokenSpaceOf(const Command &command) {
  return command.has_wait()    ? command.wait().token_space()
         : command.has_start() ? command.start().token_space()
         : command.has_copy()  ? command.copy().token_space()
                               : transferOf(command).token_space();
}
/// The group of a command for which communicates() holds.
inline uint32_t groupOf(const Command &command) {
  return command.has_start() ? command.start().group() : transferOf(command).group();
}
inline const std::string &valueOf(const Command &command) {
  return command.has_start() ? command.start().value() : transferOf(command).value();
}

/// How many parts one start may have: as many as transports can announce to each other at once.
inline constexpr int MaximumParts = 64;

/// Whether a command is another part of the start before it: one wait ends both.
inline bool isPart(const CommandList &list, int at) { return at > 0 && list.commands(at - 1).start().more(); }

/// How many elements each of a collective's members has on one side. A collective of kind `perMember` has rows for each
/// member on this side alone, and ALL_TO_ALL has them on both.
inline int64_t memberElements(const Collective &collective, Collective::Kind perMember, int64_t members) {
  int64_t rows = collective.outer() * collective.chunk();
  if (collective.kind() == Collective::ALL_TO_ALL)
    return rows * members * collective.middle();
  return collective.kind() == perMember ? rows * members : rows;
}
/// How many it gives and gets.
inline int64_t inputElements(const Collective &collective, int64_t members) {
  return memberElements(collective, Collective::REDUCE_SCATTER, members);
}
inline int64_t outputElements(const Collective &collective, int64_t members) {
  return memberElements(collective, Collective::ALL_GATHER, members);
}

/// Whether a collective combines rows that each come with the logarithm of their weight.
inline bool hasLogs(const Collective &collective) { return collective.reduction() == LOG_SUM_EXP; }
/// How many of these logarithms each member contributes and receives: one per row.
inline int64_t inputLogs(const Collective &collective, int64_t members) {
  bool scatters = collective.kind() == Collective::REDUCE_SCATTER;
  return hasLogs(collective) ? collective.outer() * (scatters ? members : 1) : 0;
}
inline int64_t outputLogs(const Collective &collective) { return hasLogs(collective) ? collective.outer() : 0; }

/// The index, among `members`, of the member `shift` places after number `self`.
inline int64_t shifted(int64_t self, int64_t shift, int64_t members) {
  return ((self + shift % members) % members + members) % members;
}

} // namespace dtc::abi
