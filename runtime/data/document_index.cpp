#include "runtime/data/document_index.h"

#include "runtime/support/error.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <sys/stat.h>

namespace dtc {

namespace {
constexpr std::string_view Magic("MMIDIDX\0\0", 9);
constexpr uint64_t Version = 1;
constexpr size_t TypeAt = Magic.size() + sizeof(Version), SequencesAt = TypeAt + 1;
constexpr size_t BoundariesAt = SequencesAt + sizeof(uint64_t), HeaderBytes = BoundariesAt + sizeof(uint64_t);

/// The format's types that dtc accepts for tokens, and their widths.
struct Type {
  uint8_t code;
  int width;
};
constexpr Type Types[] = {{8, 2}, {4, 4}};
} // namespace

std::optional<std::string> indexPathOf(const std::string &path) {
  constexpr std::string_view ending = ".bin";
  if (!path.ends_with(ending))
    return std::nullopt;
  return path.substr(0, path.size() - ending.size()) + ".idx";
}

bool DocumentIndex::isIndex(std::string_view text) { return text.starts_with(Magic); }

std::optional<DocumentIndex> DocumentIndex::beside(const std::string &path, size_t tokenBytes) {
  struct stat status;
  std::optional<std::string> index = indexPathOf(path);
  if (!index || stat(index->c_str(), &status) != 0 || !isIndex(MappedFile(*index).text()))
    return std::nullopt;
  return DocumentIndex(*index, tokenBytes);
}

DocumentIndex::DocumentIndex(const std::string &path, size_t tokenBytes) : file(path), tokenBytes(tokenBytes) {
  readHeader();
  checkDocuments();
}

void DocumentIndex::refuse(const std::string &why) const {
  throw Error(ExitCode::BadInput, fmt::format("index '{}': {}", file.path(), why));
}

template <typename T> T DocumentIndex::read(size_t offset) const {
  T value;
  std::memcpy(&value, file.bytes().data() + offset, sizeof(value));
  return value;
}

void DocumentIndex::readHeader() {
  size_t size = file.bytes().size();
  if (!isIndex(file.text()))
    refuse("it does not begin as Megatron's do (MMIDIDX)");
  if (size < HeaderBytes)
    refuse(fmt::format("{} bytes end within its header of {}; is it truncated?", size, HeaderBytes));
  if (auto version = read<uint64_t>(Magic.size()); version != Version)
    refuse(fmt::format("version {}; only {} is known", version, Version));
  auto code = read<uint8_t>(TypeAt);
  const Type *type = std::ranges::find(Types, code, &Type::code);
  if (type == std::end(Types))
    refuse(fmt::format("tokens of type {}; only uint16 (8) and int32 (4) are known", code));
  width = type->width;
  auto sequenceCount = read<uint64_t>(SequencesAt), boundaryCount = read<uint64_t>(BoundariesAt);
  // Divide instead of multiplying: the numbers are untrusted and may overflow.
  constexpr size_t OfSequence = sizeof(int32_t) + sizeof(int64_t);
  size_t rest = size - HeaderBytes;
  if (sequenceCount > rest / OfSequence || boundaryCount > (rest - sequenceCount * OfSequence) / sizeof(int64_t))
    refuse(fmt::format("its header gives {} sequences and {} document boundaries, which do not fit its {} bytes; is it "
                       "truncated?",
                       sequenceCount, boundaryCount, size));
  if (boundaryCount == 0)
    refuse("it has no document boundaries; even an index without documents has one");
  sequences = sequenceCount;
  documentCount = boundaryCount - 1;
  lengths = HeaderBytes;
  pointers = lengths + sequences * sizeof(int32_t);
  boundaries = pointers + sequences * sizeof(int64_t);
}

void DocumentIndex::checkDocuments() const {
  if (auto first = read<int64_t>(boundaries); first != 0)
    refuse(fmt::format("its first document begins with sequence {} instead of 0", first));
  if (auto last = read<int64_t>(boundaries + documentCount * sizeof(int64_t)); last != static_cast<int64_t>(sequences))
    refuse(fmt::format("its last document ends with sequence {} of {}", last, sequences));
  constexpr size_t Most = 1 << 20;
  for (size_t document = 0, step = documentCount / Most + 1; document < documentCount; document += step)
    if (documentBegin(document) > documentBegin(document + 1))
      refuse(fmt::format("document {} begins behind the one that follows it", document));
  for (size_t sequence = 0, step = sequences / Most + 1; sequence < sequences; sequence += step)
    checkSequence(sequence);
  if (sequences != 0)
    checkSequence(sequences - 1);
  if (size_t begin = byteOf(0); begin != 0)
    refuse(fmt::format("no sequence covers the first {} bytes of the token file", begin));
}

void DocumentIndex::checkSequence(size_t sequence) const {
  auto length = read<int32_t>(lengths + sequence * sizeof(int32_t));
  size_t begin = byteOf(sequence), end = byteOf(sequence + 1);
  if (length < 0 || begin + static_cast<size_t>(length) * static_cast<size_t>(width) != end)
    refuse(fmt::format("sequence {} has {} tokens of {} bytes from byte {} on, but {} begins at byte {}; only tokens "
                       "without gaps can be trained on",
                       sequence, length, width, begin, sequence + 1 == sequences ? "the end" : "the next", end));
}

size_t DocumentIndex::byteOf(size_t sequence) const {
  if (sequence == sequences)
    return tokenBytes;
  auto pointer = read<int64_t>(pointers + sequence * sizeof(int64_t));
  if (pointer < 0 || static_cast<uint64_t>(pointer) > tokenBytes || pointer % width != 0)
    refuse(fmt::format(
        "sequence {} begins at byte {}, which is not the start of a token in the {} bytes of the token file", sequence,
        pointer, tokenBytes));
  return static_cast<size_t>(pointer);
}

size_t DocumentIndex::documentBegin(size_t document) const {
  auto sequence = read<int64_t>(boundaries + document * sizeof(int64_t));
  if (sequence < 0 || static_cast<uint64_t>(sequence) > sequences)
    refuse(fmt::format("document {} begins with sequence {} of {}", document, sequence, sequences));
  return byteOf(static_cast<size_t>(sequence)) / static_cast<size_t>(width);
}

std::vector<size_t> DocumentIndex::beginsIn(size_t first, size_t count) const {
  size_t low = 0, high = documentCount; // the first that begins at or after `first`
  while (low < high) {
    size_t middle = (low + high) / 2;
    documentBegin(middle) < first ? low = middle + 1 : high = middle;
  }
  std::vector<size_t> begins;
  size_t end = std::min(first + count, tokenBytes / static_cast<size_t>(width));
  for (size_t document = low; document < documentCount; ++document) {
    size_t begin = documentBegin(document);
    if (begin >= end)
      break;
    if (begins.empty() || begin > begins.back())
      begins.push_back(begin);
  }
  return begins;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

template <typename T> static void append(std::string &bytes, T value) {
  bytes.append(reinterpret_cast<const char *>(&value), sizeof(value));
}

std::string DocumentIndexBuilder::bytes() const {
  std::string bytes(Magic);
  append(bytes, Version);
  append(bytes, std::ranges::find(Types, width, &Type::width)->code);
  append(bytes, static_cast<uint64_t>(lengths.size()));
  append(bytes, static_cast<uint64_t>(lengths.size() + 1));
  for (int32_t length : lengths)
    append(bytes, length);
  int64_t pointer = 0;
  for (int32_t length : lengths) {
    append(bytes, pointer);
    pointer += int64_t(length) * width;
  }
  for (size_t document = 0; document <= lengths.size(); ++document)
    append(bytes, static_cast<int64_t>(document));
  return bytes;
}

} // namespace dtc
