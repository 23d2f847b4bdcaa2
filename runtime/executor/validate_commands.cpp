// The validator's part for command lists.
#include "runtime/abi/element_type.h"
#include "runtime/abi/error.h"
#include "runtime/comm/mesh.h"
#include "runtime/executor/validate.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace dtc {

namespace {

class CommandChecker {
public:
  CommandChecker(const abi::Manifest &manifest, const abi::Role &role)
      : manifest(manifest), role(role), mesh(manifest.mesh()) {}

  void check(const abi::CommandList &list);

private:
  [[noreturn]] void refuse(const std::string &why) const;
  void require(bool condition, const char *why) const {
    if (!condition)
      refuse(why);
  }
  void checkRange(uint64_t offset, int64_t elements, abi::DataType type, uint64_t begin, const char *what) const;
  void checkLaunch(const abi::Launch &launch) const;
  void checkScalar(const abi::Scalar &scalar) const;
  void checkCollective(const abi::Collective &collective) const;
  int64_t membersOf(const Mesh::AxisRefs &axes) const;

  const abi::Manifest &manifest;
  const abi::Role &role;
  Mesh mesh;

  // Of the list being checked:
  const abi::CommandList *source = nullptr;
  int at = 0;
};

} // namespace

void CommandChecker::refuse(const std::string &why) const {
  const abi::Command &command = source->commands(at);
  std::string where = command.location() < uint32_t(manifest.locations_size())
                          ? " (" + manifest.locations(command.location()) + ")"
                          : "";
  throw Error(ExitCode::BadInput, fmt::format("the program is inconsistent: list '{}', command {}{}: {}; compile it "
                                              "again",
                                              source->name(), at, where, why));
}

/// Elements [0, elements) from `offset` must lie in the arena, at or after `begin`.
void CommandChecker::checkRange(uint64_t offset, int64_t elements, abi::DataType type, uint64_t begin,
                                const char *what) const {
  uint64_t end = role.arena_bytes(), width = abi::elementType(type).bytes;
  if (offset % width != 0 || offset < begin || offset > end || uint64_t(elements) > (end - offset) / width)
    refuse(fmt::format("{} at byte {} of {} elements of {} does not lie in [{}, {}) of the arena", what, offset,
                       elements, abi::nameOf(type), begin, end));
}

void CommandChecker::check(const abi::CommandList &list) {
  source = &list;
  std::set<uint32_t> pending; // tokens of collectives under way
  for (at = 0; at < list.commands_size(); ++at) {
    const abi::Command &command = list.commands(at);
    require(command.stream() <= 1, "unknown stream");
    if (command.has_launch()) {
      checkLaunch(command.launch());
    } else if (command.has_start()) {
      checkCollective(command.start());
      require(pending.insert(command.start().token()).second, "the token is in use by a collective not yet waited for");
    } else {
      require(command.has_wait(), "unknown kind of command");
      require(pending.erase(command.wait().token()) == 1, "waits for a collective that was not started");
    }
  }
  at = std::max(0, list.commands_size() - 1);
  require(pending.empty(), "the list ends before all collectives are waited for");
}

void CommandChecker::checkScalar(const abi::Scalar &scalar) const {
  require(scalar.kind_case() != abi::Scalar::KIND_NOT_SET, "a scalar has no value");
  if (!scalar.has_rank_index())
    return;
  int64_t scale = scalar.rank_index().scale();
  require(scale >= -ManifestLimits::Scale && scale <= ManifestLimits::Scale, "a rank's index is scaled beyond 2^40");
  membersOf(scalar.rank_index().axes());
}

void CommandChecker::checkLaunch(const abi::Launch &launch) const {
  require(launch.kernel() < uint32_t(manifest.kernels_size()), "the kernel does not exist");
  const abi::Kernel &kernel = manifest.kernels(launch.kernel());
  require(launch.grid() >= 0 && launch.grain() >= 1, "the grid is negative or the grain not positive");
  require(launch.buffer_bytes_size() == launch.buffers_size(), "not every buffer has an extent");
  require(launch.buffer_types_size() == launch.buffers_size(), "not every buffer has a type");
  uint64_t buffers = launch.buffers_size();
  require(kernel.outputs() <= buffers, "the kernel has more outputs than the launch has buffers");
  require(uint64_t(kernel.inputs()) + kernel.outputs() == buffers,
          "the kernel takes another number of buffers than the launch has");
  uint64_t largest = 0;
  for (int i = 0; i < launch.buffers_size(); ++i) {
    const abi::ElementType *type = abi::findElementType(launch.buffer_types(i));
    require(type, "unknown type of a buffer's elements");
    require(launch.buffer_bytes(i) % type->bytes == 0 && launch.buffer_bytes(i) <= role.arena_bytes(),
            "a buffer's extent is not a whole number of elements of the arena");
    checkRange(launch.buffers(i), int64_t(launch.buffer_bytes(i) / type->bytes), type->type, 0, "a buffer");
    largest = std::max(largest, launch.buffer_bytes(i));
  }
  // A grid counts pieces of work that each touch something.
  if (uint64_t(launch.grid()) > std::max<uint64_t>(largest, 1))
    refuse(fmt::format("a grid of {} over buffers of at most {} bytes", launch.grid(), largest));
  for (const abi::Scalar &scalar : launch.scalars())
    checkScalar(scalar);
}

/// How many ranks a collective over `axes` joins; refuses axes that the mesh does not have.
int64_t CommandChecker::membersOf(const Mesh::AxisRefs &axes) const {
  try {
    mesh.indexOf(0, axes);
  } catch (const Error &error) {
    refuse(error.what());
  }
  int64_t members = 1;
  for (const abi::AxisRef &axis : axes)
    members *= axis.size(); // disjoint parts of the mesh: no more than its ranks
  return members;
}

void CommandChecker::checkCollective(const abi::Collective &collective) const {
  require(abi::Collective::Kind_IsValid(collective.kind()), "unknown kind of collective");
  require(abi::Reduction_IsValid(collective.reduction()), "unknown reduction");
  const abi::ElementType *type = abi::findElementType(collective.type());
  require(type, "unknown type of elements");
  int64_t outer = collective.outer(), chunk = collective.chunk(), members = membersOf(collective.axes());
  bool allToAll = collective.kind() == abi::Collective::ALL_TO_ALL;
  int64_t middle = allToAll ? collective.middle() : 1;
  require(outer >= 0 && middle >= 0 && chunk >= 0, "a negative extent");
  int64_t rows, part; // elements without and with the factor of the group's size
  require(!__builtin_mul_overflow(outer, middle, &rows) && !__builtin_mul_overflow(rows, chunk, &part) &&
              part <= INT64_MAX / type->bytes / members,
          "an extent beyond all memory");
  bool gather = collective.kind() == abi::Collective::ALL_GATHER;
  bool scatter = collective.kind() == abi::Collective::REDUCE_SCATTER;
  if ((scatter || collective.kind() == abi::Collective::ALL_REDUCE) && !type->canReduce())
    refuse(fmt::format("a reduction of {}, which collectives move but do not add; convert it to {} before", type->name,
                       abi::nameOf(type->accumulator)));
  // What peers touch must lie in the shared part; a rank's own result need not, but an all-reduce's is written by all.
  uint64_t shared = members == 1 ? 0 : role.shared_begin();
  checkRange(collective.input(), allToAll || scatter ? part * members : part, type->type, shared, "the input");
  checkRange(collective.output(), allToAll || gather ? part * members : part, type->type,
             collective.kind() == abi::Collective::ALL_REDUCE ? shared : 0, "the output");
}

void validateCommands(const abi::Manifest &manifest, const abi::Role &role) {
  CommandChecker checker(manifest, role);
  std::set<std::string_view> names;
  for (const abi::CommandList &list : role.lists()) {
    if (!names.insert(list.name()).second)
      throw Error(ExitCode::BadInput, "the program has two lists named '" + list.name() + "'; compile it again");
    checker.check(list);
  }
}

} // namespace dtc
