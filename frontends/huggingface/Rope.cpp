#include "frontends/huggingface/Rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

using namespace dtc;
using namespace dtc::huggingface;

static double atLeastOne(Config &entries, std::string_view key) {
  double value = entries.number(key);
  if (value < 1)
    entries.fail(key, fmt::format("must be at least 1, is {}", value));
  return value;
}

static double positive(Config &entries, std::string_view key, double absent) {
  double value = entries.has(key) ? entries.number(key) : absent;
  if (!(value > 0))
    entries.fail(key, fmt::format("must be greater than 0, is {}", value));
  return value;
}

/// How much attention's scores grow with stretched positions: Peng et al., arXiv:2309.00071, equation 22.
static double magnitude(double factor, double weight) { return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1; }

void Rope::readYarn(Config &entries) {
  fast = positive(entries, "beta_fast", fast);
  slow = positive(entries, "beta_slow", slow);
  truncates = entries.has("truncate") ? entries.flag("truncate") : truncates;
  double scale = entries.has("mscale") ? entries.number("mscale") : 0;
  double allScale = entries.has("mscale_all_dim") ? entries.number("mscale_all_dim") : 0;
  bool isRelative = scale != 0 && allScale != 0;
  double usual = isRelative ? magnitude(factor, scale) / magnitude(factor, allScale) : magnitude(factor, 1);
  amplitude = positive(entries, "attention_factor", usual);
}

void Rope::readLlama3(Config &entries) {
  lowFactor = positive(entries, "low_freq_factor", 0);
  highFactor = entries.number("high_freq_factor");
  if (!(highFactor > lowFactor))
    entries.fail("high_freq_factor",
                 fmt::format("must be greater than low_freq_factor, {}, is {}", lowFactor, highFactor));
}

void Rope::read(Config &entries, int64_t positions, std::span<const std::string_view> types) {
  entries.mustNotBeNull("rope_theta");
  if (entries.has("rope_theta"))
    theta = entries.number("rope_theta");
  for (std::string_view key : {"type", "rope_type"}) // the second counts where the file has both
    if (entries.has(key))
      type = entries.word(key);
  if (std::find(types.begin(), types.end(), type) == types.end())
    entries.fail("rope_type", fmt::format("asks for rotary scaling '{}', which is not supported for this model family "
                                          "(supported: {})",
                                          type, fmt::join(types, ", ")));
  if (type != "default")
    factor = atLeastOne(entries, "factor");
  if (type == "llama3" || type == "yarn")
    trained = static_cast<double>(entries.size("original_max_position_embeddings", positions));
  if (type == "llama3")
    readLlama3(entries);
  if (type == "yarn")
    readYarn(entries);
  entries.checkAllUsed();
}

int64_t Rope::turningWidth(int64_t headDim) const { return static_cast<int64_t>(static_cast<double>(headDim) * share); }

void Rope::check(const Config &config, int64_t headDim, std::string_view key) const {
  if (!(theta > 1))
    config.fail("rope_theta", fmt::format("must be greater than 1, is {}", theta));
  int64_t width = turningWidth(headDim);
  if (width < 2 || width % 2 != 0)
    config.fail(key,
                fmt::format("makes rotary positions turn {} elements of each head's {}; they turn pairs, so it must "
                            "be an even number from 2 on",
                            width, headDim));
}

/// The share of a frequency that is kept rises from 0 to 1 between `low` and `high` turns within the trained positions.
abi::RotaryScaling Rope::llama3() const {
  double range = highFactor - lowFactor;
  return {factor, trained / (2 * std::numbers::pi) / range, 0, -lowFactor / range, 1};
}

/// The share falls from 1 to 0 between the pair that turns `fast` times and the one that turns `slow` times.
abi::RotaryScaling Rope::yarn(int64_t width) const {
  auto pairOf = [&](double turns) {
    return static_cast<double>(width) * std::log(trained / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  double first = pairOf(fast), last = pairOf(slow);
  if (truncates)
    first = std::floor(first), last = std::ceil(last);
  first = std::max(first, 0.0), last = std::min(last, static_cast<double>(width - 1));
  if (first == last)
    last += 0.001;
  return {factor, 0, -1 / (last - first), 1 + first / (last - first), amplitude};
}

ModelBuilder::Rotary Rope::of(int64_t headDim) const {
  int64_t width = std::max<int64_t>(turningWidth(headDim), 2);
  ModelBuilder::Rotary rotary{theta, width / 2, {}};
  if (type == "linear")
    rotary.scaling = abi::RotaryScaling{factor, 0, 0, 0, 1};
  else if (type == "llama3")
    rotary.scaling = llama3();
  else if (type == "yarn")
    rotary.scaling = yarn(width);
  return rotary;
}

Rope dtc::huggingface::readRope(Config &config, int64_t positions, const RopeKeys &keys) {
  double share = 1;
  auto readShare = [&](Config &from, std::string_view key) {
    if (!keys.share.empty() && from.has(key))
      share = from.number(key);
    if (!(share > 0 && share <= 1))
      from.fail(key, fmt::format("must be greater than 0 and at most 1, is {}", share));
  };
  readShare(config, keys.share);
  double theta = config.number(keys.theta);
  std::optional<Config> older = config.nested("rope_scaling"), newer = config.nested("rope_parameters");
  if (older && newer)
    config.fail("rope_parameters", "is given together with rope_scaling, which means the same; keep only one");
  std::optional<Config> &entries = older ? older : newer;
  if (!entries)
    return Rope::plain(theta, share);
  readShare(*entries, "partial_rotary_factor");
  Rope rope = Rope::plain(theta, share);
  rope.read(*entries, positions, keys.types);
  return rope;
}
