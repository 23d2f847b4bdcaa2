// The validator's part for copies of parameters: what is read must be what the parameter is.
#include "runtime/abi/error.h"
#include "runtime/abi/written.h"
#include "runtime/executor/validate.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <string_view>
#include <vector>

namespace dtc {

namespace {

struct Place {
  uint64_t begin, end;
  const abi::Tensor *tensor;
};

} // namespace

[[noreturn]] static void refuse(const std::string &why) {
  throw Error(ExitCode::BadInput, "the program is inconsistent: " + why + "; compile it again");
}

/// Copies and their parameters, in order of addresses. They do not overlap.
static std::vector<Place> placesOf(const abi::Manifest &manifest, const std::set<int> &copied) {
  std::vector<Place> places;
  for (const abi::Tensor &tensor : manifest.tensors())
    if (tensor.role() == abi::Tensor::COPY ||
        (tensor.role() == abi::Tensor::PARAMETER && copied.contains(tensor.parameter()))) {
      uint64_t elements = 1;
      for (int64_t size : tensor.local_shape())
        elements *= static_cast<uint64_t>(size);
      places.push_back({tensor.offset(), tensor.offset() + abi::bytesOf(tensor.type(), elements), &tensor});
    }
  std::ranges::sort(places, {}, &Place::begin);
  return places;
}

static std::set<const abi::Tensor *> writtenBy(const abi::CommandList &list, const abi::Manifest &manifest,
                                               const std::vector<Place> &places) {
  std::set<const abi::Tensor *> written;
  for (const abi::Command &command : list.commands())
    abi::forEachWritten(manifest, command, [&](uint64_t offset, uint64_t bytes) {
      auto place = std::ranges::upper_bound(places, offset, {}, &Place::end);
      for (; place != places.end() && place->begin < offset + bytes; ++place)
        written.insert(place->tensor);
    });
  return written;
}

void validateCopies(const abi::Manifest &manifest, const abi::Role &role) {
  std::set<int> copied;
  for (const abi::Tensor &tensor : manifest.tensors())
    if (tensor.role() == abi::Tensor::COPY)
      copied.insert(tensor.parameter());
  if (copied.empty())
    return;
  std::vector<Place> places = placesOf(manifest, copied);
  std::set<std::string_view> refreshing;
  for (const abi::TimetableEntry &entry : role.refresh())
    refreshing.insert(entry.list());
  std::set<int> refreshed;
  for (const abi::CommandList &list : role.lists()) {
    std::set<int> parameters, copies;
    for (const abi::Tensor *tensor : writtenBy(list, manifest, places))
      (tensor->role() == abi::Tensor::COPY ? copies : parameters).insert(tensor->parameter());
    for (int parameter : parameters)
      if (!copies.contains(parameter))
        refuse(fmt::format("list '{}' writes parameter '{}' and not its copy", list.name(),
                           manifest.parameters(parameter).name()));
    if (refreshing.contains(list.name()))
      refreshed.merge(copies);
  }
  for (int parameter : copied)
    if (!refreshed.contains(parameter))
      refuse(fmt::format("parameter '{}' has a copy, and nothing makes that of what the host writes",
                         manifest.parameters(parameter).name()));
}

} // namespace dtc
