// The validator's part for command lists.
#include "runtime/abi/addresses.h"
#include "runtime/abi/commands.h"
#include "runtime/abi/element_type.h"
#include "runtime/abi/groups.h"
#include "runtime/abi/mesh.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/timetables.h"
#include "runtime/abi/written.h"
#include "runtime/executor/refuse.h"
#include "runtime/executor/validate.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <set>
#include <unordered_set>
#include <vector>

namespace dtc {

namespace {

class CommandChecker {
public:
  CommandChecker(const abi::Manifest &manifest, const abi::Role &role)
      : manifest(manifest), role(role), mesh(manifest.mesh()) {}

  /// `stage`: the stage for which an entry runs it.
  void check(const abi::CommandList &list, const abi::Stage &stage);
  /// Checks that starts and waits match when the lists run as in a timetable.
  void checkTokens(const abi::Timetable &timetable) const;

private:
  /// What running a list does to the tokens in flight.
  struct Tokens {
    std::unordered_set<uint32_t> started; ///< by the list, whether or not it waits for them
    std::vector<uint32_t> taken, left;    ///< in flight before it but not after it, and the reverse
  };

  [[noreturn]] void refuse(const std::string &why) const;
  void require(bool condition, const char *why) const {
    if (!condition)
      refuse(why);
  }
  /// Who accesses memory: copies also reach host memory, peers only the shared part of the arena.
  enum class By { Copy, Device, Peers };
  void checkRange(uint64_t address, int64_t elements, abi::DataType type, By by, const char *what) const;
  void checkMarks(const abi::Command &command) const;
  void checkToken(uint32_t token, uint32_t space);
  void checkLaunch(const abi::Launch &launch) const;
  void checkScalar(const abi::Scalar &scalar) const;
  void checkCollective(const abi::Collective &collective);
  void checkLogs(const abi::Collective &collective, int64_t members) const;
  void checkCounts(const abi::Collective &collective, int64_t members) const;
  void checkPart(const abi::Command &command) const;
  void checkTransfer(const abi::Transfer &transfer, bool sends);
  void checkCopy(const abi::Copy &copy) const;
  int64_t membersOf(uint32_t group);
  void checkTurns(const abi::Timetable &timetable) const;
  void checkTokens(const abi::Timetable &timetable, const abi::Unrolled &entries) const;

  const abi::Manifest &manifest;
  const abi::Role &role;
  Mesh mesh;
  std::map<std::string_view, Tokens> tokens;   // of each list
  std::map<uint32_t, uint32_t> spacesOfTokens; // each place of the space has its own token
  std::set<uint32_t> joined;                   // groups of which all ranks of the role are members

  // Of the list being checked:
  const abi::CommandList *source = nullptr;
  const abi::Stage *stage = nullptr;
  int at = 0;
};

} // namespace

void CommandChecker::refuse(const std::string &why) const {
  uint32_t location = source->commands(at).location();
  std::string where =
      location < uint32_t(manifest.locations_size()) ? " (" + manifest.locations(static_cast<int>(location)) + ")" : "";
  refuseProgram(fmt::format("list '{}', command {}{}: {}", source->name(), at, where, why));
}

/// Elements [0, elements) from `address` must be in one place of a space that `by` can access.
void CommandChecker::checkRange(uint64_t address, int64_t elements, abi::DataType type, By by, const char *what) const {
  if (abi::spaceOf(address) >= uint32_t(role.spaces_size()))
    refuse(fmt::format("{} lies in space {} of {}", what, abi::spaceOf(address), role.spaces_size()));
  const abi::Space &space = role.spaces(static_cast<int>(abi::spaceOf(address)));
  if (by != By::Copy && space.kind() == abi::Space::HOST)
    refuse(fmt::format("{} lies in space '{}' of the host's memory, which only copies reach", what, space.name()));
  uint64_t offset = abi::offsetOf(address), end = space.stride(), width = abi::elementType(type).bytes;
  if (offset % width != 0 || offset > end || uint64_t(elements) > (end - offset) / width)
    refuse(fmt::format("{} at byte {} of {} elements of {} does not lie in [0, {}) of space '{}'", what, offset,
                       elements, abi::nameOf(type), end, space.name()));
  if (by == By::Peers && space.kind() != abi::Space::REGISTERED)
    refuse(fmt::format("{} lies in space '{}', which peers do not see", what, space.name()));
}

void CommandChecker::checkMarks(const abi::Command &command) const {
  require(!command.has_layer() || command.layer() < uint32_t(stage->layers_size()), "is in an unknown layer");
  require(abi::Direction_IsValid(command.direction()), "has an unknown direction");
  require(abi::Work_Class_IsValid(command.work().kind()) && std::isfinite(command.work().flops()) &&
              command.work().flops() >= 0,
          "has work of an unknown class, or not a number of operations");
}

/// All users of a token refer to the same space, and the tokens of all places are distinct.
void CommandChecker::checkToken(uint32_t token, uint32_t space) {
  require(space < uint32_t(role.spaces_size()), "its token counts the places of a space that does not exist");
  require(uint64_t(token) + 1 <= ManifestLimits::Tokens / role.spaces(static_cast<int>(space)).places(),
          "its token is too large");
  require(spacesOfTokens.try_emplace(token, space).first->second == space,
          "its token counts the places of another space elsewhere");
}

void CommandChecker::check(const abi::CommandList &list, const abi::Stage &of) {
  source = &list;
  stage = &of;
  Tokens own;
  std::set<uint32_t> pending, taken; // tokens that this list has started; tokens that it expects in flight
  for (at = 0; at < list.commands_size(); ++at) {
    const abi::Command &command = list.commands(at);
    checkMarks(command);
    bool isPart = abi::isPart(list, at);
    if (isPart)
      checkPart(command);
    if (command.has_launch()) {
      checkLaunch(command.launch());
    } else if (command.has_copy() && !abi::startsCopy(command)) {
      checkCopy(command.copy());
      require(command.copy().channel() == 0 && command.copy().token_space() == 0,
              "a copy without a token names a channel or a space for it");
    } else if (abi::isStart(command)) {
      uint32_t token = abi::tokenOf(command);
      checkToken(token, abi::tokenSpaceOf(command));
      if (command.has_start())
        checkCollective(command.start());
      else if (command.has_copy())
        checkCopy(command.copy());
      else
        checkTransfer(abi::transferOf(command), command.has_send());
      require(isPart || pending.insert(token).second, "the token is in use by a command not yet waited for");
      if (!taken.contains(token))
        own.started.insert(token);
    } else {
      require(command.has_wait(), "unknown kind of command");
      uint32_t token = command.wait().token();
      checkToken(token, command.wait().token_space());
      if (pending.erase(token) == 0)
        require(!own.started.contains(token) && taken.insert(token).second, "waits for a command that was not started");
    }
  }
  if (abi::isPart(list, at)) {
    --at;
    refuse("the list ends before the next part of it");
  }
  own.taken.assign(taken.begin(), taken.end());
  own.left.assign(pending.begin(), pending.end());
  tokens[list.name()] = std::move(own);
}

/// All entries that use a token move on with it, or none does: what is under way is then the same after each step, in
/// other places.
void CommandChecker::checkTurns(const abi::Timetable &timetable) const {
  std::map<uint32_t, uint32_t> turns; // of each token
  abi::forEachEntry(timetable, [&](const abi::TimetableEntry &entry) {
    auto list = tokens.find(entry.list());
    if (list == tokens.end())
      return; // validateTimetables reports it
    const Tokens &own = list->second;
    auto check = [&](uint32_t token) {
      uint32_t wanted = abi::turnsOf(entry, spacesOfTokens.at(token));
      if (uint32_t known = turns.try_emplace(token, wanted).first->second; known != wanted)
        refuseProgram(
            fmt::format("its {} runs list '{}', which uses token {} in turns of {} steps, and another entry in "
                        "turns of {}",
                        timetable.name(), entry.list(), token, wanted, known));
    };
    std::ranges::for_each(own.started, check);
    std::ranges::for_each(own.taken, check);
    std::ranges::for_each(own.left, check);
  });
}

void CommandChecker::checkTokens(const abi::Timetable &timetable) const {
  checkTurns(timetable);
  for (const abi::Unrolled &entries : abi::runsToJudge(role, timetable))
    checkTokens(timetable, entries);
}

void CommandChecker::checkTokens(const abi::Timetable &timetable, const abi::Unrolled &entries) const {
  auto refuseToken = [&](const std::string &list, uint32_t token, const char *why) {
    refuseProgram(fmt::format("its {} runs list '{}', which {} token {}", timetable.name(), list, why, token));
  };
  std::set<std::pair<uint32_t, uint32_t>> pending; // token and place
  int64_t work = 0; // a step may have many entries, and tokens may stay in flight through all of them
  const std::string *last = nullptr;
  for (const abi::TimedEntry &timed : entries) {
    const abi::TimetableEntry &entry = *timed.entry;
    auto list = tokens.find(entry.list());
    if (list == tokens.end())
      continue; // validateTimetables reports it
    const Tokens &own = list->second;
    auto placed = [&](uint32_t token) { return std::pair(token, abi::placeOf(entry, spacesOfTokens.at(token))); };
    work += static_cast<int64_t>(pending.size() + own.taken.size() + own.left.size());
    if (work > ManifestLimits::TokenWork)
      refuseProgram(
          fmt::format("its {} leaves more commands under way from list to list than are accepted", timetable.name()));
    for (auto [token, place] : pending)
      if (own.started.contains(token) && placed(token).second == place)
        refuseToken(entry.list(), token, "starts a command with the pending");
    for (uint32_t token : own.taken)
      if (pending.erase(placed(token)) == 0)
        refuseToken(entry.list(), token, "waits for a command that was not started, of");
    for (uint32_t token : own.left)
      pending.insert(placed(token));
    last = &entry.list();
  }
  if (!pending.empty())
    refuseToken(*last, pending.begin()->first, "ends before anybody waits for");
}

void CommandChecker::checkScalar(const abi::Scalar &scalar) const {
  require(scalar.kind_case() != abi::Scalar::KIND_NOT_SET, "a scalar has no value");
  require(!scalar.has_site() || scalar.site() < uint32_t(stage->sites_size()), "a scalar is an unknown random site");
  if (!scalar.has_rank_index())
    return;
  int64_t scale = scalar.rank_index().scale();
  require(scale >= -ManifestLimits::Scale && scale <= ManifestLimits::Scale, "a rank's index is scaled beyond 2^40");
  try {
    mesh.indexOf(0, scalar.rank_index().axes());
  } catch (const Error &error) {
    refuse(error.what());
  }
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
    require(launch.buffer_bytes(i) % type->bytes == 0 && launch.buffer_bytes(i) <= ManifestLimits::ArenaBytes,
            "a buffer's extent is not a whole number of elements of the arena");
    checkRange(launch.buffers(i), int64_t(launch.buffer_bytes(i) / type->bytes), type->type, By::Device, "a buffer");
    largest = std::max(largest, launch.buffer_bytes(i));
  }
  // Each unit of a grid accesses something, which bounds the grid.
  if (uint64_t(launch.grid()) > std::max<uint64_t>(largest, 1))
    refuse(fmt::format("a grid of {} over buffers of at most {} bytes", launch.grid(), largest));
  if (launch.has_grid_count())
    checkRange(launch.grid_count(), 1, abi::I32, By::Device, "the count of its grid");
  for (const abi::Scalar &scalar : launch.scalars())
    checkScalar(scalar);
}

/// How many ranks a group has. All ranks of the role must be members.
int64_t CommandChecker::membersOf(uint32_t index) {
  require(index < uint32_t(manifest.groups_size()), "the group does not exist");
  const abi::Group &group = manifest.groups(static_cast<int>(index));
  if (!group.members().empty() && joined.insert(index).second) {
    auto isIn = [&](uint64_t rank) { return mesh.isMember(static_cast<int>(rank), group); };
    require(!role.ranks().empty(), "the group leaves ranks out that play the role");
    for (const abi::RankRange &range : role.ranks())
      require(abi::forEachRank(range, isIn), "the group leaves ranks out that play the role");
  }
  return abi::membersOf(group);
}

void CommandChecker::checkCollective(const abi::Collective &collective) {
  require(abi::Collective::Kind_IsValid(collective.kind()), "unknown kind of collective");
  require(abi::Reduction_IsValid(collective.reduction()), "unknown reduction");
  const abi::ElementType *type = abi::findElementType(collective.type());
  require(type, "unknown type of elements");
  int64_t members = membersOf(collective.group());
  int64_t outer = collective.outer(), chunk = collective.chunk();
  bool allToAll = collective.kind() == abi::Collective::ALL_TO_ALL;
  int64_t middle = allToAll ? collective.middle() : 1;
  require(outer >= 0 && middle >= 0 && chunk >= 0, "a negative extent");
  int64_t rows, part; // elements without and with the factor of the group's size
  require(!__builtin_mul_overflow(outer, middle, &rows) && !__builtin_mul_overflow(rows, chunk, &part) &&
              part <= INT64_MAX / type->bytes / members,
          "an extent beyond all memory");
  bool gather = collective.kind() == abi::Collective::ALL_GATHER;
  bool broadcast = collective.kind() == abi::Collective::BROADCAST;
  if (collective.root() >= uint64_t(broadcast ? members : 1))
    refuse(fmt::format("its root is member {}, and {}", collective.root(),
                       broadcast ? fmt::format("there are {}", members) : "only a broadcast has one"));
  bool scatter = collective.kind() == abi::Collective::REDUCE_SCATTER;
  if ((scatter || collective.kind() == abi::Collective::ALL_REDUCE) && !type->canReduce())
    refuse(fmt::format("a reduction of {}, which collectives move but do not add; convert it to {} before", type->name,
                       abi::nameOf(type->accumulator)));
  // Memory that peers access must be in the shared part. A rank's own result need not be, but all members write an
  // all-reduce's, and a broadcast's may be passed on to neighbours.
  By peers = members != 1 ? By::Peers : By::Device;
  checkRange(collective.input(), allToAll || scatter ? part * members : part, type->type, peers, "the input");
  checkRange(collective.output(), allToAll || gather ? part * members : part, type->type,
             broadcast || collective.kind() == abi::Collective::ALL_REDUCE ? peers : By::Device, "the output");
  checkLogs(collective, members);
  checkCounts(collective, members);
}

/// The logarithms of rows' weights, which peers access like the rows.
void CommandChecker::checkLogs(const abi::Collective &collective, int64_t members) const {
  if (!abi::hasLogs(collective))
    return require(collective.log_input() == 0 && collective.log_output() == 0,
                   "has logarithms of weights, and only log-sum-exp combines rows that have weights");
  bool toAll = collective.kind() == abi::Collective::ALL_REDUCE;
  require(toAll || collective.kind() == abi::Collective::REDUCE_SCATTER,
          "is said to combine rows by log-sum-exp, and only an all-reduce or a reduce-scatter combines anything");
  if (collective.type() != abi::F32)
    refuse(fmt::format("combines rows of {} by log-sum-exp, which takes f32", abi::nameOf(collective.type())));
  require(collective.outer() <= INT64_MAX / members, "an extent beyond all memory");
  By peers = members != 1 ? By::Peers : By::Device;
  checkRange(collective.log_input(), abi::inputLogs(collective, members), abi::F32, peers,
             "the logarithms of the input");
  checkRange(collective.log_output(), abi::outputLogs(collective), abi::F32, toAll ? peers : By::Device,
             "the logarithms of the output");
}

/// The row counts of an all-to-all; all members read all counts.
void CommandChecker::checkCounts(const abi::Collective &collective, int64_t members) const {
  require(collective.has_counts() || !collective.has_received(), "says how many rows come, but not how many are sent");
  if (!collective.has_counts())
    return;
  if (collective.kind() != abi::Collective::ALL_TO_ALL || collective.outer() != 1)
    refuse(fmt::format("has counts, which are of an all-to-all of 1 outer row, and this is kind {} of {}",
                       int(collective.kind()), collective.outer()));
  checkRange(collective.counts(), members, abi::I32, members != 1 ? By::Peers : By::Device, "the counts of rows");
  if (collective.has_received())
    checkRange(collective.received(), members, abi::I32, By::Device, "the counts of rows that come");
}

/// One wait ends all parts, and a transport may run them as one.
void CommandChecker::checkPart(const abi::Command &command) const {
  const abi::Collective &first = source->commands(at - 1).start(), &next = command.start();
  require(command.has_start() && next.token() == first.token() && next.token_space() == first.token_space() &&
              next.group() == first.group() && next.kind() == first.kind() && next.reduction() == first.reduction() &&
              next.type() == first.type(),
          "is no part of the collective before, which has more of the same kind, group, type and token");
  int parts = 2;
  for (int before = at - 1; abi::isPart(*source, before); --before)
    ++parts;
  if (parts > abi::MaximumParts)
    refuse(fmt::format("is part {} of a collective, which may have {} of them", parts, abi::MaximumParts));
}

void CommandChecker::checkTransfer(const abi::Transfer &transfer, bool sends) {
  const abi::ElementType *type = abi::findElementType(transfer.type());
  require(type, "unknown type of elements");
  int64_t members = membersOf(transfer.group());
  if (transfer.shift() % members == 0)
    refuse(fmt::format("a transfer by {} places in a group of {}, which leads to the rank itself", transfer.shift(),
                       members));
  require(transfer.elements() >= 0, "a negative extent");
  // The receiver reads what is sent.
  checkRange(transfer.buffer(), transfer.elements(), type->type, sends ? By::Peers : By::Device,
             sends ? "what is sent" : "what is received");
}

void CommandChecker::checkCopy(const abi::Copy &copy) const {
  const abi::ElementType *type = abi::findElementType(copy.type());
  require(type, "unknown type of elements");
  require(copy.elements() >= 0, "a negative extent");
  if (copy.channel() >= abi::MaximumChannels)
    refuse(fmt::format("a copy on channel {} of {}", copy.channel(), abi::MaximumChannels));
  checkRange(copy.input(), copy.elements(), type->type, By::Copy, "the source of a copy");
  checkRange(copy.output(), copy.elements(), type->type, By::Copy, "the target of a copy");
  uint64_t bytes = abi::bytesOf(type->type, copy.elements());
  require(copy.input() + bytes <= copy.output() || copy.output() + bytes <= copy.input(),
          "source and target of a copy overlap");
}

/// Names of the lists that some role runs.
static std::set<std::string_view> listsThatRun(const abi::Manifest &manifest) {
  std::set<std::string_view> names;
  for (const abi::Role &role : manifest.roles())
    for (const abi::Timetable &timetable : role.timetables())
      abi::forEachEntry(timetable, [&](const abi::TimetableEntry &entry) { names.insert(entry.list()); });
  return names;
}

ListsByName listsOf(const abi::Manifest &manifest) {
  ListsByName lists;
  for (const abi::CommandList &list : manifest.lists())
    if (!lists.emplace(list.name(), &list).second)
      throw Error(ExitCode::BadInput, "the program has two lists named '" + list.name() + "'; compile it again");
  return lists;
}

void validateCommands(const abi::Manifest &manifest, const abi::Role &role, const ListsByName &lists) {
  CommandChecker checker(manifest, role);
  std::set<std::pair<std::string_view, uint32_t>> checked; // list and stage
  for (const abi::Timetable &timetable : role.timetables())
    abi::forEachEntry(timetable, [&](const abi::TimetableEntry &entry) {
      auto list = lists.find(entry.list());
      if (list != lists.end() && checked.insert({entry.list(), entry.stage()}).second)
        checker.check(*list->second, abi::stageOf(manifest, entry));
    });
  // Other code visits all lists, so one that no role runs must be valid, too.
  if (&role == &manifest.roles(0))
    for (std::set<std::string_view> run = listsThatRun(manifest); const auto &[name, list] : lists)
      if (!run.contains(name))
        checker.check(*list, manifest.stages(0));
  for (const abi::Timetable &timetable : role.timetables())
    checker.checkTokens(timetable);
}

} // namespace dtc
