// Meshes and strategies from text.
#include "passes/place/Annotations.h"
#include "passes/place/Presets.h"
#include "runtime/support/error.h"
#include "runtime/support/mapped_file.h"
#include "runtime/support/toml.h"
#include "runtime/support/toml_limits.h"
#include "llvm/Support/FileSystem.h"

#include <set>

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;

std::string dtc::suggest(StringRef name, ArrayRef<StringRef> candidates) {
  StringRef best;
  unsigned bestDistance = ~0u;
  for (StringRef candidate : candidates) {
    unsigned distance = name.edit_distance(candidate);
    if (distance < bestDistance) {
      bestDistance = distance;
      best = candidate;
    }
  }
  return best.empty() ? "" : " (did you mean '" + best.str() + "'?)";
}

FailureOr<MeshAttr> dtc::parseMesh(MLIRContext *context, StringRef text, ErrorCallback error) {
  SmallVector<AxisAttr> axes;
  SmallVector<StringRef> parts;
  if (!text.empty())
    text.split(parts, ',');
  int64_t ranks = 1;
  for (StringRef part : parts) {
    auto [name, number] = part.trim().split('=');
    int64_t size;
    if (name.empty() || number.getAsInteger(10, size) || size < 1 || size > (1 << 24)) {
      error("mesh '" + text + "': '" + part + "' is not NAME=SIZE with a positive size; write for example dp=2,tp=2");
      return failure();
    }
    for (AxisAttr other : axes)
      if (other.getName() == name) {
        error("mesh '" + text + "' names axis '" + name + "' twice");
        return failure();
      }
    ranks *= size;
    if (ranks > (1 << 24)) {
      error("mesh '" + text + "' has more than 2^24 ranks");
      return failure();
    }
    axes.push_back(AxisAttr::get(context, StringAttr::get(context, name), size));
  }
  return MeshAttr::get(context, axes);
}

FailureOr<AxisRefAttr> dtc::parseAxis(MeshAttr mesh, StringRef text, ErrorCallback error) {
  auto [name, part] = text.split(':');
  int64_t size = mesh.getAxisSize(name);
  if (size == 0) {
    SmallVector<StringRef> names =
        llvm::map_to_vector(mesh.getAxes(), [](AxisAttr a) { return a.getName().getValue(); });
    error("the mesh has no axis '" + name + "'" + suggest(name, names));
    return failure();
  }
  auto axis = StringAttr::get(mesh.getContext(), name);
  if (part.empty())
    return AxisRefAttr::whole(axis);
  auto [preText, sizeText] = part.split(')');
  int64_t pre, partSize;
  if (!preText.consume_front("(") || preText.getAsInteger(10, pre) || sizeText.getAsInteger(10, partSize) || pre < 1 ||
      partSize < 1 || pre > size || partSize > size || size % (pre * partSize) != 0) {
    error("'" + text + "' is not a part of axis '" + name + "' of size " + Twine(size) + "; write for example " + name +
          ":(1)2, where (parts before) times size divides the axis");
    return failure();
  }
  return partSize == size ? AxisRefAttr::whole(axis) : AxisRefAttr::get(mesh.getContext(), axis, pre, partSize);
}

namespace {
/// Reads one strategy file.
class StrategyReader {
public:
  StrategyReader(std::string path, MeshAttr mesh, ArrayRef<ParamAttr> parameters, ErrorCallback error)
      : path(std::move(path)), mesh(mesh), parameters(parameters), error(error) {}

  FailureOr<Annotations> readFile() {
    std::optional<MappedFile> file;
    try {
      file.emplace(path);
    } catch (const Error &problem) {
      error("strategy file: " + Twine(problem.what()));
      return failure();
    }
    return read(file->text(), Annotations());
  }

  /// What the text says, added after `annotations`.
  FailureOr<Annotations> read(StringRef text, Annotations annotations) {
    if (std::optional<TomlExcess> excess = findTomlExcess(text)) {
      error(path + ":" + Twine(excess->line) + ": " + excess->problem);
      return failure();
    }
    toml::table root;
    try {
      root = toml::parse(std::string_view(text.data(), text.size()), path);
    } catch (const toml::parse_error &problem) {
      error(at(problem.source()) + ": " + std::string(problem.description()));
      return failure();
    }
    if (const toml::node *preset = root.get("preset"))
      if (failed(readPreset(*preset, annotations)))
        return failure();
    for (auto &&[key, node] : root) {
      StringRef name(key.str().data(), key.str().size());
      if (name == "preset")
        continue;
      if (name == "stages") {
        if (failed(readStages(node, annotations)))
          return failure();
        continue;
      }
      std::vector<DimAnnotation> *list = llvm::StringSwitch<std::vector<DimAnnotation> *>(name)
                                             .Case("parameters", &annotations.parameters)
                                             .Case("tags", &annotations.tags)
                                             .Case("inputs", &annotations.inputs)
                                             .Case("storage", &annotations.storage)
                                             .Case("slots", &annotations.slots)
                                             .Case("gradients", &annotations.gradients)
                                             .Default(nullptr);
      if (!list) {
        error(at(key.source()) + ": unknown key '" + name + "'" +
              suggest(name, {"preset", "parameters", "tags", "inputs", "storage", "slots", "gradients", "stages"}));
        return failure();
      }
      if (failed(readSection(node, name, *list)))
        return failure();
    }
    known.insert(annotations.axes.begin(), annotations.axes.end());
    annotations.axes.assign(known.begin(), known.end());
    return annotations;
  }

private:
  std::string at(const toml::source_region &region) const { return path + ":" + std::to_string(region.begin.line); }

  LogicalResult readPreset(const toml::node &node, Annotations &annotations) {
    std::optional<std::string> name = node.value<std::string>();
    if (!name || !isPreset(*name)) {
      error(at(node.source()) + ": preset must be the name of a preset" + suggest(name.value_or(""), getPresetNames()));
      return failure();
    }
    FailureOr<Annotations> preset =
        buildPreset(*name, mesh, parameters, [&](const Twine &problem) { error(at(node.source()) + ": " + problem); });
    if (failed(preset))
      return failure();
    annotations = std::move(*preset);
    return success();
  }

  LogicalResult readStages(const toml::node &node, Annotations &annotations) {
    const toml::table *table = node.as_table();
    const toml::array *layers = table && table->size() == 1 ? table->get_as<toml::array>("layers") : nullptr;
    annotations.layers.clear();
    if (layers)
      for (const toml::node &each : *layers)
        annotations.layers.push_back(each.value_exact<int64_t>().value_or(0));
    if (!layers || annotations.layers.empty() || llvm::any_of(annotations.layers, [](int64_t n) { return n < 1; })) {
      error(at(node.source()) + ": 'stages' must say how many layers each stage has, as in layers = [9, 3]");
      return failure();
    }
    return success();
  }

  LogicalResult readSection(const toml::node &node, StringRef section, std::vector<DimAnnotation> &list) {
    const toml::table *table = node.as_table();
    if (!table) {
      error(at(node.source()) + ": '" + section + "' must be a table of patterns");
      return failure();
    }
    for (auto [key, value] : inFileOrder(*table)) {
      DimAnnotation entry{std::string(key->str()), {}, /*required=*/true, at(key->source())};
      const toml::table *dims = value->as_table();
      if (!dims) {
        error(entry.where + ": '" + entry.pattern + "' must be a table such as { heads = [\"tp\"] }");
        return failure();
      }
      for (auto &&[dim, axes] : *dims)
        if (failed(readAxes(axes, entry.dims.emplace_back(std::string(dim.str()), std::vector<std::string>()))))
          return failure();
      for (const auto &[dim, axes] : entry.dims)
        for (StringRef axis : axes)
          known.insert(axis.split(':').first.str());
      list.push_back(std::move(entry));
    }
    return success();
  }

  LogicalResult readAxes(const toml::node &node, std::pair<std::string, std::vector<std::string>> &dim) {
    const toml::array *axes = node.as_array();
    if (axes && llvm::all_of(*axes, [](const toml::node &axis) { return axis.is_string(); })) {
      for (const toml::node &axis : *axes)
        dim.second.push_back(*axis.value<std::string>());
      return success();
    }
    error(at(node.source()) + ": '" + dim.first + "' must be a list of axis names such as [\"tp\"]");
    return failure();
  }

  std::string path;
  MeshAttr mesh;
  ArrayRef<ParamAttr> parameters;
  ErrorCallback error;
  std::set<std::string> known; ///< axes of the file
};
} // namespace

FailureOr<Annotations> dtc::loadStrategy(StringRef nameOrFile, MeshAttr mesh, ArrayRef<ParamAttr> parameters,
                                         ErrorCallback error, StringRef text) {
  if (isPreset(nameOrFile))
    return buildPreset(nameOrFile, mesh, parameters, error);
  StrategyReader reader(nameOrFile.str(), mesh, parameters, error);
  if (!text.empty())
    return reader.read(text, Annotations());
  if (!llvm::sys::fs::exists(nameOrFile)) {
    error("strategy '" + nameOrFile + "' is neither a preset nor a file" + suggest(nameOrFile, getPresetNames()));
    return failure();
  }
  return reader.readFile();
}

LogicalResult dtc::addEntry(Annotations &annotations, StringRef line, MeshAttr mesh, ErrorCallback error) {
  auto [section, entry] = line.split("] "); // which TOML needs on two lines
  std::string text = (section + "]\n" + entry + "\n").str();
  FailureOr<Annotations> added =
      StrategyReader("entry '" + line.str() + "'", mesh, {}, error).read(text, std::move(annotations));
  if (succeeded(added))
    annotations = std::move(*added);
  return added;
}
