#include "timing/plans/candidate.h"

#include <algorithm>
#include <fmt/format.h>

namespace dtc::plans {

int64_t Candidate::sizeOf(std::string_view axis) const {
  auto found = std::find_if(mesh.begin(), mesh.end(), [&](const MeshAxis &each) { return each.name == axis; });
  return found == mesh.end() ? 1 : found->size;
}

int64_t Candidate::devices() const {
  int64_t product = 1;
  for (const MeshAxis &axis : mesh)
    product *= axis.size;
  return product;
}

std::string Candidate::meshText() const {
  std::string text;
  for (const MeshAxis &axis : mesh)
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", axis.name, axis.size);
  return text.empty() ? "dp=1" : text;
}

/// All presets but ddp split tensors where the mesh has tp. It is said all the same, since a reader does not know that.
std::string Candidate::strategyText() const {
  std::string text;
  auto add = [&](std::string_view preset) { text += fmt::format("{}{}", text.empty() ? "" : "+", preset); };
  if (sizeOf("tp") > 1)
    add(splitsSequence ? "megatron-sp" : "megatron");
  if (sizeOf("cp") > 1)
    add("cp");
  if (state != "ddp")
    add(state);
  return text.empty() ? "ddp" : text;
}

std::string Candidate::text() const {
  bool isPipeline = sizeOf("pp") > 1;
  std::string text = fmt::format("{}, {}", meshText(), strategyText());
  if (isPipeline)
    text += ", " + timetable;
  if (isPipeline || microBatches > 1)
    text += fmt::format(", {} micro-batch{}", microBatches, microBatches == 1 ? "" : "es");
  if (recompute != Candidate().recompute)
    text += ", recompute " + recompute;
  return text;
}

} // namespace dtc::plans
