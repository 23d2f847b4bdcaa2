// Runs ptxas as a separate process, on files of a temporary directory.
#include "passes/lower/cuda/Ptxas.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace dtc;

std::optional<std::string> dtc::findPtxas() {
  if (const char *named = std::getenv("DTC_PTXAS"); named && *named)
    return std::string(named);
  ErrorOr<std::string> found = sys::findProgramByName("ptxas");
  if (!found)
    found = sys::findProgramByName("ptxas", {"/usr/local/cuda/bin"});
  return found ? std::optional(*found) : std::nullopt;
}

static std::string readAll(StringRef path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> file = MemoryBuffer::getFile(path);
  return file ? (*file)->getBuffer().str() : std::string();
}

std::optional<Cubin> dtc::assemble(const std::string &ptxas, StringRef ptx, const std::string &architecture,
                                   std::string &error) {
  SmallString<128> directory;
  if (std::error_code code = sys::fs::createUniqueDirectory("dtc-ptxas", directory)) {
    error = "cannot make a temporary directory: " + code.message();
    return std::nullopt;
  }
  struct Cleaner {
    StringRef directory;
    ~Cleaner() { sys::fs::remove_directories(directory); }
  } cleaner{directory};
  std::string input = (directory + "/kernels.ptx").str(), output = (directory + "/kernels.cubin").str();
  std::string words = (directory + "/words").str();
  std::error_code code;
  raw_fd_ostream file(input, code);
  file << ptx;
  file.close();
  if (code || file.has_error()) {
    error = "cannot write " + input + ": " + file.error().message();
    file.clear_error();
    return std::nullopt;
  }
  std::string architectureOption = "-arch=" + architecture;
  std::string why;
  int status = sys::ExecuteAndWait(ptxas, {ptxas, "-v", architectureOption, "-o", output, input}, std::nullopt,
                                   {StringRef(), StringRef(words), StringRef(words)}, /*SecondsToWait=*/0,
                                   /*MemoryLimit=*/0, &why);
  std::string said = readAll(words);
  if (status != 0) {
    error = ptxas + " " + architectureOption + " ended with " + std::to_string(status) + ": " + why + said;
    return std::nullopt;
  }
  return Cubin{readAll(output), parsePtxasFigures(said)};
}

std::vector<PtxasFigures> dtc::parsePtxasFigures(StringRef text) {
  std::vector<PtxasFigures> all;
  auto number = [](StringRef line, const char *pattern) {
    SmallVector<StringRef> found;
    int value = 0;
    if (Regex(pattern).match(line, &found))
      found[1].getAsInteger(10, value);
    return value;
  };
  SmallVector<StringRef> lines;
  text.split(lines, '\n');
  for (StringRef line : lines) {
    SmallVector<StringRef> found;
    if (Regex("Compiling entry function '([^']+)'").match(line, &found)) {
      all.emplace_back().function = found[1].str();
      continue;
    }
    if (all.empty())
      continue;
    PtxasFigures &figures = all.back();
    if (line.contains("spill")) {
      figures.stackBytes = number(line, "([0-9]+) bytes stack frame");
      figures.spillBytes = number(line, "([0-9]+) bytes spill stores") + number(line, "([0-9]+) bytes spill loads");
    }
    if (line.contains("Used ")) {
      figures.registers = number(line, "Used ([0-9]+) registers");
      figures.sharedBytes = number(line, "([0-9]+) bytes smem");
    }
  }
  return all;
}
