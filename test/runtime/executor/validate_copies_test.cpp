// The rules for copies and memory of the host, broken one by one.
#include "test/runtime/executor/hostile.h"

namespace dtc {
namespace {

using namespace test;
using testing::HasSubstr;

/// A copy of 'table' at the end of the arena, which the update writes with it, and what the host has written by a list
/// of its own.
abi::Tensor &copyOfTable(Manifest &manifest) {
  abi::Tensor &copied = addTensor(manifest, tensor(manifest, "table"));
  copied.set_kind(abi::Tensor::COPY);
  copied.set_type(abi::BF16);
  copied.set_address(grow(manifest, 64));
  abi::CommandList &fresh = addList(manifest, "fresh");
  for (abi::CommandList *each : {&list(manifest, "turn"), &fresh}) {
    abi::Copy &command = *each->add_commands()->mutable_copy();
    command.set_type(abi::BF16);
    command.set_input(0);
    command.set_output(copied.address());
    command.set_elements(1);
  }
  refresh(manifest).Add()->set_list("fresh");
  return copied;
}

/// Memory of the host with a space of two places, and at the end of a list a copy there that is started and waited for.
abi::Copy &offload(Manifest &manifest) {
  abi::Role &role = *manifest.mutable_roles(0);
  role.set_host_bytes(192);
  abi::Copy &copied = copy(manifest);
  copied.set_output(abi::addressOf(addSpace(role, abi::Space::HOST, 64, 64, 2), 0));
  copied.set_token(50);
  copied.set_channel(7);
  list(manifest, "turn").add_commands()->mutable_wait()->set_token(50);
  return copied;
}

/// Likewise, but nobody waits.
abi::Copy &offloadUnawaited(Manifest &manifest) {
  abi::Copy &copied = offload(manifest);
  list(manifest, "turn").mutable_commands()->RemoveLast();
  return copied;
}

/// The role whose list offloads.
abi::Role &offloadingRole(Manifest &manifest) {
  offload(manifest);
  return *manifest.mutable_roles(0);
}

/// An address there.
uint64_t inHost(Manifest &manifest) { return offload(manifest).output(); }

const Hostile Copies[] = {
    {"CopyBeyondTheArena", [](Manifest &m) { copy(m).set_output(m.roles(0).arena_bytes() - 4); },
     "the target of a copy"},
    {"CopyFromBeyondTheArena", [](Manifest &m) { copy(m).set_input(m.roles(0).arena_bytes() - 4); }, "the source of a"},
    {"CopyOverlaps", [](Manifest &m) { copy(m).set_output(4); }, "source and target of a copy overlap"},
    {"CopyType", [](Manifest &m) { copy(m).set_type(abi::DataType(9)); }, "unknown type of elements"},
    {"CopyNegative", [](Manifest &m) { copy(m).set_elements(-1); }, "a negative extent"},
    {"CopyOnNoChannel", [](Manifest &m) { offload(m).set_channel(8); }, "a copy on channel 8 of 8"},
    {"CopyOnAChannelWithoutToken", [](Manifest &m) { copy(m).set_channel(1); },
     "a copy without a token names a channel or a space for it"},
    {"CopyThatOverlapsAndIsStarted", [](Manifest &m) { offload(m).set_output(4); },
     "source and target of a copy overlap"},
    {"CopyWithinTheHostOverlaps",
     [](Manifest &m) {
       abi::Copy &copied = offload(m);
       copied.set_input(copied.output() + 4);
     },
     "source and target of a copy overlap"},
    {"CopyBeyondThePlaceInTheHost",
     [](Manifest &m) {
       abi::Copy &copied = offload(m);
       copied.set_output(copied.output() + 60);
     },
     "the target of a copy at byte 60 of 2 elements of f32 does not lie in [0, 64) of space 'space 1'"},
    {"CopyNeverAwaited", [](Manifest &m) { offloadUnawaited(m); },
     "its step runs list 'turn', which ends before anybody waits for token 50"},
    {"CopyStartedAgain",
     [](Manifest &m) {
       abi::Copy copied = offloadUnawaited(m);
       *list(m, "turn").add_commands()->mutable_copy() = copied;
     },
     "the token is in use by a command not yet waited for"},
    {"CopyWithATokenOfTwoSpaces", [](Manifest &m) { offload(m).set_token_space(1); },
     "its token counts the places of another space elsewhere"},
    {"CopyWithATokenOfNoSpace", [](Manifest &m) { offload(m).set_token_space(2); },
     "its token counts the places of a space that does not exist"},
    {"HostSpaceWithoutMemory", [](Manifest &m) { offloadingRole(m).clear_host_bytes(); },
     "role 'all' has 0 bytes of the host's memory (at most 2^46) and a space there"},
    {"HostMemoryWithoutASpace", [](Manifest &m) { m.mutable_roles(0)->set_host_bytes(64); },
     "has 64 bytes of the host's memory (at most 2^46) and no space there"},
    {"HostMemoryBeyondAll", [](Manifest &m) { offloadingRole(m).set_host_bytes(uint64_t(1) << 47); },
     "has 140737488355328 bytes of the host's memory (at most 2^46)"},
    {"HostSpaceBeyondItsMemory", [](Manifest &m) { offloadingRole(m).set_host_bytes(191); },
     "space 'space 1' of 2 places of 64 bytes (of several: multiples of 64) from byte 64 does not lie in the host's "
     "memory, bytes 0 to 191"},
    {"HostSpacesOverlap", [](Manifest &m) { addSpace(offloadingRole(m), abi::Space::HOST, 128, 64); },
     "space 'space 2' shares memory with another"},
    {"LaunchInTheHost", [](Manifest &m) { launch(m).set_buffers(0, inHost(m)); },
     "a buffer lies in space 'space 1' of the host's memory, which only copies reach"},
    {"CollectiveOfTheHost", [](Manifest &m) { collective(m).set_input(inHost(m)); },
     "the input lies in space 'space 1' of the host's memory"},
    {"CollectiveIntoTheHost", [](Manifest &m) { collective(m).set_output(inHost(m)); },
     "the output lies in space 'space 1' of the host's memory"},
    {"TensorInTheHost", [](Manifest &m) { tensor(m, "table").set_address(inHost(m)); },
     "tensor 'table' lies in space 'space 1' of the host's memory, which only copies reach"},
    {"CopyInItsParametersPlace", [](Manifest &m) { copyOfTable(m).set_address(tensor(m, "table").address()); },
     "tensor 'table' shares memory with the one before it"},
    {"CopyInF32", [](Manifest &m) { copyOfTable(m).set_type(abi::F32); },
     "the copy of parameter 'table' does not hold 16 bits in its shape"},
    {"CopyOfAnotherShape",
     [](Manifest &m) {
       abi::Tensor &copied = copyOfTable(m);
       copied.set_global_shape(0, copied.global_shape(0) - 1);
     },
     "the copy of parameter 'table' does not hold 16 bits in its shape"},
    {"CopyTwice", [](Manifest &m) { addTensor(m, copyOfTable(m)); }, "'table' has two places of one kind"},
    {"CopyThatTheUpdateForgets",
     [](Manifest &m) {
       copyOfTable(m);
       list(m, "turn").mutable_commands()->RemoveLast();
     },
     "list 'turn' writes parameter 'layer.table' and not its copy"},
    {"CopyThatIsNotMade",
     [](Manifest &m) {
       copyOfTable(m);
       refresh(m).Clear();
     },
     "parameter 'layer.table' has a copy, and nothing makes that of what the host writes"},
    {"CopyThatAnotherListMakes",
     [](Manifest &m) {
       copyOfTable(m);
       refresh(m).Mutable(0)->set_list("join");
     },
     "parameter 'layer.table' has a copy, and nothing makes that of what the host writes"},
    {"CopyMadeByNoList",
     [](Manifest &m) {
       copyOfTable(m);
       refresh(m).Mutable(0)->set_list("made");
     },
     "its refresh runs list 'made' in stage 0 (entry 0), which does not exist"},
    {"CopyMadeOfAMicroBatch",
     [](Manifest &m) {
       copyOfTable(m);
       refresh(m).Mutable(0)->set_micro_batch(0);
     },
     "its refresh runs list 'fresh' on micro-batch 0 in stage 0 (entry 0); it is a list for no micro-batch"},
    {"CopyAwaitsWhatNobodyStarts",
     [](Manifest &m) {
       copyOfTable(m);
       list(m, "fresh").add_commands()->mutable_wait()->set_token(99);
     },
     "its refresh runs list 'fresh', which waits for a command that was not started, of token 99"},
};

INSTANTIATE_TEST_SUITE_P(Copies, ValidateTest, testing::ValuesIn(Copies),
                         [](const auto &info) { return info.param.name; });

TEST(ValidateCopyTest, WhatIsInOrderIsAccepted) {
  Manifest manifest = program();
  copyOfTable(manifest);
  EXPECT_EQ(refusalOf(manifest), "accepted");
}

/// The two memories do not overlap, although both count from 0.
TEST(ValidateOffloadTest, WhatIsInOrderIsAccepted) {
  Manifest manifest = program();
  abi::Copy &copied = offload(manifest);
  manifest.mutable_roles(0)->mutable_spaces(1)->set_base(0);
  EXPECT_EQ(refusalOf(manifest), "accepted");
  abi::Copy &back = copy(manifest); // in the order of launches
  back.set_input(copied.output());
  EXPECT_EQ(refusalOf(manifest), "accepted");
  back.set_token(50);
  list(manifest, "turn").add_commands()->mutable_wait()->set_token(50);
  EXPECT_EQ(refusalOf(manifest), "accepted");
}

} // namespace
} // namespace dtc
