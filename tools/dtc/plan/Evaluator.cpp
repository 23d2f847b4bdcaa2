// Spreads candidates over threads.
#include "tools/dtc/plan/Evaluator.h"

#include "tools/dtc/plan/Worker.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace dtc {

namespace {

/// Candidates that are evaluated by one worker in a row: of one mesh and strategy.
struct KeyedPiece {
  std::string key;
  std::vector<size_t> members;
};

/// Pieces are small enough for all workers to get some.
std::vector<KeyedPiece> cutIntoPieces(const std::vector<std::string> &keys, size_t workers) {
  size_t most = (keys.size() + workers - 1) / workers;
  std::vector<KeyedPiece> pieces;
  std::map<std::string, size_t> open; // the last piece of each key
  for (size_t number = 0; number < keys.size(); ++number) {
    auto [found, isNew] = open.try_emplace(keys[number], pieces.size());
    if (!isNew && pieces[found->second].members.size() == most) {
      found->second = pieces.size();
      isNew = true;
    }
    if (isNew)
      pieces.push_back({keys[number], {}});
    pieces[found->second].members.push_back(number);
  }
  return pieces;
}

/// Hands pieces to workers, each first those that it has placed before.
class PieceQueue {
public:
  PieceQueue(std::vector<KeyedPiece> pieces, std::map<std::string, size_t> &homes)
      : pieces(std::move(pieces)), homes(homes) {}

  std::optional<KeyedPiece> takeFor(size_t worker) {
    std::lock_guard lock(mutex);
    if (pieces.empty())
      return std::nullopt;
    auto isOf = [&](bool isOwn) {
      return [this, worker, isOwn](const KeyedPiece &piece) {
        auto home = homes.find(piece.key);
        return isOwn ? home != homes.end() && home->second == worker : home == homes.end();
      };
    };
    auto found = std::ranges::find_if(pieces, isOf(true));
    if (found == pieces.end())
      found = std::ranges::find_if(pieces, isOf(false));
    if (found == pieces.end())
      found = pieces.begin();
    KeyedPiece piece = std::move(*found);
    pieces.erase(found);
    homes[piece.key] = worker;
    return piece;
  }

private:
  std::mutex mutex;
  std::vector<KeyedPiece> pieces;
  std::map<std::string, size_t> &homes;
};

/// Calls `work` for each of the numbers below `count`, each on a thread of its own. Throws what one of them throws.
void runThreads(size_t count, const std::function<void(size_t)> &work) {
  if (count == 1)
    return work(0);
  std::mutex mutex;
  std::exception_ptr problem;
  std::vector<std::jthread> threads;
  for (size_t number = 0; number < count; ++number)
    threads.emplace_back([&, number] {
      try {
        work(number);
      } catch (...) {
        std::lock_guard lock(mutex);
        problem = problem ? problem : std::current_exception();
      }
    });
  threads.clear(); // waits for all
  if (problem)
    std::rethrow_exception(problem);
}

} // namespace

Evaluator::Evaluator(const CompileRequest &request, const timing::Cluster &cluster, int threads) {
  for (int number = 0; number < std::max(1, threads); ++number)
    workers.push_back(std::make_unique<Worker>(request, cluster));
}

Evaluator::~Evaluator() = default;

plans::ModelFacts Evaluator::facts() const { return workers.front()->facts(); }

std::vector<plans::Evaluated> Evaluator::evaluate(const plans::Problem &problem,
                                                  std::span<const plans::Candidate> candidates) {
  std::vector<std::string> keys;
  for (const plans::Candidate &candidate : candidates)
    keys.push_back(Worker::keyOf(problem, candidate));
  std::vector<plans::Evaluated> evaluated(candidates.size());
  PieceQueue pieces(cutIntoPieces(keys, workers.size()), homes);
  runThreads(std::min(workers.size(), std::max<size_t>(1, candidates.size())), [&](size_t number) {
    while (std::optional<KeyedPiece> piece = pieces.takeFor(number))
      for (size_t member : piece->members)
        evaluated[member] = workers[number]->evaluate(problem, candidates[member]);
  });
  return evaluated;
}

RefinedPlan Evaluator::refine(const plans::Problem &problem, const plans::Evaluated &found, const Refining &how) {
  return workers.front()->refine(problem, found, how);
}

std::vector<RefinedPlan> Evaluator::refineAll(const plans::Problem &problem, std::span<const plans::Evaluated> found,
                                              const Refining &how) {
  std::vector<RefinedPlan> refined(found.size());
  std::atomic<size_t> next = 0;
  runThreads(std::min(workers.size(), std::max<size_t>(1, found.size())), [&](size_t number) {
    for (size_t one = next++; one < found.size(); one = next++)
      refined[one] = workers[number]->refine(problem, found[one], how);
  });
  return refined;
}

} // namespace dtc
