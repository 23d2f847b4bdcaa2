// Attention by cuDNN's fused kernels, where it has them: dtc_attention_forward and dtc_attention_backward of
// runtime/abi/library/attention.h where whyNotFused gives no reason against it. What it does not take is done by the
// program's own code (passes/lower/cuda/library/GpuAttention.h).
//
// cuDNN is given attention as a graph of plain operations and knows it by its pattern, flash attention (Dao et al.
// 2022). The gradient's is the one that stores the gradients of scores and so adds nothing up in an order that
// changes: the other, which adds to dQ as it comes, gives other bits each time, and no engine says so.
// Where there is no workspace for these of all heads, it is done for some heads after the other.
// test/gpu/cudnn_engines_test.cpp asks the library itself for engines, where there is one.
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

/// The scalars of a launch, as far as they change the graph. Heads of queries are numbered g * R + r.
struct FusedAttention {
  bool isBackward = false, causal = false;
  cudnn::DataType type = cudnn::BFloat16;
  cudnn::Sizes queries = {}, keys = {}; ///< [batch, heads, rows, elements of a head]
  /// In the order of the buffers, without positions, key and lse: q, k, v, out; of the gradient then d_out, d_q, d_k,
  /// d_v.
  std::vector<cudnn::Sizes> strides = {};

  /// Nothing, and why, for what is never cuDNN's.
  static std::optional<FusedAttention> of(bool isBackward, std::span<const int64_t> scalars, std::string &why);

  auto operator<=>(const FusedAttention &) const = default;
};

/// A graph and the numbers of its tensors.
struct FusedAttentionGraph {
  cudnn::OperationGraph graph;
  std::vector<int64_t> buffers = {};      ///< in the order of FusedAttention::strides
  int64_t lse = 0, scale = 0, masked = 0; ///< `masked` is what masked scores become
  int64_t sums = 0, one = 0;              ///< of the gradient: rowsum(dO o) in memory, and the number 1
};

FusedAttentionGraph makeFusedAttention(const cudnn::Library &library, const FusedAttention &attention);

/// cuDNN's attention on the GPU of the calling thread's context.
class Attention : NotCopied {
public:
  /// What its launches forward need at most; those of gradients are told in the program.
  static constexpr uint64_t SmallWorkspace = 64 << 10;

  /// `architecture`: 90 for sm_90. Throws Error (Runtime) where there is no library of that name that we know: then all
  /// attention is the program's own code's.
  explicit Attention(int architecture, const char *library = cudnn::Library::Name);
  ~Attention();

  /// Whether some launch of a library kernel may be its: of attention on 16 bits without dropout.
  static bool isFor(std::string_view symbol);

  /// Gives a launch of such a kernel to the stream, with buffers and scalars as their tables say. False: it has not,
  /// and the program's own code must. What it says of a launch it says of all that are like it; without `mayPrepare`,
  /// as while a stream is captured, only those are taken whose like was given before.
  bool tryLaunch(std::string_view symbol, const LibraryContext &context, std::span<void *const> buffers,
                 std::span<const int64_t> scalars, bool mayPrepare);

  /// What was decided since it was last asked, for people to read.
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
