#include "tools/dtc/verify/VerifyCode.h"

#include "dialect/IR/Ops.h"
#include "runtime/abi/container.h"
#include "runtime/kernels/cpu/kernels.h"
#include "runtime/program/start/cpu_features.h"
#include "runtime/program/start/kernel_library.h"
#include "runtime/support/error.h"
#include "tools/dtc/verify/VerifyProgram.h"

#include <nlohmann/json.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

namespace dtc {

static verify::CodeReport failed(const std::string &why) {
  verify::CodeReport report;
  report.failure = why;
  return report;
}

static std::string runKernels(const abi::Manifest &program, const std::string &path) {
  verify::CodeReport report;
  try {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    context.loadDialect<mlir::dt::DTDialect>();
    ProgramFile file(path);
    KernelLibrary library(file.kernels());
    auto find = [&](const std::string &symbol) -> verify::CodeFunction {
      dtc_kernel_fn generated = library.find(symbol);
      return generated ? generated : kernels::find(symbol);
    };
    report = verify::checkCode(program, find, context);
  } catch (const std::exception &error) {
    report.failure = error.what();
  }
  return nlohmann::json{report.failure, report.kernels, report.compared, report.cut, report.left}.dump();
}

static std::string readAll(int file) {
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t count; (count = read(file, buffer.data(), buffer.size())) != 0;)
    if (count > 0)
      text.append(buffer.data(), count);
    else if (errno != EINTR)
      break;
  return text;
}

/// The child's answer, or how it ended without one.
static verify::CodeReport readReport(int file, pid_t child) {
  std::string text = readAll(file);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  nlohmann::json answer = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (WIFSIGNALED(status) || answer.is_discarded())
    return failed("the kernels' code ends the process that runs it: " +
                  std::string(WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "it exits"));
  return {answer[0], answer[1], answer[2], answer[3], answer[4]};
}

std::optional<verify::CodeReport> verifyCode(const abi::Manifest &program, const std::string &path, std::string &why) {
  if (program.code_size() > 0) {
    why = "they are for " + program.target();
    return std::nullopt;
  }
  try {
    requireCpuFeatures(program);
  } catch (const Error &error) {
    why = error.what();
    return std::nullopt;
  }
  if (std::string unreadable = findUnreadableKernel(program); !unreadable.empty())
    return failed(unreadable);
  std::array<int, 2> pipe;
  pid_t child = ::pipe(pipe.data()) == 0 ? fork() : -1;
  if (child < 0)
    throw Error(std::string("verify: no process can be started to run the kernels in: ") + std::strerror(errno));
  if (child == 0) {
    std::string report = runKernels(program, path);
    bool written = write(pipe[1], report.data(), report.size()) == ssize_t(report.size());
    _exit(written ? 0 : 1);
  }
  close(pipe[1]);
  verify::CodeReport report = readReport(pipe[0], child);
  close(pipe[0]);
  return report;
}

} // namespace dtc
