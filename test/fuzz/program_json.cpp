// A program's manifest as JSON, and a program with another manifest and a valid checksum.
//
//   program_json read PROGRAM                 writes the manifest as JSON to the standard output
//   program_json write PROGRAM MANIFEST OUT   writes PROGRAM with the manifest of the file MANIFEST to OUT
#include "runtime/abi/container.h"
#include "runtime/support/error.h"

#include "test/fuzz/reflected_manifest.pb.h"

#include <cstdio>
#include <fstream>
#include <google/protobuf/util/json_util.h>
#include <iostream>
#include <iterator>

using namespace dtc;
namespace json = google::protobuf::util;

static int read(const char *program) {
  ProgramFile file(program);
  fuzz::reflected::Manifest manifest;
  json::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  if (!manifest.ParseFromString(std::string(file.manifest())) ||
      !json::MessageToJsonString(manifest, &text, options).ok())
    throw Error("the manifest cannot be read");
  std::cout << text << '\n';
  return 0;
}

static int write(const char *program, const char *text, const char *out) {
  std::ifstream stream(text);
  fuzz::reflected::Manifest manifest;
  auto status = json::JsonStringToMessage(std::string(std::istreambuf_iterator<char>(stream), {}), &manifest);
  if (!status.ok())
    throw Error(std::string(text) + ": " + status.ToString());
  ProgramFile file(program);
  writeProgram(program, manifest.SerializeAsString(), file.kernels(), out);
  return 0;
}

int main(int argc, char **argv) {
  try {
    std::string verb = argc > 1 ? argv[1] : "";
    if (verb == "read" && argc == 3)
      return read(argv[2]);
    if (verb == "write" && argc == 5)
      return write(argv[2], argv[3], argv[4]);
    std::fprintf(stderr, "program_json read PROGRAM | write PROGRAM MANIFEST OUT\n");
    return 2;
  } catch (const Error &error) {
    std::fprintf(stderr, "program_json: %s\n", error.what());
    return 1;
  }
}
