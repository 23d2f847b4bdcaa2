// The text of an entry of a timetable.
#include "dialect/IR/Attributes.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::dt;

static ParseResult parseEntryField(AsmParser &parser, int64_t &microBatch, int64_t &step, SmallVector<int64_t> &places,
                                   SmallVector<int64_t> &turns) {
  StringRef field;
  if (parser.parseKeyword(&field) || parser.parseEqual())
    return failure();
  auto parseNumbers = [&](SmallVector<int64_t> &numbers) {
    return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                          [&] { return parser.parseInteger(numbers.emplace_back()); });
  };
  if (field == "micro_batch")
    return parser.parseInteger(microBatch);
  if (field == "step")
    return parser.parseInteger(step);
  if (field == "places")
    return parseNumbers(places);
  if (field == "turns")
    return parseNumbers(turns);
  return parser.emitError(parser.getNameLoc(), "an entry has no field '") << field << "'";
}

Attribute EntryAttr::parse(AsmParser &parser, Type) {
  FlatSymbolRefAttr function;
  int64_t microBatch = -1, step = 0;
  SmallVector<int64_t> places, turns;
  if (parser.parseLess() || parser.parseAttribute(function))
    return {};
  while (succeeded(parser.parseOptionalComma()))
    if (parseEntryField(parser, microBatch, step, places, turns))
      return {};
  if (parser.parseGreater())
    return {};
  return EntryAttr::get(parser.getContext(), function, microBatch, step, places, turns);
}

void EntryAttr::print(AsmPrinter &printer) const {
  printer << "<" << getFunction();
  if (getMicroBatch() != -1)
    printer << ", micro_batch = " << getMicroBatch();
  if (getStep() != 0)
    printer << ", step = " << getStep();
  for (auto [field, numbers] : {std::pair("places", getPlaces()), std::pair("turns", getTurns())})
    if (!numbers.empty()) {
      printer << ", " << field << " = [";
      llvm::interleaveComma(numbers, printer);
      printer << "]";
    }
  printer << ">";
}
