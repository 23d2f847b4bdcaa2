// The validator's part for copies of parameters: a copy that is read must be up to date with its parameter.
#include "runtime/abi/tensors.h"
#include "runtime/abi/timetables.h"
#include "runtime/executor/refuse.h"
#include "runtime/executor/validate.h"

#include <fmt/format.h>
#include <map>
#include <set>
#include <string_view>

namespace dtc {

void validateCopies(const abi::Manifest &manifest, const abi::Role &role) {
  std::set<int> copied;
  for (const abi::Tensor &tensor : role.tensors())
    if (abi::isCopy(tensor))
      copied.insert(tensor.parameter());
  if (copied.empty())
    return;
  abi::TensorPlaces places;
  for (const abi::Tensor &tensor : role.tensors())
    if (abi::isCopy(tensor) ||
        (tensor.kind() == abi::Tensor::PARAMETER && copied.contains(tensor.parameter())))
      places.add(tensor);
  places.sort();
  std::map<std::string_view, bool> isRefreshing; // of lists that the role runs
  for (const abi::Timetable &timetable : role.timetables())
    abi::forEachEntry(timetable, [&](const abi::TimetableEntry &entry) {
      isRefreshing[entry.list()] |= timetable.name() == abi::refreshTimetable;
    });
  std::set<int> refreshed;
  for (const abi::CommandList &list : manifest.lists()) {
    auto use = isRefreshing.find(list.name());
    if (use == isRefreshing.end())
      continue;
    std::set<int> parameters, copies;
    places.forEachWrittenBy(list, manifest, [&](const abi::Tensor &tensor) {
      (abi::isCopy(tensor) ? copies : parameters).insert(tensor.parameter());
    });
    for (int parameter : parameters)
      if (!copies.contains(parameter))
        refuseProgram(fmt::format("list '{}' writes parameter '{}' and not its copy", list.name(),
                                  manifest.parameters(parameter).name()));
    if (use->second)
      refreshed.merge(copies);
  }
  for (int parameter : copied)
    if (!refreshed.contains(parameter))
      refuseProgram(fmt::format("parameter '{}' has a copy, and nothing makes that of what the host writes",
                                manifest.parameters(parameter).name()));
}

} // namespace dtc
