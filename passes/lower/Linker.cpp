// lld as a library. It works on named files: a temporary directory holds them.
#include "passes/lower/Linker.h"

#include "lld/Common/Driver.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

using namespace llvm;

FailureOr<std::string> dtc::linkSharedObject(ArrayRef<char> object, std::string &error) {
  SmallString<128> directory;
  if (std::error_code code = sys::fs::createUniqueDirectory("dtc-link", directory)) {
    error = "cannot make a temporary directory: " + code.message();
    return failure();
  }
  struct Cleaner {
    StringRef directory;
    ~Cleaner() { sys::fs::remove_directories(directory); }
  } cleaner{directory};
  std::string input = (directory + "/kernels.o").str(), output = (directory + "/kernels.so").str();
  {
    std::error_code code;
    raw_fd_ostream file(input, code);
    file.write(object.data(), object.size());
    file.close();
    if (code || file.has_error()) {
      error = "cannot write " + input + ": " + file.error().message();
      file.clear_error();
      return failure();
    }
  }
  raw_string_ostream messages(error);
  const char *arguments[] = {"ld.lld",        "-shared", "-z",           "defs",       "--hash-style=gnu",
                             "--strip-debug", "-o",      output.c_str(), input.c_str()};
  lld::Result result = lld::lldMain(arguments, messages, messages, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0)
    return failure();
  auto buffer = MemoryBuffer::getFile(output);
  if (!buffer) {
    error = "cannot read " + output + ": " + buffer.getError().message();
    return failure();
  }
  return (*buffer)->getBuffer().str();
}
