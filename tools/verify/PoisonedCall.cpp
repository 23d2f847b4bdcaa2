#include "tools/verify/PoisonedCall.h"

#include "tools/verify/PoisonedMemory.h"

#include <cmath>
#include <cstdio>

namespace dtc::verify {

/// Whether a stored value can result from these bounds.
static bool isWithin(double value, Bounds bounds, const abi::ElementType &type) {
  if (std::isnan(bounds.low))
    return std::isnan(value);
  return bounds.areOfAnything() ||
         (value >= abi::roundTo(type, bounds.low) && value <= abi::roundTo(type, bounds.high));
}

static std::string findWrongElement(const CalledBuffer &buffer, const PoisonedMemory &memory) {
  for (size_t i = 0; i < buffer.compared.size(); ++i)
    if (double value = memory.read(buffer.compared[i], buffer.type); !isWithin(value, buffer.bounds[i], buffer.type)) {
      char text[128];
      std::snprintf(text, sizeof text, " is %.9g; its meaning lies between %.9g and %.9g", value, buffer.bounds[i].low,
                    buffer.bounds[i].high);
      return buffer.name + ": element " + std::to_string(buffer.compared[i]) + text;
    }
  return "";
}

namespace {

/// The memory of the buffers.
class Arena {
public:
  explicit Arena(const std::vector<CalledBuffer> &buffers);
  std::vector<void *> addresses() const;
  std::string findWrong();
  uint64_t hashWritten() const;

private:
  bool isOverwritten(size_t buffer) const {
    return std::ranges::any_of(buffers, [&](const CalledBuffer &other) { return other.over == int(buffer); });
  }

  const std::vector<CalledBuffer> &buffers;
  std::vector<std::unique_ptr<PoisonedMemory>> owned;
  std::vector<PoisonedMemory *> memory; ///< of each buffer
};

} // namespace

Arena::Arena(const std::vector<CalledBuffer> &buffers) : buffers(buffers) {
  for (const CalledBuffer &buffer : buffers) {
    if (buffer.over < 0)
      owned.push_back(std::make_unique<PoisonedMemory>(buffer.size, buffer.type, buffer.shift));
    memory.push_back(buffer.over < 0 ? owned.back().get() : memory[buffer.over]);
    memory.back()->poison(buffer.read, buffer.type);
    memory.back()->poison(buffer.written, buffer.type);
  }
  for (size_t i = 0; i < buffers.size(); ++i)
    for (size_t j = 0; j < buffers[i].read.size(); ++j)
      memory[i]->write(buffers[i].read[j], buffers[i].type, buffers[i].values[j]);
  for (auto &each : owned)
    each->remember();
}

std::vector<void *> Arena::addresses() const {
  std::vector<void *> result;
  for (PoisonedMemory *each : memory)
    result.push_back(each->data());
  return result;
}

std::string Arena::findWrong() {
  for (size_t i = 0; i < buffers.size(); ++i)
    if (std::string wrong = findWrongElement(buffers[i], *memory[i]); !wrong.empty())
      return wrong;
  for (size_t i = 0; i < buffers.size(); ++i)
    if (!isOverwritten(i)) // read as the buffer that shares its memory
      if (auto changed = memory[i]->findChange(buffers[i].written, buffers[i].type))
        return buffers[i].name + ": byte " + std::to_string(*changed) + " changes, which is not the kernel's";
  return "";
}

/// FNV-1a.
uint64_t Arena::hashWritten() const {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < buffers.size(); ++i)
    for (int64_t element : buffers[i].written) {
      const std::byte *bytes = memory[i]->data() + element * buffers[i].type.bytes;
      for (uint32_t j = 0; j < buffers[i].type.bytes; ++j)
        hash = (hash ^ uint64_t(bytes[j])) * 0x100000001b3;
    }
  return hash;
}

CallResult callOnPoison(const std::vector<CalledBuffer> &buffers, const KernelCall &call) {
  Arena arena(buffers);
  std::string failure = call(arena.addresses());
  if (failure.empty())
    failure = arena.findWrong();
  return {std::move(failure), arena.hashWritten()};
}

} // namespace dtc::verify
