// lld as a library. It works on named files: a temporary directory holds them.
#include "passes/lower/cpu/Linker.h"

#include "lld/Common/Driver.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

using namespace llvm;

static bool writeFile(const std::string &path, ArrayRef<char> bytes, std::string &error) {
  std::error_code code;
  raw_fd_ostream file(path, code);
  file.write(bytes.data(), bytes.size());
  file.close();
  if (!code && !file.has_error())
    return true;
  error = "cannot write " + path + ": " + file.error().message();
  file.clear_error();
  return false;
}

FailureOr<std::string> dtc::linkSharedObject(ArrayRef<SmallVector<char>> objects, std::string &error) {
  SmallString<128> directory;
  if (std::error_code code = sys::fs::createUniqueDirectory("dtc-link", directory)) {
    error = "cannot make a temporary directory: " + code.message();
    return failure();
  }
  struct Cleaner {
    StringRef directory;
    ~Cleaner() { sys::fs::remove_directories(directory); }
  } cleaner{directory};
  std::vector<std::string> inputs;
  for (const SmallVector<char> &object : objects) {
    inputs.push_back((directory + "/kernels" + Twine(inputs.size()) + ".o").str());
    if (!writeFile(inputs.back(), object, error))
      return failure();
  }
  std::string output = (directory + "/kernels.so").str();
  raw_string_ostream messages(error);
  std::vector<const char *> arguments = {"ld.lld",           "-shared",       "-z", "defs",
                                         "--hash-style=gnu", "--strip-debug", "-o", output.c_str()};
  for (const std::string &input : inputs)
    arguments.push_back(input.c_str());
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
