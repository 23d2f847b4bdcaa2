#include "passes/schedule/timetables/CheckTimetables.h"

#include "passes/analysis/Stages.h"
#include "passes/schedule/Spaces.h"
#include "passes/schedule/emit/EmitTimetables.h"
#include "passes/schedule/memory/ArenaLayout.h"

#include "dialect/IR/Names.h"
#include "runtime/abi/timetable_check.h"
#include "runtime/abi/timetables.h"

#include <limits>

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

namespace {

/// The ports of a role's functions, as parts of memory.
class JudgedPorts {
public:
  void add(func::FuncOp function) {
    abi::JudgedList &list = lists.byName[function.getName()];
    list.duty = abiDutyOf(dt::dutyOf(function));
    for (unsigned index = 0; index < function.getNumArguments(); ++index)
      add(argumentPort(function, index), list.reads);
    for (unsigned index = 0; index < function.getNumResults(); ++index)
      add(resultPort(function, index), list.writes);
  }

  abi::JudgedLists take() {
    lists.describe = [ports = std::move(ports)](size_t part) { return ports[part].describe(); };
    return std::move(lists);
  }

private:
  void add(PortAttr port, std::vector<size_t> &parts) {
    if (!port || !port.isOfMicroBatch())
      return;
    auto [part, isNew] = numbers.try_emplace(port.identity(), ports.size());
    if (isNew) {
      ports.push_back(port);
      lists.spaces.push_back(spaceOf(port, /*shared=*/false));
    }
    parts.push_back(part->second);
  }

  abi::JudgedLists lists;
  std::vector<PortAttr> ports;
  DenseMap<PortIdentity, size_t> numbers;
};

} // namespace

/// A role with the spaces that timetables know, each with as many places as they use.
static abi::Role judgedRole(ModuleOp module, int64_t number, const Duties &duties) {
  abi::Role role;
  role.set_name(nameOfRole(module, number));
  for (StringRef name : spaceNames) {
    abi::Space &space = *role.add_spaces();
    space.set_name(name.str());
    space.set_places(std::numeric_limits<uint32_t>::max());
  }
  emitTimetables(module, number, duties, {}, role);
  return role;
}

LogicalResult checkTimetables(ModuleOp module, int64_t number, ArrayRef<func::FuncOp> functions, const Duties &duties,
                              int64_t microBatches) {
  abi::Role role = judgedRole(module, number, duties);
  JudgedPorts ports;
  for (func::FuncOp function : functions)
    ports.add(function);
  abi::JudgedLists lists = ports.take();
  for (const abi::Timetable &timetable : role.timetables()) {
    bool isStep = timetable.name() == abi::stepTimetable || timetable.name() == abi::redoTimetable;
    std::string fault = abi::findPassFault(role, timetable, lists, stagesOf(module), isStep ? microBatches : 0);
    if (fault.empty())
      fault = abi::findPlaceFault(role, timetable, lists);
    if (!fault.empty())
      return module.emitError("M9: ") << fault;
  }
  return success();
}

} // namespace dtc
