// The events of a step, in the order of their times.
#include "timing/events/simulate.h"

#include "timing/events/plan.h"
#include "timing/events/state.h"

#include "runtime/support/error.h"

#include <algorithm>
#include <numeric>
#include <queue>

namespace dtc::timing {

double ClassTimes::late() const {
  return std::accumulate(exposed.begin(), exposed.end(), 0.0, [](double sum, auto &each) { return sum + each.late; });
}
double ClassTimes::moving() const {
  return std::accumulate(exposed.begin(), exposed.end(), 0.0, [](double sum, auto &each) { return sum + each.moving; });
}

namespace {

class Run {
public:
  Run(const SimulationPlan &plan, Watcher *watcher);
  Simulated run();

private:
  void prepare(int number);
  void go(int number);
  void compute(int number, uint32_t until);
  void progress(Rank &rank);
  void foresee(int number);
  void start(int number, const Action &action);
  void tryBegin(int flight);
  double loadOf(const Flight &flight) const;
  double queueing(const Flight &flight) const;
  void begin(int number);
  void finish(int number);
  void foreseeEnd(int number);
  void steal(const Flight &flight, double speed);
  void setSpeeds(int level, const std::vector<int> &members);
  bool wait(int number, const Action &action);
  void note(int number, const Started &started, double since);
  void noteUse(int number, const Started &started);
  void tell(int number) const;
  [[noreturn]] void throwStuck() const;

  const StepEntry &entryOf(const Rank &rank, int number) const {
    return step.roles[plan.ofClass[number].role].entries[rank.entry];
  }
  const Action &actionOf(const Started &started) const { return step.lists[started.list].actions[started.action]; }

  const SimulationPlan &plan;
  const Step &step;
  Watcher *watcher;
  double time = 0;
  int64_t foreseen = 0;
  std::vector<Rank> ranks;
  std::vector<Flight> flights;
  std::vector<std::vector<int>> met; ///< flights of each encounter, in order
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  std::vector<std::map<std::pair<uint32_t, uint32_t>, Exposed>> exposed; ///< of each class
  Simulated result;
};

} // namespace

Run::Run(const SimulationPlan &plan, Watcher *watcher)
    : plan(plan), step(plan.step), watcher(watcher), ranks(plan.ofClass.size()), met(plan.encounters.size()),
      exposed(plan.ofClass.size()) {
  auto levels = static_cast<size_t>(plan.layout.cluster().levels_size());
  result.classes.resize(ranks.size());
  for (size_t number = 0; number < ranks.size(); ++number) {
    ranks[number].tokens.resize(size_t(step.tokens) * plan.places);
    ranks[number].load.resize(2 * levels);
    result.classes[number].moved.resize(levels);
    result.classes[number].busy.resize(levels);
    result.classes[number].needed.resize(2 * levels);
    result.classes[number].worked.resize(2 * levels);
  }
}

Simulated Run::run() {
  for (size_t number = 0; number < ranks.size(); ++number)
    prepare(static_cast<int>(number));
  while (!events.empty()) {
    Event event = events.top();
    events.pop();
    if (event.subject < 0) {
      if (flights[-1 - event.subject].version == event.version) {
        time = event.time;
        finish(-1 - event.subject);
      }
    } else if (Rank &rank = ranks[event.subject]; rank.version == event.version) {
      time = event.time;
      progress(rank);
      rank.left = 0;
      tell(event.subject);
      rank.action = rank.until;
      go(event.subject);
    }
  }
  for (size_t number = 0; number < ranks.size(); ++number) {
    if (ranks[number].phase != Rank::Over)
      throwStuck();
    ClassTimes &times = result.classes[number];
    for (auto &[key, each] : exposed[number])
      times.exposed.push_back(each);
    std::sort(times.exposed.begin(), times.exposed.end(), [](const Exposed &one, const Exposed &other) {
      double first = one.late + one.moving, second = other.late + other.moving;
      return std::tie(second, one.list, one.command) < std::tie(first, other.list, other.command);
    });
    result.seconds = std::max(result.seconds, times.end);
  }
  return std::move(result);
}

/// What a host does of a step comes before the first command.
void Run::prepare(int number) {
  Rank &rank = ranks[number];
  rank.left = result.classes[number].host = plan.ofClass[number].host;
  rank.phase = Rank::Computing;
  foresee(number);
}

/// Walks a rank on to the next stretch of launches, wait or end. Its clock is at `time`.
void Run::go(int number) {
  Rank &rank = ranks[number];
  rank.phase = Rank::Walking;
  const std::vector<StepEntry> &entries = step.roles[plan.ofClass[number].role].entries;
  for (; rank.entry < entries.size(); ++rank.entry, rank.action = 0) {
    uint32_t list = entries[rank.entry].list;
    const std::vector<Action> &actions = step.lists[list].actions;
    const TimedList &timed = *plan.ofClass[number].lists[list];
    while (rank.action < actions.size()) {
      const Action &action = actions[rank.action];
      if (uint32_t until = timed.nextSync[rank.action]; until != rank.action) {
        return compute(number, until);
      }
      ++result.actions;
      if (action.kind != Action::Kind::Wait)
        start(number, action);
      else if (!wait(number, action))
        return;
      ++rank.action;
    }
    if (plan.conditions.unlimited)
      result.classes[number].ends.push_back({time, result.classes[number].compute});
  }
  rank.phase = Rank::Over;
  result.classes[number].end = time;
}

/// Begins the launches from here to before `until`.
void Run::compute(int number, uint32_t until) {
  Rank &rank = ranks[number];
  const TimedList &timed = *plan.ofClass[number].lists[entryOf(rank, number).list];
  rank.left = timed.until[until] - timed.until[rank.action];
  rank.until = until;
  rank.begun = rank.now = time;
  rank.marks.assign(watcher ? 1 : 0, {time, 0});
  rank.phase = Rank::Computing;
  result.actions += until - rank.action;
  result.classes[number].compute += rank.left;
  foresee(number);
}

static double speedOf(double stolen) { return std::max(0.0, 1 - stolen); }

/// Brings what is left of a stretch up to `time`.
void Run::progress(Rank &rank) {
  double passed = time - rank.now, done = passed * speedOf(rank.stolen);
  rank.left -= done;
  rank.now = time;
  if (watcher)
    rank.marks.emplace_back(time, rank.marks.empty() ? done : rank.marks.back().second + done);
  result.classes[&rank - ranks.data()].stolen += passed - done;
}

void Run::foresee(int number) {
  Rank &rank = ranks[number];
  ++rank.version;
  if (double speed = speedOf(rank.stolen); speed > 0)
    events.push({time + std::max(0.0, rank.left) / speed, foreseen++, number, rank.version});
}

void Run::start(int number, const Action &action) {
  Rank &rank = ranks[number];
  const StepEntry &entry = entryOf(rank, number);
  const Target &target = plan.ofClass[number].targets[entry.list][rank.action];
  const Encounter &encounter = plan.encounters[target.encounter];
  auto turn = static_cast<size_t>(rank.met[2 * target.encounter + target.receives]++);
  std::vector<int> &all = met[target.encounter];
  if (turn == all.size()) {
    all.push_back(static_cast<int>(flights.size()));
    Flight &flight = flights.emplace_back();
    flight.encounter = target.encounter;
    flight.cost = target.cost;
    flight.missing = encounter.arrivals;
    if (action.kind != Action::Kind::StartCopy)
      flight.move = &step.moves[action.index];
  }
  int flight = all[turn];
  uint32_t place = action.tokenSpace < entry.places.size() ? entry.places[action.tokenSpace] : 0;
  rank.tokens[action.token + size_t(step.tokens) * place] = {
      flight, entry.list, rank.action, static_cast<int64_t>(rank.entry), result.classes[number].compute};
  if (watcher)
    watcher->executed({number, entry.list, action.command, static_cast<int64_t>(rank.entry), time, time,
                       /*isStart=*/true});
  if (int level = target.cost->level; level >= 0)
    result.classes[number].moved[level] += target.sent;
  rank.channels[encounter.channel].push_back(flight);
  if (--flights[flight].missing > 0)
    return;
  flights[flight].gathered = time;
  tryBegin(flight);
}

/// Begins what everybody has started, once it is first in all queues.
void Run::tryBegin(int number) {
  const Flight &flight = flights[number];
  if (flight.phase != Flight::Gathering || flight.missing > 0)
    return;
  const Encounter &encounter = plan.encounters[flight.encounter];
  if (!plan.conditions.unlimited)
    for (int member : encounter.classes)
      if (ranks[member].channels[encounter.channel].front() != number)
        return;
  begin(number);
}

/// On the fullest of its links, in its direction.
double Run::loadOf(const Flight &flight) const {
  double load = 0;
  plan.encounters[flight.encounter].forEachDirection([&](int member, int direction) {
    load = std::max(load, ranks[member].load[2 * flight.cost->level + direction]);
  });
  return load;
}

/// What it takes longer because others fill its links already.
double Run::queueing(const Flight &flight) const {
  int level = flight.cost->level;
  if (level < 0 || plan.conditions.unlimited)
    return 0;
  const Level &links = plan.layout.cluster().levels(level);
  return std::min(1.0, loadOf(flight)) * std::max(0.0, links.loaded_latency() - links.latency());
}

void Run::begin(int number) {
  Flight &flight = flights[number];
  flight.phase = Flight::Moving;
  flight.begin = flight.at = time;
  flight.left = flight.cost->seconds;
  flight.speed = 1;
  if (flight.cost->seconds > 0) {
    flight.width = flight.cost->level < 0 ? 0 : 1 - flight.cost->latency / flight.cost->seconds;
    flight.steals = plan.conditions.unlimited ? 0 : flight.cost->processorSeconds / flight.cost->seconds;
  }
  const std::vector<int> &members = plan.encounters[flight.encounter].classes;
  flight.left += queueing(flight);
  if (int level = flight.cost->level; level >= 0)
    plan.encounters[flight.encounter].forEachDirection([&](int member, int direction) {
      ranks[member].load[2 * level + direction] += flight.width;
      double full = flight.width * flight.cost->seconds;
      result.classes[member].needed[2 * level + direction] += full;
      result.classes[member].worked[2 * level + direction] += full * flight.steals;
    });
  for (int member : members)
    ranks[member].moving.push_back(number);
  steal(flight, flight.speed);
  setSpeeds(flight.cost->level, members);
  foreseeEnd(number);
}

/// From all ranks that take part, at a speed by which that of the flight has changed: slower ones work less on it.
void Run::steal(const Flight &flight, double speed) {
  if (flight.steals == 0)
    return;
  for (int member : plan.encounters[flight.encounter].classes) {
    Rank &rank = ranks[member];
    if (rank.phase == Rank::Computing)
      progress(rank);
    rank.stolen = rank.moving.empty() ? 0 : rank.stolen + flight.steals * speed; // no rounding is left behind
    if (rank.phase == Rank::Computing)
      foresee(member);
  }
}

/// Of all that moves over a level with a rank of these.
void Run::setSpeeds(int level, const std::vector<int> &members) {
  if (level < 0 || plan.conditions.unlimited)
    return;
  for (int member : members)
    for (int each : ranks[member].moving) {
      Flight &flight = flights[each];
      if (flight.cost->level != level)
        continue;
      double load = std::max(1.0, loadOf(flight));
      if (1 / load == flight.speed)
        continue;
      flight.left -= (time - flight.at) * flight.speed;
      flight.at = time;
      steal(flight, 1 / load - flight.speed);
      flight.speed = 1 / load;
      foreseeEnd(each);
    }
}

void Run::foreseeEnd(int number) {
  Flight &flight = flights[number];
  events.push({time + std::max(0.0, flight.left) / flight.speed, foreseen++, -1 - number, ++flight.version});
}

void Run::finish(int number) {
  Flight &flight = flights[number];
  flight.phase = Flight::Over;
  flight.end = time;
  const Encounter &encounter = plan.encounters[flight.encounter];
  if (int level = flight.cost->level; level >= 0)
    encounter.forEachDirection(
        [&](int member, int direction) { ranks[member].load[2 * level + direction] -= flight.width; });
  for (int member : encounter.classes) {
    Rank &rank = ranks[member];
    std::erase(rank.moving, number);
    std::erase(rank.channels[encounter.channel], number);
    if (flight.cost->level >= 0)
      result.classes[member].busy[flight.cost->level] += flight.end - flight.begin;
    if (rank.moving.empty()) // no rounding is left behind
      std::fill(rank.load.begin(), rank.load.end(), 0.0);
  }
  steal(flight, -flight.speed);
  setSpeeds(flight.cost->level, encounter.classes);
  std::vector<int> waiting = std::move(flights[number].waiting);
  for (int member : encounter.classes)
    if (const auto &queue = ranks[member].channels[encounter.channel]; !queue.empty())
      tryBegin(queue.front());
  for (int each : waiting) {
    Rank &rank = ranks[each];
    const Action &action = step.lists[entryOf(rank, each).list].actions[rank.action];
    wait(each, action); // which is over at once
    ++rank.action;
    go(each);
  }
}

/// Whether a rank can go on; else what it waits for will tell it.
bool Run::wait(int number, const Action &action) {
  Rank &rank = ranks[number];
  const StepEntry &entry = entryOf(rank, number);
  uint32_t place = action.tokenSpace < entry.places.size() ? entry.places[action.tokenSpace] : 0;
  const Started &started = rank.tokens[action.token + size_t(step.tokens) * place];
  Flight &flight = flights.at(static_cast<size_t>(started.flight));
  if (flight.phase != Flight::Over) {
    rank.phase = Rank::Waiting;
    rank.begun = time;
    flight.waiting.push_back(number);
    return false;
  }
  note(number, started, rank.phase == Rank::Waiting ? rank.begun : time);
  return true;
}

/// What a wait from `since` to now was for.
void Run::note(int number, const Started &started, double since) {
  const Flight &flight = flights[started.flight];
  const Action &action = actionOf(started);
  Exposed &own = exposed[number][{started.list, started.action}];
  own.list = started.list;
  own.command = action.command;
  double late = std::clamp(flight.gathered - since, 0.0, time - since);
  own.late += late;
  own.moving += time - since - late;
  ++own.times;
  if (plan.conditions.unlimited)
    noteUse(number, started);
  if (!watcher)
    return;
  watcher->executed({number, started.list, action.command, started.entry, flight.begin, flight.end});
  const Rank &rank = ranks[number];
  const StepEntry &entry = entryOf(rank, number);
  watcher->executed({number, entry.list, step.lists[entry.list].actions[rank.action].command,
                     static_cast<int64_t>(rank.entry), since, time});
}

/// Of a collective both ways, of a transfer the one that this rank sees.
void Run::noteUse(int number, const Started &started) {
  const Flight &flight = flights[started.flight];
  int level = flight.cost->level;
  if (level < 0)
    return;
  Action::Kind kind = actionOf(started).kind;
  ClassTimes &times = result.classes[number];
  for (size_t direction : {0, 1})
    if (kind == Action::Kind::Start || direction == (kind == Action::Kind::Receive))
      times.uses.push_back({2 * static_cast<size_t>(level) + direction,
                            flight.begin,
                            flight.width * flight.cost->seconds,
                            {static_cast<size_t>(started.entry), started.compute},
                            {ranks[number].entry, times.compute}});
}

/// Of the launches of a stretch that is over. What is simulated does not depend on whether anybody hears of it.
void Run::tell(int number) const {
  const Rank &rank = ranks[number];
  if (!watcher || rank.action == rank.until)
    return;
  const StepEntry &entry = entryOf(rank, number);
  const std::vector<double> &until = plan.ofClass[number].lists[entry.list]->until;
  auto mark = rank.marks.begin();
  auto timeOf = [&](double done) { // which only grows
    while (mark + 2 < rank.marks.end() && mark[1].second < done)
      ++mark;
    auto [since, before] = mark[0];
    auto [then, after] = mark[1];
    return after > before ? since + (then - since) * std::min(1.0, (done - before) / (after - before)) : then;
  };
  double begin = rank.begun;
  for (uint32_t at = rank.action; at < rank.until; ++at) {
    double end = at + 1 == rank.until ? time : timeOf(until[at + 1] - until[rank.action]);
    const Action &action = step.lists[entry.list].actions[at];
    watcher->executed({number, entry.list, action.command, static_cast<int64_t>(rank.entry), begin, end});
    begin = end;
  }
}

void Run::throwStuck() const {
  for (size_t number = 0; number < ranks.size(); ++number)
    if (const Rank &rank = ranks[number]; rank.phase != Rank::Over) {
      const StepEntry &entry = entryOf(rank, static_cast<int>(number));
      throw Error("the simulated ranks wait for each other for ever: rank " +
                  std::to_string(plan.classes.representativeOf(static_cast<int>(number))) + " in list '" +
                  step.lists[entry.list].name + "', command " +
                  std::to_string(step.lists[entry.list].actions[rank.action].command));
    }
  throw Error("the simulated ranks wait for each other for ever");
}

Simulator::Simulator(const Step &step, const Layout &layout, const Conditions &conditions)
    : plan(std::make_unique<SimulationPlan>(step, layout, conditions)) {}
Simulator::~Simulator() = default;

Simulated Simulator::run(Watcher *watcher) { return Run(*plan, watcher).run(); }
const EqualRanks &Simulator::classes() const { return plan->classes; }

Simulated simulate(const Step &step, const Layout &layout, const Conditions &conditions, Watcher *watcher) {
  return Simulator(step, layout, conditions).run(watcher);
}

} // namespace dtc::timing
