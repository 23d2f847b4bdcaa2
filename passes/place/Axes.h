// Placements in terms of atoms: the form in which propagation and partitioning reason about shardings.
//
// A mesh axis of size 8 that some annotation cuts as (1)2 and (2)4 has the atoms of sizes 2 and 4; an axis that no
// annotation cuts has one atom, and an axis of size 1 none. Written in atoms, equal placements have equal form, two
// references overlap when they share an atom, and sets of axes are bit masks.
#pragma once

#include "dialect/IR/Factors.h"

#include <array>
#include <unordered_map>

namespace dtc {

/// A set of atoms: bit i stands for atom i.
using AtomMask = uint64_t;
/// Atoms that split something, major to minor.
using AtomList = llvm::SmallVector<int, 2>;

AtomMask maskOf(llvm::ArrayRef<int> atoms);

/// The atoms over which a value is partial: for each kind of reduction a set, in the order in which they are resolved.
/// Sets do not meet.
class Partials {
public:
  static constexpr unsigned numKinds = mlir::dt::getMaxEnumValForReductionKind() + 1;

  AtomMask &operator[](mlir::dt::ReductionKind kind) { return ofKinds[static_cast<size_t>(kind)]; }
  AtomMask operator[](mlir::dt::ReductionKind kind) const { return ofKinds[static_cast<size_t>(kind)]; }
  /// The atoms of all kinds.
  AtomMask mask() const;
  /// Only those among `atoms`.
  Partials within(AtomMask atoms) const;
  /// Only those that are not partial in the same way in `other`.
  Partials without(const Partials &other) const;
  /// The kind to be resolved first; Sum where nothing is partial.
  mlir::dt::ReductionKind firstKind() const;
  /// Whether linear operations keep what is partial in each of these ways.
  bool areLinear() const;
  bool operator==(const Partials &) const = default;

private:
  std::array<AtomMask, numKinds> ofKinds = {};
};

/// Which device holds which piece of a value: dt.sharding in atoms.
struct Placement {
  llvm::SmallVector<AtomList, 4> dims;
  Partials partial = {};

  static Placement replicated(int64_t rank) { return {llvm::SmallVector<AtomList, 4>(rank)}; }
  /// All atoms that split a dimension.
  AtomMask splitMask() const;
  bool isPartial() const { return partial.mask() != 0; }
  /// Keeps of what is partial only these atoms.
  Placement withPartial(AtomMask mask) const { return {dims, partial.within(mask)}; }
  bool operator==(const Placement &) const = default;
};

llvm::hash_code hash_value(const Placement &placement);

/// The atoms of a mesh under a set of references.
class AxisTable {
public:
  /// Cuts the mesh so that each reference is a run of atoms. Fails with a reason when two references cut an axis in
  /// ways that no common refinement serves (such as 12 as 2*6 and as 3*4), or when there are more than 64 atoms.
  static llvm::FailureOr<AxisTable> create(mlir::dt::MeshAttr mesh, llvm::ArrayRef<mlir::dt::AxisRefAttr> references,
                                           std::string &problem);

  /// The atoms of a module's mesh under all references in it; an error on the module when there are none.
  static llvm::FailureOr<AxisTable> ofModule(mlir::Operation *module);

  mlir::dt::MeshAttr getMesh() const { return mesh; }
  int64_t sizeOf(int atom) const { return atoms[atom].size; }
  int64_t product(llvm::ArrayRef<int> list) const;
  int64_t product(AtomMask mask) const;

  AtomList atomsOf(llvm::ArrayRef<mlir::dt::AxisRefAttr> references) const;
  /// Neighbouring atoms of one axis are joined: a run that covers an axis comes back as the whole axis.
  llvm::SmallVector<mlir::dt::AxisRefAttr> referencesOf(llvm::ArrayRef<int> list) const;
  llvm::SmallVector<mlir::dt::AxisRefAttr> referencesOf(AtomMask mask) const;
  mlir::ArrayAttr attributeOf(llvm::ArrayRef<int> list) const;

  const Placement &placementOf(mlir::dt::ShardingAttr sharding) const;
  mlir::dt::ShardingAttr shardingOf(const Placement &placement) const;
  /// The table's own copy of the placement, which it keeps: there, equal placements are one object, including those of
  /// placementOf.
  const Placement &kept(const Placement &placement) const;

  /// ceil(size / shards) in each dimension.
  llvm::SmallVector<int64_t> localShape(llvm::ArrayRef<int64_t> global, const Placement &placement) const;
  mlir::RankedTensorType localType(mlir::RankedTensorType global, const Placement &placement) const;
  /// Whether dimension `dim` of this size does not divide evenly.
  bool isPadded(int64_t size, llvm::ArrayRef<int> list) const { return size % product(list) != 0; }
  bool isPadded(llvm::ArrayRef<int64_t> global, const Placement &placement) const;

  /// "tp" or "dp, tp:(1)2", for messages.
  std::string name(llvm::ArrayRef<int> list) const;
  std::string name(AtomMask mask) const;

private:
  struct Atom {
    mlir::StringAttr axis;
    int64_t pre, size, axisSize;
  };
  struct Hash {
    size_t operator()(const Placement &placement) const { return hash_value(placement); }
  };
  Placement readPlacement(mlir::dt::ShardingAttr sharding) const;
  mlir::dt::ShardingAttr makeSharding(const Placement &placement) const;

  mlir::dt::MeshAttr mesh;
  llvm::SmallVector<Atom> atoms;
  // A program has few different placements, and asks for each thousands of times.
  mutable std::unordered_map<Placement, mlir::dt::ShardingAttr, Hash> shardings;
  mutable llvm::DenseMap<mlir::Attribute, const Placement *> placements; ///< which are keys of `shardings`
};

} // namespace dtc
