// A command list, ready to run: addresses instead of offsets, functions instead of names, numbers instead of rank
// indices. Private to the executor.
#pragma once

#include "runtime/executor/executor.h"

namespace dtc {

struct Executor::Decoded {
  enum Kind {
    Launch,
    Collective,      // on the calling thread
    AsyncCollective, // on the communication stream
    Wait
  };
  Kind kind;
  uint32_t index; // in the list
  const abi::Command *command;
  // Launch
  dtc_kernel_fn kernel = nullptr;
  void *const *buffers = nullptr;
  const int64_t *scalars = nullptr;
  int64_t grid = 0, grain = 1;
  // Collective and AsyncCollective
  const Group *group = nullptr;
  // AsyncCollective and Wait
  uint32_t slot = 0;
};

struct Executor::List {
  std::string name;
  std::vector<Decoded> commands;
  std::vector<void *> buffers;   // of all launches
  std::vector<int64_t> scalars;  // of all launches
  std::vector<uint64_t> tickets; // per slot: what the stream gave for the collective under way
};

/// Makes a List of a validated CommandList (validate.h).
class Executor::Decoder {
public:
  Decoder(Executor &executor, const KernelResolver &resolve);

  std::unique_ptr<List> decode(const abi::CommandList &list);

private:
  Decoded decodeLaunch(const abi::Launch &launch);
  Decoded decodeCollective(const abi::Command &command, bool waitFollows);
  bool decodeWait(const abi::Wait &wait, Decoded &decoded);
  int64_t scalarBits(const abi::Scalar &scalar) const;
  const Group *groupOf(const abi::Collective &collective);

  Executor &executor;
  Mesh mesh;
  std::vector<dtc_kernel_fn> kernels; // like Manifest.kernels

  // Of the list being decoded:
  const abi::CommandList *source = nullptr;
  int at = 0;
  List *list = nullptr;
  static constexpr uint32_t Done = UINT32_MAX;
  std::map<uint32_t, uint32_t> pending; // token -> slot; Done for collectives that ran on the calling thread
  uint32_t asyncPending = 0;
};

} // namespace dtc
