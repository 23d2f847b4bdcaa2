// Attention by cuDNN's fused kernels, if it has them: dtc_attention_forward and dtc_attention_backward of
// runtime/abi/library/attention.h where whyNotFused gives no reason against it. The program's own code does everything
// else (passes/lower/cuda/library/GpuAttention.h).
//
// cuDNN gets attention as a graph of plain operations and recognises it by its pattern, flash attention (Dao et al.
// 2022). The gradient uses the pattern that stores the gradients of scores, so nothing is added in a varying order. The
// other pattern, which adds to dQ in order of arrival, gives different bits each time, and no engine declares that. If
// the workspace is too small for the score gradients of all heads, some heads are computed at a time.
// test/gpu/cudnn_engines_test.cpp queries the engines of the library itself, if it is installed.
#pragma once

#include "runtime/device/cuda/library_kernels.h"
#include "runtime/kernels/cuda/cudnn_graph.h"
#include "runtime/support/not_copied.h"

#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtc::cuda {

/// The scalars of a launch that affect the graph. Query heads are numbered g * R + r.
struct FusedAttention {
  bool isBackward = false, causal = false;
  cudnn::DataType type = cudnn::BFloat16;
  cudnn::Sizes queries = {}, keys = {}; ///< [batch, heads, rows, elements of a head]
  /// In the order of the buffers, without positions, key and lse: q, k, v, out; for the gradient also d_out, d_q, d_k,
  /// d_v.
  std::vector<cudnn::Sizes> strides = {};

  /// Nullopt, with the reason in `why`, if cuDNN can never do it.
  static std::optional<FusedAttention> of(bool isBackward, std::span<const int64_t> scalars, std::string &why);

  auto operator<=>(const FusedAttention &) const = default;
};

/// A graph and the numbers of its tensors.
struct FusedAttentionGraph {
  cudnn::OperationGraph graph;
  std::vector<int64_t> buffers = {};      ///< in the order of FusedAttention::strides
  int64_t lse = 0, scale = 0, masked = 0; ///< `masked` is the value of masked scores
  int64_t sums = 0, one = 0;              ///< for the gradient: rowsum(dO o) in memory, and the number 1
};

FusedAttentionGraph makeFusedAttention(const cudnn::Library &library, const FusedAttention &attention);

/// cuDNN's attention on the GPU of the calling thread's context.
class Attention : NotCopied {
public:
  /// The most that forward launches need; the program states what gradients need.
  static constexpr uint64_t SmallWorkspace = 64 << 10;

  /// `architecture`: 90 for sm_90. Throws Error (Runtime) if there is no supported library of that name: the program's
  /// own code then does all attention.
  explicit Attention(int architecture, const char *library = cudnn::Library::Name);
  ~Attention();

  /// Whether cuDNN may do launches of this library kernel: attention on 16-bit elements without dropout.
  static bool isFor(std::string_view symbol);

  /// Enqueues a launch of such a kernel on the stream, with buffers and scalars as in their tables. False: it has not,
  /// and the program's own code must do it. The answer is the same for all launches of the same form. Without
  /// `mayPrepare`, as during a capture, it accepts only forms that were launched before.
  bool tryLaunch(std::string_view symbol, const LibraryContext &context, std::span<void *const> buffers,
                 std::span<const int64_t> scalars, bool mayPrepare);

  /// Messages for people about decisions since the last call.
  std::vector<std::string> takeNotes() { return std::exchange(notes, {}); }

private:
  struct Prepared;

  Prepared prepare(const FusedAttention &attention, uint64_t workspaceBytes);
  void note(const std::string &line);
  void launch(const Prepared &prepared, const LibraryContext &context, std::span<void *const> buffers,
              std::span<const int64_t> scalars) const;

  const int architecture;
  cudnn::Library library;
  cudnn::Handle handle = nullptr;
  StreamHandle stream = nullptr;                             ///< the handle's
  std::map<FusedAttention, std::unique_ptr<Prepared>> known; ///< null: refused
  std::set<std::string> noted;
  std::vector<std::string> notes;
};

} // namespace dtc::cuda
