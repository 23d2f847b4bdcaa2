// The picture for a terminal.
#include "tools/dtc/schedule/Picture.h"
#include "tools/dtc/Colour.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sys/ioctl.h>
#include <unistd.h>

using namespace dtc;
using namespace dtc::timetables;

size_t dtc::terminalColumns() {
  constexpr size_t usual = 120, least = 40;
  winsize size{};
  bool isKnown = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return isKnown ? std::max<size_t>(size.ws_col, least) : usual;
}

static Paint paintOf(Kind kind) {
  switch (kind) {
  case Kind::Forward:
    return Paint::Blue;
  case Kind::Backward:
    return Paint::Magenta;
  case Kind::BackwardInput:
    return Paint::Cyan;
  case Kind::BackwardWeight:
    return Paint::Yellow;
  }
  return Paint::None;
}

namespace {

/// Columns of one entry, or of a wait.
struct Stretch {
  std::string text;
  Paint paint = Paint::None;
};

class Row {
public:
  Row(double columnsPerSecond, bool hasColour) : scale(columnsPerSecond), hasColour(hasColour) {}

  void add(const Entry &entry, Interval interval) {
    size_t begin = columnOf(interval.begin), end = columnOf(interval.end);
    if (end <= drawn)
      return; // its column is already taken
    if (begin > drawn) {
      stretches.push_back({std::string(begin - drawn, hasColour ? ' ' : '.'), Paint::None});
      drawn = begin;
    }
    stretches.push_back({labelOf(entry, end - drawn), paintOf(entry.kind)});
    drawn = end;
  }

  void print(const std::string &name) const {
    say("{} ", name);
    for (const auto &[text, paint] : stretches)
      sayPainted(text, paint);
    say("\n");
  }

private:
  size_t columnOf(double seconds) const { return static_cast<size_t>(std::llround(seconds * scale)); }

  /// The micro-batch's number, where there is room for it.
  std::string labelOf(const Entry &entry, size_t columns) const {
    std::string letter(1, letterOf(entry.kind)), number = std::to_string(entry.microBatch);
    if (hasColour)
      return fmt::format("{:<{}}", number.size() <= columns ? number : "", columns);
    std::string label = letter + number;
    return label.size() <= columns ? label + std::string(columns - label.size(), '-')
                                   : std::string(columns, letter.front());
  }

  double scale;
  bool hasColour;
  size_t drawn = 0; ///< columns
  std::vector<Stretch> stretches;
};

} // namespace

/// Enough columns for the shortest entries to be whole columns wide, where there are enough.
static double columnsPerSecond(const Simulated &simulated, size_t width) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const std::vector<Interval> &entries : simulated.entries)
    for (const auto &[begin, end] : entries)
      if (end > begin)
        shortest = std::min(shortest, end - begin);
  double most = static_cast<double>(width) / simulated.seconds, whole = std::floor(most * shortest);
  constexpr double enough = 4;
  return whole >= 1 && std::isfinite(whole) ? std::min(whole, enough) / shortest : most;
}

/// Of two co-scheduled entries, one is drawn in the first half of their time and the other in the second half.
static Interval shown(const Timetable &timetable, const Simulated &simulated, size_t rank, size_t at) {
  Interval interval = simulated.entries[rank][at];
  double middle = (interval.begin + interval.end) / 2;
  if (timetable.ranks[rank][at].withNext)
    interval.end = middle;
  else if (at > 0 && timetable.ranks[rank][at - 1].withNext)
    interval.begin = middle;
  return interval;
}

void dtc::drawSchedule(const Timetable &timetable, const Simulated &simulated, size_t width) {
  bool hasColour = hasColours(stdout);
  size_t digits = std::to_string(timetable.ranks.size() - 1).size();
  size_t nameWidth = std::string("rank ").size() + digits + 1;
  double scale = columnsPerSecond(simulated, width > nameWidth ? width - nameWidth : 1);
  for (size_t rank = 0; rank < timetable.ranks.size(); ++rank) {
    Row row(scale, hasColour);
    for (size_t at = 0; at < timetable.ranks[rank].size(); ++at)
      row.add(timetable.ranks[rank][at], shown(timetable, simulated, rank, at));
    row.print(fmt::format("rank {:>{}}", rank, digits));
  }
  say("{}", std::string(nameWidth, ' '));
  for (auto [kind, name] : {std::pair{Kind::Forward, "F forward"},
                            {Kind::BackwardInput, "I input gradient"},
                            {Kind::BackwardWeight, "W weight gradients"},
                            {Kind::Backward, "B backward, whole"}}) {
    sayPainted(fmt::format(" {} ", name), paintOf(kind));
    say(" ");
  }
  say("\n");
}
