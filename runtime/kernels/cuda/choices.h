// How each product is carried out, where that was chosen by time: kept in a file, so that the ranks of a job and later
// runs all take the same, and their results are equal to the bit.
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
  /// Makes the file where there is none. Throws Error (BadInput) naming it where it cannot be read or written, or has
  /// something else in it; so do the functions.
  explicit ChoiceFile(std::string path);
  ~ChoiceFile();

  /// What the file has for a key, which has no tabs and is one line.
  std::optional<ProductChoice> find(const std::string &key);

  /// The same; or else what `make` gives, which is added. Of the processes that use the file one makes choices at a
  /// time, and the others wait: for what it makes or for their turn, whichever comes first. So a rank that is ahead
  /// never waits for one that waits for it.
  ProductChoice findOrMake(const std::string &key, const std::function<ProductChoice()> &make);

private:
  void readMore();
  void addLine(const std::string &line);
  void append(const std::string &key, const ProductChoice &choice);
  [[noreturn]] void fail(const std::string &what) const;

  std::string path, rest; ///< `rest`: of a line that is not whole yet
  int file = -1, lines = 0;
  std::map<std::string, ProductChoice> known;
};

} // namespace dtc::cuda
