// What locations tell people. A purpose is the metadata of a fused location, which clones and rewrites keep; a unit
// attribute as the outermost metadata says that something is recomputed.
#include "dialect/IR/Locations.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;

/// The first answer that is not empty, from `loc` itself and then from the locations that it joins. Walking attributes
/// generically takes far longer, and this is asked for every command.
template <typename Answer, typename Ask> static Answer findIn(Location loc, Ask &&ask) {
  if (Answer answer = ask(loc); !answer.empty())
    return answer;
  SmallVector<Location> inner;
  if (auto fused = dyn_cast<FusedLoc>(loc))
    llvm::append_range(inner, fused.getLocations());
  else if (auto named = dyn_cast<NameLoc>(loc))
    inner.push_back(named.getChildLoc());
  else if (auto call = dyn_cast<CallSiteLoc>(loc))
    inner = {call.getCallee(), call.getCaller()};
  for (Location next : inner)
    if (Answer answer = findIn<Answer>(next, ask); !answer.empty())
      return answer;
  return {};
}

std::string dtc::placeOf(Location loc) {
  return findIn<std::string>(loc, [](Location at) -> std::string {
    if (auto named = dyn_cast<NameLoc>(at))
      return named.getName().str();
    if (auto file = dyn_cast<FileLineColLoc>(at))
      return (file.getFilename().getValue() + ":" + Twine(file.getLine())).str();
    return "";
  });
}

static StringRef purposeIn(Location loc) {
  return findIn<StringRef>(loc, [](Location at) -> StringRef {
    auto fused = dyn_cast<FusedLocWith<StringAttr>>(at);
    return fused ? fused.getMetadata().getValue() : StringRef();
  });
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

Location dtc::madeAgain(Location loc) {
  return isMadeAgain(loc) ? loc : FusedLoc::get(loc.getContext(), {loc}, UnitAttr::get(loc.getContext()));
}

bool dtc::isMadeAgain(Location loc) { return isa<FusedLocWith<UnitAttr>>(loc); }

Location dtc::madeOnce(Location loc) { return isMadeAgain(loc) ? cast<FusedLoc>(loc).getLocations().front() : loc; }
