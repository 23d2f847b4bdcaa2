// The algorithm of each product, if chosen by timing. It is kept in a file, so that all ranks of a job and later runs
// use the same one and their results are bitwise equal.
//
// A line has a key, a tab, "fused" or "plain", and an algorithm as eight numbers in base 16. Lines are only added.
#pragma once

#include "runtime/kernels/cuda/cublaslt.h"
#include "runtime/support/not_copied.h"

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace dtc::cuda {

struct ProductChoice {
  bool isPlain = false; ///< the epilogue is a kernel of the program, after the product
  cublaslt::Algorithm algorithm = {};
};

class ChoiceFile : NotCopied {
public:
  /// Creates the file if there is none. Throws Error (BadInput) naming it if it cannot be read or written or has other
  /// contents; so do the functions.
  explicit ChoiceFile(std::string path);
  ~ChoiceFile();

  /// The file's choice for a key, which is one line without tabs.
  std::optional<ProductChoice> find(const std::string &key);

  /// Likewise; if there is none, the result of `make`, which is added. Only one of the processes that use the file
  /// makes choices at a time. The others wait for its choice or for their turn, whichever comes first. So a rank that
  /// is ahead never waits for one that waits for it.
  ProductChoice findOrMake(const std::string &key, const std::function<ProductChoice()> &make);

private:
  void readMore();
  void addLine(const std::string &line);
  void append(const std::string &key, const ProductChoice &choice);
  [[noreturn]] void fail(const std::string &what) const;

  std::string path, rest; ///< `rest`: the start of an incomplete line
  int file = -1, lines = 0;
  std::map<std::string, ProductChoice> known;
};

} // namespace dtc::cuda
