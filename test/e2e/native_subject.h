// A compiled program with its code, all ranks in one process, as a subject of tools/verify.
#pragma once

#include "runtime/abi/addresses.h"
#include "runtime/abi/element_type.h"
#include "runtime/comm/local/in_process.h"
#include "runtime/device/cpu_device.h"
#include "runtime/executor/executor.h"
#include "runtime/kernels/cpu/kernels.h"
#include "runtime/program/start/kernel_library.h"
#include "test/e2e/compiled_model.h"
#include "tools/verify/CommandInterpreter.h"
#include "tools/verify/CommandSubject.h"

#include <algorithm>
#include <cmath>
#include <future>

namespace dtc::test {

using mlir::dt::HostTensor;

/// All ranks of a compiled program, each on a thread of its own while a list runs.
class NativeSubject : public verify::Subject {
public:
  explicit NativeSubject(CompiledModel &compiled)
      : manifest(compiled.manifest), context(compiled.context), mesh(verify::toAttribute(manifest.mesh(), context)),
        library(compiled.sharedObject), job(int(mesh.getNumRanks())), ranks(mesh.getNumRanks()) {
    const abi::Role &role = manifest.roles(0);
    for (Rank &rank : ranks) {
      rank.arena = std::make_unique<Arena>(role.arena_bytes(), role.shared_begin());
      // Memory that was never written is NaN.
      std::fill_n(reinterpret_cast<float *>(rank.arena->base()), role.arena_bytes() / 4, std::nanf(""));
    }
    onAllRanks([&](int64_t rank) {
      ranks[rank].communicator = job.join(int(rank), *ranks[rank].arena);
      ranks[rank].executor =
          std::make_unique<Executor>(manifest, *ranks[rank].communicator, device, *ranks[rank].arena);
    });
  }

  void provide(const verify::TensorKey &key, const HostTensor &whole) override {
    const abi::Tensor *tensor = verify::findTensor(manifest, key);
    if (!tensor)
      return;
    mlir::dt::HostTensors pieces = cut(key, whole, shardingOf(*tensor), mesh);
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (tensor->type() == abi::I32)
        std::copy(pieces[rank].elements->begin(), pieces[rank].elements->end(), at<int32_t>(rank, *tensor));
      else if (tensor->type() == abi::F32)
        std::copy(pieces[rank].elements->begin(), pieces[rank].elements->end(), at<float>(rank, *tensor));
      else
        throw std::logic_error("the host writes no " + abi::nameOf(tensor->type()));
    }
  }

  void run(const std::string &list) override {
    onAllRanks([&](int64_t rank) { ranks[rank].executor->run(list); });
  }

  verify::Pieces read(const verify::TensorKey &key) const override {
    const abi::Tensor *tensor = verify::findTensor(manifest, key);
    verify::Pieces pieces{{}, shardingOf(*tensor), mesh};
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      HostTensor &piece = pieces.ofRanks.emplace_back(
          llvm::ArrayRef<int64_t>(tensor->local_shape().data(), size_t(tensor->local_shape_size())));
      const abi::ElementType &type = abi::elementType(tensor->type());
      for (int64_t i = 0; i < piece.size(); ++i)
        piece[i] = abi::readElement(type, at<std::byte>(rank, *tensor) + i * type.bytes);
    }
    return pieces;
  }

  std::string explain(const verify::TensorKey &) const override { return "native"; }

private:
  struct Rank {
    std::unique_ptr<Arena> arena;
    std::unique_ptr<Communicator> communicator;
    std::unique_ptr<Executor> executor;
  };

  template <typename Work> void onAllRanks(Work work) {
    std::vector<std::future<void>> done;
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      done.push_back(std::async(std::launch::async, [this, &work, rank] {
        try {
          work(int64_t(rank));
        } catch (const std::exception &error) {
          if (ranks[rank].communicator)
            ranks[rank].communicator->poison(error.what()); // the others must not wait for this rank
          throw;
        }
      }));
    for (std::future<void> &rank : done)
      rank.get();
  }

  template <typename T> T *at(size_t rank, const abi::Tensor &tensor) const {
    return reinterpret_cast<T *>(ranks[rank].arena->base() + abi::arenaOffset(manifest.roles(0), tensor.address()));
  }

  mlir::dt::ShardingAttr shardingOf(const abi::Tensor &tensor) const {
    return verify::toAttribute(tensor.sharding(), manifest.mesh(), context);
  }

  const abi::Manifest &manifest;
  mlir::MLIRContext &context;
  mlir::dt::MeshAttr mesh;
  KernelLibrary library;
  InProcessJob job;
  CpuDevice device{1, [this](const abi::Kernel &kernel) {
                     return kernel.library() ? kernels::find(kernel.symbol()) : library.find(kernel.symbol());
                   }};
  std::vector<Rank> ranks;
};

} // namespace dtc::test
