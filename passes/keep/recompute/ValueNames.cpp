// Names of values within their layer.
#include "passes/keep/recompute/ValueNames.h"
#include "passes/keep/cut/StageHomes.h"

#include "dialect/IR/Locations.h"
#include "dialect/IR/Marks.h"
#include "mlir/IR/OpDefinition.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

static std::string nameWithin(LayerAttr layer, Operation *op) {
  StringRef own = op->getName().stripDialect(), purpose = purposeOf(op);
  std::string name = own.str();
  if (purpose != own)
    name += " " + purpose.str();
  // A place of another kind, such as a line of a file, differs in each layer.
  std::string place = placeOf(op->getLoc());
  StringRef within(place);
  if (within.consume_front(layer.fullName()) && within.consume_front("."))
    name += " " + within.str();
  return name;
}

ValueNames::ValueNames(Block &block) {
  DenseMap<LayerAttr, llvm::StringMap<int>> known;
  for (Operation &op : block) {
    LayerAttr layer = marksOf(&op).layer;
    if (!layer || !isForward(&op))
      continue;
    std::string name = nameWithin(layer, &op);
    if (int number = ++known[layer][name]; number > 1)
      name += " #" + std::to_string(number);
    names[&op] = std::move(name);
  }
}

StringRef ValueNames::nameOf(Operation *op) const {
  auto found = names.find(op);
  return found == names.end() ? StringRef() : StringRef(found->second);
}

} // namespace dtc
