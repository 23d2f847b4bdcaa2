// The toy model as a program whose steps overlap: the tokens of a step are brought to where they are used some steps
// ahead.
#pragma once

#include "test/runtime/program/manifests.h"

namespace dtc::test {

/// A list "bring" copies the tokens of a micro-batch to where the lists with its backward pass use them: in places of
/// their own, in a space that follows the arena's.
inline void addBringing(abi::Manifest &manifest, uint32_t places) {
  abi::Role &role = *manifest.mutable_roles(0);
  uint32_t space = addSpace(role, abi::Space::REGISTERED, role.arena_bytes(), 512, places);
  role.set_arena_bytes(role.arena_bytes() + 512 * places);
  abi::CommandList &bring = addList(manifest, "bring", abi::CommandList::FORWARD_PASS);
  for (int input : {0, 1}) {
    const abi::Tensor &tensor = role.tensors(input);
    abi::Copy &copy = *bring.add_commands()->mutable_copy();
    copy.set_type(abi::I32);
    copy.set_input(tensor.address());
    copy.set_output(abi::addressOf(space, 256 * static_cast<uint64_t>(input)));
    copy.set_elements(tensor.local_shape(0) * tensor.local_shape(1));
    for (const char *name : {"begin", "go_on"}) {
      abi::CommandList &list = listIn(manifest, name);
      list.set_duty(abi::CommandList::BACKWARD_PASS);
      list.mutable_commands(0)->mutable_launch()->set_buffers(input, copy.output());
    }
  }
}

/// Puts a "bring" for `ahead` steps later behind each entry with a micro-batch.
inline void bringAhead(abi::Manifest &manifest, int32_t ahead) {
  google::protobuf::RepeatedPtrField<abi::TimetableEntry> period;
  for (const abi::TimetableEntry &entry : entriesOf(manifest)) {
    *period.Add() = entry;
    if (!entry.has_micro_batch())
      continue;
    abi::TimetableEntry &next = *period.Add();
    next = entry;
    next.set_list("bring");
    next.set_step(ahead);
  }
  entriesOf(manifest) = period;
}

} // namespace dtc::test
