#include "runtime/weights/safetensors_header.h"

#include "runtime/abi/element_type.h"
#include "runtime/support/error.h"
#include "runtime/support/product.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

using nlohmann::json;

namespace dtc {

int64_t SafetensorsEntry::elements() const { return productOf(shape); }

uint64_t safetensorsTypeBytes(std::string_view type) {
  if (const abi::ElementType *row = abi::findSafetensorsType(type))
    return row->bytes;
  // The format's types that programs do not have.
  static const std::map<std::string_view, uint64_t> others = {{"BOOL", 1}, {"U8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
                                                              {"U16", 2},  {"I16", 2}, {"U32", 4},     {"U64", 8},
                                                              {"I64", 8},  {"F64", 8}};
  auto found = others.find(type);
  return found == others.end() ? 0 : found->second;
}

namespace {

/// Names in messages come from the file: kept short and printable.
std::string shown(std::string_view name) {
  std::string text;
  for (char c : name.substr(0, 80))
    text += c >= ' ' && c != 127 ? c : '?';
  return "'" + text + (name.size() > 80 ? "...'" : "'");
}

/// Receives the header's JSON events. A callback returns false to stop; `problem` then says why.
class HeaderEvents : public nlohmann::json_sax<json> {
public:
  SafetensorsHeader result;
  std::string problem;

  bool start_object(std::size_t) override {
    if (state == State::Start)
      return enter(State::Names);
    if (state == State::Value)
      return enter(inMetadata ? State::Metadata : State::Fields);
    return unexpected("an object");
  }

  bool key(string_t &name) override {
    if (state == State::Names)
      return beginEntry(name);
    if (state == State::Metadata) {
      metadataKey = name;
      return enter(State::MetadataValue);
    }
    if (!fields.insert(name).second)
      return stop(fmt::format("tensor {} has the field {} twice", shown(entry.name), shown(name)));
    if (name == "dtype")
      return enter(State::Type);
    if (name == "shape")
      return enter(State::ShapeStart);
    if (name == "data_offsets")
      return enter(State::OffsetsStart);
    return stop(fmt::format("tensor {} has the unknown field {}", shown(entry.name), shown(name)));
  }

  bool string(string_t &value) override {
    if (state == State::Type) {
      entry.type = value;
      return enter(State::Fields);
    }
    if (state == State::MetadataValue) {
      if (!result.metadata.emplace(metadataKey, value).second)
        return stop(fmt::format("the metadata has {} twice", shown(metadataKey)));
      return enter(State::Metadata);
    }
    return unexpected("a string");
  }

  bool start_array(std::size_t) override {
    if (state == State::ShapeStart)
      return enter(State::Shape);
    if (state == State::OffsetsStart)
      return enter(State::Offsets);
    return unexpected("an array");
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (state == State::Shape) {
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        return stop(fmt::format("tensor {} has a dimension of {}", shown(entry.name), value));
      if (entry.shape.size() == 64)
        return stop(fmt::format("tensor {} has more than 64 dimensions", shown(entry.name)));
      entry.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (state == State::Offsets && offsets < 2) {
      (offsets++ == 0 ? entry.begin : entry.end) = value;
      return true;
    }
    return unexpected(fmt::format("the number {}", value));
  }

  bool end_array() override {
    if (state == State::Offsets && offsets != 2)
      return stop(fmt::format("tensor {} has {} data_offsets instead of 2", shown(entry.name), offsets));
    return enter(State::Fields);
  }

  bool end_object() override {
    if (state == State::Names)
      return enter(State::End);
    if (!inMetadata) {
      if (fields.size() != 3)
        return stop(fmt::format("tensor {} lacks one of dtype, shape and data_offsets", shown(entry.name)));
      result.entries.push_back(std::move(entry));
    }
    return enter(State::Names);
  }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a truth value"); }
  bool number_integer(number_integer_t value) override { return unexpected(fmt::format("the number {}", value)); }
  bool number_float(number_float_t, const string_t &text) override { return unexpected("the number " + text); }
  bool binary(binary_t &) override { return unexpected("binary data"); }
  bool parse_error(std::size_t position, const std::string &, const nlohmann::detail::exception &) override {
    return stop(fmt::format("not valid JSON at byte {} of the header", position));
  }

private:
  enum class State {
    Start,
    Names,
    Value,
    Fields,
    Type,
    ShapeStart,
    Shape,
    OffsetsStart,
    Offsets,
    Metadata,
    MetadataValue,
    End
  };

  bool enter(State next) {
    state = next;
    return true;
  }
  bool stop(std::string why) {
    problem = std::move(why);
    return false;
  }
  bool unexpected(const std::string &what) {
    return stop(fmt::format("{} where the format has none{}", what,
                            entry.name.empty() ? "" : ", in tensor " + shown(entry.name)));
  }
  bool beginEntry(const std::string &name) {
    if (!names.insert(name).second)
      return stop(fmt::format("tensor {} appears twice", shown(name)));
    inMetadata = name == "__metadata__";
    entry = SafetensorsEntry();
    entry.name = name;
    fields.clear();
    offsets = 0;
    return enter(State::Value);
  }

  State state = State::Start;
  SafetensorsEntry entry;
  std::set<std::string> names, fields;
  std::string metadataKey;
  bool inMetadata = false;
  int offsets = 0;
};

[[noreturn]] void refuseHeader(const std::string &path, const std::string &why) {
  throw Error(ExitCode::BadInput, fmt::format("'{}' is not a usable safetensors file: {}", path, why));
}

/// Checks that an entry's type, shape and byte range agree and are within the data section.
void checkEntry(const SafetensorsEntry &entry, uint64_t dataBytes, const std::string &path) {
  uint64_t bytes = safetensorsTypeBytes(entry.type);
  if (bytes == 0)
    refuseHeader(path, fmt::format("tensor {} has the unknown dtype {}", shown(entry.name), shown(entry.type)));
  for (int64_t size : entry.shape)
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes))
      refuseHeader(path, fmt::format("tensor {} of shape [{}] has more than 2^64 bytes", shown(entry.name),
                                     fmt::join(entry.shape, ", ")));
  if (entry.begin > entry.end || entry.end > dataBytes)
    refuseHeader(path, fmt::format("tensor {} lies at bytes [{}, {}) of {}; is the file truncated?", shown(entry.name),
                                   entry.begin, entry.end, dataBytes));
  if (entry.end - entry.begin != bytes)
    refuseHeader(path, fmt::format("tensor {} of type {} and shape [{}] needs {} bytes but has {}", shown(entry.name),
                                   entry.type, fmt::join(entry.shape, ", "), bytes, entry.end - entry.begin));
}

/// The entries, in order of their bytes, cover the data section without overlap or hole.
void checkCover(const std::vector<SafetensorsEntry> &entries, uint64_t dataBytes, const std::string &path) {
  uint64_t end = 0;
  for (const SafetensorsEntry &entry : entries) {
    if (entry.begin < end)
      refuseHeader(path, fmt::format("tensor {} overlaps the one before it: it begins at byte {}, which ends at {}",
                                     shown(entry.name), entry.begin, end));
    if (entry.begin > end)
      refuseHeader(path, fmt::format("bytes [{}, {}) before tensor {} belong to no tensor", end, entry.begin,
                                     shown(entry.name)));
    end = entry.end;
  }
  if (end != dataBytes)
    refuseHeader(path, fmt::format("bytes [{}, {}) at the end belong to no tensor", end, dataBytes));
}

} // namespace

SafetensorsHeader parseSafetensorsHeader(std::span<const std::byte> bytes, const std::string &path) {
  if (bytes.size() < 8)
    refuseHeader(path, fmt::format("it has {} bytes, fewer than the 8 of the header's length", bytes.size()));
  uint64_t length;
  std::memcpy(&length, bytes.data(), 8);
  if (length > SafetensorsFile::MaximumHeader)
    refuseHeader(path, fmt::format("its header claims {} bytes; at most {} are accepted", length,
                                   SafetensorsFile::MaximumHeader));
  if (length > bytes.size() - 8)
    refuseHeader(path, fmt::format("its header claims {} bytes but only {} follow; is the file truncated?", length,
                                   bytes.size() - 8));

  HeaderEvents events;
  const char *text = reinterpret_cast<const char *>(bytes.data()) + 8;
  if (!json::sax_parse(text, text + length, &events))
    refuseHeader(path, events.problem);

  SafetensorsHeader header = std::move(events.result);
  header.dataBegin = 8 + length;
  uint64_t dataBytes = bytes.size() - header.dataBegin;
  for (const SafetensorsEntry &entry : header.entries)
    checkEntry(entry, dataBytes, path);
  std::sort(header.entries.begin(), header.entries.end(), [](const auto &a, const auto &b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  checkCover(header.entries, dataBytes, path);
  return header;
}

} // namespace dtc
