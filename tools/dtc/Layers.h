// Equal layers are shown once: a text about layer h.3 becomes one about h.*, and texts that are equal then are merged.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace dtc {

/// Texts that say the same about different layers.
struct FoldedText {
  std::string text;         ///< with "*" for the layer's number, "*+1" for the next one's
  std::set<int64_t> layers; ///< numbers for which "*" stands; empty where the text names no layer
  std::string stem;         ///< "h" for layers "h.0", "h.1", ...
  int64_t count = 0;        ///< how many texts it replaces

  /// "h.0 to h.3", "h.0, h.2"; empty without layers.
  std::string layersText() const;
};

class LayerNames {
public:
  /// The layers are the program's.
  explicit LayerNames(const abi::Manifest &manifest);

  /// Each of the equal texts once, in the order of their first appearance. A text with only one layer keeps its number.
  std::vector<FoldedText> fold(const std::vector<std::string> &texts) const;

  /// One text with "*" for its layer, whether or not other texts are equal to it then.
  FoldedText generalise(const std::string &text) const;

private:
  std::map<std::string, std::pair<std::string, int64_t>> layers; // "h.3" to "h" and 3
};

} // namespace dtc
