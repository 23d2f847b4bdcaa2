// The state of the stand-in's GPUs. Private to the stand-in.
#pragma once

#include "test/gpu/machine.h"
#include "test/gpu/stand_in/stand_in.h"

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

struct CUctx_st {
  int device;
};

/// Enqueued work; the first is number `done`. It returns NotReady, and is called again, where it waits.
struct CUstream_st {
  uint64_t number; ///< from 1, in the order of creation
  std::deque<std::function<int()>> queue;
  uint64_t done = 0;
  bool isAtWork = false;    ///< on the first
  std::thread::id capturer; ///< none: it is not being captured
  std::vector<std::function<int()>> captured;

  bool isCaptured() const { return capturer != std::thread::id(); }
  uint64_t given() const { return done + queue.size(); }
};

struct CUevent_st {
  CUstream_st *stream = nullptr; ///< null: never recorded
  uint64_t point = 0;            ///< how much of it must be done
  bool hasTime = false;
  std::chrono::steady_clock::time_point time; ///< when it was
};

struct CUfunc_st {
  std::string name;
  dtc::test::ThreadFunction function;
  int64_t arguments;
};

struct CUmod_st {
  void *handle = nullptr; ///< of the shared object
  int file = -1;          ///< that it was loaded from
  std::map<std::string, CUfunc_st> functions;
};

struct CUgraph_st {
  std::vector<std::function<int()>> work;
};

struct CUgraphExec_st {
  std::vector<std::function<int()>> work;
};

namespace dtc::test {

/// Addresses that nobody may access; the bytes are elsewhere.
struct FarBytes {
  std::byte *address = nullptr, *behind = nullptr;
  size_t bytes = 0, reserved = 0;

  explicit FarBytes(size_t bytes);
  ~FarBytes();
  FarBytes(const FarBytes &) = delete;
  FarBytes &operator=(const FarBytes &) = delete;
};

/// The settings in DTC_STAND_IN when the driver is initialised.
struct Settings {
  int devices = 1, first = 0, version = 13000, architecture = 90, multiprocessors = 1;
  size_t memory = size_t(1) << 30;
  int64_t lostAt = -1, refusedAt = -1;
  size_t connections = 8;  ///< queues that streams share
  bool loadsEarly = false; ///< all code when it is given, none at its first use

  static Settings read();
};

struct State {
  /// Of all calls: one at a time.
  std::recursive_mutex mutex;
  Settings settings;
  bool isInitialized = false;
  int failure = cuda::Success; ///< of the first work that failed: from then on everything fails
  int64_t launches = 0, launchesGiven = 0;
  size_t used = 0;
  std::chrono::nanoseconds ahead{0}; ///< of the GPU's clock before the host's, by what its work claimed to take
  std::map<cuda::DevicePointer, std::unique_ptr<FarBytes>> memory;
  std::map<void *, size_t> pinned;
  std::set<CUstream_st *> streams;
  uint64_t streamsMade = 0;
  std::set<CUevent_st *> events;
  GpuMachine machine;

  static State &get();

  /// What every call begins with: the result that it must give at once, or success.
  int begin(bool needsContext = true) const;
  /// Does the work of a stream up to `point`, and the work of other streams while that waits for a peer.
  int run(CUstream_st &stream, uint64_t point);
  int run(CUstream_st &stream) { return run(stream, stream.given()); }
  /// As run(), without waiting: NotReady where it would.
  int advance(CUstream_st &stream, uint64_t point);
  int give(CUstream_st *stream, std::function<int()> work);
  void forgetAll();         ///< work of a lost GPU: none of it is done any more
  bool isCapturing() const; ///< the calling thread
  /// The bytes of the device; null, with a message, where they are not those of one allocation.
  std::byte *reach(cuda::DevicePointer address, size_t bytes, const char *what);
  bool isPinned(const void *address, size_t bytes) const;
  int launch(const CUfunc_st &kernel, unsigned blocks, unsigned threads, const std::vector<uint64_t> &arguments);
};

/// The context of the calling thread.
extern thread_local cuda::Context current;

/// Reports what went wrong, as a debugger would.
void complain(const std::string &what);

} // namespace dtc::test
