// What locations tell people. A purpose is the metadata of a fused location, which clones and rewrites keep.
#include "dialect/IR/Locations.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;

std::string dtc::placeOf(Location loc) {
  std::string place;
  loc->walk([&](Location inner) {
    if (auto named = dyn_cast<NameLoc>(inner))
      place = named.getName().str();
    else if (auto file = dyn_cast<FileLineColLoc>(inner))
      place = (file.getFilename().getValue() + ":" + Twine(file.getLine())).str();
    return place.empty() ? WalkResult::advance() : WalkResult::interrupt();
  });
  return place;
}

static StringRef purposeIn(Location loc) {
  StringRef purpose;
  loc->walk([&](Location inner) {
    if (auto fused = dyn_cast<FusedLocWith<StringAttr>>(inner))
      purpose = fused.getMetadata().getValue();
    return purpose.empty() ? WalkResult::advance() : WalkResult::interrupt();
  });
  return purpose;
}

StringRef dtc::purposeOf(Operation *op) {
  StringRef purpose = purposeIn(op->getLoc());
  return purpose.empty() ? op->getName().stripDialect() : purpose;
}

Location dtc::withPurpose(Location loc, StringRef purpose) {
  if (!purposeIn(loc).empty())
    return loc;
  return FusedLoc::get(loc.getContext(), {loc}, StringAttr::get(loc.getContext(), purpose));
}
