// How the entries of a section match and what they place.
#include "passes/place/Section.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;

FailureOr<Section> Section::create(StringRef title, StringRef kind, ArrayRef<DimAnnotation> entries, MeshAttr mesh,
                                   ErrorCallback error) {
  Section section;
  section.title = title;
  section.kind = kind;
  section.mesh = mesh;
  for (const DimAnnotation &entry : entries) {
    auto inFile = [&](const Twine &message) { error(entry.where + ": " + message); };
    auto pattern = llvm::GlobPattern::create(entry.pattern);
    if (!pattern) {
      inFile("pattern '" + entry.pattern + "': " + llvm::toString(pattern.takeError()));
      return failure();
    }
    Entry parsed{std::move(*pattern), &entry, {}, {}, false};
    for (const auto &[dim, axes] : entry.dims) {
      SmallVector<AxisRefAttr> &refs = parsed.dims.emplace_back(dim, SmallVector<AxisRefAttr>()).second;
      for (StringRef axis : axes) {
        FailureOr<AxisRefAttr> ref = parseAxis(mesh, axis, inFile);
        if (failed(ref))
          return failure();
        refs.push_back(*ref);
      }
    }
    parsed.dimFound.assign(parsed.dims.size(), false);
    section.entries.push_back(std::move(parsed));
  }
  return section;
}

ShardingAttr Section::place(StringRef name, ArrayRef<StringRef> dims) {
  SmallVector<SmallVector<AxisRefAttr>> placed(dims.size());
  bool matched = visit(name, dims, [&](StringRef dimension, ArrayRef<AxisRefAttr> refs) {
    bool found = false;
    for (auto [dim, axes] : llvm::zip_equal(dims, placed))
      if (dim == dimension) {
        axes.assign(refs.begin(), refs.end());
        found = true;
      }
    return found;
  });
  return matched || entries.empty() ? ShardingAttr::get(mesh.getContext(), placed) : ShardingAttr();
}

ShardingAttr Section::placeFurther(StringRef name, ArrayRef<StringRef> dims, ArrayRef<int64_t> shape,
                                   ShardingAttr base) {
  SmallVector<SmallVector<AxisRefAttr>> added(dims.size());
  bool isPlaced = false;
  visit(name, dims, [&](StringRef dimension, ArrayRef<AxisRefAttr> refs) {
    if (dimension == "any" && refs.empty()) { // wherever earlier entries have put it
      added.assign(dims.size(), {});
      isPlaced = false;
      return true;
    }
    const auto *found =
        dimension == "any" ? dims.begin() + suitableDim(shape, base, refs) : llvm::find(dims, dimension);
    if (found == dims.end())
      return false;
    added[found - dims.begin()].assign(refs.begin(), refs.end());
    return isPlaced = true;
  });
  if (!isPlaced)
    return {};
  SmallVector<SmallVector<AxisRefAttr>> placed;
  for (auto [dim, axes] : llvm::enumerate(added)) {
    placed.push_back(base.getDimAxes(dim));
    llvm::append_range(placed.back(), axes);
  }
  return ShardingAttr::get(mesh.getContext(), placed);
}

LogicalResult Section::checkAllUsed(ErrorCallback error) const {
  for (const Entry &entry : entries) {
    const DimAnnotation &source = *entry.source;
    if (!source.required)
      continue;
    if (!entry.matched) {
      error(source.where + ": no " + kind + " is named '" + source.pattern + "'" +
            suggest(source.pattern, names.getArrayRef()));
      return failure();
    }
    for (auto [found, dim] : llvm::zip_equal(entry.dimFound, source.dims))
      if (!found) {
        const auto *known = dimOwners.find(dim.first);
        error(source.where + ": what '" + source.pattern + "' matches has no dimension '" + dim.first + "'" +
              (known != dimOwners.end() ? ", which " + kind + " '" + known->second + "' has"
                                        : suggest(dim.first, llvm::to_vector(llvm::make_first_range(dimOwners)))));
        return failure();
      }
  }
  return success();
}

std::string Section::describe(StringRef name) const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (const Entry &entry : entries)
    if (entry.pattern.match(name))
      for (const auto &[dim, axes] : entry.source->dims)
        stream << "; '" << entry.source->pattern << "'"
               << (entry.source->where.empty() ? "" : " (" + entry.source->where + ")") << " in [" << title
               << "] says " << dim << " = [" << llvm::join(axes, ", ") << "]";
  return text;
}

/// Calls apply(dimension, axes) for what each matching entry says; it tells whether there is such a dimension.
bool Section::visit(StringRef name, ArrayRef<StringRef> dims,
                    llvm::function_ref<bool(StringRef, ArrayRef<AxisRefAttr>)> apply) {
  names.insert(name);
  for (StringRef dim : dims)
    dimOwners.insert({dim, name});
  bool matched = false;
  for (Entry &entry : entries) {
    if (!entry.pattern.match(name))
      continue;
    matched = entry.matched = true;
    for (auto [i, annotation] : llvm::enumerate(entry.dims))
      if (apply(annotation.first, annotation.second))
        entry.dimFound[i] = true;
  }
  return matched;
}

/// Where `any` goes: the first dimension of which the pieces divide evenly (so that shards lie together in memory),
/// or else the longest.
int64_t Section::suitableDim(ArrayRef<int64_t> shape, ShardingAttr base, ArrayRef<AxisRefAttr> refs) const {
  int64_t shards = 1, longest = 0, best = 0;
  for (AxisRefAttr ref : refs)
    shards *= ref.getSizeIn(mesh);
  SmallVector<int64_t> local = base.getLocalShape(shape, mesh);
  for (auto [dim, size] : llvm::enumerate(local)) {
    if (shape[dim] % (base.getNumShards(dim, mesh) * shards) == 0)
      return dim;
    if (size > longest) {
      longest = size;
      best = dim;
    }
  }
  return best;
}
