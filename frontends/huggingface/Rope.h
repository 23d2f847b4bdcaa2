// What config.json says about rotary positions, by the keys and with the defaults of transformers' modeling_rope_utils.
#pragma once

#include "frontends/huggingface/Config.h"

#include <span>

namespace dtc::huggingface {

/// Frequencies of rotary positions, before the size of a head is known.
class Rope {
public:
  static Rope plain(double theta, double share = 1) {
    Rope rope;
    rope.theta = theta, rope.share = share;
    return rope;
  }
  /// Reads the entries of an object such as rope_scaling into this one, whose values count where the object lacks them.
  /// `positions` is the number of trained positions where the object does not say. The object may ask only for one of
  /// `types`.
  void read(Config &entries, int64_t positions, std::span<const std::string_view> types);

  ModelBuilder::Rotary of(int64_t headDim) const;
  /// Throws unless an even number of a head's elements is rotated; `key` names the share.
  void check(const Config &config, int64_t headDim, std::string_view key) const;

private:
  abi::RotaryScaling yarn(int64_t width) const;
  abi::RotaryScaling llama3() const;
  int64_t turningWidth(int64_t headDim) const;
  void readYarn(Config &entries);
  void readLlama3(Config &entries);

  double theta = 0, share = 1; ///< each family gives a base
  std::string type = "default";
  double factor = 1, trained = 0;       ///< positions that the model was trained for, before they were stretched
  double lowFactor = 0, highFactor = 0; ///< of llama3, which has no defaults
  double fast = 32, slow = 1;           ///< of yarn: turns within the trained positions; these are the defaults
  double amplitude = 1;
  bool truncates = true;
};

/// What a family knows about rotary positions.
struct RopeKeys {
  static constexpr std::string_view allTypes[] = {"default", "linear", "llama3", "yarn"};

  std::string_view theta = "rope_theta";
  std::string_view share = "";                        ///< the key of the share of a head that is rotated; empty: all is
  std::span<const std::string_view> types = allTypes; ///< that may stretch positions
};

/// Reads a config that says one thing for all layers: theta and rope_scaling in older files, rope_parameters in newer
/// ones.
Rope readRope(Config &config, int64_t positions, const RopeKeys &keys = {});

} // namespace dtc::huggingface
