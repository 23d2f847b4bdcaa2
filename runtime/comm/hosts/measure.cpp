// Measures the speed of the links to ranks that a rank meets for the first time.
//
// The members announce to each other how much they will send, which also synchronizes them. Then all send at once: what
// counts is the total that leaves this rank over all its links.
#include "runtime/comm/hosts/spanning_group.h"

#include "runtime/support/error.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

namespace dtc {

/// In total: four times what a slow link may pass in one burst, and a tenth of a second over a link of 40 MB/s.
static constexpr int64_t MeasuredBytes = int64_t(4) << 20;
/// To one rank.
static constexpr int64_t LeastBytes = int64_t(64) << 10;

void SpanningGroup::measure() {
  std::vector<int> ranks;
  for (int rank : group.ranks)
    if (context.places[rank] < 0 && !context.isHashed.contains(rank))
      ranks.push_back(rank);
  if (ranks.empty())
    return;
  int64_t each = std::max(MeasuredBytes / static_cast<int64_t>(ranks.size()), LeastBytes);
  std::vector<std::byte> bytes(LeastBytes); // zeros: the contents of memory must not leak
  auto through = [&](int64_t count) { return Strided::ring(bytes.data(), LeastBytes, count); };
  std::vector<Link> announced, links;
  for (int rank : ranks) {
    int socket = context.connections.at({group.channel, rank})->get();
    announced.emplace_back(socket, rank, uint64_t(each) << 1, /*hashed=*/false);
    links.emplace_back(socket, rank, 0, /*hashed=*/false);
  }
  auto damaged = [](const Link &) {}; // nothing is hashed
  context.streams.move(announced, [] {}, [](const Link &) {}, damaged);
  for (size_t i = 0; i < links.size(); ++i) {
    auto theirs = static_cast<int64_t>(announced[i].in.header >> 1);
    if (theirs > MeasuredBytes)
      throw Error(fmt::format("rank {} would send {} bytes to measure its link, at most {} are sent; start all ranks "
                              "from one program file",
                              links[i].peer, theirs, MeasuredBytes));
    links[i].out.runs.emplace_back(through(each));
    links[i].in.runs.emplace_back(through(theirs));
  }
  auto begin = std::chrono::steady_clock::now();
  context.streams.move(links, [] {}, [](const Link &) {}, damaged);
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  for (const Link &link : links)
    limitBytesUnderWay(link.socket); // the shortest round trip is known better now than from a greeting
  double rate = static_cast<double>(each) * static_cast<double>(ranks.size()) / time.count();
  for (int rank : ranks)
    context.isHashed[rank] = rate <= context.options.hashedUpTo;
}

} // namespace dtc
