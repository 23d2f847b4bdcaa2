// A compiled program is one file: the prebuilt runtime (an ELF executable), followed by the payload that makes it a
// particular program, followed by a footer that says where the payload is.
//
//   [ runtime ELF ][ padding to 4096 ][ manifest (protobuf) ][ padding to 4096 ][ kernels (ELF shared object) ][ footer
//   ]
//
// The kernel loads the ELF and ignores what follows it, so every rank starts the same file and finds its own program
// at the end of /proc/self/exe. The footer holds a checksum of the whole file (XXH3): one that is truncated or damaged
// anywhere, the runtime included, is refused.
#pragma once

#include "runtime/support/mapped_file.h"

#include <string>
#include <string_view>

namespace dtc {

/// Writes a program file: `runtimePath`'s bytes (without a payload it may already carry), then the manifest and the
/// kernels. The file appears at `outputPath` complete and executable, or not at all; an existing file is replaced.
/// Throws Error (BadInput) when the runtime is not an ELF file, Error (Runtime) when a file cannot be read or written.
void writeProgram(const std::string &runtimePath, std::string_view manifest, std::string_view kernels,
                  const std::string &outputPath);

/// A program file, mapped read-only for as long as this object lives.
class ProgramFile {
public:
  /// Throws Error (BadInput) when the file is missing, carries no payload, is truncated, is damaged or has another
  /// format version.
  explicit ProgramFile(const std::string &path);
  /// The program that this process is running.
  static ProgramFile self() { return ProgramFile("/proc/self/exe"); }

  std::string_view manifest() const { return manifestBytes; } ///< a serialized dtc.abi.Manifest
  std::string_view kernels() const { return kernelBytes; }    ///< a shared object; empty: no generated kernels

private:
  MappedFile file;
  std::string_view manifestBytes, kernelBytes;
};

} // namespace dtc
