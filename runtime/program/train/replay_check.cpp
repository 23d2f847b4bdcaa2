#include "runtime/program/train/replay_check.h"

#include "runtime/abi/addresses.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/tensors.h"
#include "runtime/abi/timetables.h"
#include "runtime/checkpoint/checksums.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <limits>

namespace dtc {

ReplayCheck::ReplayCheck(Executor &executor, const std::set<std::string> &stateWriters, int64_t every)
    : executor(executor), every(every) {
  const abi::Timetable &timetable = abi::timetableOf(executor.role(), abi::stepTimetable);
  const auto &step = timetable.period();
  auto end = std::ranges::find_if(step, [&](const auto &entry) { return stateWriters.contains(entry.list()); });
  bool overlaps = abi::stepsAhead(executor.manifest(), abi::stepTimetable) > 0, moves = abi::mostTurns(timetable) > 0;
  if (overlaps || moves || std::any_of(end, step.end(), [](const auto &entry) { return entry.has_micro_batch(); }))
    throw Error(ExitCode::BadInput, executor.rank() != 0
                                        ? ""
                                        : fmt::format("--replay-check {}: this program {}, and cannot repeat a step; "
                                                      "leave the option out",
                                                      every,
                                                      overlaps ? "begins a step before the one before has ended"
                                                      : moves  ? "works in other places in each step"
                                                               : fmt::format("changes the state in list '{}', before "
                                                                              "its last micro-batch",
                                                                             end->list())));
  for (auto entry = step.begin(); entry != end; ++entry) {
    firsts.push_back(commands);
    repeated.push_back(&*entry);
    lists.push_back(abi::Resolver(executor.manifest(), executor.role()).resolve(*entry));
    commands += static_cast<size_t>(lists.back().commands_size());
  }
  findPassing();
}

/// The second pass must not see what the first one left: a kernel whose output has gaps does not write the gaps.
void ReplayCheck::findPassing() {
  std::vector<Range> kept;
  const abi::Role &role = executor.role();
  for (const abi::Tensor &tensor : role.tensors())
    if (abi::isKept(tensor) || tensor.kind() == abi::Tensor::INPUT)
      for (uint32_t place = 0; place < role.spaces(int(abi::spaceOf(tensor.address()))).places(); ++place) {
        uint64_t begin = abi::arenaOffset(role, tensor.address(), place);
        kept.push_back({begin, begin + abi::bytesOf(tensor)});
      }
  std::ranges::sort(kept, {}, &Range::begin);
  kept.push_back({executor.memory().bytes(), executor.memory().bytes()});
  uint64_t end = 0;
  for (const Range &range : kept) {
    if (range.begin > end)
      passing.push_back({end, range.begin});
    end = std::max(end, range.end);
  }
}

void ReplayCheck::clear() {
  std::vector<std::byte> zeros(Device::PieceBytes);
  for (const Range &range : passing)
    for (uint64_t begin = range.begin; begin < range.end; begin += zeros.size())
      executor.device().write(executor.memory().base() + begin,
                              std::span(zeros).first(std::min<uint64_t>(zeros.size(), range.end - begin)));
  if (const Memory *host = executor.hostMemory()) {
    executor.device().wait(executor.device().record());
    std::memset(host->base(), 0, host->bytes());
  }
}

std::string ReplayCheck::describe() const {
  return fmt::format("replay check: one of every {} steps is computed twice before its update; that takes {} bytes for "
                     "the hashes of what {} commands write, and such a step several times as long",
                     every, 2 * commands * sizeof(uint64_t), commands);
}

std::vector<uint64_t> ReplayCheck::pass(const Fill &fill) {
  std::vector<uint64_t> hashes(commands);
  clear();
  for (size_t number = 0; number < firsts.size(); ++number) {
    fill(*repeated[number]);
    executor.runShown(*repeated[number], [&](uint32_t command, std::span<const std::byte> written) { // several times
      uint64_t &hash = hashes[firsts[number] + command];
      std::array both{hash, checksum(written)};
      hash = checksum(std::as_bytes(std::span(both)));
    });
  }
  return hashes;
}

void ReplayCheck::run(int64_t step, const Fill &fill) {
  constexpr int64_t Nothing = std::numeric_limits<int64_t>::max();
  std::vector<uint64_t> once = pass(fill), again = pass(fill);
  auto [first, other] = std::ranges::mismatch(once, again);
  int64_t number = first == once.end() ? Nothing : first - once.begin();
  std::vector<int64_t> all = executor.communicator().exchange(number);
  auto earliest = std::ranges::min_element(all);
  if (*earliest == Nothing)
    return;
  if (earliest - all.begin() != executor.rank())
    throw Error(ExitCode::Corrupted, "");
  blame(step, static_cast<size_t>(number));
}

void ReplayCheck::blame(int64_t step, size_t number) const {
  const abi::Manifest &manifest = executor.manifest();
  auto entry = static_cast<size_t>(std::ranges::upper_bound(firsts, number) - firsts.begin()) - 1;
  const abi::TimetableEntry &at = *repeated[entry];
  auto index = static_cast<int>(number - firsts[entry]);
  const abi::Command &command = lists[entry].commands(index);
  std::string where = abi::locationOf(manifest, command);
  throw Error(
      ExitCode::Corrupted,
      fmt::format("step {}, computed twice from the same state, came out different: first in layer '{}' on rank "
                  "{} ({}list '{}', command {}{}); stopped before the update. Memory or a processor failed: test "
                  "the host of this rank, and go on from the last checkpoint by --resume",
                  step, where, executor.rank(),
                  command.has_launch()
                      ? fmt::format("kernel {}, ", manifest.kernels(int(command.launch().kernel())).symbol())
                      : "",
                  at.list(), index, at.has_micro_batch() ? fmt::format(", micro-batch {}", at.micro_batch()) : ""));
}

} // namespace dtc
