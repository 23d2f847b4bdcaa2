#include "runtime/observe/trace.h"

#include "runtime/abi/commands.h"
#include "runtime/abi/groups.h"
#include "runtime/abi/marks.h"
#include "runtime/abi/resolve.h"
#include "runtime/abi/volume.h"
#include "runtime/abi/written.h"
#include "runtime/comm/run_together.h"
#include "runtime/support/mapped_file.h"
#include "runtime/support/output_file.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>
#include <unistd.h>

namespace dtc {

using Json = nlohmann::ordered_json;

/// Compute is thread 0, channel c is thread c + 1, and copies come after all these; the last thread shows the steps as
/// a whole.
static constexpr int CopyThread = 1 + abi::MaximumChannels, StepThread = 100;

static uint32_t threadOf(const abi::Command &command, const abi::Manifest &manifest) {
  if (abi::startsCopy(command))
    return CopyThread + command.copy().channel();
  return abi::communicates(command) ? 1 + manifest.groups(static_cast<int>(abi::groupOf(command))).channel() : 0;
}

void Trace::executed(const CommandEvent &event) {
  const abi::Command &command = event.command;
  Slice slice{&command, event.index, std::string(event.list), event.begin, event.end, event.isStart};
  bool isWait = command.has_wait();
  if (event.isStart)
    flows[abi::tokenOf(command)] = {flowCount++, event.begin, &command};
  if (isWait || abi::isStart(command))
    if (auto flow = flows.find(isWait ? command.wait().token() : abi::tokenOf(command)); flow != flows.end()) {
      slice.flow = flow->second.number;
      // A flow goes on in time: a wait may have begun before what it waits for.
      slice.flowTime = flow->second.time = std::max(flow->second.time, event.begin);
      if (isWait) {
        slice.awaited = flow->second.command;
        flows.erase(flow);
      }
    }
  slices.push_back(std::move(slice));
}

void Trace::step(int64_t number, int64_t begin, int64_t end) {
  slices.push_back({nullptr, number, "step", begin, end});
}

static std::string line(const Json &event) { return event.dump() + ",\n"; }

/// The names of the processes and threads.
std::string Trace::names() const {
  auto name = [&](const char *what, int thread, const char *key, Json value) {
    return line({{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", thread}, {"args", {{key, std::move(value)}}}});
  };
  std::string text = name("process_name", 0, "name", fmt::format("rank {}", rank)) +
                     name("process_sort_index", 0, "sort_index", rank) +
                     name("thread_name", StepThread, "name", "steps") + name("thread_name", 0, "name", "compute");
  std::set<uint32_t> channels;
  for (const abi::Group &group : manifest.groups())
    channels.insert(group.channel());
  for (uint32_t channel : channels)
    text += name("thread_name", static_cast<int>(channel) + 1, "name", fmt::format("channel {}", channel));
  channels.clear();
  for (const abi::CommandList &list : manifest.lists())
    for (const abi::Command &command : list.commands())
      if (abi::startsCopy(command))
        channels.insert(command.copy().channel());
  for (uint32_t channel : channels)
    text += name("thread_name", CopyThread + static_cast<int>(channel), "name", fmt::format("copies {}", channel));
  return text;
}

/// "ALL_REDUCE".
static std::string kindOf(const abi::Command &command) {
  return command.has_start()  ? abi::Collective::Kind_Name(command.start().kind())
         : command.has_send() ? "SEND"
                              : "RECV";
}

/// What is started or awaited: "ALL_REDUCE of h.0.mlp", "copy".
static std::string wordsOf(const abi::Command &command) {
  return command.has_copy() ? "copy" : kindOf(command) + " of " + abi::valueOf(command);
}

static void addCopied(Json &arguments, const abi::Copy &copy, int64_t nanoseconds) {
  uint64_t bytes = abi::bytesOf(copy.type(), static_cast<uint64_t>(copy.elements()));
  arguments["bytes"] = bytes;
  if (nanoseconds > 0)
    arguments["GB/s"] = static_cast<double>(bytes) / static_cast<double>(nanoseconds);
}

/// How many bytes a communicating command moves, and how fast: in bytes that a rank sends, which for collectives is the
/// bus bandwidth of NCCL's tests.
static void addBytes(Json &arguments, const abi::Command &command, const abi::Manifest &manifest, int64_t nanoseconds) {
  double bytes, sent;
  if (command.has_start()) {
    int64_t members = abi::membersOf(manifest.groups(static_cast<int>(command.start().group())));
    bytes = abi::payloadBytes(command.start(), members);
    sent = abi::sentBytes(command.start(), members);
  } else {
    const abi::Transfer &transfer = abi::transferOf(command);
    bytes = sent = static_cast<double>(abi::bytesOf(transfer.type(), static_cast<uint64_t>(transfer.elements())));
  }
  arguments["bytes"] = static_cast<int64_t>(bytes);
  arguments["sent_bytes"] = static_cast<int64_t>(sent);
  if (nanoseconds > 0)
    arguments["GB/s"] = sent / static_cast<double>(nanoseconds);
}

/// The part of a flow in a slice: a flow begins at a start and ends at the wait for it.
std::string Trace::describeFlow(const Slice &slice) const {
  if (!slice.flow)
    return "";
  bool ends = slice.command->has_wait();
  Json event = {{"ph", slice.isStart ? "s"
                       : ends        ? "f"
                                     : "t"},
                {"name", "started, carried out, waited for"},
                {"cat", "flow"},
                {"id", (static_cast<int64_t>(rank) << 32) + *slice.flow},
                {"pid", rank},
                {"tid", slice.isStart ? 0 : threadOf(*slice.command, manifest)},
                {"ts", static_cast<double>(slice.flowTime) / 1000}};
  if (ends)
    event["bp"] = "e"; // the enclosing slice, not the next one
  return line(event);
}

std::string Trace::describe(const Slice &slice) const {
  Json event = {{"ph", "X"},
                {"pid", rank},
                {"ts", static_cast<double>(slice.begin) / 1000},
                {"dur", static_cast<double>(slice.end - slice.begin) / 1000}};
  if (!slice.command) {
    event.update({{"name", fmt::format("step {}", slice.number)}, {"cat", "step"}, {"tid", StepThread}});
    return line(event);
  }
  const abi::Command &command = *slice.command;
  Json arguments = {{"list", slice.list}, {"command", slice.number}};
  if (std::string location = abi::locationOf(manifest, command); !location.empty())
    arguments["location"] = location;
  if (command.has_layer())
    arguments["layer"] = abi::layerName(manifest, command.layer());
  if (std::string_view direction = abi::nameOf(command.direction()); !direction.empty())
    arguments["direction"] = direction;
  std::string name = "wait", category = "wait";
  if (const abi::Command *awaited = slice.isStart ? &command : slice.awaited) {
    category = slice.isStart ? "start" : "wait";
    name = fmt::format("{} {}", slice.isStart ? "start" : "wait for", wordsOf(*awaited));
  } else if (command.has_launch()) {
    category = "kernel";
    name = manifest.kernels(static_cast<int>(command.launch().kernel())).symbol();
    arguments["bytes"] = command.work().bytes_read() + command.work().bytes_written();
    arguments["flops"] = command.work().flops();
  } else if (command.has_start()) {
    category = "collective";
    name = kindOf(command);
    arguments["value"] = command.start().value();
    arguments["reason"] = command.start().reason();
    addBytes(arguments, command, manifest, slice.end - slice.begin);
  } else if (command.has_copy()) {
    category = name = "copy";
    addCopied(arguments, command.copy(), slice.end - slice.begin);
  } else if (abi::communicates(command)) {
    category = "transfer";
    name = kindOf(command);
    arguments["value"] = abi::valueOf(command);
    addBytes(arguments, command, manifest, slice.end - slice.begin);
  }
  event.update({{"name", name},
                {"cat", category},
                {"tid", slice.isStart ? 0 : threadOf(command, manifest)},
                {"args", arguments}});
  return line(event) + describeFlow(slice);
}

std::string Trace::events() const {
  std::string text = names();
  for (const Slice &slice : slices)
    text += describe(slice);
  return text;
}

TraceFile::TraceFile(const std::string &path) : file(path) {
  file.append("{\"schemaVersion\": 1, \"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
}

void TraceFile::publish() {
  // Every entry so far ends with a comma: one more closes the list.
  file.append("{\"name\": \"process_labels\", \"ph\": \"M\", \"pid\": 0, \"args\": {\"labels\": \"dtc\"}}]}\n");
  file.publish(0666);
}

static std::string partPath(const std::string &trace, int rank) { return fmt::format("{}.rank-{}", trace, rank); }

namespace {
/// One rank's events, in a temporary file next to the trace.
struct TracePart {
  std::string path;

  TracePart(const std::string &trace, int rank) : path(partPath(trace, rank)) {}
  ~TracePart() { unlink(path.c_str()); }
};
} // namespace

static std::string_view textOf(const MappedFile &file) {
  return {reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size()};
}

void writeTrace(const Trace &trace, Communicator &communicator, const std::string &path) {
  TracePart mine(path, communicator.rank()); // removed when all have been read, or when writing failed
  runTogether(communicator, [&] {
    AtomicFile part(mine.path);
    part.append(trace.events());
    part.publish(0666);
  });
  runTogether(communicator, [&] {
    if (communicator.rank() != 0)
      return;
    TraceFile file(path);
    for (int rank = 0; rank < communicator.size(); ++rank)
      file.append(textOf(MappedFile(partPath(path, rank))));
    file.publish();
  });
}

} // namespace dtc
