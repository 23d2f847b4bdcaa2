#include "runtime/checkpoint/checkpoint_writer.h"

#include "runtime/abi/element_type.h"
#include "runtime/checkpoint/checksums.h"
#include "runtime/checkpoint/find_checkpoints.h"
#include "runtime/checkpoint/integrity.h"
#include "runtime/support/error.h"
#include "runtime/support/mapped_file.h"
#include "runtime/support/output_file.h"
#include "runtime/support/write_error.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <sys/mman.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace dtc {

static constexpr uint64_t Width = abi::elementType(abi::F32).bytes; // file_layout.cpp: all state is f32

//===----------------------------------------------------------------------===//
// The copy in memory
//===----------------------------------------------------------------------===//

StateCopy::StateCopy(const FilePlan &plan) : count(plan.elementsOfMine), memory(count * Width, count * Width) {}

/// Without this the system allocates pages on the first write, which costs training time.
void StateCopy::populate() { madvise(memory.base(), memory.bytes(), MADV_POPULATE_WRITE); }

void StateCopy::take(const RankState &state, const FilePlan &plan) {
  std::span<float> rest(data(), count);
  for (const PlannedTensor &tensor : plan.tensors)
    if (tensor.mine) {
      auto elements = static_cast<size_t>(tensor.state.localElements());
      state.copy(tensor.state, rest.first(elements));
      rest = rest.subspan(elements);
    }
}

//===----------------------------------------------------------------------===//
// Folders
//===----------------------------------------------------------------------===//

CheckpointWriter::CheckpointWriter(std::shared_ptr<const FilePlan> plan, Options options)
    : plan(std::move(plan)), options(std::move(options)) {}

fs::path CheckpointWriter::finalPath() const {
  return fs::path(options.root) / fmt::format("step-{:06}", options.step);
}

fs::path CheckpointWriter::unfinishedPath() const {
  return fmt::format("{}.{}.tmp", finalPath().string(), options.attempt);
}

void CheckpointWriter::checkCancelled() const {
  if (cancelled)
    throw Error("");
}

/// Removes unfinished and half-removed checkpoints of any process, except `spared`.
static void removeUnfinished(const fs::path &root, const fs::path &spared) {
  std::error_code ignored;
  for (const fs::directory_entry &entry : fs::directory_iterator(root, ignored))
    if (entry.path().filename().string().starts_with("step-") && entry.path().extension() == ".tmp" &&
        entry.path().filename() != spared.filename())
      fs::remove_all(entry.path(), ignored);
}

void CheckpointWriter::remove() const noexcept {
  removeUnfinished(options.root, "");
  rmdir(options.root.c_str()); // if it is empty and not a link to another folder
}

/// Keeps the `keep` newest up to `latest`, which was just written, so the last good one is never at risk. A checkpoint
/// is renamed before it is removed, so a partial one never looks like a checkpoint.
static void removeOld(const fs::path &root, int64_t latest, int64_t keep) {
  int64_t left = keep;
  std::error_code ignored;
  for (const std::string &path : listCheckpoints(root))
    if (*checkpointStep(path) <= latest && left-- <= 0) {
      fs::path removed = path + ".tmp";
      fs::rename(path, removed, ignored);
      fs::remove_all(removed, ignored);
    }
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// Writes the elements of a box, which are packed in memory.
static void writeBox(OutputFile &file, uint64_t offset, const FileBox &box, std::span<const float> packed,
                     const std::function<void()> &check) {
  constexpr size_t Most = HeldFileBytes / Width; // per write: between two checks for cancellation
  box.forEachRange([&](const FileRange &range) {
    auto values = packed.subspan(static_cast<size_t>(range.packed), static_cast<size_t>(range.count));
    for (size_t begin = 0; begin < values.size(); begin += Most) {
      check();
      file.write(offset + Width * (static_cast<uint64_t>(range.file) + begin),
                 std::as_bytes(values.subspan(begin, std::min(Most, values.size() - begin))));
    }
  });
}

/// No rank waits for another: the first to arrive creates a file. One rank per file writes everything in it but its
/// tensors; rank 0 writes the texts.
template <typename WriteTensor> void CheckpointWriter::writeFiles(WriteTensor writeTensor) const {
  if (options.makesRoot)
    createDirectory(options.root);
  if (plan->rank == 0)
    removeUnfinished(options.root, unfinishedPath());
  createDirectory(unfinishedPath());
  for (const TextFile &text : texts)
    writeFile(unfinishedPath() / text.name, text.text);
  auto tensor = plan->tensors.begin();
  for (size_t number = 0; number < plan->files.size(); ++number) {
    auto last = std::find_if(tensor, plan->tensors.end(), [&](auto &other) { return other.file != number; });
    bool opens = static_cast<int>(number % static_cast<size_t>(plan->ranks)) == plan->rank;
    const TensorFile &planned = plan->files[number];
    if (opens || std::any_of(tensor, last, [](auto &other) { return other.mine; })) {
      OutputFile file((unfinishedPath() / planned.name).string());
      if (opens) {
        file.reserve(planned.layout.fileBytes);
        file.write(0, std::as_bytes(std::span(planned.layout.header)));
      }
      for (auto next = tensor; next != last; ++next)
        if (next->mine)
          writeTensor(file, planned.layout.fileOffset(next->entry), *next);
      file.finish();
    }
    tensor = last;
  }
}

/// Writes a tensor in parts, each put into the file's order by pack(part, packed). All parts use `buffer` in turn.
template <typename Pack>
void CheckpointWriter::writeParts(OutputFile &file, uint64_t offset, const StateTensor &tensor,
                                  std::vector<float> &buffer, Pack pack) const {
  constexpr int64_t Most = HeldFileBytes / Width;
  buffer.resize(static_cast<size_t>(Most));
  tensor.forEachPart(Most, [&](const StateTensor &part) {
    std::span<float> packed = std::span(buffer).first(static_cast<size_t>(part.shard.elements()));
    pack(part, packed);
    writeBox(file, offset, part.box(), packed, [this] { checkCancelled(); });
  });
}

void CheckpointWriter::write(const StateCopy &copy) const {
  std::span<const float> rest = copy.values();
  std::vector<float> buffer;
  writeFiles([&](OutputFile &file, uint64_t offset, const PlannedTensor &tensor) {
    auto elements = static_cast<size_t>(tensor.state.localElements());
    writeParts(file, offset, tensor.state, buffer, [&](const StateTensor &part, std::span<float> packed) {
      pack(part, plan->nameOf(tensor), rest.first(elements), packed);
    });
    rest = rest.subspan(elements);
  });
}

void CheckpointWriter::write(const RankState &state) const {
  std::vector<float> buffer;
  writeFiles([&](OutputFile &file, uint64_t offset, const PlannedTensor &tensor) {
    writeParts(file, offset, tensor.state, buffer,
               [&](const StateTensor &part, std::span<float> packed) { state.pack(part, packed); });
  });
}

//===----------------------------------------------------------------------===//
// Checksums
//===----------------------------------------------------------------------===//

std::string CheckpointWriter::hashesOf(int rank) const {
  return (unfinishedPath() / fmt::format("rank-{:05}.checksums", rank)).string();
}

void CheckpointWriter::hash() const {
  std::vector<ChecksumEntry> entries;
  std::optional<MappedFile> file;
  size_t opened = 0;
  // Skips tensors that this rank is likely to have written itself: another host sees what really arrived.
  for (auto number = static_cast<size_t>((plan->rank + 1) % plan->ranks); number < plan->tensors.size();
       number += static_cast<size_t>(plan->ranks)) {
    const PlannedTensor &tensor = plan->tensors[number];
    const TensorFile &planned = plan->files[tensor.file];
    if (!file || opened != tensor.file)
      file.emplace((unfinishedPath() / planned.name).string());
    opened = tensor.file;
    const SafetensorsEntry &entry = planned.layout.entries[tensor.entry];
    if (file->bytes().size() != planned.layout.fileBytes)
      throw Error(fmt::format("'{}' has {} bytes where {} were written", file->path(), file->bytes().size(),
                              planned.layout.fileBytes));
    uint64_t hash = checksum(file->bytes().subspan(planned.layout.fileOffset(tensor.entry), entry.end - entry.begin),
                             [&](std::span<const std::byte> part) {
                               checkCancelled();
                               file->release(part);
                             });
    entries.push_back({planned.name, entry.name, hash});
  }
  writeFile(hashesOf(plan->rank), printChecksums(entries));
}

void CheckpointWriter::publish() const {
  std::map<std::pair<std::string, std::string>, uint64_t> hashes;
  for (int rank = 0; rank < plan->ranks; ++rank) {
    for (const ChecksumEntry &entry : parseChecksums(MappedFile(hashesOf(rank)).text(), hashesOf(rank)))
      hashes[{entry.file, entry.tensor}] = entry.hash;
    checkCancelled();
  }
  std::vector<ChecksumEntry> entries;
  for (const TextFile &text : texts)
    entries.push_back({text.name, "", checksum(text.text)});
  for (const TensorFile &file : plan->files) {
    entries.push_back({file.name, HeaderEntry, checksum(file.layout.header)});
    for (const SafetensorsEntry &entry : file.layout.entries)
      entries.push_back({file.name, entry.name, hashes.at({file.name, entry.name})});
  }
  for (int rank = 0; rank < plan->ranks; ++rank) {
    std::error_code problem;
    fs::remove(hashesOf(rank), problem);
    if (problem)
      throw cannotWrite(hashesOf(rank), problem.value());
  }
  writeFile(unfinishedPath() / ChecksumFile, printChecksums(entries));
  publishDirectory(unfinishedPath(), finalPath());
  if (options.keep > 0)
    removeOld(options.root, options.step, options.keep);
}

} // namespace dtc
