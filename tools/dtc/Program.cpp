// What the verbs that look into a compiled program share.
#include "tools/dtc/Program.h"

#include "runtime/abi/commands.h"
#include "runtime/abi/marks.h"
#include "runtime/abi/mesh.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/timetables.h"
#include "runtime/executor/validate.h"
#include "runtime/program/start/command_line.h"
#include "runtime/support/product.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

using namespace dtc;

abi::Manifest dtc::readManifest(const std::string &path) {
  ProgramFile file(path);
  return parseManifest(file.manifest(), path);
}

int64_t dtc::axisSize(const std::string &mesh, const std::string &axis) {
  int64_t size = 1;
  for (const std::string &part : CLI::detail::split(mesh, ','))
    if (part.starts_with(axis + "="))
      parseWhole(part.substr(axis.size() + 1), size);
  return std::max<int64_t>(size, 1);
}

std::string dtc::meshText(const abi::Mesh &mesh) {
  std::string text;
  for (const abi::Axis &axis : mesh.axes())
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", axis.name(), axis.size());
  return text;
}

std::string dtc::axesText(const google::protobuf::RepeatedPtrField<abi::AxisRef> &axes, const abi::Mesh &mesh) {
  auto isWhole = [&](const abi::AxisRef &ref) {
    for (const abi::Axis &axis : mesh.axes())
      if (axis.name() == ref.axis())
        return ref.pre() == 1 && ref.size() == axis.size();
    return false;
  };
  std::string text;
  for (const abi::AxisRef &ref : axes) {
    text += (text.empty() ? "" : " x ") + ref.axis();
    if (!isWhole(ref))
      text += fmt::format(":({}){}", ref.pre(), ref.size());
  }
  return text.empty() ? "no axis" : text;
}

std::string dtc::groupText(const abi::Group &group, const abi::Mesh &mesh) {
  std::string text = axesText(group.axes(), mesh);
  return group.members().empty() ? text : text + fmt::format(" {{{}}}", fmt::join(group.members(), ", "));
}

std::string dtc::shardingText(const abi::Tensor &tensor,
                              const google::protobuf::RepeatedPtrField<std::string> &dimNames, const abi::Mesh &mesh) {
  std::string text;
  for (int dim = 0; dim < tensor.global_shape_size(); ++dim) {
    text += dim ? ", " : "";
    text += dim < dimNames.size() ? dimNames.Get(dim) : fmt::format("{}", tensor.global_shape(dim));
    bool split = dim < tensor.sharding().dims_size() && tensor.sharding().dims(dim).axes_size() > 0;
    text += split ? "/" + axesText(tensor.sharding().dims(dim).axes(), mesh) : "";
  }
  if (tensor.sharding().partial_size() > 0)
    text += " partial over " + axesText(tensor.sharding().partial(), mesh);
  return text;
}

std::string dtc::bytesText(double bytes) {
  constexpr const char *units[] = {"kB", "MB", "GB", "TB", "PB"};
  constexpr double step = 1000;
  if (bytes < step)
    return fmt::format("{:.0f} bytes", bytes);
  size_t unit = 0;
  bytes /= step;
  while (bytes >= step && unit + 1 < std::size(units)) {
    bytes /= step;
    ++unit;
  }
  return fmt::format("{:.3g} {}", bytes, units[unit]);
}

std::string dtc::shapeText(const google::protobuf::RepeatedField<int64_t> &shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string dtc::kindText(const abi::Collective &collective) {
  return abi::nameOf(collective.kind()) + (abi::hasLogs(collective)  ? " (log_sum_exp)"
                                           : collective.has_counts() ? " (by counts)"
                                                                     : "");
}

std::string dtc::certificateText(const abi::Certificate &certificate) {
  auto count = [](uint64_t number, const char *one, const char *several) {
    return fmt::format("{} {}", number, number == 1 ? one : several);
  };
  std::string text =
      fmt::format("{} in {} that meet in {}", count(certificate.ranks(), "rank", "ranks"),
                  count(certificate.classes(), "class", "classes"), count(certificate.groups(), "group", "groups"));
  for (const abi::JudgedTimetable &judged : certificate.timetables())
    text += fmt::format("; {}: {}, {}", judged.name(), count(judged.steps(), "step", "steps"),
                        count(judged.commands(), "command", "commands"));
  return text + fmt::format(" ({:x})", certificate.judged());
}

std::string dtc::ranksText(int64_t ranks) { return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s"); }

std::string dtc::locationText(const abi::Manifest &manifest, const abi::Command &command) {
  std::string location = abi::locationOf(manifest, command);
  return location.empty() ? "the whole step" : location;
}

int64_t dtc::totalParameters(const abi::Manifest &manifest) {
  int64_t total = 0;
  for (const abi::Parameter &parameter : manifest.parameters())
    total += productOf(parameter.logical_shape());
  return total;
}

int64_t dtc::timesInStep(const abi::Role &role, const abi::CommandList &list) {
  return std::ranges::count(abi::timetableOf(role, abi::stepTimetable).period(), list.name(),
                            [](const abi::TimetableEntry &entry) { return entry.list(); });
}

uint64_t dtc::scratchBytes(const abi::Manifest &manifest) {
  uint64_t most = 0;
  for (const abi::Kernel &kernel : manifest.kernels())
    most = std::max<uint64_t>(most, kernel.scratch_bytes());
  return most;
}

void dtc::printJson(const nlohmann::ordered_json &fields) {
  nlohmann::ordered_json answer = {{"schema", jsonSchema}, {"dtc", DTC_VERSION}};
  answer.update(fields);
  // Names may hold control sequences for a terminal: all but ASCII is written as \u....
  std::string text = answer.dump(2, ' ', /*ensure_ascii=*/true, nlohmann::ordered_json::error_handler_t::replace);
  std::fputs((text + "\n").c_str(), stdout);
}
