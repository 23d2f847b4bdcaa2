// When a pipeline's ranks begin to receive, and wait until something has been sent.
#include "passes/schedule/timetables/AddTransfers.h"

#include "passes/analysis/Stages.h"
#include "llvm/ADT/MapVector.h"

#include <deque>

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

namespace {

constexpr size_t mostUnderWay = 2; // one is sent while the next is computed
constexpr int64_t fromTheStart = -1;

struct Message {
  func::FuncOp receive;
  int64_t microBatch = 0;
  int64_t begunAfter = fromTheStart; ///< the number of the pass after which the receiver begins to receive it
};

class TransferPlanner {
public:
  TransferPlanner(ArrayRef<std::vector<PlannedPass>> roles, const TransferFunctions &transfers)
      : roles(roles), transfers(transfers) {
    for (auto [role, passes] : llvm::enumerate(roles))
      for (auto [index, pass] : llvm::enumerate(passes))
        if (endsOf(pass.function).receive)
          readers[keyOf(pass.function, pass.microBatch)] = {role, index};
    incoming.resize(roles.size());
    findMessages();
    for (size_t role = 0; role < roles.size(); ++role)
      beginReceives(role);
  }

  std::vector<RunEntry> entriesOf(size_t role) {
    entries.clear();
    underWay.clear();
    for (auto [index, pass] : llvm::enumerate(roles[role])) {
      for (const Message *message : incoming[role].begun[index])
        entries.push_back({message->receive, message->microBatch});
      if (func::FuncOp sent = endsOf(pass.function).sent) {
        std::deque<const Message *> &before = underWay[sent];
        while (before.size() >= mostUnderWay && before.front()->begunAfter < pass.at)
          awaitSent(sent);
        before.push_back(sentBy.lookup({role, index}));
      }
      entries.push_back({pass.function, pass.microBatch});
      if (func::FuncOp copy = copies.lookup({role, index}))
        entries.push_back({copy, pass.microBatch});
      for (auto &[sent, messages] : underWay)
        while (!messages.empty() && messages.front()->microBatch <= pass.settles)
          awaitSent(sent);
      entries.insert(entries.end(), pass.then.begin(), pass.then.end());
    }
    for (auto &[sent, messages] : underWay)
      while (!messages.empty())
        awaitSent(sent);
    return std::move(entries);
  }

private:
  using Index = std::pair<size_t, size_t>; ///< a role, and a pass of it
  struct Incoming {
    /// By the role that sends; what comes from a role that is not there, by that of a pass.
    std::map<int64_t, std::vector<Message *>> channels;
    DenseMap<size_t, std::pair<int64_t, size_t>> messageOf; ///< of a pass: the channel, and its number there
    std::vector<std::vector<const Message *>> begun;        ///< before each pass
  };
  /// What a function takes part in. It is found by texts, and many passes run one function.
  struct Ends {
    func::FuncOp receive, sent;
    bool sends = false; ///< something that another stage receives
  };
  using Key = std::tuple<int64_t, bool, int64_t>; ///< stage, whether it is a forward pass, micro-batch

  static bool isForward(func::FuncOp function) { return dutyOf(function).getTask() == Task::Forward; }
  static Key keyOf(func::FuncOp function, int64_t microBatch) {
    return {dutyOf(function).getStage(), isForward(function), microBatch};
  }

  const Ends &endsOf(func::FuncOp function) {
    auto [known, isNew] = ends.try_emplace(function);
    if (isNew)
      known->second = {transfers.receiveOf(function), transfers.sentOf(function), !dtc::sentBy(function).empty()};
    return known->second;
  }

  /// Messages are numbered in the order in which they are sent.
  void findMessages() {
    DenseSet<Index> known;
    for (auto [role, passes] : llvm::enumerate(roles))
      for (auto [index, pass] : llvm::enumerate(passes)) {
        if (!endsOf(pass.function).sends)
          continue;
        auto [stage, isForward, microBatch] = keyOf(pass.function, pass.microBatch);
        auto reader = readers.find({isForward ? stage + 1 : stage - 1, isForward, microBatch});
        if (reader == readers.end()) {
          sentBy[{role, index}] = &messages.emplace_back(Message{{}, microBatch});
          continue;
        }
        known.insert(reader->second);
        auto [readerRole, readerIndex] = reader->second;
        func::FuncOp receive = endsOf(roles[readerRole][readerIndex].function).receive;
        if (readerRole == role)
          copies[{role, index}] = receive;
        else
          sentBy[{role, index}] = addMessage(static_cast<int64_t>(role), reader->second, receive, microBatch);
      }
    for (const auto &[key, reader] : readers)
      if (auto [role, index] = reader; !known.contains(reader))
        addMessage(-1, reader, endsOf(roles[role][index].function).receive, std::get<2>(key));
  }

  Message *addMessage(int64_t from, Index reader, func::FuncOp receive, int64_t microBatch) {
    Incoming &of = incoming[reader.first];
    std::vector<Message *> &channel = of.channels[from];
    of.messageOf[reader.second] = {from, channel.size()};
    return channel.emplace_back(&messages.emplace_back(Message{receive, microBatch}));
  }

  void beginReceives(size_t role) {
    ArrayRef<PlannedPass> passes = roles[role];
    Incoming &of = incoming[role];
    of.begun.resize(passes.size());
    std::map<int64_t, size_t> begun; // of each channel
    size_t seen = 0;
    for (size_t index = 0; index < passes.size(); ++index)
      for (; seen < std::min(passes.size(), index + 2); ++seen)
        if (auto found = of.messageOf.find(seen); found != of.messageOf.end()) {
          auto [from, number] = found->second;
          for (size_t &next = begun[from]; next <= number; ++next) {
            Message *message = of.channels[from][next];
            message->begunAfter = index == 0 ? fromTheStart : passes[index - 1].at;
            of.begun[index].push_back(message);
          }
        }
  }

  void awaitSent(func::FuncOp sent) {
    std::deque<const Message *> &before = underWay[sent];
    entries.push_back({sent, before.front()->microBatch});
    before.pop_front();
  }

  ArrayRef<std::vector<PlannedPass>> roles;
  const TransferFunctions &transfers;
  DenseMap<func::FuncOp, Ends> ends;
  std::map<Key, Index> readers; ///< the passes that receive
  std::deque<Message> messages;
  std::vector<Incoming> incoming; ///< of each role
  DenseMap<Index, const Message *> sentBy;
  DenseMap<Index, func::FuncOp> copies; ///< behind passes
  std::vector<RunEntry> entries;
  llvm::MapVector<func::FuncOp, std::deque<const Message *>> underWay; ///< by the function that awaits it
};

} // namespace

std::vector<std::vector<RunEntry>> addTransfers(ArrayRef<std::vector<PlannedPass>> roles,
                                                const TransferFunctions &transfers) {
  TransferPlanner planner(roles, transfers);
  std::vector<std::vector<RunEntry>> all;
  for (size_t role = 0; role < roles.size(); ++role)
    all.push_back(planner.entriesOf(role));
  return all;
}

} // namespace dtc
