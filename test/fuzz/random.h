// Repeatable choices: mutant i of seed s is the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtc::fuzz {

/// Steele, Lea and Flood's SplitMix64 (2014).
class Random {
public:
  Random(uint64_t seed, uint64_t mutant) : state(seed * 0x9e3779b97f4a7c15u + mutant) { next(), next(); }

  uint64_t next() {
    uint64_t mixed = state += 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return mixed ^ mixed >> 31;
  }
  /// In [0, bound); 0 for a bound of 0.
  size_t below(size_t bound) { return bound ? next() % bound : 0; }
  bool oneIn(size_t n) { return below(n) == 0; }
  template <typename Range> const auto &pick(const Range &range) {
    return *(std::begin(range) + below(std::size(range)));
  }

private:
  uint64_t state;
};

/// Numbers at the edges of types and formats.
inline uint64_t edgeNumber(Random &random) {
  constexpr uint64_t edges[] = {0,
                                1,
                                2,
                                3,
                                7,
                                8,
                                63,
                                64,
                                127,
                                255,
                                256,
                                32767,
                                65535,
                                65536,
                                (1u << 20) + 1,
                                0x7fffffff,
                                0x80000000,
                                0xffffffff,
                                0x100000000,
                                (1ull << 40) + 4,
                                (1ull << 46) + 4,
                                1ull << 53,
                                1ull << 61,
                                ~0ull >> 1,
                                1ull << 63,
                                ~0ull - 3,
                                ~0ull - 1,
                                ~0ull};
  uint64_t edge = random.pick(edges);
  return random.oneIn(4) ? ~edge + 1 : edge;
}

} // namespace dtc::fuzz
