#include "timing/events/bound.h"

#include <algorithm>
#include <queue>

namespace dtc::timing {

double preemptiveEnd(std::vector<Task> tasks) {
  std::sort(tasks.begin(), tasks.end(), [](const Task &a, const Task &b) { return a.release < b.release; });
  auto hasShorterTail = [](const Task &a, const Task &b) { return a.tail < b.tail; };
  std::priority_queue<Task, std::vector<Task>, decltype(hasShorterTail)> ready(hasShorterTail);
  double time = 0, end = 0;
  for (size_t next = 0; next < tasks.size() || !ready.empty();) {
    if (ready.empty())
      time = std::max(time, tasks[next].release);
    for (; next < tasks.size() && tasks[next].release <= time; ++next)
      ready.push(tasks[next]);
    Task task = ready.top();
    ready.pop();
    double until = next < tasks.size() ? std::min(tasks[next].release, time + task.seconds) : time + task.seconds;
    task.seconds -= until - time;
    time = until;
    if (task.seconds > 0 && next < tasks.size() && time >= tasks[next].release)
      ready.push(task);
    else
      end = std::max(end, time + task.tail);
  }
  return end;
}

namespace {

/// For one class: the earliest time at which it can reach the end of each of its entries, one after the other.
class InTime {
public:
  InTime(const ClassTimes &free, size_t numLinks) : free(free), tasksOf(numLinks), begins{free.host} {}

  /// The end of the last entry, and the link that delays it: none where the chain of commands does.
  std::pair<double, int> end() {
    std::pair<double, int> last{0, -1};
    size_t use = 0;
    for (size_t entry = 0; entry < free.ends.size(); ++entry) {
      auto [time, compute] = free.ends[entry];
      double own = begins.back() + compute - computeBefore(entry);
      last = {std::max(time, own), time >= own ? -1 : last.second};
      for (; use < free.uses.size() && free.uses[use].wait.entry == entry; ++use)
        add(free.uses[use]);
      for (size_t link = 0; link < tasksOf.size(); ++link)
        if (double seconds = endOf(link, compute); seconds > last.first)
          last = {seconds, static_cast<int>(link)};
      begins.push_back(last.first);
    }
    return last;
  }

private:
  double computeBefore(size_t entry) const { return entry == 0 ? 0 : free.ends[entry - 1].compute; }

  /// A rank starts it no earlier than its entry begins, and computes what is before it.
  void add(const LinkUse &use) {
    double reached = begins[use.start.entry] + use.start.compute - computeBefore(use.start.entry);
    tasksOf[use.link].push_back({std::max(use.from, reached), use.seconds, use.wait.compute});
  }

  /// With what is computed after each wait, up to there.
  double endOf(size_t link, double compute) const {
    std::vector<Task> tasks = tasksOf[link];
    for (Task &task : tasks)
      task.tail = compute - task.tail;
    return preemptiveEnd(std::move(tasks));
  }

  const ClassTimes &free;
  std::vector<std::vector<Task>> tasksOf; ///< by link; their tail is the compute before their wait
  std::vector<double> begins;             ///< of each entry, at the earliest
};

} // namespace

/// Seconds in which a rank's processor moves something and does not compute. For several links the simulator may count
/// them once.
static double movingSeconds(const ClassTimes &times) {
  return times.worked.empty() ? 0 : std::ranges::max(times.worked);
}

LowerBound lowerBound(const Step &step, const Layout &layout, const Conditions &conditions,
                      const Simulated &simulated) {
  LowerBound bound;
  auto consider = [&](double seconds, LowerBound::Reason reason, size_t ofClass, int level) {
    constexpr double Rounding = 1 + 1e-9; // the first reason counts where two give the same time
    if (seconds > bound.seconds * Rounding)
      bound = {seconds, reason, static_cast<int>(ofClass), level};
  };
  const std::vector<ClassTimes> &classes = simulated.classes;
  for (size_t number = 0; number < classes.size(); ++number)
    consider(classes[number].host + classes[number].compute + movingSeconds(classes[number]), LowerBound::Compute,
             number, -1);
  bound.moving = movingSeconds(classes[static_cast<size_t>(bound.ofClass)]);
  for (size_t number = 0; number < classes.size(); ++number)
    for (size_t link = 0; link < classes[number].needed.size(); ++link)
      consider(classes[number].needed[link], LowerBound::Link, number, static_cast<int>(link / 2));
  Conditions free = conditions;
  free.unlimited = true;
  Simulated chains = simulate(step, layout, free);
  for (size_t number = 0; number < classes.size(); ++number)
    consider(chains.classes[number].end, LowerBound::CriticalPath, number, -1);
  for (size_t number = 0; number < classes.size(); ++number)
    if (auto [seconds, link] = InTime(chains.classes[number], classes[number].needed.size()).end(); link >= 0)
      consider(seconds, LowerBound::LinkInTime, number, link / 2);
  return bound;
}

} // namespace dtc::timing
