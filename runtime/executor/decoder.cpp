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

void Executor::Decoder::refuse(const std::string &why) const {
  const abi::Command &command = source->commands(at);
  std::string where = command.location() < uint32_t(executor.program.locations_size())
                          ? " (" + executor.program.locations(command.location()) + ")"
                          : "";
  throw Error(ExitCode::BadInput, "the program is inconsistent: list '" + source->name() + "', command " +
                                      std::to_string(at) + where + ": " + why + "; compile it again");
}

void Executor::Decoder::require(bool condition, const char *why) const {
  if (!condition)
    refuse(why);
}

/// Elements [0, elements) from `offset` must lie in the arena, at or after `begin`.
void Executor::Decoder::checkRange(uint64_t offset, int64_t elements, uint64_t begin, const char *what) const {
  uint64_t end = executor.memory.bytes();
  if (offset % 4 != 0 || offset < begin || offset > end || uint64_t(elements) > (end - offset) / 4)
    refuse(std::string(what) + " at byte " + std::to_string(offset) + " of " + std::to_string(elements) +
           " elements does not lie in [" + std::to_string(begin) + ", " + std::to_string(end) + ") of the arena");
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
    require(command.stream() <= 1, "unknown stream");
    Decoded decoded{};
    if (command.has_launch()) {
      decoded = decodeLaunch(command.launch());
    } else if (command.has_start()) {
      bool waitFollows = at + 1 < source->commands_size() && source->commands(at + 1).has_wait() &&
                         source->commands(at + 1).wait().token() == command.start().token();
      decoded = decodeCollective(command, waitFollows);
    } else {
      require(command.has_wait(), "unknown kind of command");
      if (!decodeWait(command.wait(), decoded))
        continue;
    }
    decoded.index = at;
    decoded.command = &command;
    list->commands.push_back(decoded);
  }
  --at;
  require(pending.empty(), "the list ends before all collectives are waited for");
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
    refuse("a scalar has no value");
  }
}

Executor::Decoded Executor::Decoder::decodeLaunch(const abi::Launch &launch) {
  require(launch.kernel() < kernels.size(), "the kernel does not exist");
  require(launch.grid() >= 0 && launch.grain() >= 1, "the grid is negative or the grain not positive");
  require(launch.buffer_bytes_size() == launch.buffers_size(), "not every buffer has an extent");
  require(executor.program.kernels(launch.kernel()).outputs() <= uint32_t(launch.buffers_size()),
          "the kernel has more outputs than the launch has buffers");

  Decoded decoded{};
  decoded.kind = Decoded::Launch;
  decoded.kernel = kernels[launch.kernel()];
  decoded.buffers = list->buffers.data() + list->buffers.size();
  decoded.scalars = list->scalars.data() + list->scalars.size();
  decoded.grid = launch.grid();
  decoded.grain = launch.grain();
  for (int i = 0; i < launch.buffers_size(); ++i) {
    require(launch.buffer_bytes(i) % 4 == 0 && launch.buffer_bytes(i) <= executor.memory.bytes(),
            "a buffer's extent is not a whole number of elements of the arena");
    checkRange(launch.buffers(i), launch.buffer_bytes(i) / 4, 0, "a buffer");
    list->buffers.push_back(executor.memory.base() + launch.buffers(i));
  }
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

void Executor::Decoder::checkCollective(const abi::Collective &collective, const Group &group) const {
  int64_t outer = collective.outer(), chunk = collective.chunk(), members = group.size();
  bool allToAll = collective.kind() == abi::Collective::ALL_TO_ALL;
  int64_t middle = allToAll ? collective.middle() : 1;
  require(outer >= 0 && middle >= 0 && chunk >= 0, "a negative extent");
  int64_t rows, part; // elements without and with the factor of the group's size
  require(!__builtin_mul_overflow(outer, middle, &rows) && !__builtin_mul_overflow(rows, chunk, &part) &&
              part <= INT64_MAX / 4 / members,
          "an extent beyond all memory");
  bool gather = collective.kind() == abi::Collective::ALL_GATHER;
  bool scatter = collective.kind() == abi::Collective::REDUCE_SCATTER;
  uint64_t shared = executor.memory.sharedBegin();
  // What peers touch must lie in the shared part; a rank's own result need not, but an all-reduce's is written by all.
  if (members == 1)
    shared = 0;
  checkRange(collective.input(), allToAll || scatter ? part * members : part, shared, "the input");
  checkRange(collective.output(), allToAll || gather ? part * members : part,
             collective.kind() == abi::Collective::ALL_REDUCE ? shared : 0, "the output");
}

Executor::Decoded Executor::Decoder::decodeCollective(const abi::Command &command, bool waitFollows) {
  const abi::Collective &collective = command.start();
  Decoded decoded{};
  decoded.group = groupOf(collective);
  checkCollective(collective, *decoded.group);
  require(!pending.count(collective.token()), "the token is in use by a collective not yet waited for");
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
  require(token != pending.end(), "waits for a collective that was not started");
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
