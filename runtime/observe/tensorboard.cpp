#include "runtime/observe/tensorboard.h"

#include "runtime/observe/tensorboard.pb.h"

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

namespace dtc {

static constexpr std::array<uint32_t, 256> crcTable = [] {
  constexpr uint32_t polynomial = 0x82f63b78; // reflected
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    table[byte] = byte;
    for (int bit = 0; bit < 8; ++bit)
      table[byte] = table[byte] >> 1 ^ (table[byte] & 1 ? polynomial : 0);
  }
  return table;
}();

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (char byte : bytes)
    crc = crc >> 8 ^ crcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

template <typename T> static std::string littleEndian(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value); // the byte order of all supported machines
  return bytes;
}

/// TFRecord stores checksums rotated and shifted, so that the checksum of data that contains checksums is not a trivial
/// number.
static std::string maskedChecksum(std::string_view bytes) {
  uint32_t crc = crc32c(bytes);
  return littleEndian((crc >> 15 | crc << 17) + 0xa282ead8u);
}

std::string eventRecord(std::string_view event) {
  std::string length = littleEndian<uint64_t>(event.size());
  return length + maskedChecksum(length) + std::string(event) + maskedChecksum(event);
}

static double secondsNow() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// TensorBoard wants "tfevents" in the name, and reads files in the order of their names.
static std::string eventFile(const std::string &folder) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::string name = fmt::format("events.out.tfevents.{:.0f}.{}.{}.dtc", secondsNow(), host.data(), getpid());
  return std::filesystem::path(folder) / name;
}

EventWriter::EventWriter(const std::string &folder) : file(eventFile(folder)) {}

void EventWriter::begin() {
  file.begin(/*append=*/false);
  tensorboard::Event event;
  event.set_wall_time(secondsNow());
  event.set_file_version("brain.Event:2");
  head = eventRecord(event.SerializeAsString());
}

void EventWriter::goOnAfter(int64_t after) {
  begin();
  tensorboard::Event event;
  event.set_wall_time(secondsNow());
  event.set_step(after + 1);
  event.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  head += eventRecord(event.SerializeAsString());
}

std::string EventWriter::append(int64_t step, double time, const std::vector<std::pair<std::string, double>> &values) {
  tensorboard::Event event;
  event.set_wall_time(time);
  event.set_step(step);
  for (const auto &[tag, number] : values) {
    tensorboard::Summary::Value *value = event.mutable_summary()->add_value();
    value->set_tag(tag);
    value->set_simple_value(static_cast<float>(number));
  }
  return file.append(step, std::exchange(head, "") + eventRecord(event.SerializeAsString()));
}

} // namespace dtc
