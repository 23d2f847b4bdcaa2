#include "runtime/comm/agree.h"

#include "runtime/abi/error.h"

#include <algorithm>
#include <exception>

namespace dtc {

void agree(Communicator &communicator, const std::function<void()> &work) {
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
    problem = std::make_exception_ptr(Error(error.what()));
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

} // namespace dtc
