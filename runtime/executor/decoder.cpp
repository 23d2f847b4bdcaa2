#include "runtime/abi/commands.h"
#include "runtime/abi/element_type.h"
#include "runtime/executor/decoded.h"
#include "runtime/support/error.h"

#include <bit>

namespace dtc {

Executor::Decoder::Decoder(Executor &executor) : executor(executor), mesh(executor.program.mesh()) {
  if (mesh.ranks() != executor.peers.size())
    throw Error(ExitCode::BadInput, "the program was compiled for " + std::to_string(mesh.ranks()) + " ranks, but " +
                                        std::to_string(executor.peers.size()) + " were started; start " +
                                        std::to_string(mesh.ranks()) + ", or compile it with another --mesh");
  for (const abi::Kernel &kernel : executor.program.kernels()) {
    kernels.push_back(executor.ownDevice.load(kernel));
    if (!kernels.back())
      throw Error(ExitCode::BadInput, std::string("the program needs the ") + (kernel.library() ? "library " : "") +
                                          "kernel '" + kernel.symbol() +
                                          "', which was not found; compile the program again");
  }
  executor.groups = groupsOf(executor.program, executor.rank());
}

std::unique_ptr<Executor::List> Executor::Decoder::decode(const abi::CommandList &commandList) {
  auto result = std::make_unique<List>();
  source = &commandList;
  list = result.get();
  list->name = source->name();
  list->number = static_cast<uint32_t>(std::ranges::find(executor.manifest().lists(), source->name(),
                                                         [](const abi::CommandList &each) { return each.name(); }) -
                                       executor.manifest().lists().begin());
  // Decoded launches point into these: they must not grow.
  size_t buffers = 0, scalars = 0;
  for (const abi::Command &command : source->commands()) {
    buffers += command.launch().buffers_size();
    scalars += command.launch().scalars_size();
  }
  list->buffers.reserve(buffers);
  list->scalars.reserve(scalars);

  for (at = 0; at < source->commands_size(); ++at) {
    const abi::Command &command = source->commands(at);
    Decoded decoded{};
    if (command.has_launch()) {
      decoded = decodeLaunch(command.launch());
    } else if (command.has_copy()) {
      decoded = decodeCopy(command);
    } else if (abi::isStart(command)) {
      decoded = decodeStart(command);
    } else {
      decoded.kind = Decoded::Wait;
      decoded.flight = flightOf(command.wait().token());
    }
    decoded.index = at;
    decoded.command = &command;
    list->commands.push_back(decoded);
    at += decoded.kind == Decoded::StartAndWait;
  }
  findStretches();
  return result;
}

void Executor::Decoder::findStretches() const {
  for (size_t i = 0; i < list->commands.size(); ++i) {
    Decoded::Kind kind = list->commands[i].kind;
    bool isRepeatable = kind == Decoded::Launch || kind == Decoded::Copy;
    if (list->stretches.empty() || list->stretches.back().isRepeatable != isRepeatable)
      list->stretches.push_back({.begin = i, .end = i, .isRepeatable = isRepeatable});
    list->stretches.back().end = i + 1;
  }
}

int64_t Executor::Decoder::scalarBits(const abi::Scalar &scalar) const {
  switch (scalar.kind_case()) {
  case abi::Scalar::kValue:
    return scalar.value();
  case abi::Scalar::kRankIndex:
    return mesh.indexOf(executor.rank(), scalar.rank_index().axes()) * scalar.rank_index().scale();
  case abi::Scalar::kReal:
    return std::bit_cast<int64_t>(scalar.real());
  default:
    return 0; // unreachable: validation admits no other kind
  }
}

Executor::Decoded Executor::Decoder::decodeLaunch(const abi::Launch &launch) {
  Decoded decoded{};
  decoded.kind = Decoded::Launch;
  decoded.kernel = kernels[launch.kernel()];
  decoded.buffers = {list->buffers.data() + list->buffers.size(), static_cast<size_t>(launch.buffers_size())};
  decoded.scalars = {list->scalars.data() + list->scalars.size(), static_cast<size_t>(launch.scalars_size())};
  decoded.grid = launch.grid();
  decoded.grain = launch.grain();
  if (launch.has_grid_count() && !executor.ownDevice.readsGrids())
    throw Error(ExitCode::BadInput, "list '" + source->name() + "', command " + std::to_string(at) +
                                        ": the launch reads from memory how much of its grid is to run, which this "
                                        "device cannot do; compile the program for it");
  if (launch.has_grid_count())
    decoded.gridCount = executor.ownMemory.base() + launch.grid_count();
  for (uint64_t offset : launch.buffers())
    list->buffers.push_back(executor.ownMemory.base() + offset);
  for (const abi::Scalar &scalar : launch.scalars())
    list->scalars.push_back(scalarBits(scalar));
  return decoded;
}

/// Tokens belong to a role: the list that waits need not be the one that starts.
uint32_t Executor::Decoder::flightOf(uint32_t token) {
  auto [flight, isNew] = flightsOfTokens.try_emplace(token, executor.flights.size());
  if (isNew)
    executor.flights.emplace_back();
  return flight->second;
}

bool Executor::Decoder::waitFollows() const {
  return at + 1 < source->commands_size() && source->commands(at + 1).has_wait() &&
         source->commands(at + 1).wait().token() == abi::tokenOf(source->commands(at));
}

/// Refuses what the transport cannot do; the compiler should have avoided it.
void Executor::Decoder::requireCapabilities(const abi::Collective &collective) const {
  CommunicatorCapabilities can = executor.peers.capabilities();
  bool isWhole = collective.kind() == abi::Collective::ALL_REDUCE || collective.kind() == abi::Collective::BROADCAST;
  bool strided = collective.kind() == abi::Collective::ALL_TO_ALL || (!isWhole && collective.outer() > 1);
  const char *lacking = strided && !can.strided                                                ? "parts that lie apart"
                        : isWhole && collective.input() == collective.output() && !can.inPlace ? "results in place"
                        : abi::hasLogs(collective) && !can.weightedRows ? "rows combined by log-sum-exp"
                        : collective.has_counts() && !can.unevenParts   ? "as many rows as its counts say"
                                                                        : nullptr;
  if (lacking)
    throw Error(ExitCode::BadInput, "list '" + source->name() + "', command " + std::to_string(at) +
                                        ": the collective of " + collective.value() + " asks for " + lacking +
                                        ", which this transport cannot do; compile the program for it");
}

Executor::Decoded Executor::Decoder::decodeCopy(const abi::Command &command) {
  const abi::Copy &copy = command.copy();
  Decoded decoded{};
  decoded.kind = abi::startsCopy(command) ? Decoded::StartCopy : Decoded::Copy;
  decoded.target = executor.locate(copy.output());
  decoded.copied = executor.locate(copy.input());
  decoded.bytes = abi::bytesOf(copy.type(), copy.elements());
  if (decoded.kind == Decoded::StartCopy)
    decoded.flight = flightOf(copy.token());
  return decoded;
}

Executor::Decoded Executor::Decoder::decodeStart(const abi::Command &command) {
  if (command.has_start())
    requireCapabilities(command.start());
  Decoded decoded{};
  decoded.group = &executor.groups[abi::groupOf(command)];
  decoded.isPart = abi::isPart(*source, at);
  decoded.kind = waitFollows() && !decoded.isPart ? Decoded::StartAndWait : Decoded::Start;
  if (decoded.kind == Decoded::Start)
    decoded.flight = flightOf(abi::tokenOf(command));
  return decoded;
}

} // namespace dtc
