#include "tools/dtc/forecast/ForecastTrace.h"

#include "runtime/abi/resolve.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/timetables.h"

#include <cmath>

namespace dtc {

struct ForecastTrace::OfClass {
  OfClass(const abi::Manifest &manifest, int rank)
      : role(abi::roleOf(manifest, rank)), resolver(manifest, role),
        entries(abi::unroll(abi::timetableOf(role, abi::stepTimetable), 1)), trace(manifest, rank) {}

  /// The list of an entry, with the names that it has there.
  const abi::CommandList &listOf(int64_t number) {
    const abi::TimetableEntry &entry = *entries[static_cast<size_t>(number)].entry;
    auto [list, isNew] = lists.try_emplace(abi::instanceOf(entry));
    if (isNew)
      list->second = resolver.resolve(entry);
    return list->second;
  }

  const abi::Role &role;
  abi::Resolver resolver;
  abi::Unrolled entries;
  std::map<std::string, abi::CommandList> lists;
  Trace trace;
};

ForecastTrace::ForecastTrace(const abi::Manifest &manifest, const timing::EqualRanks &classes) {
  for (int number = 0; number < classes.count(); ++number)
    ofClasses.push_back(std::make_unique<OfClass>(manifest, classes.representativeOf(number)));
}
ForecastTrace::~ForecastTrace() = default;

static int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

void ForecastTrace::executed(const timing::Executed &executed) {
  OfClass &own = *ofClasses[static_cast<size_t>(executed.ofClass)];
  const abi::CommandList &list = own.listOf(executed.entry);
  own.trace.executed({list.commands(static_cast<int>(executed.command)), list.name(), executed.command,
                      nanoseconds(executed.begin), nanoseconds(executed.end), executed.isStart});
}

void ForecastTrace::write(const std::string &path, double seconds) {
  TraceFile file(path);
  for (auto &own : ofClasses) {
    own->trace.step(1, 0, nanoseconds(seconds));
    file.append(own->trace.events());
  }
  file.publish();
}

} // namespace dtc
