#include "runtime/comm/link_probe.h"

#include "runtime/comm/local/in_process.h"
#include "runtime/support/error.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

namespace dtc {
namespace {

/// The measurements of some ranks, which are threads.
std::vector<std::vector<MeasuredMove>> probe(int ranks) {
  InProcessJob job(ranks);
  std::vector<std::unique_ptr<Arena>> arenas;
  for (int rank = 0; rank < ranks; ++rank)
    arenas.push_back(std::make_unique<Arena>(LinkProbeBytes, 0));
  std::vector<std::vector<MeasuredMove>> measured(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      std::unique_ptr<Communicator> communicator = job.join(rank, *arenas[static_cast<size_t>(rank)]);
      measured[static_cast<size_t>(rank)] = probeLinks(*communicator);
    });
  for (std::thread &thread : threads)
    thread.join();
  return measured;
}

TEST(LinkProbe, MeasuresEachCollectiveAndAMessageAtEachSize) {
  for (int ranks : {2, 3}) {
    std::vector<std::vector<MeasuredMove>> measured = probe(ranks);
    for (size_t rank = 1; rank < measured.size(); ++rank)
      EXPECT_EQ(writeMoves(measured[rank]), writeMoves(measured[0])) << "rank " << rank;
    std::map<std::string, std::set<double>> sizes;
    EXPECT_EQ(measured[0].back().collective, "loaded");
    measured[0].pop_back();
    for (const MeasuredMove &move : measured[0]) {
      EXPECT_GT(move.seconds, 0) << move.collective << " of " << move.bytes;
      EXPECT_EQ(move.ranks, move.collective == "send" ? 2 : ranks);
      sizes[move.collective].insert(move.bytes);
    }
    EXPECT_EQ(sizes.size(), 6u);
    for (const auto &[collective, ofIt] : sizes) {
      EXPECT_EQ(ofIt.size(), 10u) << collective;
      EXPECT_NEAR(*ofIt.begin(), 64, 16) << collective;
      EXPECT_NEAR(*ofIt.rbegin(), 16 << 20, 16) << collective;
    }
  }
}

TEST(LinkProbe, TextsOfMovesAreReadAsTheyWereWritten) {
  std::vector<MeasuredMove> moves = {{"send", 2, 64, 1e-6, 5e-7}, {"all_reduce", 4, 1024, 2.5e-5, 1e-5}};
  std::string text = writeMoves(moves);
  EXPECT_EQ(writeMoves(readMoves(text)), text);
  EXPECT_EQ(readMoves(text)[1].processorSeconds, 1e-5);
  for (const char *wrong : {"", "[[\"send\", 2, 64, 1e-6]]", "[[2, 2, 64, 1, 1]]", "{}x"})
    EXPECT_THROW(readMoves(wrong), Error) << wrong;
}

} // namespace
} // namespace dtc
