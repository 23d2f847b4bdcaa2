#include "runtime/abi/container.h"

#include "runtime/support/error.h"
#include "runtime/support/output_file.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <elf.h>

// Header-only, because programs do not link to a library.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace dtc {

namespace {

constexpr char Magic[8] = {'d', 't', 'c', 'p', 'r', 'o', 'g', '\n'};
constexpr uint32_t FormatVersion = 2;
constexpr uint64_t PartAlignment = 4096;

/// The last bytes of a program file. Offsets are from the start of the file.
struct Footer {
  uint64_t manifestOffset, manifestBytes;
  uint64_t kernelsOffset, kernelsBytes;
  uint64_t checksum; // of the whole file, with this field zero
  uint32_t version, reserved;
  char magic[8];
};
static_assert(sizeof(Footer) == 56);

} // namespace

namespace {

/// XXH3 of a whole program: runtime, payload and footer. It protects against accidents, not against forgery.
class Checksum {
public:
  Checksum() { XXH3_64bits_reset(&state); }
  void add(std::string_view bytes) { XXH3_64bits_update(&state, bytes.data(), bytes.size()); }
  uint64_t finish(Footer footer) {
    footer.checksum = 0;
    add({reinterpret_cast<const char *>(&footer), sizeof(footer)});
    return XXH3_64bits_digest(&state);
  }

private:
  XXH3_state_t state;
};

} // namespace

/// The size of an ELF file as its linker wrote it, without appended data; 0 if it is not an ELF file. Our linkers put
/// the section headers last.
static uint64_t elfBytes(std::string_view file) {
  Elf64_Ehdr header;
  if (file.size() < sizeof(header))
    return 0;
  std::memcpy(&header, file.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_shoff == 0 || header.e_shoff > UINT64_MAX / 2)
    return 0;
  return header.e_shoff + uint64_t(header.e_shentsize) * header.e_shnum;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// Why the file has no usable footer, or null when it has one.
static const char *findFooter(std::string_view file, Footer &footer) {
  uint64_t runtimeBytes = elfBytes(file);
  if (runtimeBytes == 0)
    return "it is not a 64-bit ELF file";
  if (file.size() < runtimeBytes)
    return "it is truncated; compile it again";
  if (file.size() == runtimeBytes)
    return "it is an executable that carries none; make one with 'dtc compile'";
  if (file.size() < runtimeBytes + sizeof(Footer))
    return "it is truncated; compile it again";
  std::memcpy(&footer, file.data() + file.size() - sizeof(Footer), sizeof(Footer));
  if (std::memcmp(footer.magic, Magic, sizeof(Magic)) != 0)
    return "its end is missing or overwritten; compile it again";
  if (footer.version != FormatVersion)
    return "it was compiled by another version of dtc; compile it again";
  auto within = [&](uint64_t offset, uint64_t bytes) {
    uint64_t end = file.size() - sizeof(Footer);
    return offset >= runtimeBytes && offset <= end && bytes <= end - offset;
  };
  if (!within(footer.manifestOffset, footer.manifestBytes) || !within(footer.kernelsOffset, footer.kernelsBytes))
    return "its parts do not lie within the file; compile it again";
  return nullptr;
}

ProgramFile::ProgramFile(const std::string &path) : file(path) {
  std::string_view text = file.text();
  Footer footer;
  const char *flaw = findFooter(text, footer);
  if (!flaw) {
    manifestBytes = text.substr(footer.manifestOffset, footer.manifestBytes);
    kernelBytes = text.substr(footer.kernelsOffset, footer.kernelsBytes);
    Checksum checksum;
    checksum.add(text.substr(0, text.size() - sizeof(Footer)));
    if (checksum.finish(footer) != footer.checksum)
      flaw = "its contents do not match their checksum; compile it again";
  }
  if (flaw)
    throw Error(ExitCode::BadInput, path + " holds no dtc program: " + flaw);
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

namespace {

/// A file that adds its bytes to a checksum as they are written.
class SummedFile {
public:
  explicit SummedFile(const std::string &path) : file(path) {}

  void append(std::string_view bytes) {
    checksum.add(bytes);
    file.append(bytes);
    written += bytes.size();
  }

  uint64_t align() {
    append(std::string((PartAlignment - written % PartAlignment) % PartAlignment, '\0'));
    return written;
  }

  uint64_t checksumWith(const Footer &footer) const { return Checksum(checksum).finish(footer); }
  void publish() { file.publish(0777); }

private:
  AtomicFile file;
  uint64_t written = 0;
  Checksum checksum; // of what was written
};

} // namespace

void writeProgram(const std::string &runtimePath, std::string_view manifest, std::string_view kernels,
                  const std::string &outputPath) {
  MappedFile file(runtimePath);
  std::string_view runtime = file.text();
  uint64_t runtimeBytes = elfBytes(runtime);
  if (runtimeBytes == 0 || runtimeBytes > runtime.size())
    throw Error(ExitCode::BadInput, runtimePath + " is not a complete 64-bit ELF file; build the runtime again");

  SummedFile output(outputPath);
  output.append(runtime.substr(0, runtimeBytes));
  Footer footer = {};
  footer.manifestOffset = output.align();
  footer.manifestBytes = manifest.size();
  output.append(manifest);
  footer.kernelsOffset = output.align();
  footer.kernelsBytes = kernels.size();
  output.append(kernels);
  footer.version = FormatVersion;
  std::memcpy(footer.magic, Magic, sizeof(Magic));
  footer.checksum = output.checksumWith(footer);
  output.append({reinterpret_cast<const char *>(&footer), sizeof(footer)});
  output.publish();
}

} // namespace dtc
