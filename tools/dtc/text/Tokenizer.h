// Tokens of many documents, from a tokenizer's process (TokenizerProcess.h).
//
// It reads batches and answers each:
//
//   count n, bytes[n] of each document, their bytes
//   -> count n, tokens[n] of each document, their tokens, and if masked a byte for each: 1 if it counts as a target, or
//   0 or 0xffffffff, number of a document in the batch, bytes, and that many bytes of an error message about it
//
// and may read ahead while it works.
#pragma once

#include "tools/dtc/text/Documents.h"
#include "tools/dtc/text/TokenizerProcess.h"

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtc {

class Tokenizer {
public:
  /// Starts the process and waits for its first line. Throws Error (BadInput) with the error that this line reports,
  /// and Error (Runtime) when the process cannot be started.
  explicit Tokenizer(std::vector<std::string> command);

  int64_t vocabulary() const { return vocabularySize; }
  std::optional<uint32_t> end() const { return endToken; }

  using Produce = std::function<void(const std::function<void(Document)> &)>;
  /// Receives a document without its text, its tokens, and their counts, which are empty without a mask.
  using Receive =
      std::function<void(const Document &, std::span<const uint32_t> tokens, std::span<const uint8_t> counts)>;
  /// Tokenizes the documents that `produce` passes on, in a thread of its own, and receives them in the same order. To
  /// be called once. Throws what `produce` throws, and Error (BadInput) beginning with the place for a document that
  /// cannot be tokenized.
  void run(const Produce &produce, const Receive &receive, const std::function<std::string(const Document &)> &placeOf);

private:
  struct Batch {
    std::string bytes;
    std::vector<uint32_t> lengths;
    std::vector<Document> places; ///< without their texts
  };

  void feed(const Produce &produce);
  void send(Batch &batch);
  bool readAnswer(const Receive &receive, const std::function<std::string(const Document &)> &placeOf);

  TokenizerProcess process;
  int64_t vocabularySize = 0;
  std::optional<uint32_t> endToken;
  bool masked = false;
  std::mutex mutex;
  std::deque<std::vector<Document>> underWay; ///< of each batch without an answer
  std::exception_ptr failure;                 ///< thrown by `produce`
};

} // namespace dtc
