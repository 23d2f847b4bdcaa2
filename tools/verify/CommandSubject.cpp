#include "tools/verify/CommandSubject.h"

#include "dialect/IR/Names.h"
#include "dialect/reference/Mesh.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/tensors.h"
#include "runtime/abi/timetables.h"
#include "runtime/abi/written.h"
#include "tools/verify/Provenance.h"

using namespace mlir::dt;

namespace dtc::verify {

static TensorKey keyOf(const abi::Tensor &tensor, bool isShare) {
  switch (tensor.kind()) {
  case abi::Tensor::PARAMETER:
    return {PortKind::Parameter, tensor.name(), ""};
  case abi::Tensor::SLOT:
    return {PortKind::Slot, tensor.name(), tensor.slot()};
  case abi::Tensor::COPY:
    return {PortKind::Copy, tensor.name(), ""};
  case abi::Tensor::CACHE:
    return {PortKind::Cache, tensor.name(), ""};
  case abi::Tensor::GRADIENT:
    return {PortKind::Gradient, tensor.name(), tensor.slot()};
  case abi::Tensor::REDUCED_GRADIENT:
    return {PortKind::ReducedGradient, tensor.name(), tensor.slot()};
  case abi::Tensor::INPUT:
    return {PortKind::Input, tensor.name(), ""};
  default: // the manifest does not tell outputs and shares apart
    return {isShare ? PortKind::Share : PortKind::Output, tensor.name(), ""};
  }
}

const abi::Tensor *findTensor(const abi::Role &role, const TensorKey &key) {
  for (const abi::Tensor &tensor : role.tensors())
    if (keyOf(tensor, key.kind == PortKind::Share) == key)
      return &tensor;
  return nullptr;
}

const abi::Tensor *findTensor(const abi::Manifest &manifest, const TensorKey &key) {
  for (const abi::Role &role : manifest.roles())
    if (const abi::Tensor *tensor = findTensor(role, key))
      return tensor;
  return nullptr;
}

const abi::Tensor *CommandSubject::tensorOn(int64_t rank, const TensorKey &key) const {
  return findTensor(abi::roleOf(manifest, rank), key);
}

std::vector<const abi::Tensor *> CommandSubject::tensorsOn(int64_t rank, const TensorKey &key) const {
  std::vector<const abi::Tensor *> tensors;
  for (const abi::Tensor &tensor : abi::roleOf(manifest, rank).tensors()) {
    TensorKey own = keyOf(tensor, key.kind == PortKind::Share);
    if (own == key || (key.kind == PortKind::Gradient && own.kind == key.kind && own.name == key.name))
      tensors.push_back(&tensor);
  }
  return tensors;
}

CommandSubject::CommandSubject(const abi::Manifest &manifest, mlir::MLIRContext &context)
    : manifest(manifest), commands(manifest, context), executed(commands.ranks()) {
  for (int64_t rank = 0; rank < commands.ranks(); ++rank)
    batchInputs.push_back(batchInputsOf(manifest, static_cast<int>(rank)));
}

const BatchInput *CommandSubject::findBatchInput(int64_t rank, const abi::Tensor &tensor) const {
  for (const BatchInput &input : batchInputs[rank])
    if (input.tensor == &tensor)
      return &input;
  return nullptr;
}

/// What the runtime's step writes for a slice of the batch.
static HostTensor cutBatch(const HostTensor &whole, const BatchSlice &slice) {
  HostTensor piece({slice.localRows, slice.localColumns}, poisonValue);
  for (int64_t row = 0; row < slice.rows; ++row)
    for (int64_t column = 0; column < slice.columns; ++column)
      piece[row * slice.localColumns + column] =
          whole[(slice.firstRow + row) * whole.shape[1] + slice.firstColumn + column];
  return piece;
}

ShardingAttr CommandSubject::shardingOf(const abi::Tensor &tensor) const {
  abi::Sharding sharding = tensor.sharding();
  while (sharding.dims_size() < tensor.global_shape_size()) // dimensions that are not mentioned are whole
    sharding.add_dims();
  return toAttribute(sharding, manifest.mesh(), *commands.mesh().getContext());
}

void CommandSubject::provideOn(int64_t rank, const abi::Tensor &tensor, const TensorKey &key, const HostTensor &whole) {
  if (const BatchInput *input = findBatchInput(rank, tensor)) {
    if (!llvm::equal(whole.shape, tensor.global_shape()))
      throw Error(ExitCode::BadInput, "the program's " + key.describe() + " has another shape than the model's");
    commands.write(rank, tensor, cutBatch(whole, input->slice));
    return;
  }
  auto [known, isNew] = cuts.try_emplace(&whole); // the same for all ranks
  if (isNew)
    known->second = cut(key, whole, shardingOf(tensor), commands.mesh());
  commands.write(rank, tensor, known->second[rank]);
}

void CommandSubject::provide(const TensorKey &key, const HostTensor &whole) {
  cuts.clear();
  for (int64_t rank = 0; rank < commands.ranks(); ++rank)
    if (const abi::Tensor *tensor = tensorOn(rank, key))
      provideOn(rank, *tensor, key, whole);
}

void CommandSubject::run(const std::string &list) {
  for (std::vector<std::string> &ofRank : executed)
    ofRank.push_back(list);
  commands.run(list);
}

bool CommandSubject::isExchange(const abi::TimetableEntry &entry) const {
  auto list = llvm::find_if(manifest.lists(), [&](const auto &each) { return each.name() == entry.list(); });
  return list != manifest.lists().end() && list->duty() == abi::CommandList::EXCHANGE;
}

/// What an entry works on; null for what only moves data, and for what nothing is expected of. An exchange ends the last
/// micro-batch.
const ExpectedList *CommandSubject::partOf(const ExpectedRun &run, const abi::TimetableEntry &entry) const {
  std::optional<int64_t> microBatch;
  if (entry.has_micro_batch())
    microBatch = entry.micro_batch();
  else if (isExchange(entry))
    for (const ExpectedList &part : run.parts)
      microBatch = std::max(microBatch, part.microBatch);
  for (const ExpectedList &part : run.parts)
    if (part.microBatch == microBatch)
      return &part;
  return nullptr;
}

/// State only once: an entry of the part, such as the end of a send, may come behind an update.
void CommandSubject::provide(int64_t rank, const ExpectedList &part, bool onlyState) {
  bool isNew = begun.insert({rank, &part}).second;
  for (const auto &[key, value] : part.provided)
    if (const abi::Tensor *tensor = tensorOn(rank, key); tensor && (key.isState() ? isNew : !onlyState))
      provideOn(rank, *tensor, key, value);
}

/// The part that ends the work of micro-batches, where sums depend on the timetable: it alone is compared, since what
/// the sums are in between is nobody's expectation. Null where they do not.
const ExpectedList *CommandSubject::endOfSums(const ExpectedRun &run) const {
  bool dependOnIt = llvm::any_of(manifest.roles(), [&](const abi::Role &role) {
    return abi::timetableOf(role, run.timetable).sums_by_timetable();
  });
  const ExpectedList *last = nullptr;
  for (const ExpectedList &part : run.parts)
    if (dependOnIt && part.microBatch)
      last = &part;
  return last;
}

CommandInterpreter::Watch CommandSubject::watch(const ExpectedRun &run) {
  CommandInterpreter::Watch watch;
  begun.clear();
  watch.enter = [&](int64_t rank, const abi::TimedEntry &entry) {
    const ExpectedList *part = partOf(run, *entry.entry);
    if (!part || isExchange(*entry.entry))
      return;
    if (part->microBatch) // another than the first one may come first
      provide(rank, run.parts.front(), /*onlyState=*/true);
    provide(rank, *part, /*onlyState=*/false);
  };
  watch.leave = [this, &run, end = endOfSums(run)](int64_t rank, const abi::TimedEntry &entry) {
    executed[rank].push_back(entry.entry->list());
    if (const ExpectedList *part = partOf(run, *entry.entry))
      keepWritten(rank, *entry.entry, end && part->microBatch ? *end : *part);
  };
  watch.redoes = run.timetable == abi::stepTimetable && !run.onceAlone; // so that all that can run is compared
  if (run.onceAlone)
    watch.takes = [this](const abi::TimetableEntry &entry) { return !entry.has_micro_batch() && !isExchange(entry); };
  return watch;
}

/// The passes of other micro-batches, which may run next, overwrite it.
void CommandSubject::keepWritten(int64_t rank, const abi::TimetableEntry &entry, const ExpectedList &part) {
  auto list = llvm::find_if(manifest.lists(), [&](const auto &each) { return each.name() == entry.list(); });
  for (const ExpectedResult &result : part.results)
    for (const abi::Tensor *tensor : tensorsOn(rank, result.port.key)) {
      uint64_t begin = tensor->address(), end = begin + abi::bytesOf(*tensor);
      bool isWritten = false;
      for (const abi::Command &command : list->commands())
        abi::forEachWritten(manifest, command, [&](uint64_t address, uint64_t bytes) {
          isWritten |= address < end && begin < address + bytes;
        });
      if (isWritten)
        kept[&part].insert_or_assign({tensor, rank}, commands.read(rank, *tensor));
    }
}

void CommandSubject::run(const ExpectedRun &run, Done done) {
  kept.clear();
  cuts.clear();
  commands.runTimetable(run.timetable, 1, watch(run));
  const ExpectedList *end = endOfSums(run);
  for (const ExpectedList &part : run.parts) {
    if (end && part.microBatch && &part != end)
      continue;
    current = &part;
    if (!done(part))
      break;
  }
  current = nullptr;
}

void CommandSubject::runSteps(std::string_view timetable, const Inputs &inputs, CommandInterpreter::Visit left) {
  kept.clear();
  cuts.clear();
  CommandInterpreter::Watch watch;
  watch.leave = std::move(left);
  watch.redoes = timetable == abi::stepTimetable;
  watch.enter = [&](int64_t rank, const abi::TimedEntry &timed) {
    for (const auto &[key, value] : inputs.at(static_cast<size_t>(timed.step + timed.entry->step())))
      if (const abi::Tensor *tensor = tensorOn(rank, key))
        provideOn(rank, *tensor, key, value);
  };
  commands.runTimetable(timetable, static_cast<int64_t>(inputs.size()), watch);
}

HostTensor CommandSubject::readOn(int64_t rank, const TensorKey &key) const {
  return commands.read(rank, *tensorOn(rank, key));
}

int64_t CommandSubject::commandsIn(const ExpectedRun &run) { return commands.commandsIn(run.timetable, watch(run)); }

/// The rank itself, or the one at its place in the pipeline stage that has the tensor.
std::optional<int64_t> CommandSubject::holderFor(int64_t rank, const TensorKey &key) const {
  if (tensorOn(rank, key))
    return rank;
  auto axis = mlir::StringAttr::get(commands.mesh().getContext(), pipelineAxis);
  if (commands.mesh().getAxisSize(pipelineAxis) > 1)
    for (int64_t other : getGroup(commands.mesh(), rank, {AxisRefAttr::whole(axis)}))
      if (tensorOn(other, key))
        return other;
  return std::nullopt;
}

HostTensor CommandSubject::pieceOn(int64_t rank, const abi::Tensor *tensor) const {
  if (auto part = kept.find(current); part != kept.end())
    if (auto piece = part->second.find({tensor, rank}); piece != part->second.end())
      return piece->second;
  return commands.read(rank, *tensor);
}

/// The gradient of a parameter that several stages have is the sum of theirs.
Pieces CommandSubject::read(const TensorKey &key) const {
  const abi::Tensor *tensor = findTensor(manifest, key);
  if (!tensor)
    throw Error(ExitCode::BadInput, "the program keeps no " + key.describe());
  Pieces pieces{{}, shardingOf(*tensor), commands.mesh()};
  auto axis = mlir::StringAttr::get(commands.mesh().getContext(), pipelineAxis);
  bool isSum = key.kind == PortKind::Gradient && commands.mesh().getAxisSize(pipelineAxis) > 1;
  for (int64_t rank = 0; rank < commands.ranks(); ++rank) {
    std::optional<int64_t> holder = holderFor(rank, key);
    if (!holder)
      throw Error(ExitCode::BadInput, "the program keeps no " + key.describe() + " on rank " + std::to_string(rank));
    HostTensor piece = pieceOn(*holder, tensorOn(*holder, key));
    if (isSum) {
      HostTensor sum(piece.shape);
      for (int64_t other : getGroup(commands.mesh(), rank, {AxisRefAttr::whole(axis)}))
        for (const abi::Tensor *tensor : tensorsOn(other, key)) {
          HostTensor summand = pieceOn(other, tensor);
          for (int64_t i = 0; i < sum.size(); ++i)
            sum[i] += summand[i];
        }
      piece = sum;
    }
    pieces.ofRanks.push_back(piece);
  }
  return pieces;
}

std::string CommandSubject::explain(const TensorKey &key) const {
  int64_t holder = holderFor(0, key).value_or(0);
  return findCollectiveBehind(manifest, abi::roleOf(manifest, holder), executed[holder], *tensorOn(holder, key));
}

} // namespace dtc::verify
