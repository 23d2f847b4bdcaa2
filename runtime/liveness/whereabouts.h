// A rank's position in its command lists and its most recent positions, to diagnose why it does not respond. The rank's
// own thread writes. Others, including other processes, may read at any time: each word is consistent by itself.
#pragma once

#include "runtime/support/not_copied.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

/// A place in a rank's command lists.
struct CommandPlace {
  static constexpr uint32_t NoList = 0xffff; ///< between lists: reading data, writing, starting

  uint32_t list = NoList; ///< index in the role's lists
  uint32_t command = 0;   ///< index in the list

  bool isInList() const { return list != NoList; }
};

class Whereabouts {
public:
  /// How many recent positions are kept.
  static constexpr size_t Kept = 64;

  struct Visit {
    uint64_t step;
    CommandPlace place;
    int64_t begin; ///< CLOCK_MONOTONIC nanoseconds
  };

  /// Records the step that all is for from now on.
  void beginStep(uint64_t number) { step.store(number, std::memory_order_relaxed); }
  uint64_t currentStep() const { return step.load(std::memory_order_relaxed); }
  /// The rank is about to run this command.
  void enter(CommandPlace place) {
    uint64_t count = moves.load(std::memory_order_relaxed);
    Record &record = records[count % Kept];
    record.place.store(pack(step.load(std::memory_order_relaxed), place), std::memory_order_relaxed);
    record.begin.store(std::chrono::steady_clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    moves.store(count + 1, std::memory_order_release);
  }
  void setWaiting(bool is) {
    waiting.store(is, std::memory_order_relaxed);
    turns.fetch_add(1, std::memory_order_relaxed);
  }
  /// A checkpoint after so many steps is complete.
  void noteCheckpoint(uint64_t steps) { checkpoint.store(steps, std::memory_order_relaxed); }
  /// Sets the folder for this run's records; a path that is too long is ignored.
  void noteFolder(std::string_view path) {
    if (path.size() >= folderName.size())
      return;
    std::copy(path.begin(), path.end(), folderName.begin());
    folderBytes.store(path.size(), std::memory_order_release);
  }
  /// Shows that the process is running; called by a separate thread.
  void beat() { beats.fetch_add(1, std::memory_order_relaxed); }

  uint64_t countMoves() const { return moves.load(std::memory_order_acquire); }
  /// Grows as long as the rank makes progress: with each command, and with each begin and end of a wait. Between lists there
  /// are only waits.
  uint64_t countProgress() const { return countMoves() + turns.load(std::memory_order_relaxed); }
  uint64_t countBeats() const { return beats.load(std::memory_order_relaxed); }
  std::string folder() const { return {folderName.data(), folderBytes.load(std::memory_order_acquire)}; }
  uint64_t lastCheckpoint() const { return checkpoint.load(std::memory_order_relaxed); }
  bool isWaiting() const { return waiting.load(std::memory_order_relaxed); }

  /// The current position.
  Visit last() const {
    uint64_t count = countMoves();
    return count ? visit(count - 1) : Visit{0, {}, 0};
  }
  /// The oldest first.
  std::vector<Visit> visits() const {
    std::vector<Visit> result;
    uint64_t end = countMoves();
    for (uint64_t i = end - std::min<uint64_t>(end, Kept); i < end; ++i)
      result.push_back(visit(i));
    return result;
  }

private:
  struct Record {
    std::atomic<uint64_t> place{0};
    std::atomic<int64_t> begin{0};
  };
  Visit visit(uint64_t number) const {
    const Record &record = records[number % Kept];
    uint64_t packed = record.place.load(std::memory_order_relaxed);
    return {packed >> 36,
            {uint32_t(packed >> 20 & 0xffff), uint32_t(packed & 0xfffff)},
            record.begin.load(std::memory_order_relaxed)};
  }
  /// Step, list and command in 28, 16 and 20 bits.
  static uint64_t pack(uint64_t step, CommandPlace place) {
    return step << 36 | uint64_t(place.list & 0xffff) << 20 | (place.command & 0xfffff);
  }

  std::atomic<uint64_t> step{0}, moves{0}, turns{0}, beats{0}, checkpoint{0};
  std::atomic<uint32_t> waiting{0};
  std::atomic<size_t> folderBytes{0};
  std::array<char, 1024> folderName{};
  std::array<Record, Kept> records{};
};

/// That a rank waits for others, as long as this lives.
class WaitingNote : NotCopied {
public:
  explicit WaitingNote(Whereabouts &place) : place(place) { place.setWaiting(true); }
  ~WaitingNote() { place.setWaiting(false); }

private:
  Whereabouts &place;
};

} // namespace dtc
