#include "tools/verify/Collectives.h"

#include "dialect/IR/Reductions.h"
#include "runtime/abi/addresses.h"
#include "runtime/abi/commands.h"
#include "runtime/abi/element_type.h"
#include "tools/verify/Buffer.h"

#include <algorithm>
#include <array>
#include <utility>

namespace dtc::verify {

using abi::Collective;
using mlir::dt::Reduction, mlir::dt::reductionOf;

namespace {
/// One member's view of a collective in progress.
class Combination {
public:
  Combination(const Collective &collective, const std::vector<CollectiveOperand> &members, int64_t me,
              std::vector<double> before)
      : collective(collective), reduction(reductionOf(collective.reduction())), members(members), me(me),
        ranks(int64_t(members.size())), outer(collective.outer()), middle(collective.middle()),
        chunk(collective.chunk()) {
    out.values = std::move(before);
    if (!collective.has_counts())
      out.values.assign(abi::outputElements(collective, ranks), reduction.identities.front());
    if (reduction.arity() > 1)
      out.beside.assign(outer, reduction.identities.back());
  }

  CollectiveOperand run() {
    for (int64_t q = 0; q < ranks; ++q) {
      for (int64_t o = 0; o < outer; ++o)
        takeRow(q, o);
      if (collective.has_received())
        out.beside.push_back(members[q].beside[me]);
    }
    return std::move(out);
  }

private:
  void takeRow(int64_t q, int64_t o) {
    switch (collective.kind()) {
    case Collective::ALL_REDUCE:
      return reduce(o, q, o);
    case Collective::REDUCE_SCATTER:
      return reduce(o, q, o * ranks + me);
    case Collective::ALL_GATHER:
      return move(o * ranks + q, q, o);
    case Collective::BROADCAST:
      return q == collective.root() ? move(o, q, o) : void();
    case Collective::ALL_TO_ALL:
      for (int64_t m = 0; m < sentBy(q); ++m)
        if (collective.split_first()) // in [outer][p][middle], out [outer][middle][p]
          move((o * middle + m) * ranks + q, q, (o * ranks + me) * middle + m);
        else // in [outer][middle][p], out [outer][p][middle]
          move((o * ranks + q) * middle + m, q, (o * middle + m) * ranks + me);
      return;
    default:
      return;
    }
  }

  int64_t sentBy(int64_t member) const {
    return collective.has_counts() ? static_cast<int64_t>(members[member].beside[me]) : middle;
  }

  void move(int64_t toRow, int64_t member, int64_t fromRow) {
    std::copy_n(members[member].values.data() + fromRow * chunk, chunk, out.values.data() + toRow * chunk);
  }

  void reduce(int64_t toRow, int64_t member, int64_t fromRow) {
    double *to = out.values.data() + toRow * chunk;
    const double *from = members[member].values.data() + fromRow * chunk;
    if (reduction.arity() > 1)
      return reduceTuples(to, out.beside[toRow], from, members[member].beside[fromRow]);
    for (int64_t i = 0; i < chunk; ++i)
      to[i] = reduction.combine(to[i], from[i]);
  }

  /// Each element of a row is combined as a tuple with the row's logarithm.
  void reduceTuples(double *to, double &toBeside, const double *from, double fromBeside) const {
    std::array combined = {reduction.identities.front(), toBeside};
    reduction.combineTuples(combined, {reduction.identities.front(), fromBeside});
    for (int64_t i = 0; i < chunk; ++i) {
      std::array tuple = {to[i], toBeside};
      reduction.combineTuples(tuple, {from[i], fromBeside});
      to[i] = tuple[0];
    }
    toBeside = combined[1];
  }

  const Collective &collective;
  const Reduction &reduction;
  const std::vector<CollectiveOperand> &members;
  int64_t me, ranks, outer, middle, chunk;
  CollectiveOperand out;
};
} // namespace

CollectiveOperand combine(const Collective &collective, const std::vector<CollectiveOperand> &members, int64_t me,
                std::vector<double> before) {
  return Combination(collective, members, me, std::move(before)).run();
}

/// "all-reduce", "all-reduce (max)".
static std::string reductionName(const char *kind, const Collective &collective) {
  if (collective.reduction() == abi::SUM)
    return kind;
  return std::string(kind) + " (" + reductionOf(collective.reduction()).name.str() + ")";
}

static std::string kindName(const Collective &collective) {
  switch (collective.kind()) {
  case Collective::ALL_REDUCE:
    return reductionName("all-reduce", collective);
  case Collective::ALL_GATHER:
    return "all-gather";
  case Collective::REDUCE_SCATTER:
    return reductionName("reduce-scatter", collective);
  case Collective::ALL_TO_ALL:
    return collective.has_counts() ? "all-to-all (by counts)" : "all-to-all";
  case Collective::BROADCAST:
    return "broadcast";
  default:
    return "unknown collective";
  }
}

const abi::Group &groupOf(uint32_t group, const abi::Manifest &manifest) {
  if (group >= uint32_t(manifest.groups_size()))
    throw ProgramFault("group " + std::to_string(group) + " of " + std::to_string(manifest.groups_size()));
  return manifest.groups(static_cast<int>(group));
}

static std::string axesName(uint32_t group, const abi::Manifest &manifest) {
  std::string names;
  for (const abi::AxisRef &ref : groupOf(group, manifest).axes()) {
    names += (names.empty() ? "" : ",") + ref.axis();
    if (ref.pre() != 1)
      names += ":(" + std::to_string(ref.pre()) + ")" + std::to_string(ref.size());
  }
  std::string members;
  for (uint32_t member : groupOf(group, manifest).members())
    members += (members.empty() ? "" : ",") + std::to_string(member);
  return members.empty() ? names : names + " {" + members + "}";
}

std::string describe(const Collective &collective, const abi::Manifest &manifest) {
  return kindName(collective) + " of " + collective.value() + " over " + axesName(collective.group(), manifest);
}

std::string describe(const abi::Command &command, const abi::Manifest &manifest) {
  if (command.has_start())
    return describe(command.start(), manifest);
  if (command.has_copy()) {
    const abi::Copy &copy = command.copy();
    bool fromHost = abi::isOfHost(copy.input()), toHost = abi::isOfHost(copy.output());
    const char *way = fromHost == toHost ? "" : fromHost ? " from the host" : " to the host";
    return "copy of " + std::to_string(copy.elements()) + " " + abi::nameOf(copy.type()) + way;
  }
  const abi::Transfer &transfer = abi::transferOf(command);
  return (command.has_send() ? "send of " : "receive of ") + transfer.value() + " by " +
         std::to_string(transfer.shift()) + " over " + axesName(transfer.group(), manifest);
}

static std::string differ(const std::string &what, int64_t a, int64_t b) {
  return what + " " + std::to_string(a) + " and " + std::to_string(b);
}

static std::string findMismatch(const Collective &first, const Collective &second) {
  if (kindName(first) != kindName(second))
    return kindName(first) + " and " + kindName(second);
  if (first.type() != second.type())
    return "element types differ";
  if (first.outer() != second.outer())
    return differ("outer sizes", first.outer(), second.outer());
  if (first.middle() != second.middle() || first.split_first() != second.split_first())
    return differ("middle sizes", first.middle(), second.middle());
  if (first.chunk() != second.chunk())
    return differ("chunk sizes", first.chunk(), second.chunk());
  if (first.root() != second.root())
    return differ("roots", first.root(), second.root());
  return "";
}

static std::string findMismatch(const abi::Transfer &first, const abi::Transfer &second) {
  if (first.type() != second.type())
    return "element types differ";
  if (first.elements() != second.elements())
    return differ("numbers of elements", first.elements(), second.elements());
  return "";
}

std::string findMismatch(const abi::Command &first, const abi::Command &second, const abi::Manifest &manifest) {
  if (first.has_start() != second.has_start())
    return "one is a collective, the other is none";
  if (!first.has_start() && first.has_send() == second.has_send())
    return first.has_send() ? "both send" : "both receive";
  uint32_t group = abi::groupOf(first), other = abi::groupOf(second);
  if (std::string axes = axesName(group, manifest), others = axesName(other, manifest); axes != others)
    return "axes " + axes + " and " + others;
  if (uint32_t a = groupOf(group, manifest).channel(), b = groupOf(other, manifest).channel(); a != b)
    return differ("channels", a, b);
  if (abi::valueOf(first) != abi::valueOf(second))
    return "values " + abi::valueOf(first) + " and " + abi::valueOf(second);
  return first.has_start() ? findMismatch(first.start(), second.start())
                           : findMismatch(abi::transferOf(first), abi::transferOf(second));
}

} // namespace dtc::verify
