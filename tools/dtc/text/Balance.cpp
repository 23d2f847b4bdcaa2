#include "tools/dtc/text/Balance.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace dtc {

namespace {

/// The samples that still have room, those that need the longest documents first.
class OpenSamples {
public:
  OpenSamples(std::span<const size_t> lengths, size_t window) : window(window) {
    double tokens = 0, squares = 0;
    for (size_t length : lengths) {
      tokens += static_cast<double>(length);
      squares += square(length);
    }
    size_t count = (static_cast<size_t>(tokens) + window - 1) / window;
    share = squares / static_cast<double>(std::max<size_t>(count, 1));
    shortest = lengths.empty() ? 0 : *std::ranges::min_element(lengths);
    for (size_t i = 0; i < count; ++i)
      open();
  }

  void put(size_t document, size_t length) {
    auto place = std::ranges::find_if(
        order, [&](const std::pair<double, size_t> &each) { return samples[each.second].room >= length; });
    if (place == order.end())
      place = open();
    size_t number = place->second;
    order.erase(place);
    Sample &sample = samples[number];
    sample.documents.push_back(document);
    sample.room -= length;
    sample.cost += square(length);
    if (sample.room >= shortest && sample.room > 0)
      order.insert(keyOf(number));
  }

  std::vector<std::vector<size_t>> take() {
    std::vector<std::vector<size_t>> documents;
    for (Sample &sample : samples) {
      std::ranges::sort(sample.documents);
      if (!sample.documents.empty())
        documents.push_back(std::move(sample.documents));
    }
    return documents;
  }

private:
  struct Sample {
    std::vector<size_t> documents;
    size_t room = 0;
    double cost = 0;
  };
  using Order = std::set<std::pair<double, size_t>>;

  static double square(size_t length) { return static_cast<double>(length) * static_cast<double>(length); }

  Order::iterator open() {
    samples.push_back({{}, window, 0});
    return order.insert(keyOf(samples.size() - 1)).first;
  }

  /// What it needs for each token of its room, negative so that the neediest comes first; then its number.
  std::pair<double, size_t> keyOf(size_t number) const {
    const Sample &sample = samples[number];
    return {(sample.cost - share) / static_cast<double>(sample.room), number};
  }

  size_t window, shortest = 0;
  double share = 0;
  std::vector<Sample> samples;
  Order order;
};

} // namespace

std::vector<std::vector<size_t>> balancedSamples(std::span<const size_t> lengths, size_t window) {
  std::vector<size_t> longestFirst(lengths.size());
  std::iota(longestFirst.begin(), longestFirst.end(), size_t(0));
  std::ranges::sort(longestFirst, [&](size_t one, size_t other) {
    return lengths[one] != lengths[other] ? lengths[one] > lengths[other] : one < other;
  });
  OpenSamples open(lengths, window);
  for (size_t document : longestFirst)
    open.put(document, lengths[document]);
  return open.take();
}

} // namespace dtc
