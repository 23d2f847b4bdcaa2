#include "runtime/abi/error.h"
#include "runtime/executor/decoded.h"

#include <bit>

namespace dtc {

Executor::Decoder::Decoder(Executor &executor, const KernelResolver &resolve)
    : executor(executor), mesh(executor.program.mesh()) {
  if (mesh.ranks() != executor.peers.size())
    throw Error(ExitCode::BadInput, "the program was compiled for " + std::to_string(mesh.ranks()) + " ranks, but " +
                                        std::to_string(executor.peers.size()) + " were started; start " +
                                        std::to_string(mesh.ranks()) + ", or compile it with another --mesh");
  for (const abi::Kernel &kernel : executor.program.kernels()) {
    kernels.push_back(resolve(kernel));
    if (!kernels.back())
      throw Error(ExitCode::BadInput, std::string("the program needs the ") + (kernel.library() ? "library " : "") +
                                          "kernel '" + kernel.symbol() +
                                          "', which was not found; compile the program again");
  }
}

std::unique_ptr<Executor::List> Executor::Decoder::decode(const abi::CommandList &commandList) {
  auto result = std::make_unique<List>();
  source = &commandList;
  list = result.get();
  list->name = source->name();
  pending.clear();
  asyncPending = 0;
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
    } else if (command.has_start()) {
      bool waitFollows = at + 1 < source->commands_size() && source->commands(at + 1).has_wait() &&
                         source->commands(at + 1).wait().token() == command.start().token();
      decoded = decodeCollective(command, waitFollows);
    } else {
      if (!decodeWait(command.wait(), decoded))
        continue;
    }
    decoded.index = at;
    decoded.command = &command;
    list->commands.push_back(decoded);
  }
  return result;
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
    return 0; // validated: there is no other kind
  }
}

Executor::Decoded Executor::Decoder::decodeLaunch(const abi::Launch &launch) {
  Decoded decoded{};
  decoded.kind = Decoded::Launch;
  decoded.kernel = kernels[launch.kernel()];
  decoded.buffers = list->buffers.data() + list->buffers.size();
  decoded.scalars = list->scalars.data() + list->scalars.size();
  decoded.grid = launch.grid();
  decoded.grain = launch.grain();
  for (uint64_t offset : launch.buffers())
    list->buffers.push_back(executor.memory.base() + offset);
  for (const abi::Scalar &scalar : launch.scalars())
    list->scalars.push_back(scalarBits(scalar));
  return decoded;
}

const Group *Executor::Decoder::groupOf(const abi::Collective &collective) {
  Group group = mesh.group(executor.rank(), collective.axes());
  for (const std::unique_ptr<Group> &known : executor.groups)
    if (known->ranks == group.ranks)
      return known.get();
  executor.groups.push_back(std::make_unique<Group>(std::move(group)));
  return executor.groups.back().get();
}

Executor::Decoded Executor::Decoder::decodeCollective(const abi::Command &command, bool waitFollows) {
  const abi::Collective &collective = command.start();
  Decoded decoded{};
  decoded.group = groupOf(collective);
  // With nothing to overlap it with, a trip to another thread would only cost time. One thread at a time may use the
  // communicator, so this needs the communication stream to be idle.
  if (asyncPending == 0 && (command.stream() == 0 || waitFollows)) {
    decoded.kind = Decoded::Collective;
    pending[collective.token()] = Done;
    return decoded;
  }
  decoded.kind = Decoded::AsyncCollective;
  decoded.slot = static_cast<uint32_t>(list->tickets.size());
  list->tickets.push_back(0);
  pending[collective.token()] = decoded.slot;
  ++asyncPending;
  return decoded;
}

/// False when there is nothing to wait for: the collective ran on the calling thread.
bool Executor::Decoder::decodeWait(const abi::Wait &wait, Decoded &decoded) {
  auto token = pending.find(wait.token());
  uint32_t slot = token->second;
  pending.erase(token);
  if (slot == Done)
    return false;
  --asyncPending;
  decoded.kind = Decoded::Wait;
  decoded.slot = slot;
  return true;
}

} // namespace dtc
