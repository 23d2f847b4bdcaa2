// RUN: dtc-opt %s --dt-verify-when --split-input-file --verify-diagnostics

// expected-error @below {{M1: lacks dt.arena = {bytes, shared}; run dt-plan-memory}}
module {}

// -----

module attributes {dt.arena = {bytes = 128 : i64, shared = 128 : i64}} {
// expected-error @below {{M1: lacks dt.offsets = {arguments, results, values} with one offset each; run dt-plan-memory}}
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">}) { return }
}

// -----

module attributes {dt.arena = {bytes = 128 : i64, shared = 128 : i64}} {
// expected-error @below {{M1: an argument or result lacks dt.port}}
func.func @f(%p: tensor<16xf32>)
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64>, values = array<i64>}} { return }
}

// -----

module attributes {dt.arena = {bytes = 128 : i64, shared = 128 : i64}} {
// expected-error @below {{M1: dt.offsets has 2 values more than there are; run dt-plan-memory}}
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64>, values = array<i64: 64, 0>}} { return }
}

// -----

module attributes {dt.arena = {bytes = 192 : i64, shared = 192 : i64}} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64>, values = array<i64>}} {
  // expected-error @below {{M1: has no place: dt.offsets of its function ends before; run dt-plan-memory}}
  %c = dt.copy %p : tensor<16xf32>
  return
}
}

// -----

module attributes {dt.arena = {bytes = 192 : i64, shared = 192 : i64}} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64>, values = array<i64>}} { return }
// expected-error @below {{M2: parameter p lies at 64, in another function at 0}}
func.func @g(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    attributes {dt.offsets = {arguments = array<i64: 64>, results = array<i64>, values = array<i64>}} { return }
}

// -----

module attributes {dt.arena = {bytes = 128 : i64, shared = 128 : i64}} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64>, values = array<i64: 96>}} {
  // expected-error @below {{M3: the result of 'dt.copy' (tensor<16xf32>) lies in [96, 160), which is not a place at a multiple of 64 in the arena of 128 bytes}}
  %c = dt.copy %p : tensor<16xf32>
  return
}
}

// -----

// A tensor that another function reads is alive to the end, whether this one reads it or not.
module attributes {dt.arena = {bytes = 192 : i64, shared = 192 : i64}} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64>, values = array<i64: 64>}} {
  // expected-error @below {{M4: the result of 'dt.copy' (tensor<16xf32>) lies in [64, 128), where parameter q in [64, 128) is still alive}}
  %c = dt.copy %p : tensor<16xf32>
  return
}
func.func @g(%q: tensor<16xf32> {dt.port = #dt.port<parameter "q">})
    attributes {dt.offsets = {arguments = array<i64: 64>, results = array<i64>, values = array<i64>}} { return }
}

// -----

// What is put together is alive from where its first part is written.
module attributes {dt.arena = {bytes = 256 : i64, shared = 256 : i64}} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64>, values = array<i64: 64, 192, 64>}} {
  %a = dt.copy %p : tensor<16xf32>
  // expected-error @below {{M4: the result of 'dt.copy' (tensor<16xf32>) lies in [64, 128), where the result of 'dt.concat' (tensor<32xf32>) in [64, 192) is still alive}}
  %d = dt.copy %p : tensor<16xf32>
  %e = dt.copy %d : tensor<16xf32>
  %b = dt.copy %p : tensor<16xf32>
  %c = dt.concat %a, %b along 0 : tensor<16xf32>, tensor<16xf32> -> tensor<32xf32>
  return
}
}

// -----

// What a collective reads must stay until the wait.
module attributes {dt.arena = {bytes = 256 : i64, shared = 0 : i64}, dt.mesh = #dt.mesh<"dp" = 2>} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64>, values = array<i64: 64, 128, 64>}} {
  %c = dt.copy %p : tensor<16xf32>
  %f = dt.all_gather %c along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<16xf32> -> !dt.future<tensor<32xf32>>
  // expected-error @below {{M4: the result of 'dt.copy' (tensor<16xf32>) lies in [64, 128), where the result of 'dt.copy' (tensor<16xf32>) in [64, 128) is still alive}}
  %d = dt.copy %p : tensor<16xf32>
  %w = dt.wait %f : !dt.future<tensor<32xf32>> -> tensor<32xf32>
  return
}
}

// -----

// Nor may an operation that works in place write over what another still reads.
module attributes {dt.arena = {bytes = 256 : i64, shared = 0 : i64}, dt.mesh = #dt.mesh<"dp" = 2>} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64>, values = array<i64: 64, 128, 64>}} {
  %c = dt.copy %p : tensor<16xf32>
  %f = dt.all_gather %c along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<16xf32> -> !dt.future<tensor<32xf32>>
  // expected-error @below {{M4: the result of 'dt.copy' (tensor<16xf32>) lies in [64, 128), where the result of 'dt.copy' (tensor<16xf32>) in [64, 128) is still alive}}
  %d = dt.copy %c : tensor<16xf32>
  %w = dt.wait %f : !dt.future<tensor<32xf32>> -> tensor<32xf32>
  return
}
}

// -----

// A collective that works in place needs its operand longer than who reads that meanwhile, who yet needs it.
module attributes {dt.arena = {bytes = 256 : i64, shared = 0 : i64}, dt.mesh = #dt.mesh<"dp" = 2>} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64>, values = array<i64: 64, 64, 128>}} {
  %c = dt.copy %p : tensor<16xf32>
  // expected-error @below {{M4: the result of 'dt.all_reduce' (!dt.future<tensor<16xf32>>) lies in [64, 128), where the result of 'dt.copy' (tensor<16xf32>) in [64, 128) is still alive}}
  %f = dt.all_reduce sum %c over [#dt.axis_ref<"dp", 1, 0>] : tensor<16xf32> -> !dt.future<tensor<16xf32>>
  %d = dt.copy %c : tensor<16xf32>
  %w = dt.wait %f : !dt.future<tensor<16xf32>> -> tensor<16xf32>
  return
}
}

// -----

// After it, or in place, the memory is free; a contraction is not in place.
module attributes {dt.arena = {bytes = 256 : i64, shared = 0 : i64}, dt.mesh = #dt.mesh<"dp" = 2>} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64>, values = array<i64: 64, 64, 64, 64>}} {
  %c = dt.copy %p : tensor<16xf32>
  %f = dt.all_reduce sum %c over [#dt.axis_ref<"dp", 1, 0>] : tensor<16xf32> -> !dt.future<tensor<16xf32>>
  %w = dt.wait %f : !dt.future<tensor<16xf32>> -> tensor<16xf32>
  %d = dt.copy %w : tensor<16xf32>
  // expected-error @below {{M4: the result of 'dt.contract'}}
  %e = dt.contract "a,a->a" %d, %d : tensor<16xf32>, tensor<16xf32> -> tensor<16xf32>
  return
}
}

// -----

module attributes {dt.arena = {bytes = 256 : i64, shared = 128 : i64}, dt.mesh = #dt.mesh<"dp" = 2>} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64>, values = array<i64: 128>}} {
  // expected-error @below {{M5: what a collective reads or writes lies at 0, before the part of the arena that peers see, which begins at 128}}
  %f = dt.all_gather %p along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<16xf32> -> !dt.future<tensor<32xf32>>
  %w = dt.wait %f : !dt.future<tensor<32xf32>> -> tensor<32xf32>
  return
}
}

// -----

module attributes {dt.arena = {bytes = 192 : i64, shared = 192 : i64}} {
// expected-error @below {{M6: result 0 (output y) is not computed at 128, where it must be stored}}
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    -> (tensor<16xf32> {dt.port = #dt.port<output "y">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64: 128>, values = array<i64: 64>}} {
  %c = dt.copy %p : tensor<16xf32>
  return %c : tensor<16xf32>
}
}

// -----

// GPUs want more.
module attributes {dt.target = "cuda:sm_90", dt.arena = {bytes = 512 : i64, shared = 512 : i64}} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64>, values = array<i64: 64>}} {
  // expected-error @below {{M3: the result of 'dt.copy' (tensor<16xf32>) lies in [64, 128), which is not a place at a multiple of 256 in the arena of 512 bytes}}
  %c = dt.copy %p : tensor<16xf32>
  return
}
}

// -----

// A part of a tensor that a kernel reads may begin within it, but not at every element.
module attributes {dt.target = "cuda:sm_90", dt.arena = {bytes = 768 : i64, shared = 768 : i64}} {
dt.kernel @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = dt.exp %x : tensor<4xf32>
  dt.yield %y : tensor<4xf32>
}
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64>, values = array<i64: 256, 512>}} {
  %s = dt.slice %p at [4] : tensor<16xf32> -> tensor<4xf32>
  %t = dt.slice %p at [3] : tensor<16xf32> -> tensor<4xf32>
  %a = dt.launch @k(%s) : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @below {{M7: operand 0 lies at 12, which is not a multiple of the 16 bytes that the target's kernels expect}}
  %b = dt.launch @k(%t) : (tensor<4xf32>) -> tensor<4xf32>
  return
}
}

// -----

// Of three places of 64 bytes the first is the one that functions name; nothing may lie across them.
module attributes {dt.arena = {bytes = 320 : i64, shared = 320 : i64, spaces = [array<i64: 2, 64, 64, 3>]}} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    -> (tensor<16xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64: 64>, values = array<i64: 64, 128>}} {
  %s = dt.copy %p : tensor<16xf32>
  // expected-error @below {{M8: the result of 'dt.copy' (tensor<16xf32>) lies in [128, 192), across the places of space 'stash', which begin at 64, 3 of 64 bytes}}
  %c = dt.copy %p : tensor<16xf32>
  return %s : tensor<16xf32>
}
}

// -----

module attributes {dt.arena = {bytes = 320 : i64, shared = 320 : i64, spaces = [array<i64: 2, 128, 64, 3>]}} {
// expected-error @below {{M8: stash s lies in [64, 128), where micro-batches under way have no places of their own}}
func.func @f(%s: tensor<16xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.offsets = {arguments = array<i64: 64>, results = array<i64>, values = array<i64>}} { return }
}

// -----

// What is sent and received is visible to the peers.
module attributes {dt.arena = {bytes = 256 : i64, shared = 256 : i64, spaces = [array<i64: 4, 64, 64, 2>]}, dt.mesh = #dt.mesh<"pp" = 2>} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    -> (tensor<16xf32> {dt.port = #dt.port<sent "s">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64: 64>, values = array<i64: 64>}} {
  %s = dt.copy %p : tensor<16xf32>
  // expected-error @below {{M5: what a collective reads or writes lies at 64, before the part of the arena that peers see, which begins at 256}}
  dt.send %s as <sent "s"> by 1 over [#dt.axis_ref<"pp", 1, 0>] : tensor<16xf32>
  return %s : tensor<16xf32>
}
}

// -----

// What leaves for the host's memory must stay until the wait, ...
module attributes {dt.arena = {bytes = 128 : i64, shared = 128 : i64, host = 64 : i64}} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64>, values = array<i64: 64, 128, 64>}} {
  %c = dt.copy %p : tensor<16xf32>
  %f = dt.offload %c : tensor<16xf32> -> !dt.future<tensor<16xf32>>
  // expected-error @below {{M4: the result of 'dt.copy' (tensor<16xf32>) lies in [64, 128), where the result of 'dt.copy' (tensor<16xf32>) in [64, 128) is still alive}}
  %d = dt.copy %p : tensor<16xf32>
  %w = dt.wait %f : !dt.future<tensor<16xf32>> -> tensor<16xf32>
  return
}
}

// -----

// ... and what is there, until it is back.
module attributes {dt.arena = {bytes = 192 : i64, shared = 192 : i64, host = 64 : i64}} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64>, values = array<i64: 192, 64, 192>}} {
  %f = dt.offload %p : tensor<16xf32> -> !dt.future<tensor<16xf32>>
  %h = dt.wait %f : !dt.future<tensor<16xf32>> -> tensor<16xf32>
  %b = dt.fetch %h : tensor<16xf32> -> !dt.future<tensor<16xf32>>
  // expected-error @below {{M4: the result of 'dt.offload' (!dt.future<tensor<16xf32>>) lies in [192, 256), where the result of 'dt.offload' (!dt.future<tensor<16xf32>>) in [192, 256) is still alive}}
  %g = dt.offload %p : tensor<16xf32> -> !dt.future<tensor<16xf32>>
  %y = dt.wait %b : !dt.future<tensor<16xf32>> -> tensor<16xf32>
  return
}
}

// -----

// There is so much of the host's memory, ...
module attributes {dt.arena = {bytes = 128 : i64, shared = 128 : i64, host = 64 : i64}} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64>, values = array<i64: 192>}} {
  // expected-error @below {{M3: the result of 'dt.offload' (!dt.future<tensor<16xf32>>) lies in [192, 256), which is not a place at a multiple of 64}}
  %f = dt.offload %p : tensor<16xf32> -> !dt.future<tensor<16xf32>>
  return
}
}

// -----

// ... which is for copies alone.
module attributes {dt.arena = {bytes = 128 : i64, shared = 128 : i64, host = 64 : i64}} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64>, values = array<i64: 128>}} {
  // expected-error @below {{M10: what it reads or writes lies in the host's memory, behind the arena, at 128}}
  %c = dt.copy %p : tensor<16xf32>
  return
}
}

// -----

module attributes {dt.arena = {bytes = 128 : i64, shared = 128 : i64, host = 64 : i64}} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64>, values = array<i64: 64>}} {
  // expected-error @below {{M10: what it reads or writes lies in the arena, at 64, and not in the host's memory}}
  %f = dt.offload %p : tensor<16xf32> -> !dt.future<tensor<16xf32>>
  return
}
}
