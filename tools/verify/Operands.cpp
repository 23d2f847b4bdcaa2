// What commands read and write, and the checks for it.
#include "tools/verify/Operands.h"

#include "runtime/abi/addresses.h"
#include "runtime/abi/commands.h"

#include <bit>
#include <cmath>

namespace dtc::verify {

Buffer RankMemory::buffer(uint64_t offset, abi::DataType type, int64_t elements) {
  const abi::ElementType *row = abi::findElementType(type);
  return arena.buffer(offset, row ? row->bytes * elements : 0, type);
}

std::string numberText(double number) {
  bool isWhole = number == std::trunc(number) && std::abs(number) < 0x1p62;
  return isWhole ? std::to_string(static_cast<int64_t>(number)) : std::to_string(number);
}

Operands operandsOf(RankMemory &memory, const abi::Command &command, int64_t size, int64_t me) {
  if (command.has_start()) {
    const abi::Collective &call = command.start();
    bool isBroadcast = call.kind() == abi::Collective::BROADCAST, reads = !isBroadcast || me == call.root();
    Operands operands = {reads ? memory.buffer(call.input(), call.type(), abi::inputElements(call, size)) : Buffer(),
                         memory.buffer(call.output(), call.type(), abi::outputElements(call, size)),
                         (isBroadcast || call.kind() == abi::Collective::ALL_REDUCE) && call.input() == call.output()};
    if (abi::hasLogs(call)) {
      operands.besideSource = memory.buffer(call.log_input(), abi::F32, abi::inputLogs(call, size));
      operands.besideTarget = memory.buffer(call.log_output(), abi::F32, abi::outputLogs(call));
      operands.isBesideInPlace = call.kind() == abi::Collective::ALL_REDUCE && call.log_input() == call.log_output();
    }
    if (call.has_counts())
      operands.besideSource = memory.buffer(call.counts(), abi::I32, size);
    if (call.has_received())
      operands.besideTarget = memory.buffer(call.received(), abi::I32, size);
    return operands;
  }
  const abi::Transfer &transfer = abi::transferOf(command);
  Buffer moved = memory.buffer(transfer.buffer(), transfer.type(), transfer.elements());
  return command.has_send() ? Operands{moved, {}} : Operands{{}, moved};
}

Operands operandsOf(RankMemory &memory, const abi::Copy &copy) {
  const abi::ElementType *row = abi::findElementType(copy.type());
  uint64_t bytes = row ? row->bytes * copy.elements() : 0;
  auto find = [&](uint64_t address) {
    return abi::isOfHost(address) ? memory.host.buffer(address - abi::HostBegin, bytes, copy.type())
                                  : memory.arena.buffer(address, bytes, copy.type());
  };
  Operands operands{find(copy.input()), find(copy.output()), false};
  if (operands.source.overlaps(operands.target))
    throw ProgramFault("source and target of a copy overlap");
  return operands;
}

void requireType(const abi::Collective &call, const Buffer &source, const abi::Manifest &manifest) {
  bool reduces = call.kind() == abi::Collective::ALL_REDUCE || call.kind() == abi::Collective::REDUCE_SCATTER;
  const abi::ElementType &type = abi::elementType(call.type());
  if (reduces && !type.canReduce())
    throw ProgramFault("the " + describe(call, manifest) + " adds elements of " + std::string(type.name) +
                       ", which are to be widened before");
  if (!reduces || type.isFloating())
    return;
  for (int64_t i = 0; i < source.size; ++i)
    if (double value = source.read(i); !std::isnan(value) && value != std::trunc(value))
      throw ProgramFault("the " + describe(call, manifest) + " combines integers, but element " + std::to_string(i) +
                         " is " + std::to_string(value));
}

void requireCounts(const abi::Collective &call, const Buffer &counts, const std::vector<int64_t> &members, int64_t me,
                   const abi::Manifest &manifest) {
  for (int64_t q = 0; q < counts.size; ++q) {
    double count = counts.read(q);
    if (!(count >= 0 && count <= double(call.middle())) || count != std::trunc(count))
      throw ProgramFault("in the " + describe(call, manifest) + " rank " + std::to_string(members[me]) +
                         " is to send rank " + std::to_string(members[q]) + " " + numberText(count) +
                         " rows, and counts lie between 0 and " + std::to_string(call.middle()));
  }
}

void requireApart(const abi::Command &command, const Operands &operands, const abi::Manifest &manifest) {
  auto overlap = [](const Buffer &a, const Buffer &b) { return a.size != 0 && b.size != 0 && a.overlaps(b); };
  const auto &[source, target, inPlace, besideSource, besideTarget, isBesideInPlace] = operands;
  if ((!inPlace && overlap(source, target)) || (!isBesideInPlace && overlap(besideSource, besideTarget)) ||
      overlap(source, besideTarget) || overlap(besideSource, target))
    throw ProgramFault("source and destination of the " + describe(command, manifest) + " overlap");
  if (overlap(target, besideTarget))
    throw ProgramFault("the two destinations of the " + describe(command, manifest) + " overlap");
}

void requireUntouched(const abi::Command &command, const Operands &operands, const CollectiveOperand &sources,
                      const abi::Manifest &manifest) {
  auto bits = [](double value) { return std::bit_cast<uint64_t>(value); };
  for (const Buffer &target : {operands.target, operands.besideTarget})
    for (int64_t i = 0; i < target.size; ++i)
      if (bits(target.read(i)) != bits(unwritten))
        throw ProgramFault("the destination of the " + describe(command, manifest) +
                           " was written while it was under way");
  auto requireKept = [&](const Buffer &operand, const std::vector<double> &source) {
    for (size_t i = 0; i < source.size(); ++i)
      if (bits(operand.read(static_cast<int64_t>(i))) != bits(source[i]))
        throw ProgramFault("the source of the " + describe(command, manifest) + " changed while it was under way");
  };
  if (!operands.inPlace)
    requireKept(operands.source, sources.values);
  if (!operands.isBesideInPlace)
    requireKept(operands.besideSource, sources.beside);
}

} // namespace dtc::verify
