// Handwritten command lists for the interpreter: two ranks; x [2] at 0, y [2] at 8, z [4] at 16.
#pragma once

#include "tools/verify/CommandInterpreter.h"

#include "dialect/IR/Ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/abi/groups.h"
#include "test/runtime/program/manifests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>

namespace dtc::verify {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsNan;

constexpr int64_t x = 0, y = 8, z = 16;

class CommandLists : public testing::Test {
protected:
  CommandLists() {
    context.loadDialect<mlir::dt::DTDialect, mlir::func::FuncDialect>();
    abi::Axis *axis = manifest.mutable_mesh()->add_axes();
    axis->set_name("tp");
    axis->set_size(2);
    addRole();
    addTensor("x", x, 2);
    addTensor("y", y, 2);
    addTensor("z", z, 4);
    addKernel("twice").set_reference(R"(dt.kernel @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
        %y = dt.add %x, %x : tensor<2xf32>
        dt.yield %y : tensor<2xf32> })");
    manifest.add_locations("h.0.mlp");
  }

  /// With a list of its own: "micro", "micro 2", ...
  void addRole() {
    abi::Role &role = *manifest.add_roles();
    std::string number = std::to_string(manifest.roles_size());
    role.set_name("role " + number);
    test::setArena(role, 32);
    std::string list = number == "1" ? "micro" : "micro " + number;
    test::addList(manifest, list);
    test::addEntry(role, abi::stepTimetable, list);
  }

  /// Of one input and one output.
  abi::Kernel &addKernel(const char *symbol) {
    abi::Kernel &kernel = *manifest.add_kernels();
    kernel.set_symbol(symbol);
    kernel.set_inputs(1);
    kernel.set_outputs(1);
    return kernel;
  }

  void addTensor(const char *name, uint64_t address, int64_t size) {
    abi::Tensor *tensor = manifest.mutable_roles(0)->add_tensors();
    tensor->set_name(name);
    tensor->set_address(address);
    tensor->add_local_shape(size);
  }

  abi::CommandList &list(int role = 0) { return *manifest.mutable_lists(role); }

  void twice(uint64_t from, uint64_t to, int role = 0) {
    abi::Launch *launch = list(role).add_commands()->mutable_launch();
    for (uint64_t buffer : {from, to}) {
      launch->add_buffers(buffer);
      launch->add_buffer_bytes(8);
      launch->add_buffer_types(abi::F32);
    }
    launch->set_grid(2);
    launch->set_grain(1);
    launch->add_scalars()->set_value(2);
  }

  static abi::AxisRef tp() { return test::wholeAxis("tp", 2); }

  abi::Launch &launchOf(int command) { return *list().mutable_commands(command)->mutable_launch(); }

  /// A kernel in text with one output, launched from x to `to`; its output has `size` elements.
  abi::Launch &launchKernel(const char *text, uint64_t to, int64_t size, int64_t grid,
                            const std::vector<int64_t> &scalars) {
    addKernel("k").set_reference(text);
    abi::Launch *launch = list().add_commands()->mutable_launch();
    launch->set_kernel(manifest.kernels_size() - 1);
    launch->add_buffers(x);
    launch->add_buffers(to);
    launch->add_buffer_bytes(8);
    launch->add_buffer_bytes(abi::bytesOf(abi::F32, size));
    launch->add_buffer_types(abi::F32);
    launch->add_buffer_types(abi::F32);
    launch->set_grid(grid);
    launch->set_grain(1);
    for (int64_t scalar : scalars)
      launch->add_scalars()->set_value(scalar);
    return *launch;
  }

  abi::Collective &start(abi::Collective::Kind kind, uint64_t from, uint64_t to, uint32_t token, int role = 0) {
    abi::Collective *start = list(role).add_commands()->mutable_start();
    start->set_kind(kind);
    abi::AxisRefs axes;
    *axes.Add() = tp();
    start->set_group(test::findOrAddGroup(manifest, axes));
    start->set_input(from);
    start->set_output(to);
    start->set_outer(1);
    start->set_chunk(2);
    start->set_token(token);
    start->set_value("v" + std::to_string(token));
    return *start;
  }

  /// A copy of 2 elements; with a token it is started.
  abi::Copy &copy(uint64_t from, uint64_t to, std::optional<uint32_t> token = {}) {
    abi::Copy *copy = list().add_commands()->mutable_copy();
    copy->set_input(from);
    copy->set_output(to);
    copy->set_elements(2);
    if (token)
      copy->set_token(*token);
    return *copy;
  }
  /// Memory of the host for 2 elements in each of two places; commands name the first.
  uint64_t addHost() {
    abi::Role &role = *manifest.mutable_roles(0);
    role.set_host_bytes(16);
    return abi::addressOf(test::addSpace(role, abi::Space::HOST, 0, 8, 2), 0);
  }

  void wait(uint32_t token, int role = 0) { list(role).add_commands()->mutable_wait()->set_token(token); }

  /// Runs each role's list; rank r's x is [1 + 10 r, 2 + 10 r]. Returns the fault's message, empty if all went well.
  std::string run(std::vector<int> roles = {}) {
    interpreter.emplace(manifest, context, roles);
    for (int64_t rank = 0; rank < 2; ++rank) {
      mlir::dt::HostTensor piece({2});
      piece[0] = 1 + 10 * double(rank);
      piece[1] = 2 + 10 * double(rank);
      interpreter->write(rank, manifest.roles(0).tensors(0), piece);
    }
    return runStep();
  }

  /// Runs each role's list on memory as it is. Returns the fault's message, empty if all went well.
  std::string runStep() {
    try {
      interpreter->runTimetable(abi::stepTimetable);
      interpreter->requireAllWaited();
    } catch (const ProgramFault &fault) {
      return fault.what();
    }
    return "";
  }

  std::vector<double> read(int64_t rank, int tensor) {
    return *interpreter->read(rank, manifest.roles(0).tensors(tensor)).elements;
  }

  mlir::MLIRContext context;
  abi::Manifest manifest;
  std::optional<CommandInterpreter> interpreter;
};

} // namespace dtc::verify
