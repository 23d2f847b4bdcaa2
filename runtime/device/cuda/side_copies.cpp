#include "runtime/device/cuda/side_copies.h"

#include <algorithm>
#include <string>

namespace dtc::cuda {

SideCopies::SideCopies(const Gpu &gpu, StreamHandle launches) : gpu(gpu), launches(launches) {
  gpu.driver.check(gpu.driver.eventCreate(&ready, EventDisableTiming), "cannot make an event");
}

SideCopies::~SideCopies() {
  for (auto [channel, stream] : streams)
    gpu.driver.streamDestroy(stream);
  for (const Flight &flight : flights)
    gpu.driver.eventDestroy(flight.end);
  for (EventHandle event : spare)
    gpu.driver.eventDestroy(event);
  gpu.driver.eventDestroy(ready);
}

StreamHandle SideCopies::streamOf(uint32_t channel) {
  if (auto known = streams.find(channel); known != streams.end())
    return known->second;
  StreamHandle stream = nullptr;
  gpu.driver.check(gpu.driver.streamCreate(&stream, StreamNonBlocking), "cannot make a stream");
  return streams[channel] = stream;
}

EventHandle SideCopies::takeEvent() {
  EventHandle event = nullptr;
  if (spare.empty()) {
    gpu.driver.check(gpu.driver.eventCreate(&event, EventDisableTiming), "cannot make an event");
    return event;
  }
  event = spare.back();
  spare.pop_back();
  return event;
}

/// A wait uses the event as it was recorded at the time of the call, so the event may be recorded again.
Device::CopyHandle SideCopies::start(DevicePointer target, DevicePointer source, uint64_t bytes, uint32_t channel) {
  StreamHandle stream = streamOf(channel);
  auto require = [&](int result) {
    if (result != Success)
      throw DeviceError("cannot begin a copy beside launches on " + gpu.name() + ": " + gpu.driver.describe(result));
  };
  require(gpu.driver.eventRecord(ready, launches));
  require(gpu.driver.streamWaitEvent(stream, ready, 0));
  if (bytes > 0)
    require(gpu.driver.memcpyAsync(target, source, bytes, stream));
  flights.push_back({++tickets, takeEvent()});
  require(gpu.driver.eventRecord(flights.back().end, stream));
  return {channel, tickets};
}

void SideCopies::await(const Device::CopyHandle &copy) {
  auto flight = std::ranges::find(flights, copy.ticket, &Flight::ticket);
  int result = gpu.driver.streamWaitEvent(launches, flight->end, 0);
  if (result != Success)
    throw DeviceError("cannot wait for a copy on " + gpu.name() + ": " + gpu.driver.describe(result));
  spare.push_back(flight->end);
  flights.erase(flight);
}

void SideCopies::finish() noexcept {
  for (auto [channel, stream] : streams)
    gpu.driver.streamSynchronize(stream);
}

} // namespace dtc::cuda
