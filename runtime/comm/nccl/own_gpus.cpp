#include "runtime/comm/nccl/own_gpus.h"

#include "runtime/comm/run_together.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>

namespace dtc {

/// Each rank's GPU, in two numbers.
static std::vector<std::array<int64_t, 2>> exchangeIdentities(Communicator &hosts, const cuda::Gpu &gpu) {
  auto words = std::bit_cast<std::array<int64_t, 2>>(gpu.uuid());
  std::vector<int64_t> first = hosts.exchange(words[0]), second = hosts.exchange(words[1]);
  std::vector<std::array<int64_t, 2>> identities;
  for (size_t rank = 0; rank < first.size(); ++rank)
    identities.push_back({first[rank], second[rank]});
  return identities;
}

void requireOwnGpus(Communicator &hosts, const cuda::Gpu &gpu) {
  auto identities = exchangeIdentities(hosts, gpu);
  std::vector<int64_t> architectures = hosts.exchange(gpu.architecture());
  std::vector<int64_t> processors = hosts.exchange(gpu.multiprocessors());
  auto rank = static_cast<size_t>(hosts.rank());
  runTogether(hosts, [&] {
    auto twin = std::ranges::find(identities.begin() + rank + 1, identities.end(), identities[rank]);
    if (twin != identities.end())
      throw Error(
          fmt::format("ranks {} and {} both work on {}, and each needs a GPU of its own; start as many ranks as "
                      "this host has GPUs, show each another one with CUDA_VISIBLE_DEVICES, or let ranks share "
                      "GPUs with --share-gpu, to try a layout",
                      rank, twin - identities.begin(), gpu.name()));
    for (size_t other = rank + 1; other < architectures.size(); ++other)
      if (architectures[other] != architectures[rank] || processors[other] != processors[rank])
        throw Error(
            fmt::format("rank {} works on {} with {} multiprocessors, and rank {} on a GPU of sm_{} with {}: what "
                        "they compute alike would not be equal; choose GPUs of one kind with "
                        "CUDA_VISIBLE_DEVICES",
                        rank, gpu.name(), gpu.multiprocessors(), other, architectures[other], processors[other]));
  });
}

} // namespace dtc
