#include "tools/dtc/text/Tokenizer.h"

#include "runtime/support/error.h"

#include <csignal>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>
#include <utility>

namespace dtc {

namespace {
/// Bytes of a batch: enough to keep all cores busy with one.
constexpr size_t BatchBytes = 2 << 20, BatchDocuments = 1 << 14;
} // namespace

Tokenizer::Tokenizer(std::vector<std::string> command) : process(std::move(command)) {
  auto header = process.readHeader();
  vocabularySize = header.at("vocabulary");
  masked = header.at("masked");
  if (!header.at("end").is_null())
    endToken = header.at("end").get<uint32_t>();
}

void Tokenizer::run(const Produce &produce, const Receive &receive,
                    const std::function<std::string(const Document &)> &placeOf) {
  std::thread feeder([&] { feed(produce); });
  try {
    while (readAnswer(receive, placeOf)) {
    }
  } catch (...) {
    process.stop(); // ends the feeder
    feeder.join();
    throw;
  }
  feeder.join();
  if (failure)
    std::rethrow_exception(failure);
  if (!underWay.empty())
    process.failEnded();
}

void Tokenizer::feed(const Produce &produce) {
  sigset_t pipeClosed; // the error is seen in errno
  sigemptyset(&pipeClosed);
  sigaddset(&pipeClosed, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipeClosed, nullptr);
  Batch batch;
  try {
    produce([&](Document document) {
      batch.bytes += document.text;
      batch.lengths.push_back(static_cast<uint32_t>(document.text.size()));
      document.text.clear();
      document.text.shrink_to_fit();
      batch.places.push_back(std::move(document));
      if (batch.bytes.size() >= BatchBytes || batch.lengths.size() >= BatchDocuments)
        send(batch);
    });
    if (!batch.lengths.empty())
      send(batch);
  } catch (const TokenizerProcess::Ended &) {
  } catch (...) {
    failure = std::current_exception();
  }
  process.closeInput();
}

void Tokenizer::send(Batch &batch) {
  auto count = static_cast<uint32_t>(batch.lengths.size());
  {
    std::lock_guard lock(mutex);
    underWay.push_back(std::move(batch.places));
  }
  process.write(&count, sizeof(count));
  process.write(batch.lengths.data(), std::span(batch.lengths).size_bytes());
  process.write(batch.bytes.data(), batch.bytes.size());
  batch = {};
}

/// Receives the answer to one batch; false where there are no more.
bool Tokenizer::readAnswer(const Receive &receive, const std::function<std::string(const Document &)> &placeOf) {
  uint32_t count = 0;
  if (!process.read(&count, sizeof(count)))
    return false;
  std::vector<Document> places;
  {
    std::lock_guard lock(mutex);
    places = std::move(underWay.front());
    underWay.pop_front();
  }
  if (count == TokenizerProcess::ErrorMark) {
    uint32_t where[2] = {}; // document, bytes
    process.read(where, sizeof(where));
    std::string message(where[1], '\0');
    process.read(message.data(), message.size());
    throw Error(ExitCode::BadInput, fmt::format("{}: {}", placeOf(places.at(where[0])), message));
  }
  std::vector<uint32_t> lengths(count);
  if (!process.read(lengths.data(), std::span(lengths).size_bytes()))
    process.failEnded();
  std::vector<uint32_t> tokens(std::accumulate(lengths.begin(), lengths.end(), size_t(0)));
  std::vector<uint8_t> counts(masked ? tokens.size() : 0);
  if (!process.read(tokens.data(), std::span(tokens).size_bytes()) || !process.read(counts.data(), counts.size()))
    process.failEnded();
  size_t begin = 0;
  for (size_t document = 0; document < count; begin += lengths[document++])
    receive(places.at(document), std::span(tokens).subspan(begin, lengths[document]),
            masked ? std::span(counts).subspan(begin, lengths[document]) : std::span<uint8_t>());
  return true;
}

} // namespace dtc
