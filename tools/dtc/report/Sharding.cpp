#include "tools/dtc/report/Sharding.h"

#include "runtime/abi/mesh.h"
#include "runtime/abi/roles.h"
#include "tools/dtc/Layers.h"
#include "tools/dtc/Program.h"

#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>

namespace dtc {

using Json = nlohmann::ordered_json;

std::string ranksText(const std::vector<int> &ranks) {
  std::string text;
  for (size_t at = 0; at < ranks.size();) {
    // Extends the sequence while the distance stays the same; two ranks are not yet a sequence.
    size_t end = at + 1;
    int stride = end < ranks.size() ? ranks[end] - ranks[at] : 1;
    while (end < ranks.size() && ranks[end] - ranks[end - 1] == stride)
      ++end;
    if (end - at < 3)
      end = at + 1;
    text += text.empty() ? "" : ", ";
    text += fmt::format("{}", ranks[at]);
    if (end - at > 1)
      text += fmt::format("-{}{}", ranks[end - 1], stride == 1 ? "" : fmt::format(" by {}", stride));
    at = end;
  }
  return text;
}

/// The parts of a dimension are numbered over its axes, the first most significant.
static int64_t partsOf(const abi::DimSharding &dim) {
  int64_t parts = 1;
  for (const abi::AxisRef &axis : dim.axes())
    parts *= axis.size();
  return parts;
}

namespace {
/// One parameter: which ranks have which of its parts.
struct Placed {
  const abi::Tensor *tensor = nullptr;
  std::map<std::vector<int64_t>, std::vector<int>> holders; // by the part's number in each dimension

  Json cells() const {
    Json answer = Json::array();
    for (const auto &[part, ranks] : holders)
      answer.push_back({{"part", part}, {"ranks", ranksText(ranks)}});
    return answer;
  }
};
} // namespace

static std::vector<int> ranksOf(const abi::Role &role, int all) {
  std::vector<int> ranks;
  for (const abi::RankRange &range : role.ranks())
    abi::forEachRank(range, [&](uint64_t rank) {
      ranks.push_back(static_cast<int>(rank));
      return true;
    });
  for (int rank = 0; role.ranks().empty() && rank < all; ++rank)
    ranks.push_back(rank);
  return ranks;
}

static std::map<int, Placed> placeParameters(const abi::Manifest &manifest) {
  std::map<int, Placed> all; // by the parameter's number
  Mesh mesh(manifest.mesh());
  for (const abi::Role &role : manifest.roles()) {
    std::vector<int> ranks = ranksOf(role, mesh.ranks());
    for (const abi::Tensor &tensor : role.tensors()) {
      if (tensor.kind() != abi::Tensor::PARAMETER)
        continue;
      Placed &placed = all[tensor.parameter()];
      placed.tensor = &tensor;
      for (int rank : ranks) {
        std::vector<int64_t> part;
        for (int dim = 0; dim < tensor.global_shape_size(); ++dim)
          part.push_back(dim < tensor.sharding().dims_size() ? mesh.indexOf(rank, tensor.sharding().dims(dim).axes())
                                                             : 0);
        placed.holders[part].push_back(rank);
      }
    }
  }
  for (auto &[number, placed] : all)
    for (auto &[part, ranks] : placed.holders)
      std::ranges::sort(ranks);
  return all;
}

static Json dimsJson(const abi::Tensor &tensor, const abi::Parameter &parameter, const abi::Mesh &mesh) {
  Json dims = Json::array();
  for (int dim = 0; dim < tensor.global_shape_size(); ++dim) {
    bool isKnown = dim < tensor.sharding().dims_size();
    const abi::DimSharding &sharding = isKnown ? tensor.sharding().dims(dim) : abi::DimSharding::default_instance();
    dims.push_back({{"name", dim < parameter.dim_names_size() ? parameter.dim_names(dim) : ""},
                    {"size", tensor.global_shape(dim)},
                    {"parts", partsOf(sharding)},
                    {"axes", sharding.axes().empty() ? "" : axesText(sharding.axes(), mesh)}});
  }
  return dims;
}

Json shardingJson(const abi::Manifest &manifest) {
  std::vector<std::string> texts;   // the name and all that is shown about it: equal layers have equal texts
  std::map<std::string, Json> rows; // by the text, without the layer's number
  LayerNames layers(manifest);
  for (const auto &[number, placed] : placeParameters(manifest)) {
    const abi::Parameter &parameter = manifest.parameters(number);
    const auto &local = placed.tensor->local_shape();
    Json row = {{"dims", dimsJson(*placed.tensor, parameter, manifest.mesh())},
                {"local_shape", std::vector<int64_t>(local.begin(), local.end())},
                {"parts", placed.cells()}};
    texts.push_back(parameter.name() + "\n" + row.dump(-1, ' ', false, Json::error_handler_t::replace));
    rows.try_emplace(layers.generalise(texts.back()).text, std::move(row));
  }
  Json answer = Json::array();
  for (const FoldedText &folded : layers.fold(texts)) {
    Json row = {{"name", folded.text.substr(0, folded.text.find('\n'))},
                {"layers", folded.layersText()},
                {"count", folded.count}};
    row.update(rows.at(layers.generalise(folded.text).text));
    answer.push_back(std::move(row));
  }
  return answer;
}

} // namespace dtc
