// A command list, ready to run: addresses instead of offsets, handles instead of names, numbers instead of rank
// indices. Private to the executor.
#pragma once

#include "runtime/executor/executor.h"

namespace dtc {

struct Executor::Decoded {
  enum Kind {
    Launch,
    Copy,
    StartCopy,    // asynchronous
    Start,        // of communication
    StartAndWait, // nothing in between
    Wait
  };
  Kind kind;
  uint32_t index; // in the list
  const abi::Command *command;
  // Launch
  Device::Kernel kernel = 0;
  std::span<void *const> buffers;
  std::span<const int64_t> scalars;
  int64_t grid = 0, grain = 1;
  const std::byte *gridCount = nullptr; ///< where the device reads how much of the grid to run; null: all
  // Copy and StartCopy
  std::byte *target = nullptr;
  const std::byte *copied = nullptr;
  uint64_t bytes = 0;
  // Start and StartAndWait
  const Group *group = nullptr;
  // Start, StartCopy and Wait: index into the executor's flights
  uint32_t flight = 0;
  bool isPart = false; ///< of the start in the previous command
};

/// A command that has been started and not waited for.
struct Executor::Flight {
  const List *list = nullptr;
  const Decoded *command = nullptr;
  CommandHandle handle = {};    // of communication
  Device::CopyHandle copy = {}; // of a copy
  // If the device reports the times and an observer has watched from the start: mark numbers until a list is over.
  std::shared_ptr<CommandTimes> times = {};
  bool areMoments = true;

  bool isCopy() const { return command->kind == Decoded::StartCopy; }
};

/// A finished command that has not been reported yet.
struct Executor::Over {
  const List *list;
  const Decoded *command;
  int64_t begin, end; ///< mark numbers of the device, or times
  bool areMoments;
  bool isStart = false;
};

/// Consecutive commands of a list: a run of launches and copies, or others.
struct Executor::Stretch {
  size_t begin, end;
  bool isRepeatable = false;
  bool wasRun = false;           ///< so everything that happens once, at the first launch, has happened
  Device::Sequence sequence = 0; ///< its recording by the device
};

struct Executor::List {
  std::string name;
  uint32_t number; ///< among the manifest's lists
  std::vector<Decoded> commands;
  std::vector<Stretch> stretches; ///< cover all commands
  std::vector<void *> buffers;    // of all launches
  std::vector<int64_t> scalars;   // of all launches
};

/// Makes Lists of validated CommandLists (validate.h), resolved for one role (runtime/abi/resolve.h).
class Executor::Decoder {
public:
  explicit Decoder(Executor &executor);

  std::unique_ptr<List> decode(const abi::CommandList &list);

private:
  Decoded decodeLaunch(const abi::Launch &launch);
  Decoded decodeCopy(const abi::Command &command);
  Decoded decodeStart(const abi::Command &command);
  void findStretches() const;
  void requireCapabilities(const abi::Collective &collective) const;
  bool waitFollows() const;
  uint32_t flightOf(uint32_t token);
  int64_t scalarBits(const abi::Scalar &scalar) const;

  Executor &executor;
  Mesh mesh;
  std::vector<Device::Kernel> kernels;          // like Manifest.kernels
  std::map<uint32_t, uint32_t> flightsOfTokens; // of the role

  // Of the list being decoded:
  const abi::CommandList *source = nullptr;
  int at = 0;
  List *list = nullptr;
};

} // namespace dtc
