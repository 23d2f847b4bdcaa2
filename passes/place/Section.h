// One section of a strategy: which of its entries match a value by name, and the placement that they give it.
#pragma once

#include "passes/place/Annotations.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/GlobPattern.h"

namespace dtc {

/// The placements that one section of a strategy gives to named values with named dimensions.
class Section {
public:
  /// Fails with an error when an entry's pattern is malformed or names an axis that the mesh lacks. `entries` outlive
  /// the section.
  static mlir::FailureOr<Section> create(llvm::StringRef title, llvm::StringRef kind,
                                         llvm::ArrayRef<DimAnnotation> entries, mlir::dt::MeshAttr mesh,
                                         ErrorCallback error);

  /// Placement of the value `name`; later entries override earlier ones dimension by dimension. Null where no entry
  /// matches.
  mlir::dt::ShardingAttr place(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> dims);

  /// How a parameter lies that is computed with as `base`: split further as the entries say; null where none does.
  mlir::dt::ShardingAttr placeFurther(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> dims,
                                      llvm::ArrayRef<int64_t> shape, mlir::dt::ShardingAttr base);

  /// After all values have been placed: entries that named something which does not exist.
  mlir::LogicalResult checkAllUsed(ErrorCallback error) const;

  /// Who places the value `name`, in the order in which that counts: "; '*' (layout.toml:4) in [parameters] says heads
  /// = [tp]", for each dimension that it says something of.
  std::string describe(llvm::StringRef name) const;

private:
  struct Entry {
    llvm::GlobPattern pattern;
    const DimAnnotation *source;
    llvm::SmallVector<std::pair<llvm::StringRef, llvm::SmallVector<mlir::dt::AxisRefAttr>>> dims;
    llvm::SmallVector<bool> dimFound;
    bool matched;
  };

  bool visit(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> dims,
             llvm::function_ref<bool(llvm::StringRef, llvm::ArrayRef<mlir::dt::AxisRefAttr>)> apply);
  int64_t suitableDim(llvm::ArrayRef<int64_t> shape, mlir::dt::ShardingAttr base,
                      llvm::ArrayRef<mlir::dt::AxisRefAttr> refs) const;

  llvm::StringRef title; ///< of the table in a strategy file
  llvm::StringRef kind;  ///< of what it places
  mlir::dt::MeshAttr mesh;
  std::vector<Entry> entries;
  llvm::SetVector<llvm::StringRef> names;
  llvm::MapVector<llvm::StringRef, llvm::StringRef> dimOwners; ///< dimensions, each with the first value that has it
};

} // namespace dtc
