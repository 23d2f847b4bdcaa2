#include "runtime/liveness/heart.h"

#include <utility>

namespace dtc {

Heart::Heart(ControlBlock block, HeartOptions given)
    : control(std::move(block)), options(std::move(given)), seen(control.ranks()), thread([this] { run(); }) {}

Heart::~Heart() {
  {
    std::lock_guard lock(mutex);
    ending = true;
  }
  end.notify_all();
  thread.join();
}

void Heart::run() {
  Clock::time_point last = {};
  for (std::unique_lock lock(mutex); !ending; end.wait_for(lock, Interval)) {
    control.whereabouts(control.self()).beat();
    auto now = Clock::now();
    if (now - last > OwnSilence)
      for (Seen &rank : seen)
        rank.heard = rank.moved = now;
    last = now;
    if (options.watchdog.count() > 0 && !control.failure())
      look(now);
  }
}

void Heart::look(Clock::time_point now) {
  auto since = [&](Clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - time);
  };
  std::vector<Signs> signs;
  std::vector<int> ranks; // of the signs, in order
  for (int rank = 0; rank < control.ranks(); ++rank) {
    const Whereabouts &there = control.whereabouts(rank);
    Seen &known = seen[rank];
    if (uint64_t beats = there.countBeats(); std::exchange(known.beats, beats) != beats)
      known.heard = now;
    if (uint64_t progress = there.countProgress(); std::exchange(known.progress, progress) != progress)
      known.moved = now;
    if (!control.isPresent(rank))
      continue;
    CommandPlace place = there.last().place;
    ranks.push_back(rank);
    // The system of this host is responsive: we are running on it.
    signs.push_back({control.nameOf(rank), since(known.heard), std::chrono::milliseconds(0), since(known.moved),
                     place.isInList(), there.isWaiting(), ""});
  }
  if (!judge(signs, options.watchdog))
    return;
  // Formats text only now, because all ranks check all others several times a second.
  for (size_t i = 0; i < ranks.size(); ++i)
    if (CommandPlace place = control.whereabouts(ranks[i]).last().place; options.describe && place.isInList())
      signs[i].place = options.describe(ranks[i], place);
  if (std::optional<FailureNotice> notice = judge(signs, options.watchdog))
    control.fail(notice->rank, notice->reason);
}

} // namespace dtc
