// Equal layers are shown once.
#include "tools/dtc/Layers.h"

#include "runtime/abi/marks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <optional>

using namespace dtc;

/// Characters of a name in the model; dots separate its parts.
static bool isNameChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

std::string FoldedText::layersText() const {
  if (layers.empty())
    return "";
  int64_t first = *layers.begin(), last = *layers.rbegin();
  bool isRange = layers.size() > 2 && last - first + 1 == static_cast<int64_t>(layers.size());
  if (isRange)
    return fmt::format("{0}.{1} to {0}.{2}", stem, first, last);
  std::vector<std::string> names;
  for (int64_t layer : layers)
    names.push_back(fmt::format("{}.{}", stem, layer));
  return fmt::format("{}", fmt::join(names, ", "));
}

LayerNames::LayerNames(const abi::Manifest &manifest) {
  for (const abi::Layer &layer : manifest.layers())
    layers.try_emplace(abi::nameOf(layer), layer.list(), layer.number());
}

FoldedText LayerNames::generalise(const std::string &text) const {
  FoldedText folded;
  std::optional<int64_t> base;
  for (size_t at = 0; at < text.size();) {
    if (!isNameChar(text[at])) {
      folded.text += text[at++];
      continue;
    }
    size_t end = std::find_if_not(text.begin() + at, text.end(), isNameChar) - text.begin();
    std::string word = text.substr(at, end - at);
    at = end;
    // The layer is the longest prefix of the word, in whole parts, that names one.
    auto layer = layers.end();
    size_t length = word.size();
    for (; layer == layers.end() && length != std::string::npos && length > 0;)
      if (layer = layers.find(word.substr(0, length)); layer == layers.end())
        length = word.rfind('.', length - 1);
    if (layer == layers.end()) {
      folded.text += word;
      continue;
    }
    const auto &[stem, number] = layer->second;
    if (!base) {
      base = number;
      folded.stem = stem;
      folded.layers.insert(number);
    }
    // A layer of another family keeps its number.
    if (stem != folded.stem)
      folded.text += word;
    else if (number == *base)
      folded.text += stem + ".*" + word.substr(length);
    else
      folded.text += fmt::format("{}.*{:+d}{}", stem, number - *base, word.substr(length));
  }
  return folded;
}

std::vector<FoldedText> LayerNames::fold(const std::vector<std::string> &texts) const {
  std::vector<FoldedText> result;
  std::vector<const std::string *> firsts;
  std::map<std::string, size_t> places;
  for (const std::string &text : texts) {
    FoldedText folded = generalise(text);
    auto [place, isNew] = places.try_emplace(folded.text, result.size());
    if (isNew) {
      result.push_back(folded);
      firsts.push_back(&text);
    }
    result[place->second].layers.merge(folded.layers);
    ++result[place->second].count;
  }
  for (size_t i = 0; i < result.size(); ++i)
    if (result[i].layers.size() == 1) {
      result[i].text = *firsts[i];
      result[i].layers.clear();
    }
  return result;
}
