// The inputs that the host fills in before a timetable entry runs: those that its list reads, in the place that the
// entry names. Inputs that are already there are kept.
#pragma once

#include "runtime/abi/addresses.h"
#include "runtime/executor/executor.h"
#include "runtime/program/list_inputs.h"
#include "runtime/program/train/batch_inputs.h"

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace dtc {

class EntryInputs {
public:
  /// The executor outlives the inputs.
  explicit EntryInputs(Executor &executor);

  /// Forgets all inputs that were filled in.
  void forget() { filled.clear(); }

  /// Calls fill(tensor, place) for each input of an entry that is not there yet. `step`: the step it is for.
  template <typename Fill> void fillMissing(const abi::TimetableEntry &entry, int64_t step, Fill fill) {
    auto read = inputsOf.find(entry.list());
    if (read == inputsOf.end())
      return;
    for (const abi::Tensor *tensor : read->second) {
      uint32_t place = abi::placeOf(entry, abi::spaceOf(tensor->address()));
      std::pair<int64_t, int64_t> wanted{step, entry.has_micro_batch() ? entry.micro_batch() : -1};
      auto [there, isNew] = filled.try_emplace({tensor, place}, wanted);
      if (!isNew && there->second == wanted)
        continue;
      there->second = wanted;
      fill(*tensor, place);
    }
  }

  /// How a tensor is sliced from samples; null if it is not.
  const BatchInput *samplesOf(const abi::Tensor &tensor) const;

  /// Stores what fill(values) writes in an input.
  template <typename Fill> void write(const BatchInput &input, uint32_t place, Fill fill) {
    staged.resize(static_cast<size_t>(input.slice.localRows * input.slice.localColumns));
    fill(std::span(staged));
    executor.write(*input.tensor, staged, place);
  }

private:
  Executor &executor;
  std::vector<BatchInput> samples;
  ListInputs inputsOf; ///< what each list reads
  std::map<std::pair<const abi::Tensor *, uint32_t>, std::pair<int64_t, int64_t>>
      filled;                  ///< by place: step, micro-batch
  std::vector<int32_t> staged; ///< of one input, before the copy to the device
};

} // namespace dtc
