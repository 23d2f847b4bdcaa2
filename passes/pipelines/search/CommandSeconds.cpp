// Sums over the commands of a step.
#include "passes/pipelines/search/CommandSeconds.h"

#include "passes/schedule/buckets/ChooseBuckets.h"
#include "runtime/abi/volume.h"
#include "runtime/abi/written.h"
#include "timing/cost/cost.h"

#include "llvm/ADT/DenseSet.h"

#include <algorithm>

namespace dtc {

CommandSeconds::CommandSeconds(const timing::Device &device, const timing::Layout *layout, const abi::Mesh &mesh)
    : device(device) {
  if (layout)
    secondsOf = [costs = costsOn(*layout, mesh)](const FlatMove &move) {
      StartCost cost = costs.of(move, move.payload);
      return cost.latency + cost.moving;
    };
  else
    secondsOf = [&device](const FlatMove &move) {
      double sent = abi::sentBytes(move.kind, move.payload, abi::membersOf(move.group));
      return device.launch_seconds() + 2 * sent / device.memory_bandwidth();
    };
}

double CommandSeconds::ofLaunch(const abi::Work &work, abi::DataType type) const {
  auto bytes = static_cast<double>(work.bytes_read() + work.bytes_written());
  return timing::kernelSeconds(device, {work.kind(), type, work.flops(), bytes});
}

double CommandSeconds::ofMove(const FlatMove &move) const { return secondsOf(move); }

double CommandSeconds::ofCommand(const FlatRole &role, const FlatCommand &command) const {
  if (command.kind == FlatCommand::Kind::Launch)
    return ofLaunch(command.work, command.type);
  if (command.kind == FlatCommand::Kind::Start && command.move >= 0)
    return ofMove(role.moves[static_cast<size_t>(command.move)]);
  return 0;
}

double CommandSeconds::ofStep(const FlatRole &role) const {
  std::vector<int64_t> times(role.functions.size());
  for (const FlatEntry &entry : role.step)
    ++times[entry.function];
  double seconds = 0;
  for (size_t number = 0; number < role.functions.size(); ++number)
    for (const FlatCommand &command : role.functions[number].commands)
      seconds += static_cast<double>(times[number]) * ofCommand(role, command);
  return seconds;
}

std::vector<double> runsOfFunctions(const FlatRole &role) {
  int64_t microBatches = 1;
  for (const FlatEntry &entry : role.step)
    microBatches = std::max(microBatches, entry.microBatch + 1);
  std::vector<double> runs(role.functions.size());
  for (const FlatEntry &entry : role.step)
    runs[static_cast<size_t>(entry.function)] += 1 / static_cast<double>(microBatches);
  return runs;
}

uint64_t keptBytes(const FlatRole &role) {
  uint64_t bytes = 0;
  for (const FlatPort &port : role.ports)
    bytes += port.isOfMicroBatch ? port.bytes : 0;
  llvm::DenseSet<int> run;
  for (const FlatEntry &entry : role.step)
    run.insert(entry.function);
  for (int number : run) {
    const FlatFunction &function = role.functions[static_cast<size_t>(number)];
    llvm::DenseSet<int> kept;
    for (const FlatCommand &command : function.commands)
      for (const FlatOperand &operand : command.operands) {
        int maker = function.definedBy[static_cast<size_t>(operand.value)];
        if (maker >= 0 && command.direction != abi::FORWARD &&
            function.commands[static_cast<size_t>(maker)].direction == abi::FORWARD &&
            kept.insert(operand.value).second)
          bytes += function.valueBytes[static_cast<size_t>(operand.value)];
      }
  }
  return bytes;
}

} // namespace dtc
