#include "tools/dtc/forecast/MeasuredTrace.h"

#include "runtime/abi/error.h"
#include "runtime/abi/mapped_file.h"
#include "timing/events/step.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace dtc {

using nlohmann::json;

/// Between two commands; more is the host's, between lists.
static constexpr double LongestGap = 20e-6;

struct MeasuredTrace::Slice {
  int64_t rank = 0;
  enum Kind { Kernel, Other, Moved, Step } kind = Other; ///< Other: of compute too, a start or a wait
  std::string list;
  uint32_t command = 0;
  double begin = 0, end = 0; ///< seconds
};

const abi::Command &MeasuredTrace::commandOf(const Slice &slice) const {
  auto list = lists.find(slice.list);
  if (list == lists.end() || slice.command >= static_cast<uint32_t>(list->second->commands_size()))
    throw Error(ExitCode::BadInput,
                fmt::format("{}: it has command {} of list '{}', which the program has not: it is the trace of another "
                            "program",
                            path, slice.command, slice.list));
  return list->second->commands(static_cast<int>(slice.command));
}

static bool isOneOf(const std::string &word, std::initializer_list<const char *> words) {
  return std::ranges::find(words, word) != words.end();
}

MeasuredTrace::MeasuredTrace(const abi::Manifest &manifest, const std::string &path) : path(path) {
  for (const abi::CommandList &list : manifest.lists())
    lists.emplace(list.name(), &list);
  std::vector<Slice> slices;
  read(path, slices);
  std::map<int64_t, std::vector<const Slice *>> compute;
  for (const Slice &slice : slices)
    if (slice.kind != Slice::Moved)
      compute[slice.rank].push_back(&slice);
  for (auto &[rank, ofRank] : compute) {
    std::ranges::sort(ofRank, {}, &Slice::begin);
    addKernels(ofRank);
    addHosts(ofRank);
  }
}

void MeasuredTrace::read(const std::string &path, std::vector<Slice> &slices) {
  json trace = json::parse(MappedFile(path).text(), nullptr, /*allow_exceptions=*/false);
  if (!trace.is_object() || !trace["traceEvents"].is_array())
    throw Error(ExitCode::BadInput, path + ": this is no trace; a run writes one with --trace 3-5");
  constexpr double Micro = 1e-6;
  std::map<std::string, double> longest; // of steps, by name
  for (const json &event : trace["traceEvents"]) {
    if (event.value("ph", "") != "X")
      continue;
    std::string category = event.value("cat", "");
    double begin = event.value("ts", 0.0) * Micro, seconds = event.value("dur", 0.0) * Micro;
    if (category == "step") {
      double &known = longest[event.value("name", "")];
      known = std::max(known, seconds);
      slices.push_back({event.value("pid", int64_t(0)), Slice::Step, "", 0, begin, begin + seconds});
      continue;
    }
    bool isMoved = isOneOf(category, {"collective", "transfer"});
    const json &arguments = event.at("args");
    slices.push_back({event.value("pid", int64_t(0)),
                      isMoved                                 ? Slice::Moved
                      : isOneOf(category, {"kernel", "copy"}) ? Slice::Kernel
                                                              : Slice::Other,
                      arguments.value("list", ""), arguments.value("command", 0U), begin, begin + seconds});
  }
  for (auto &[name, seconds] : longest)
    stepSeconds.push_back(seconds);
}

void MeasuredTrace::addKernels(const std::vector<const Slice *> &ordered) {
  for (size_t i = 0; i < ordered.size(); ++i) {
    const Slice &slice = *ordered[i];
    if (slice.kind != Slice::Kernel)
      continue;
    const abi::Command &command = commandOf(slice);
    if (!command.has_launch() && !command.has_copy())
      continue;
    auto next = std::find_if(ordered.begin() + static_cast<ptrdiff_t>(i) + 1, ordered.end(),
                             [](const Slice *each) { return each->kind != Slice::Step; });
    bool isClose = next != ordered.end() && (*next)->begin - slice.end < LongestGap;
    double seconds = std::max(isClose ? (*next)->begin : slice.end, slice.end) - slice.begin;
    observations.push_back({timing::workOf(command), seconds});
    secondsOf[{slice.list, slice.command}].push_back(seconds);
  }
}

/// A step lasts longer than its commands with what lies between these, as far as that counts with them.
void MeasuredTrace::addHosts(const std::vector<const Slice *> &ordered) {
  for (const Slice *step : ordered) {
    if (step->kind != Slice::Step)
      continue;
    double covered = 0, until = step->begin;
    for (const Slice *slice : ordered)
      if (slice->kind != Slice::Step && slice->begin >= step->begin && slice->end <= step->end) {
        double begin = slice->begin - until < LongestGap ? until : slice->begin;
        covered += std::max(0.0, slice->end - std::max(begin, until));
        until = std::max(until, slice->end);
      }
    hostSeconds.push_back(step->end - step->begin - covered);
  }
}

std::map<std::pair<std::string, uint32_t>, double> MeasuredTrace::medians() const {
  std::map<Place, double> all;
  for (const auto &[place, seconds] : secondsOf)
    all[place] = timing::median(seconds);
  return all;
}

} // namespace dtc
