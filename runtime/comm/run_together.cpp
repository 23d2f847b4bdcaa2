#include "runtime/comm/run_together.h"

#include "runtime/support/limits.h"

#include <algorithm>
#include <cstring>
#include <exception>

namespace dtc {

void runTogether(Communicator &communicator, const std::function<void()> &work) {
  std::exception_ptr problem;
  int64_t code = 0;
  try {
    work();
  } catch (const PeerLostError &) {
    throw;
  } catch (const Error &error) {
    problem = std::current_exception();
    code = static_cast<int64_t>(error.exitCode());
  } catch (const std::exception &error) {
    problem = std::make_exception_ptr(Error(wordsOf(error)));
    code = static_cast<int64_t>(ExitCode::Runtime);
  }
  std::vector<int64_t> codes = communicator.exchange(code);
  auto first = std::find_if(codes.begin(), codes.end(), [](int64_t other) { return other != 0; });
  if (first == codes.end())
    return;
  if (first - codes.begin() == communicator.rank())
    std::rethrow_exception(problem);
  throw Error(static_cast<ExitCode>(*first), "");
}

std::vector<std::string> exchangeText(Communicator &communicator, const std::string &mine) {
  std::vector<int64_t> sizes = communicator.exchange(static_cast<int64_t>(mine.size()));
  auto longest = static_cast<size_t>(*std::ranges::max_element(sizes));
  std::vector<std::string> all(sizes.size());
  for (size_t begin = 0; begin < longest; begin += sizeof(int64_t)) {
    int64_t letters = 0;
    if (begin < mine.size())
      std::memcpy(&letters, &mine[begin], std::min(sizeof(letters), mine.size() - begin));
    std::vector<int64_t> parts = communicator.exchange(letters);
    for (size_t rank = 0; rank < all.size(); ++rank)
      all[rank].append(reinterpret_cast<const char *>(&parts[rank]), sizeof(int64_t));
  }
  for (size_t rank = 0; rank < all.size(); ++rank)
    all[rank].resize(static_cast<size_t>(sizes[rank]));
  return all;
}

size_t firstOther(const std::vector<int64_t> &all) {
  auto other = std::ranges::find_if(all, [&](int64_t value) { return value != all.front(); });
  return other == all.end() ? 0 : static_cast<size_t>(other - all.begin());
}

void refuseTogether(const Communicator &communicator, const std::string &words) {
  throw Error(ExitCode::BadInput, communicator.rank() == 0 ? words : "");
}

} // namespace dtc
