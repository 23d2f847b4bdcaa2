// Turns each function into a list of commands.
#include "passes/schedule/emit/EmitCommands.h"
#include "passes/lower/Targets.h"
#include "passes/schedule/buckets/BucketCollectives.h"
#include "passes/schedule/emit/EmitMarks.h"
#include "passes/schedule/emit/EmitTimetables.h"
#include "passes/schedule/launches/JoinStarts.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/ElementwiseKernel.h"
#include "dialect/IR/Locations.h"
#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "dialect/cost/Cost.h"
#include "runtime/abi/commands.h"
#include "runtime/abi/groups.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

CommandEmitter::CommandEmitter(ModuleOp module, LayerTable &layers, abi::Manifest &manifest)
    : module(module), layers(layers), manifest(manifest), kernels(module), formulas(kernels),
      mesh(module->getAttrOfType<MeshAttr>(module_attr::mesh)) {
  if (auto stages = module->getAttrOfType<ArrayAttr>(module_attr::stages))
    for (auto ofStage : stages.getAsRange<ArrayAttr>())
      for (auto layer : ofStage.getAsRange<LayerAttr>())
        layerNumbers.try_emplace(layer.fullName(), layerNumbers.size());
}

uint32_t LayerTable::indexOf(LayerAttr layer) {
  auto [entry, isNew] = indices.try_emplace(layer, manifest.layers_size());
  if (isNew) {
    abi::Layer &out = *manifest.add_layers();
    out.set_list(layer.getList().str());
    out.set_number(layer.getNumber());
  }
  return entry->second;
}

uint32_t LayerTable::indexIn(int64_t stage, LayerAttr layer) {
  abi::Stage &table = *manifest.mutable_stages(static_cast<int>(stage));
  auto [entry, isNew] = inStages.try_emplace({stage, layer}, table.layers_size());
  if (isNew)
    table.add_layers(indexOf(layer));
  return entry->second;
}

/// Starts that are parts of the start before them.
static DenseSet<Operation *> partsIn(func::FuncOp function) {
  SmallVector<Operation *> starts;
  DenseMap<Operation *, int> numbers;
  std::vector<StartEvent> events;
  bool isAny = false;
  for (Operation &op : function.front()) {
    if (isa<CollectiveOpInterface>(op)) {
      auto bucket = op.getAttrOfType<IntegerAttr>(bucketAttr);
      isAny |= bucket != nullptr;
      int number = numbers[&op] = static_cast<int>(starts.size());
      events.push_back({StartEvent::Kind::Start, number, bucket ? static_cast<int>(bucket.getInt()) : -1});
      starts.push_back(&op);
    } else if (auto wait = dyn_cast<WaitOp>(op)) {
      auto start = numbers.find(wait.getFuture().getDefiningOp());
      events.push_back(start == numbers.end() ? StartEvent{} : StartEvent{StartEvent::Kind::Wait, start->second});
    } else if (!isa<ViewOpInterface>(op)) {
      events.push_back({});
    }
  }
  DenseSet<Operation *> parts;
  if (isAny)
    for (auto [start, isPart] : llvm::zip_equal(starts, joinStarts(events, starts.size())))
      if (isPart)
        parts.insert(start);
  return parts;
}

FailureOr<llvm::StringMap<std::string>> CommandEmitter::emit(ArrayRef<func::FuncOp> functions, ArenaLayout &layout) {
  arena = &layout;
  nextToken = 0;
  tokens.clear();
  transferTokens.clear();
  llvm::StringMap<std::string> listOf;
  for (func::FuncOp func : functions) {
    function = func;
    stage = dutyOf(func) ? dutyOf(func).getStage() : 0;
    list = manifest.add_lists();
    list->set_name(func.getName().str());
    list->set_duty(abiDutyOf(dt::dutyOf(func)));
    joined.emplace(func, *arena, formulas);
    parts = partsIn(func);
    for (Operation &op : func.front().without_terminator())
      if (failed(emitOperation(&op)))
        return failure();
    listOf[func.getName()] = findOrKeep(list);
  }
  for (const auto &known : listsOfRole)
    listsOfEarlier.try_emplace(known.first(), known.second);
  listsOfRole.clear();
  return listOf;
}

/// An equal list of an earlier role replaces the last one.
std::string CommandEmitter::findOrKeep(abi::CommandList *emitted) {
  if (rolesOf(module) == 1)
    return emitted->name();
  std::string name = std::exchange(*emitted->mutable_name(), "");
  std::string text = emitted->SerializeAsString();
  if (auto equal = listsOfEarlier.find(text); equal != listsOfEarlier.end()) {
    manifest.mutable_lists()->RemoveLast();
    return equal->second;
  }
  emitted->set_name(name);
  listsOfRole.try_emplace(text, name);
  return name;
}

LogicalResult CommandEmitter::emitOperation(Operation *op) {
  if (auto launch = dyn_cast<LaunchOp>(op)) {
    ArrayRef<LaunchOp> launches = joined->at(launch);
    if (launches.size() > 1)
      return emitJoined(launches);
    return launches.empty() ? success() : emitLaunch(launch);
  }
  if (auto library = dyn_cast<LibraryOpInterface>(op))
    return emitLibraryCall(library);
  if (auto collective = dyn_cast<CollectiveOpInterface>(op)) {
    return emitStart(collective);
  }
  if (auto copy = dyn_cast<HostCopyOpInterface>(op))
    return emitHostCopy(copy);
  if (auto wait = dyn_cast<WaitOp>(op)) {
    if (!parts.contains(wait.getFuture().getDefiningOp())) // which the wait for the first part covers
      emitWait(op, tokens.lookup(wait.getFuture()));
    return success();
  }
  if (auto send = dyn_cast<SendOp>(op)) {
    emitSend(send);
    return success();
  }
  if (auto receive = dyn_cast<RecvOp>(op)) {
    emitReceive(receive);
    return success();
  }
  if (auto await = dyn_cast<AwaitOp>(op)) {
    emitAwait(await);
    return success();
  }
  if (isa<ViewOpInterface>(op))
    return success();
  return op->emitError("'") << op->getName()
                            << "' has no native form: it is neither in a kernel nor a LibraryOpInterface,"
                            << " CollectiveOpInterface or ViewOpInterface";
}

abi::Command &CommandEmitter::addCommand(Operation *op) {
  abi::Command &command = *list->add_commands();
  command.set_location(locationIndex(op));
  Marks marks = marksOf(op);
  if (marks.layer)
    command.set_layer(layers.indexIn(stage, marks.layer));
  if (marks.direction)
    command.set_direction(directionOf(marks.direction.getValue()));
  if (isMadeAgain(op->getLoc()))
    command.set_is_again(true);
  return command;
}

uint32_t CommandEmitter::kernelIndex(StringRef symbol, function_ref<void(abi::Kernel &)> describe, int64_t count) {
  std::string key = count == 0 ? symbol.str() : (symbol + " over " + Twine(count)).str();
  auto [it, isNew] = kernelIndices.try_emplace(key, manifest.kernels_size());
  if (isNew) {
    abi::Kernel &kernel = *manifest.add_kernels();
    kernel.set_symbol(symbol.str());
    describe(kernel);
  }
  return it->second;
}

uint32_t CommandEmitter::siteIndex(int64_t site) {
  abi::Stage &table = *manifest.mutable_stages(static_cast<int>(stage));
  auto [entry, isNew] = siteIndices.try_emplace({stage, site}, table.sites_size());
  if (isNew)
    table.add_sites(site);
  return entry->second;
}

uint32_t CommandEmitter::locationIndex(Operation *op) {
  auto [known, isUnknown] = locationsKnown.try_emplace({LocationAttr(op->getLoc()), marksOf(op).layer});
  if (!isUnknown)
    return known->second;
  std::string place = withinLayer(op, placeOf(op->getLoc()));
  auto [it, isNew] = locationIndices.try_emplace(place.empty() ? "?" : place, manifest.locations_size());
  if (isNew)
    manifest.add_locations(it->first().str());
  return known->second = it->second;
}

/// Elements from a view's first to its last one.
static int64_t extentOf(const StridedLayout &layout) {
  int64_t last = 0;
  for (auto [size, stride] : llvm::zip(layout.shape, layout.strides)) {
    if (size == 0)
      return 0;
    last += (size - 1) * stride;
  }
  return last + 1;
}

void CommandEmitter::addBuffer(abi::Launch &launch, Value value) {
  launch.add_buffers(addressOf(value));
  abi::DataType type = elementTypeOf(value.getType()).type;
  Layouts &layouts = arena->layoutsOf(function);
  launch.add_buffer_bytes(layouts.ownsBuffer(value) ? bytesOf(value.getType())
                                                    : abi::bytesOf(type, extentOf(layouts.layoutOf(value))));
  launch.add_buffer_types(type);
}

void CommandEmitter::addScalars(abi::Launch &launch, ArrayRef<LaunchScalar> scalars, ArrayRef<int64_t> sites) {
  for (const LaunchScalar &scalar : scalars) {
    abi::Scalar &out = *launch.add_scalars();
    switch (scalar.kind) {
    case LaunchScalar::Kind::Integer:
      out.set_value(scalar.integer);
      break;
    case LaunchScalar::Kind::Site:
      out.set_site(siteIndex(sites.empty() ? scalar.integer : sites[scalar.integer]));
      break;
    case LaunchScalar::Kind::Real:
      out.set_real(scalar.real);
      break;
    case LaunchScalar::Kind::RankIndex:
      out.mutable_rank_index()->set_scale(scalar.integer);
      for (AxisRefAttr axis : scalar.axes)
        emitAxis(axis, mesh, *out.mutable_rank_index()->add_axes());
      break;
    }
  }
}

template <typename Shape> static void describePasses(const Shape &shape, abi::Kernel &kernel) {
  for (const LaunchPass &each : shape.passes) {
    abi::KernelPass &pass = *kernel.add_passes();
    pass.set_function(each.function);
    pass.set_blocks(each.blocks);
    pass.set_threads(each.threads);
  }
  kernel.set_scratch_bytes(shape.scratchBytes);
}

static LogicalResult setWork(abi::Command &command, FailureOr<Work> work) {
  if (failed(work))
    return failure();
  *command.mutable_work() = workFor(*work);
  return success();
}

static void describeKernel(KernelOp op, const KernelInterface &interface, abi::Kernel &kernel) {
  kernel.set_inputs(interface.numInputs);
  kernel.set_outputs(interface.numOutputs);
  describePasses(interface, kernel);
  llvm::raw_string_ostream text(*kernel.mutable_reference());
  op.print(text, OpPrintingFlags().useLocalScope());
}

LogicalResult CommandEmitter::emitLaunch(LaunchOp op) {
  const KernelInterface &interface = kernels.interfaceOf(op);
  abi::Command &command = addCommand(op);
  abi::Launch &launch = *command.mutable_launch();
  launch.set_kernel(kernelIndex(op.getKernel(),
                                [&](abi::Kernel &kernel) { describeKernel(kernels.kernelOf(op), interface, kernel); }));
  for (Value operand : op.getOperands())
    addBuffer(launch, operand);
  for (Value result : op.getResults())
    addBuffer(launch, result);
  addScalars(launch, interface.scalars, op.getSites());
  launch.set_grid(interface.grid);
  launch.set_grain(interface.grain);
  return setWork(command, kernels.workOf(op));
}

/// Emits one launch of the first one's kernel, over all elements: a flat kernel's code takes their number as an
/// argument.
LogicalResult CommandEmitter::emitJoined(ArrayRef<LaunchOp> launches) {
  LaunchOp first = launches.front();
  int64_t count = 0;
  for (LaunchOp each : launches)
    count += cast<RankedTensorType>(each.getResult(0).getType()).getNumElements();
  // In a module of its own, from which the target is read: the other one is being verified meanwhile.
  OwningOpRef<ModuleOp> own = ModuleOp::create(first.getLoc());
  if (Attribute target = module->getAttr(module_attr::target))
    (*own)->setAttr(module_attr::target, target);
  KernelOp kernel = overElements(kernels.kernelOf(first), count).release();
  own->push_back(kernel);
  FailureOr<KernelInterface> interface = describe(kernel);
  if (failed(interface))
    return failure();
  abi::Command &command = addCommand(first);
  LayerAttr layer = marksOf(first).layer;
  if (llvm::any_of(launches, [&](LaunchOp each) { return marksOf(each).layer != layer; }))
    command.clear_layer();
  abi::Launch &launch = *command.mutable_launch();
  launch.set_kernel(kernelIndex(
      first.getKernel(), [&](abi::Kernel &described) { describeKernel(kernel, *interface, described); }, count));
  // Tensors continue each other: those of the first launch are the beginning of all.
  auto add = [&](Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    addBuffer(launch, value);
    if (type.getRank() > 0)
      *launch.mutable_buffer_bytes()->rbegin() = bytesOf(type.clone(ArrayRef(count)));
  };
  llvm::for_each(first.getOperands(), add);
  llvm::for_each(first.getResults(), add);
  addScalars(launch, interface->scalars);
  launch.set_grid(interface->grid);
  launch.set_grain(interface->grain);
  Work all;
  for (LaunchOp each : launches) {
    FailureOr<Work> work = kernels.workOf(each);
    if (failed(work))
      return failure();
    all += *work;
  }
  return setWork(command, all);
}

LogicalResult CommandEmitter::emitLibraryCall(LibraryOpInterface op) {
  FailureOr<LibraryCall> call = op.getLibraryCall(arena->layoutsOf(function).layoutsOf(op), mesh);
  if (failed(call))
    return op->emitError("'") << op->getName() << "' cannot be called on these layouts; run dt-explicit-copies before";
  auto valueOf = [&](unsigned index) {
    return index < op->getNumOperands() ? op->getOperand(index) : Value(op->getResult(index - op->getNumOperands()));
  };
  for (unsigned index : call->buffers)
    if (const abi::ElementType &type = elementTypeOf(valueOf(index).getType());
        !call->movesOnly && !(call->toldElement && type.isFloating()) && type.type != abi::F32 && type.type != abi::I32)
      return op->emitError("'") << op->getName() << "' has no library kernel for " << type.name
                                << ": these compute in f32; convert its operands to f32 and its result back";
  const Target &target = targetOf(module);
  std::string why;
  std::optional<LibraryKernel> found = target.findLibraryKernel(*call, why);
  if (!found)
    return op->emitError("'") << op->getName() << "' needs a library kernel '" << call->kernel << "', which "
                              << target.getName() << " does not have" << (why.empty() ? "" : " ") << why
                              << "; compile for another target";
  abi::Command &command = addCommand(op);
  abi::Launch &launch = *command.mutable_launch();
  launch.set_kernel(kernelIndex(found->symbol, [&](abi::Kernel &kernel) {
    describePasses(*found, kernel);
    kernel.set_library(true);
    kernel.set_inputs(call->numInputs);
    kernel.set_outputs(call->buffers.size() - call->numInputs);
  }));
  for (unsigned index : call->buffers)
    addBuffer(launch, valueOf(index));
  addScalars(launch, call->scalars);
  launch.set_grid(call->grid);
  launch.set_grain(call->grain);
  return setWork(command, workOf(op));
}

/// The next start becomes a part of the last one, under its token.
void CommandEmitter::continueBucket(Operation *part) {
  int last = list->commands_size() - 1;
  abi::Collective &before = *list->mutable_commands(last)->mutable_start();
  before.set_more(true);
  if (auto why = part->getAttrOfType<StringAttr>(bucketWhyAttr); why && !abi::isPart(*list, last))
    before.set_bucket(why.str());
  --nextToken;
}

LogicalResult CommandEmitter::emitStart(CollectiveOpInterface op) {
  CollectiveShape shape = op.getCollectiveShape();
  const abi::ElementType &type = elementTypeOf(op.getValueType());
  bool reduces = shape.kind == CollectiveShape::Kind::AllReduce || shape.kind == CollectiveShape::Kind::ReduceScatter;
  if (reduces && !type.canReduce())
    return op->emitError("'") << op->getName() << "' of " << type.name
                              << ", which collectives move but do not add; convert it to "
                              << abi::nameOf(type.accumulator) << " before";
  if (parts.contains(op))
    continueBucket(op);
  abi::Command &command = addCommand(op);
  abi::Collective &out = *command.mutable_start();
  describeMoved(op, out);
  out.set_group(groupIndex(op.getCollectiveAxes(), op.getGroupMembers(), collectivePurpose));
  out.set_input(addressOf(op->getOperand(0)));
  out.set_output(addressOf(op->getResult(0)));
  out.set_token(nextToken);
  out.set_value(withinLayer(op, placeOf(op->getOperand(0).getLoc())));
  if (auto reason = op->getAttrOfType<StringAttr>("reason"))
    out.set_reason(reason.str());
  if (auto remedy = op->getAttrOfType<StringAttr>("remedy"))
    out.set_remedy(remedy.str());
  tokens[op->getResult(0)] = nextToken;
  if (failed(setWork(command, workOf(op))))
    return failure();
  // A collective that returns a tensor and no future is awaited at once.
  if (!isa<FutureType>(op->getResult(0).getType()))
    emitWait(op, nextToken);
  ++nextToken;
  return success();
}

/// The same ranks use another channel for another purpose.
uint32_t CommandEmitter::groupIndex(ArrayRef<AxisRefAttr> axes, ArrayRef<int32_t> members, StringRef purpose) {
  std::string name = purpose.str();
  llvm::raw_string_ostream key(name);
  for (AxisRefAttr axis : axes)
    key << " " << axis.getAsOpaquePointer(); // equal attributes are one object
  key << ":";
  for (int32_t member : members)
    key << " " << member;
  auto [entry, isNew] = groupIndices.try_emplace(name, manifest.groups_size());
  if (!isNew)
    return entry->second;
  abi::AxisRefs refs;
  for (AxisRefAttr axis : axes)
    emitAxis(axis, mesh, *refs.Add());
  abi::addGroup(manifest, refs, members);
  meetings.push_back(meetingOf(purpose, *manifest.groups().rbegin()));
  for (auto [index, channel] : llvm::enumerate(channelsOf(meetings)))
    manifest.mutable_groups(static_cast<int>(index))->set_channel(channel);
  return entry->second;
}

void CommandEmitter::emitWait(Operation *op, uint32_t token) { addCommand(op).mutable_wait()->set_token(token); }

} // namespace dtc
