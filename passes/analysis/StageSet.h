// A set of stages of a pipeline, or of ranks along it.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtc {

/// How many stages a pipeline may have. Their numbers begin at 0.
inline constexpr int64_t mostStages = 128;

class StageSet {
public:
  constexpr StageSet() = default;

  /// Empty if no stage can have that number.
  static constexpr StageSet of(int64_t number) {
    StageSet set;
    if (isPossible(number))
      set.words[wordOf(number)] = bitOf(number);
    return set;
  }
  /// All numbers below `count`, which may be mostStages.
  static constexpr StageSet below(int64_t count) {
    StageSet set;
    for (int64_t number = 0; number < count; ++number)
      set |= of(number);
    return set;
  }

  constexpr bool contains(int64_t number) const {
    return isPossible(number) && (words[wordOf(number)] & bitOf(number)) != 0;
  }
  constexpr bool isEmpty() const { return *this == StageSet(); }
  constexpr bool hasOne() const { return size() == 1; }
  constexpr int64_t size() const {
    int64_t count = 0;
    for (uint64_t word : words)
      count += std::popcount(word);
    return count;
  }
  /// The lowest number; mostStages if the set is empty.
  constexpr int64_t first() const {
    for (size_t i = 0; i < words.size(); ++i)
      if (words[i] != 0)
        return static_cast<int64_t>(i) * bitsOfWord + std::countr_zero(words[i]);
    return mostStages;
  }
  /// The highest number; -1 if the set is empty.
  constexpr int64_t last() const {
    for (size_t i = words.size(); i-- > 0;)
      if (words[i] != 0)
        return static_cast<int64_t>(i + 1) * bitsOfWord - 1 - std::countl_zero(words[i]);
    return -1;
  }
  /// All of them, ascending.
  std::vector<int64_t> numbers() const {
    std::vector<int64_t> all;
    for (size_t i = 0; i < words.size(); ++i)
      for (uint64_t left = words[i]; left != 0; left &= left - 1)
        all.push_back(static_cast<int64_t>(i) * bitsOfWord + std::countr_zero(left));
    return all;
  }

  constexpr StageSet &operator|=(StageSet other) {
    for (size_t i = 0; i < words.size(); ++i)
      words[i] |= other.words[i];
    return *this;
  }
  constexpr StageSet &operator&=(StageSet other) {
    for (size_t i = 0; i < words.size(); ++i)
      words[i] &= other.words[i];
    return *this;
  }
  friend constexpr StageSet operator|(StageSet one, StageSet other) { return one |= other; }
  friend constexpr StageSet operator&(StageSet one, StageSet other) { return one &= other; }
  constexpr bool operator==(const StageSet &) const = default;

private:
  static constexpr int64_t bitsOfWord = 64;
  static constexpr bool isPossible(int64_t number) { return number >= 0 && number < mostStages; }
  static constexpr size_t wordOf(int64_t number) { return static_cast<size_t>(number / bitsOfWord); }
  static constexpr uint64_t bitOf(int64_t number) { return uint64_t(1) << (number % bitsOfWord); }

  std::array<uint64_t, mostStages / bitsOfWord> words{};
};

} // namespace dtc
