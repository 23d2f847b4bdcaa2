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

/// Where a command stands, for messages: "list 'micro', command 7 (h.0.attn)".
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

/// Decodes the lists of one rank's role once, as its timetables run them, then runs them. Everything a list may touch
/// is checked when it is decoded: a manifest that does not fit itself, the memory or the kernels is an Error (BadInput)
/// of the constructor.
class Executor {
public:
  /// All of these outlive the executor. `memory` has the role's size, is of the device and is the one the communicator
  /// was made with; `hostMemory` is of Device::allocateHost and of the role's size, and may be null where the role has
  /// none.
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

  /// The first entry of the role's timetables that runs this list. Throws Error (Runtime) where none does.
  const abi::TimetableEntry &entryOf(std::string_view list) const;

  /// Runs the list of an entry of a timetable; what it starts and does not wait for, a later one does. The device may
  /// still be at it on return: what is read of tensors is as the list leaves them. Throws PeerLostError when a peer is
  /// gone; kernels do not fail.
  void run(const abi::TimetableEntry &entry);
  void run(std::string_view list) { run(entryOf(list)); }

  /// For how long run() has worked so far, and not waited for what ranks exchange. Of a device that is not the host
  /// itself, how long the host took to give it work.
  double computeSeconds() const { return static_cast<double>(runNanoseconds - exchangeNanoseconds) / 1e9; }

  /// Runs a list like run(), looking at the floating-point outputs of every launch for NaN and infinity: slow, for
  /// finding out where a non-finite loss came from. All ranks call it together. Continues to the end of the list (peers
  /// wait for us) and reports this rank's first finding.
  std::optional<NonFinite> runChecked(const abi::TimetableEntry &entry);

  /// One of a list's commands has written these bytes; a collective or a receive by the wait for it.
  using Written = std::function<void(uint32_t command, std::span<const std::byte>)>;
  /// Runs a list like run() and shows what each command has written, in pieces, before the next one begins. Slow. All
  /// ranks call it together.
  void runShown(const abi::TimetableEntry &entry, const Written &show);

  /// Watches every command from now on; null: nobody. It hears of a list's commands when the list is over, and the
  /// device with it. Not while a list runs.
  void observe(Observer *watcher);

  /// Says where the lists that run from now on belong, for whoever asks what this rank does.
  void beginStep(int64_t step) { peers.whereabouts().beginStep(static_cast<uint64_t>(step)); }

  // Named places in memory: state, step inputs and step outputs.

  bool hasTensor(std::string_view name) const { return tensors.find(name) != tensors.end(); }
  /// The input, output or parameter of that name; a parameter's moments and gradients are found in the manifest.
  /// Throws Error (Runtime) when there is none.
  const abi::Tensor &tensor(std::string_view name) const;
  /// A copy of the local shard, padding included, as the lists run so far leave it; of several places, the first one.
  /// Throw Error (Runtime) when the tensor has another type.
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
  /// As execute; where the device fails the error says at which command.
  void executeOrTell(const List &list, const Decoded &command);
  void run(const List &list, Stretch &stretch);
  /// Before a start.
  void awaitDevice() {
    if (!peers.capabilities().deviceOrder)
      ownDevice.wait(ownDevice.record());
  }
  /// Before anything but a start or a wait.
  void handOver() {
    if (std::exchange(hasStarted, false))
      peers.handOver();
  }
  void awaitFlights(const Decoded &wait);
  void startCopy(const List &list, const Decoded &command);
  void startExchange(const List &list, const Decoded &command);
  void report();
  void settleTimes(const std::vector<int64_t> &moments);
  /// Where a resolved address lies.
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
  std::vector<std::vector<Flight>> flights;           // per token: the parts of what is under way, of any list
  std::deque<abi::CommandList> resolved;              // lists as entries mean them
  std::map<std::string, std::unique_ptr<List>> lists; // by abi::instanceOf
  Observer *observer = nullptr;
  std::vector<Over> seen;  // of the list that runs
  bool hasStarted = false; // a command, since peers were last told to go on by themselves
  int64_t runNanoseconds = 0, exchangeNanoseconds = 0; // in run(), and of these in waits for peers
};

} // namespace dtc
