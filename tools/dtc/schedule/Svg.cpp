// The picture for a browser.
#include "tools/dtc/schedule/Picture.h"

#include <fmt/format.h>

#include <algorithm>

using namespace dtc;
using namespace dtc::timetables;

static constexpr double rowHeight = 22, top = 44, left = 64, barHeight = 18, margin = 12;

/// The rank's first stage has the plain colour, later stages darker shades.
static std::string fillOf(Kind kind, size_t chunk) {
  constexpr const char *fills[4][2] = {
      {"#9ecae9", "#5b9bd0"}, {"#c9a6e0", "#9a6bc0"}, {"#a1d99b", "#62b36a"}, {"#fdd38a", "#f0a73c"}};
  return fills[static_cast<size_t>(kind)][std::min<size_t>(chunk, 1)];
}

static std::string entryText(const Timetable &timetable, size_t rank, size_t at, Interval interval, double scale,
                             size_t chunk, const SvgOptions &options) {
  const std::vector<Entry> &list = timetable.ranks[rank];
  bool isFirst = list[at].withNext, isSecond = at > 0 && list[at - 1].withNext;
  double height = isFirst || isSecond ? barHeight / 2 : barHeight;
  double y = top + static_cast<double>(rank) * rowHeight + (isSecond ? height : 0);
  double x = left + interval.begin * scale, width = (interval.end - interval.begin) * scale;
  std::string text = fmt::format(R"(<rect x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{:.1f}" fill="{}"><title>{}: )"
                                 R"({:.6g} to {:.6g}{}</title></rect>)",
                                 x, y, width, height, fillOf(list[at].kind, chunk), describe(list[at]),
                                 interval.begin * options.factor, interval.end * options.factor, options.unit);
  std::string label = std::to_string(list[at].microBatch);
  constexpr double widthOfDigit = 6.5;
  if (width > widthOfDigit * static_cast<double>(label.size()))
    text += fmt::format(R"(<text x="{:.2f}" y="{:.1f}" font-size="{}" text-anchor="middle">{}</text>)", x + width / 2,
                        y + height / 2 + (height < barHeight ? 3 : 4), height < barHeight ? 8 : 10, label);
  return text + "\n";
}

static std::string legend() {
  std::string text;
  double x = left;
  for (auto [kind, name] : {std::pair{Kind::Forward, "forward (F)"},
                            {Kind::BackwardInput, "input gradient (I)"},
                            {Kind::BackwardWeight, "weight gradients (W)"},
                            {Kind::Backward, "whole backward (B)"}}) {
    text += fmt::format(R"(<rect x="{}" y="26" width="10" height="10" fill="{}"/><text x="{}" y="35">{}</text>)", x,
                        fillOf(kind, 0), x + 14, name);
    x += 140;
  }
  return text + "\n";
}

std::string dtc::scheduleSvg(const Timetable &timetable, const Simulated &simulated, const SvgOptions &options) {
  constexpr double least = 700, perEntry = 16;
  size_t longest = 0;
  for (const std::vector<Entry> &list : timetable.ranks)
    longest = std::max(longest, list.size());
  double drawn = std::max(least, perEntry * static_cast<double>(longest));
  double scale = drawn / std::max(options.seconds, simulated.seconds);
  double width = left + drawn + margin, height = top + rowHeight * static_cast<double>(timetable.ranks.size()) + margin;
  std::string text = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" width="{0:.0f}" height="{1:.0f}" )"
      R"(font-family="sans-serif" font-size="11">)"
      "\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      R"(<text x="{2}" y="16">{3} stages, {4} ranks, {5} micro-batches: bubble overhead {6:.3g}, fraction {7:.3g})"
      "</text>\n",
      width, height, left, timetable.stages(), timetable.ranks.size(), timetable.microBatches,
      simulated.bubbleOverhead(), simulated.bubbleFraction());
  text += legend();
  for (size_t rank = 0; rank < timetable.ranks.size(); ++rank) {
    double y = top + static_cast<double>(rank) * rowHeight;
    int64_t number = options.rankNumbers.empty() ? static_cast<int64_t>(rank) : options.rankNumbers[rank];
    text += fmt::format(R"(<text x="{}" y="{:.1f}">rank {}</text>)", margin, y + 13, number);
    text += fmt::format(R"(<rect x="{}" y="{:.1f}" width="{:.2f}" height="{}" fill="#eeeeee"/>)"
                        "\n",
                        left, y, simulated.seconds * scale, barHeight);
    std::vector<int32_t> stages = stagesOf(timetable, static_cast<int32_t>(rank));
    for (size_t at = 0; at < timetable.ranks[rank].size(); ++at) {
      auto chunk = std::ranges::find(stages, timetable.ranks[rank][at].stage) - stages.begin();
      text +=
          entryText(timetable, rank, at, simulated.entries[rank][at], scale, static_cast<size_t>(chunk), options);
    }
  }
  return text + "</svg>\n";
}
