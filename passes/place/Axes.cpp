// Atoms of mesh axes, and placements written in them.
#include "passes/place/Axes.h"
#include "dialect/IR/Names.h"
#include "dialect/IR/Reductions.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;

AtomMask dtc::maskOf(ArrayRef<int> atoms) {
  AtomMask mask = 0;
  for (int atom : atoms)
    mask |= AtomMask(1) << atom;
  return mask;
}

static AtomList listOf(AtomMask mask) {
  AtomList list;
  for (int atom = 0; mask; ++atom, mask >>= 1)
    if (mask & 1)
      list.push_back(atom);
  return list;
}

AtomMask Partials::mask() const {
  AtomMask all = 0;
  for (AtomMask each : ofKinds)
    all |= each;
  return all;
}

Partials Partials::within(AtomMask atoms) const {
  Partials some = *this;
  for (AtomMask &each : some.ofKinds)
    each &= atoms;
  return some;
}

Partials Partials::without(const Partials &other) const {
  Partials rest = *this;
  for (auto [own, theirs] : llvm::zip_equal(rest.ofKinds, other.ofKinds))
    own &= ~theirs;
  return rest;
}

ReductionKind Partials::firstKind() const {
  for (unsigned kind = 0; kind < numKinds; ++kind)
    if (ofKinds[kind])
      return static_cast<ReductionKind>(kind);
  return ReductionKind::Sum;
}

bool Partials::areLinear() const {
  for (unsigned kind = 0; kind < numKinds; ++kind)
    if (ofKinds[kind] && !reductionOf(static_cast<ReductionKind>(kind)).isLinear)
      return false;
  return true;
}

AtomMask Placement::splitMask() const {
  AtomMask mask = 0;
  for (const AtomList &dim : dims)
    mask |= maskOf(dim);
  return mask;
}

FailureOr<AxisTable> AxisTable::create(MeshAttr mesh, ArrayRef<AxisRefAttr> references, std::string &problem) {
  AxisTable table;
  table.mesh = mesh;
  for (AxisAttr axis : mesh.getAxes()) {
    // Boundaries are the products of the digits to their left.
    SmallVector<int64_t> boundaries{1, axis.getSize()};
    for (AxisRefAttr ref : references)
      if (ref.getAxis() == axis.getName() && !ref.isWhole())
        llvm::append_values(boundaries, ref.getPre(), ref.getPre() * ref.getSize());
    llvm::sort(boundaries);
    boundaries.erase(llvm::unique(boundaries), boundaries.end());
    for (auto [pre, next] : llvm::zip(boundaries, ArrayRef(boundaries).drop_front())) {
      if (next % pre != 0) {
        problem = "annotations cut axis '" + axis.getName().str() + "' both after " + std::to_string(pre) +
                  " and after " + std::to_string(next) + " parts, which have no common refinement";
        return failure();
      }
      table.atoms.push_back({axis.getName(), pre, next / pre, axis.getSize()});
    }
  }
  if (table.atoms.size() > 64) {
    problem =
        "the mesh has " + std::to_string(table.atoms.size()) + " axes and parts of axes; at most 64 are supported";
    return failure();
  }
  return table;
}

static SmallVector<PortAttr> portsOf(func::FuncOp function) {
  SmallVector<PortAttr> ports;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    ports.push_back(argumentPort(function, i));
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    ports.push_back(resultPort(function, i));
  llvm::erase(ports, PortAttr());
  return ports;
}

FailureOr<AxisTable> AxisTable::ofModule(Operation *module) {
  auto mesh = module->getAttrOfType<MeshAttr>(module_attr::mesh);
  if (!mesh)
    return module->emitError() << "has no " << module_attr::mesh << "; run dt-annotate first";
  // Ports name axes, and operations on whole tensors a placement; what propagation has found consists of these. Looking
  // at all attributes of all operations would take longer than placing them.
  llvm::SetVector<Attribute> shardings;
  module->walk([&](Operation *op) {
    if (std::optional<Attribute> sharding = op->getInherentAttr("sharding"))
      shardings.insert(*sharding);
    auto function = dyn_cast<func::FuncOp>(op);
    for (PortAttr port : function ? portsOf(function) : SmallVector<PortAttr>()) {
      shardings.insert(port.getStored());
      shardings.insert(port.getComputed());
    }
  });
  llvm::SetVector<AxisRefAttr> references;
  AttrTypeWalker walker;
  walker.addWalk([&](AxisRefAttr ref) { references.insert(ref); });
  for (Attribute sharding : shardings)
    if (sharding)
      walker.walk(sharding);
  std::string problem;
  FailureOr<AxisTable> table = create(mesh, references.getArrayRef(), problem);
  if (failed(table))
    return module->emitError(problem);
  return table;
}

int64_t AxisTable::product(ArrayRef<int> list) const {
  int64_t product = 1;
  for (int atom : list)
    product *= atoms[atom].size;
  return product;
}

int64_t AxisTable::product(AtomMask mask) const { return product(listOf(mask)); }

AtomList AxisTable::atomsOf(ArrayRef<AxisRefAttr> references) const {
  AtomList list;
  for (AxisRefAttr ref : references)
    for (auto [i, atom] : llvm::enumerate(atoms))
      if (atom.axis == ref.getAxis() &&
          (ref.isWhole() || (atom.pre >= ref.getPre() && atom.pre * atom.size <= ref.getPre() * ref.getSize())))
        list.push_back(static_cast<int>(i));
  return list;
}

SmallVector<AxisRefAttr> AxisTable::referencesOf(ArrayRef<int> list) const {
  SmallVector<Atom> runs;
  for (int index : list) {
    const Atom &atom = atoms[index];
    if (!runs.empty() && runs.back().axis == atom.axis && runs.back().pre * runs.back().size == atom.pre)
      runs.back().size *= atom.size;
    else
      runs.push_back(atom);
  }
  return llvm::map_to_vector(runs, [&](const Atom &run) {
    return run.size == run.axisSize ? AxisRefAttr::whole(run.axis)
                                    : AxisRefAttr::get(mesh.getContext(), run.axis, run.pre, run.size);
  });
}

SmallVector<AxisRefAttr> AxisTable::referencesOf(AtomMask mask) const { return referencesOf(listOf(mask)); }

ArrayAttr AxisTable::attributeOf(ArrayRef<int> list) const {
  SmallVector<AxisRefAttr> references = referencesOf(list);
  return ArrayAttr::get(mesh.getContext(), SmallVector<Attribute>(references.begin(), references.end()));
}

llvm::hash_code dtc::hash_value(const Placement &placement) {
  // For a few small numbers, and computed for each value: faster than a hash for arbitrary bytes.
  constexpr uint64_t factor = 0x9E3779B97F4A7C15;
  uint64_t hash = placement.partial.mask() * Partials::numKinds + static_cast<uint64_t>(placement.partial.firstKind());
  for (const AtomList &list : placement.dims) {
    hash = (hash + list.size() + 1) * factor;
    for (int atom : list)
      hash = (hash + static_cast<uint64_t>(atom) + 1) * factor;
  }
  return llvm::hash_code(hash ^ (hash >> 32));
}

const Placement &AxisTable::placementOf(ShardingAttr sharding) const {
  const Placement *&known = placements[sharding];
  if (!known)
    known = &kept(readPlacement(sharding));
  return *known;
}

const Placement &AxisTable::kept(const Placement &placement) const {
  return shardings.try_emplace(placement).first->first;
}

ShardingAttr AxisTable::shardingOf(const Placement &placement) const {
  ShardingAttr &known = shardings[placement];
  if (!known)
    known = makeSharding(placement);
  return known;
}

Placement AxisTable::readPlacement(ShardingAttr sharding) const {
  Placement placement = Placement::replicated(sharding.getRank());
  for (auto [dim, list] : llvm::enumerate(placement.dims))
    list = atomsOf(sharding.getDimAxes(dim));
  for (auto [axis, kind] : llvm::zip_equal(sharding.getPartial(), sharding.getReductions()))
    placement.partial[kind] |= maskOf(atomsOf(axis));
  return placement;
}

ShardingAttr AxisTable::makeSharding(const Placement &placement) const {
  SmallVector<SmallVector<AxisRefAttr>> dims;
  for (const AtomList &list : placement.dims)
    dims.push_back(referencesOf(list));
  SmallVector<AxisRefAttr> partial;
  SmallVector<ReductionKind> reductions;
  for (unsigned number = 0; number < Partials::numKinds; ++number) {
    auto kind = static_cast<ReductionKind>(number);
    llvm::append_range(partial, referencesOf(placement.partial[kind]));
    reductions.resize(partial.size(), kind);
  }
  return ShardingAttr::get(mesh.getContext(), dims, partial, reductions);
}

SmallVector<int64_t> AxisTable::localShape(ArrayRef<int64_t> global, const Placement &placement) const {
  SmallVector<int64_t> shape(global);
  for (auto [size, list] : llvm::zip_equal(shape, placement.dims)) {
    int64_t shards = product(list);
    size = (size + shards - 1) / shards;
  }
  return shape;
}

RankedTensorType AxisTable::localType(RankedTensorType global, const Placement &placement) const {
  if (!placement.splitMask())
    return global;
  return RankedTensorType::get(localShape(global.getShape(), placement), global.getElementType());
}

bool AxisTable::isPadded(ArrayRef<int64_t> global, const Placement &placement) const {
  return llvm::any_of(llvm::zip_equal(global, placement.dims),
                      [&](const auto &dim) { return isPadded(std::get<0>(dim), std::get<1>(dim)); });
}

std::string AxisTable::name(ArrayRef<int> list) const {
  std::string text;
  for (AxisRefAttr ref : referencesOf(list)) {
    text += (text.empty() ? "" : ", ") + ref.getAxis().str();
    if (!ref.isWhole())
      text += ":(" + std::to_string(ref.getPre()) + ")" + std::to_string(ref.getSize());
  }
  return text;
}

std::string AxisTable::name(AtomMask mask) const { return name(listOf(mask)); }
