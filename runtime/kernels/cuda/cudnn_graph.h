// Graphs of operations in cuDNN's graph interface, and the kernels that it finds for them. This is independent of
// attention (attention.h).
//
// A tensor of a graph is in memory, at an address that is passed with each launch; or a number, likewise; or virtual:
// computed by one operation for others and never stored. Sizes and strides have four dimensions, in elements.
#pragma once

#include "runtime/kernels/cuda/cudnn.h"

#include <array>
#include <optional>
#include <span>
#include <vector>

namespace dtc::cudnn {

/// A descriptor that is destroyed with its owner. All functions throw Error (Runtime) with cuDNN's message.
class Owned {
public:
  Owned() = default;
  Owned(const Library &library, DescriptorType type);
  Owned(Owned &&other) noexcept;
  Owned &operator=(Owned &&other) noexcept;
  ~Owned();

  Descriptor get() const { return descriptor; }

  void set(Attribute attribute, AttributeType type, int64_t count, const void *values);
  void set(Attribute attribute, DataType value) { set(attribute, DataTypeType, 1, &value); }
  void set(Attribute attribute, bool value) { set(attribute, BooleanType, 1, &value); }
  void set(Attribute attribute, int64_t value) { set(attribute, Int64Type, 1, &value); }
  void set(Attribute attribute, std::span<const int64_t> values) {
    set(attribute, Int64Type, int64_t(values.size()), values.data());
  }
  void set(Attribute attribute, const Owned &value) { set(attribute, DescriptorsType, 1, &value.descriptor); }
  void finalize();

private:
  const Library *library = nullptr;
  Descriptor descriptor = nullptr;
};

using Sizes = std::array<int64_t, 4>;

/// The strides of a contiguous tensor.
Sizes denseStrides(const Sizes &sizes);

/// What kernels will run on: the GPU of a handle, or an absent one, described by its properties.
struct Target {
  Handle handle = nullptr;
  Descriptor properties = nullptr;
};

class OperationGraph {
public:
  /// Addresses in memory are multiples of this.
  static constexpr int64_t Alignment = 16;

  struct Tensor {
    int64_t number = 0; ///< identifies it when an address is passed
    Sizes sizes = {};
    Descriptor descriptor = nullptr;
  };

  explicit OperationGraph(const Library &library) : library(library) {}

  Tensor memory(DataType type, const Sizes &sizes, const Sizes &strides);
  Tensor number(); ///< an f32 passed by the host
  Tensor inside(DataType type, const Sizes &sizes, const Sizes &strides);
  Tensor inside(DataType type, const Sizes &sizes) { return inside(type, sizes, denseStrides(sizes)); }

  // Operations compute in f32 unless they say otherwise, and give a virtual f32 unless `result` is given.
  Tensor matmul(const Tensor &a, const Tensor &b, std::optional<Tensor> result = {});
  Tensor map(PointwiseMode mode, const Tensor &a, std::optional<Tensor> result = {});
  /// The result has the sizes of the first; the second may have dimensions of one element instead.
  Tensor combine(PointwiseMode mode, const Tensor &a, const Tensor &b, std::optional<Tensor> result = {});
  /// `a` where `condition` holds, else `b`.
  Tensor select(const Tensor &condition, const Tensor &a, const Tensor &b);
  /// i32: the index of each element along a dimension.
  Tensor index(const Tensor &like, int64_t dimension);
  Tensor greaterOrEqual(const Tensor &a, const Tensor &b);
  Tensor reduce(Reduction reduction, const Tensor &a, const Tensor &result);
  /// The same elements of a virtual tensor, or of memory, under other sizes and strides.
  Tensor reshape(const Tensor &a, const Tensor &result);

  /// Completes the graph: nothing may be added afterwards.
  const Owned &finish(const Target &target);

private:
  Tensor tensor(DataType type, const Sizes &sizes, const Sizes &strides, Attribute kind, bool hasKind);
  Tensor pointwise(PointwiseMode mode, DataType precision, std::span<const Tensor> operands, const Tensor &result,
                   int64_t axis = -1);
  void add(Owned kind, Owned operation);

  const Library &library;
  std::vector<Owned> parts; ///< in the order of creation
  std::vector<Descriptor> operations;
  Owned graph;
  int64_t tensors = 0;
};

/// The kernels for a graph: the first that cuDNN's heuristics propose among those that are deterministic and fit into
/// the workspace.
class Plan {
public:
  /// Throws Error (Runtime) saying why there are none.
  Plan(const Library &library, const Target &target, OperationGraph graph, uint64_t mostWorkspaceBytes);

  uint64_t workspaceBytes() const { return bytes; }

  struct Argument {
    int64_t number;
    void *address;
  };
  /// Enqueues them on the handle's stream.
  void launch(Handle handle, std::span<const Argument> arguments, void *workspace) const;

private:
  static std::vector<Owned> engineConfigs(const Library &library, const Owned &graph, const Target &target,
                                          HeuristicMode mode);
  bool tryEngine(const Target &target, const Owned &config, uint64_t mostWorkspaceBytes);

  const Library &library;
  OperationGraph graph;
  Owned plan;
  uint64_t bytes = 0;
  std::string refusals; ///< why earlier engines were rejected
};

} // namespace dtc::cudnn
