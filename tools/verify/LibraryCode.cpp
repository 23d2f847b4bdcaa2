#include "tools/verify/LibraryCode.h"

#include "runtime/abi/random.h"
#include "tools/verify/Reservation.h"

#include <algorithm>
#include <deque>

namespace dtc::verify {

namespace {

template <class Found> const Found &require(const Found *found, const std::string &symbol) {
  if (!found)
    throw ProgramFault("there is no library kernel '" + symbol + "'");
  return *found;
}

} // namespace

LibraryCode::LibraryCode(const std::string &symbol, std::vector<abi::DataType> types, LibraryCall whole,
                         CodeFunction function)
    : form(require(findLibraryForm(symbol), symbol)), reference(findLibraryReference<Estimate>(symbol)),
      types(std::move(types)), call(std::move(whole)), function(std::move(function)) {
  std::vector<int64_t> before = call.scalars;
  int64_t grid = call.grid;
  form.cut(call);
  isCut = before != call.scalars || grid != call.grid;
}

double LibraryCode::inputValue(unsigned draw, size_t buffer, int64_t element) const {
  const abi::ElementType &type = abi::elementType(types[buffer]);
  uint32_t stream = random::stream(draw, uint32_t(buffer), 3);
  if (!type.isFloating())
    return double(form.integer(call, buffer, element, random::bits(stream, uint64_t(element))));
  double uniform = random::uniform(stream, uint64_t(element));
  constexpr double scales[] = {1, 1, 0.01};
  double scale = scales[random::bits(random::stream(draw, uint32_t(buffer), 4), 0) % std::size(scales)];
  return abi::roundTo(type, 2 * scale * (2 * uniform - 1));
}

std::vector<CalledBuffer> LibraryCode::layOut(const CodeTrial &trial) const {
  std::vector<CalledBuffer> buffers;
  std::vector<BufferPart> parts = form.parts(call);
  if (parts.size() != types.size())
    throw ProgramFault(form.symbol() + ": " + std::to_string(types.size()) + " buffers, it takes " +
                       std::to_string(parts.size()));
  for (size_t i = 0; i < parts.size(); ++i) {
    CalledBuffer buffer{"buffer " + std::to_string(i), abi::elementType(types[i]), 0, int64_t(trial.draw % 3)};
    buffer.over = i < trial.inPlace.size() ? trial.inPlace[i] : -1;
    std::vector<int64_t> elements = parts[i].elements();
    buffer.size = elements.empty() ? 0 : elements.back() + 1;
    if (parts[i].isRead)
      for (int64_t element : buffer.read = elements)
        buffer.values.push_back(inputValue(trial.draw, i, element));
    if (parts[i].isWritten)
      buffer.written = buffer.compared = std::move(elements);
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

/// The bounds of what is written, from a run of the reference.
void LibraryCode::evaluate(std::vector<CalledBuffer> &buffers) const {
  LibraryLaunchOf<Estimate> launch{{}, call.scalars, call.grid};
  std::deque<Reservation> memory;
  auto numbers = [&](size_t buffer) { return reinterpret_cast<Estimate *>(memory[buffer].data()); };
  for (size_t i = 0; i < buffers.size(); ++i) {
    memory.emplace_back(size_t(buffers[i].size) * sizeof(Estimate));
    for (size_t j = 0; j < buffers[i].read.size(); ++j)
      numbers(i)[buffers[i].read[j]] = buffers[i].values[j];
    size_t at = buffers[i].over < 0 ? i : size_t(buffers[i].over);
    launch.buffers.push_back({numbers(at), buffers[i].size, types[i]});
  }
  reference(launch);
  constexpr double smallest = 1e-35; // subnormal numbers may be lost
  for (size_t i = 0; i < buffers.size(); ++i)
    for (int64_t element : buffers[i].compared) {
      const Estimate &number = launch.buffers[i].data[element];
      double error = buffers[i].type.isFloating() ? number.error() + smallest : 0;
      buffers[i].bounds.push_back({number.value - error, number.value + error});
    }
}

/// From the last part to the first: otherwise the next part would overwrite what a part writes beyond its end.
void LibraryCode::callInParts(const std::vector<void *> &addresses, int parts) const {
  for (int i = parts; i-- > 0;)
    function(addresses.data(), call.scalars.data(), call.grid * i / parts, call.grid * (i + 1) / parts);
}

std::string LibraryCode::describe(const CodeTrial &trial) const {
  std::string text = " (scalars";
  for (int64_t scalar : call.scalars)
    text += " " + std::to_string(scalar);
  return text + "; grid of " + std::to_string(call.grid) + " in " + std::to_string(trial.parts) + ", draw " +
         std::to_string(trial.draw) + ")";
}

CodeResult LibraryCode::run(const CodeTrial &trial) const {
  CodeResult result;
  std::vector<CalledBuffer> buffers = layOut(trial);
  evaluate(buffers);
  for (const CalledBuffer &buffer : buffers)
    result.compared += int64_t(buffer.compared.size());
  result.isWhole = !isCut;
  CallResult done = callOnPoison(buffers, [&](const std::vector<void *> &addresses) {
    callInParts(addresses, trial.parts);
    return "";
  });
  if (!done.failure.empty())
    result.failure = done.failure + describe(trial);
  return result;
}

} // namespace dtc::verify
