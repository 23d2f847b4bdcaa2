// Runs a role's command lists: the one interpreter of the executable form.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "runtime/comm/communicator.h"
#include "runtime/device/device.h"
#include "runtime/executor/observer.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtc {

/// A command's position, for messages: "list 'micro', command 7 (h.0.attn)".
std::string describePlace(const abi::Manifest &manifest, int rank, const CommandPlace &place);

/// The first value found not to be finite by Executor::runChecked.
struct NonFinite {
  uint32_t command; ///< index in the list
  uint32_t output;  ///< which of the launch's outputs
  int64_t element;  ///< its index from the buffer's offset, in elements
  float value;
  std::string kernel;   ///< symbol
  std::string location; ///< in the model, e.g. "h.3.attn.c_attn"
};

/// Decodes the lists of one rank's role once, as its timetables run them, then runs them. Decoding checks everything
/// that a list may access: the constructor throws Error (BadInput) for a manifest that is inconsistent or does not fit
/// the memory or the kernels.
class Executor {
public:
  /// All arguments outlive the executor. `memory` has the role's size, belongs to the device and is the one the
  /// communicator was made with. `hostMemory` comes from Device::allocateHost and has the role's size; it may be null
  /// if the role has none.
  Executor(const abi::Manifest &manifest, Communicator &communicator, Device &device, Memory &memory,
           Memory *hostMemory = nullptr);
  ~Executor();

  const abi::Manifest &manifest() const { return program; }
  const abi::Role &role() const { return ownRole; }
  Communicator &communicator() const { return peers; }
  Device &device() const { return ownDevice; }
  Memory &memory() const { return ownMemory; }
  Memory *hostMemory() const { return ownHostMemory; }
  int rank() const { return peers.rank(); }

  /// The first entry of the role's timetables that runs this list. Throws Error (Runtime) if none does.
  const abi::TimetableEntry &entryOf(std::string_view list) const;

  /// Runs the list of a timetable entry, which is in the places of one step (abi::inStep). A later list waits for what
  /// this one starts and does not wait for. The device may still be working on return; reads of tensors see the list's
  /// results. Throws PeerLostError when a peer is gone; kernels do not fail.
  void run(const abi::TimetableEntry &entry);
  void run(std::string_view list) { run(entryOf(list)); }

  /// Seconds that run() has worked so far, without waits for communication. For a device other than the host, the time
  /// that the host took to give it work.
  double computeSeconds() const { return static_cast<double>(runNanoseconds - exchangeNanoseconds) / 1e9; }

  /// Runs a list like run(), and checks the floating-point outputs of every launch for NaN and infinity: slow, for
  /// finding where a non-finite loss comes from. All ranks call it together. Continues to the end of the list (peers
  /// wait for us) and reports this rank's first finding.
  std::optional<NonFinite> runChecked(const abi::TimetableEntry &entry);

  /// Called with the bytes that a list's command has written; for a collective or a receive, at its wait.
  using Written = std::function<void(uint32_t command, std::span<const std::byte>)>;
  /// Runs a list like run() and shows what each command has written, in pieces, before the next one begins. Slow. All
  /// ranks call it together.
  void runShown(const abi::TimetableEntry &entry, const Written &show);

  /// Sets the observer of every command from now on; null: none. It is called for a list's commands when the list is
  /// over on the device, too. Do not call this while a list runs.
  void observe(Observer *watcher);

  /// Records the step that the lists from now on are for: ranks that run a command together must agree about it, and
  /// reports of what this rank is doing tell it.
  void beginStep(int64_t step) { peers.whereabouts().beginStep(static_cast<uint64_t>(step)); }

  // Named places in memory: state, step inputs and step outputs.

  bool hasTensor(std::string_view name) const { return tensors.find(name) != tensors.end(); }
  /// The input, output or parameter of that name; a parameter's moments and gradients are found in the manifest.
  /// Throws Error (Runtime) when there is none.
  const abi::Tensor &tensor(std::string_view name) const;
  /// A copy of the local shard, padding included, after all lists run so far; of several places, the first. Throw Error
  /// (Runtime) when the tensor has another type.
  std::vector<float> floats(std::string_view name) const;
  std::vector<int32_t> integers(std::string_view name) const;
  /// Replaces the local shard, padding included, before any list that runs from now on. Throw Error (Runtime) when the
  /// tensor has another type or number of elements. `place`: of the tensor's space.
  void write(const abi::Tensor &tensor, std::span<const float> values, uint32_t place = 0);
  void write(const abi::Tensor &tensor, std::span<const int32_t> values, uint32_t place = 0);
  /// The one element of a scalar tensor.
  float scalar(std::string_view name) const;
  void setScalar(std::string_view name, float value);

private:
  struct Decoded; // one command, ready to run
  struct Flight;
  struct Stretch;
  struct Over;
  struct List;
  class Decoder;

  void addTensor(const abi::Tensor &tensor);
  void decodeLists();
  List &findList(const abi::TimetableEntry &entry) const;
  void execute(const List &list, const Decoded &command);
  /// Like execute; if the device fails, the error names the command.
  void executeOrTell(const List &list, const Decoded &command);
  void run(const List &list, Stretch &stretch);
  /// Call before a start.
  void awaitDevice() {
    if (!peers.capabilities().deviceOrder)
      ownDevice.wait(ownDevice.record());
  }
  /// Call before anything but a start or a wait.
  void handOver() {
    if (std::exchange(hasStarted, false))
      peers.handOver();
  }
  void awaitFlights(const Decoded &wait);
  void startCopy(const List &list, const Decoded &command);
  void startExchange(const List &list, const Decoded &command);
  void report();
  void settleTimes(const std::vector<int64_t> &moments);
  /// Where a resolved address is.
  std::byte *locate(uint64_t address) const;
  void readAt(uint64_t address, std::span<std::byte> bytes) const;
  template <typename After> void walk(const abi::TimetableEntry &entry, After after);
  std::optional<NonFinite> findNonFinite(const Decoded &command) const;
  std::byte *placeOf(const abi::Tensor &tensor, abi::DataType type, size_t elements, uint32_t place = 0) const;
  template <typename T> std::vector<T> read(const abi::Tensor &tensor, abi::DataType type) const;

  const abi::Manifest &program;
  const abi::Role &ownRole;
  Communicator &peers;
  Device &ownDevice;
  Memory &ownMemory;
  Memory *ownHostMemory;
  std::map<std::string, const abi::Tensor *, std::less<>> tensors;
  std::vector<Group> groups;                          // like Manifest.groups, as this rank sees them
  std::vector<std::vector<Flight>> flights;           // per token: the parts in flight, from any list
  std::deque<abi::CommandList> resolved;              // lists resolved for entries
  std::map<std::string, std::unique_ptr<List>> lists; // by abi::instanceOf
  Observer *observer = nullptr;
  std::vector<Over> seen;  // of the running list
  bool hasStarted = false; // whether a command was started since the last hand-over
  int64_t runNanoseconds = 0, exchangeNanoseconds = 0; // in run(), and the part of it spent waiting for peers
};

} // namespace dtc
