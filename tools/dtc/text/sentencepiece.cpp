// dtc-sentencepiece MODEL END: tokenizes documents for `dtc data pack` with the sentencepiece library. END is auto,
// none or the piece that ends documents. tools/dtc/text/Tokenizer.h describes its input and output.
// dtc-sentencepiece --text MODEL: answers one request after the other, as tools/dtc/text/TokenText.h describes.
// It is a process of its own, because the library brings its own protobuf, and dtc already links another.
#include <sentencepiece_processor.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using sentencepiece::SentencePieceProcessor;

/// An error for the user: why the model cannot be used.
struct Unusable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::optional<int> findEnd(const SentencePieceProcessor &model, const std::string &path, const std::string &wish) {
  if (wish == "none")
    return std::nullopt;
  if (wish != "auto") {
    int id = model.PieceToId(wish);
    if (model.IdToPiece(id) != wish) // the unknown piece's
      throw Unusable("--end-of-document: '" + wish + "' is not a piece of '" + path + "'");
    return id;
  }
  if (model.eos_id() < 0)
    throw Unusable("'" + path + "' has no piece that ends a document (eos); give --end-of-document PIECE, or none");
  return model.eos_id();
}

/// The position of the first invalid UTF-8: the library would replace it by something else.
std::optional<size_t> findInvalid(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    auto byte = [&](size_t i) { return static_cast<unsigned char>(at + i < text.size() ? text[at + i] : 0); };
    unsigned char first = byte(0);
    size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    bool isValid = length != 0;
    for (size_t i = 1; i < length; ++i)
      isValid &= (byte(i) & 0xc0) == 0x80;
    // Overlong forms, surrogates, and what is above U+10FFFF.
    isValid &= !(first == 0xe0 && byte(1) < 0xa0) && !(first == 0xed && byte(1) > 0x9f) &&
               !(first == 0xf0 && byte(1) < 0x90) && !(first == 0xf4 && byte(1) > 0x8f);
    if (!isValid)
      return at;
    at += length;
  }
  return std::nullopt;
}

bool read(void *data, size_t size) { return std::fread(data, 1, size, stdin) == size; }

void write(const void *data, size_t size) {
  if (std::fwrite(data, 1, size, stdout) != size)
    std::exit(1); // dtc has ended and reports why
}

template <typename T> void writeAll(const std::vector<T> &values) { write(values.data(), values.size() * sizeof(T)); }

/// Answers one batch; false where there are no more.
bool readBatch(std::string &bytes, std::vector<std::string_view> &documents) {
  uint32_t count = 0;
  if (!read(&count, sizeof(count)))
    return false;
  std::vector<uint32_t> lengths(count);
  size_t total = 0;
  if (!read(lengths.data(), count * sizeof(lengths[0])))
    return false;
  for (uint32_t length : lengths)
    total += length;
  bytes.resize(total);
  if (!read(bytes.data(), total))
    return false;
  documents.clear();
  for (const char *at = bytes.data(); uint32_t length : lengths) {
    documents.emplace_back(at, length);
    at += length;
  }
  return true;
}

/// Runs work(i) for all i below `count` on all cores.
template <typename Work> void forEach(size_t count, Work work) {
  std::atomic<size_t> next = 0;
  auto take = [&] {
    for (size_t i; (i = next++) < count;)
      work(i);
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < std::min<size_t>(std::thread::hardware_concurrency(), count); ++i)
    others.emplace_back(take);
  take();
  for (std::thread &other : others)
    other.join();
}

[[noreturn]] void refuse(size_t document, const std::string &problem) {
  writeAll<uint32_t>({0xffffffff, static_cast<uint32_t>(document), static_cast<uint32_t>(problem.size())});
  write(problem.data(), problem.size());
  std::fflush(stdout);
  std::exit(0);
}

void answer(const SentencePieceProcessor &model, const std::vector<std::string_view> &documents) {
  std::vector<std::vector<int>> tokens(documents.size());
  forEach(documents.size(), [&](size_t i) { (void)model.Encode(documents[i], &tokens[i]); });
  for (size_t i = 0; i < documents.size(); ++i)
    if (std::optional<size_t> at = findInvalid(documents[i]))
      refuse(i, "no UTF-8 at byte " + std::to_string(*at) + " of the document");
  std::vector<uint32_t> counts = {static_cast<uint32_t>(documents.size())};
  for (const std::vector<int> &one : tokens)
    counts.push_back(static_cast<uint32_t>(one.size()));
  writeAll(counts);
  for (const std::vector<int> &one : tokens)
    writeAll(one);
  std::fflush(stdout);
}

/// The tokens of a text, or the text of tokens.
void answerText(const SentencePieceProcessor &model, uint32_t question, const std::string &data) {
  std::string text;
  std::vector<int> tokens;
  if (question == 1) {
    tokens.resize(data.size() / sizeof(int));
    std::copy_n(data.data(), tokens.size() * sizeof(int), reinterpret_cast<char *>(tokens.data()));
    (void)model.Decode(tokens, &text);
    writeAll<uint32_t>({static_cast<uint32_t>(text.size())});
    write(text.data(), text.size());
  } else if (std::optional<size_t> at = findInvalid(data)) {
    text = "no UTF-8 at byte " + std::to_string(*at) + " of the text";
    writeAll<uint32_t>({0xffffffff, static_cast<uint32_t>(text.size())});
    write(text.data(), text.size());
  } else {
    (void)model.Encode(data, &tokens);
    writeAll<uint32_t>({static_cast<uint32_t>(tokens.size())});
    writeAll(tokens);
  }
  std::fflush(stdout);
}

void serveText(const SentencePieceProcessor &model) {
  std::string data;
  for (uint32_t head[2]; read(head, sizeof(head));) {
    data.resize(head[1] * (head[0] == 1 ? sizeof(int) : 1));
    if (!read(data.data(), data.size()))
      return;
    answerText(model, head[0], data);
  }
}

void serve(const SentencePieceProcessor &model) {
  std::string bytes;
  std::vector<std::string_view> documents;
  while (readBatch(bytes, documents))
    answer(model, documents);
}

/// The first line that it writes.
nlohmann::json describe(SentencePieceProcessor &model, const std::string &path, const std::string &end, bool isText) {
  try {
    if (auto status = model.Load(path); !status.ok())
      throw Unusable("'" + path + "' is not a sentencepiece model: " + status.ToString());
    std::optional<int> found = isText && model.eos_id() < 0 ? std::nullopt : findEnd(model, path, end);
    nlohmann::json header = {{"vocabulary", model.GetPieceSize()},
                             {"end", found ? nlohmann::json(*found) : nlohmann::json()},
                             {"masked", false}};
    if (isText) {
      std::vector<int> pieces;
      for (int id = 0; id < model.GetPieceSize(); ++id)
        if (model.IsByte(id))
          pieces.push_back(id);
      header["bytes"] = pieces;
    }
    return header;
  } catch (const Unusable &error) {
    return {{"error", error.what()}};
  }
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fputs("dtc-sentencepiece: a part of 'dtc data pack' and 'dtc sample'\n", stderr);
    return 2;
  }
  bool isText = std::string_view(argv[1]) == "--text";
  SentencePieceProcessor model;
  nlohmann::json header = describe(model, argv[isText ? 2 : 1], isText ? "auto" : argv[2], isText);
  std::puts(header.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace).c_str());
  std::fflush(stdout);
  if (header.contains("error"))
    return 0;
  isText ? serveText(model) : serve(model);
  return 0;
}
