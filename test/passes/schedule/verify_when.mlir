// RUN: dtc-opt %s --dt-verify-when --split-input-file --verify-diagnostics

// expected-error @below {{M1: lacks dt.arena = {bytes, shared}; run dt-plan-memory}}
module {}

// -----

module attributes {dt.arena = {bytes = 128 : i64, shared = 128 : i64}} {
// expected-error @below {{M1: an argument or result lacks dt.port or dt.offset}}
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">}) { return }
}

// -----

module attributes {dt.arena = {bytes = 192 : i64, shared = 192 : i64}} {
func.func @f(%p: tensor<16xf32> {dt.offset = 0 : i64, dt.port = #dt.port<parameter "p">}) {
  // expected-error @below {{M1: lacks dt.offsets with one offset a result; run dt-plan-memory}}
  %c = dt.copy %p : tensor<16xf32>
  return
}
}

// -----

module attributes {dt.arena = {bytes = 192 : i64, shared = 192 : i64}} {
func.func @f(%p: tensor<16xf32> {dt.offset = 0 : i64, dt.port = #dt.port<parameter "p">}) { return }
// expected-error @below {{M2: parameter p lies at 64, in another function at 0}}
func.func @g(%p: tensor<16xf32> {dt.offset = 64 : i64, dt.port = #dt.port<parameter "p">}) { return }
}

// -----

module attributes {dt.arena = {bytes = 128 : i64, shared = 128 : i64}} {
func.func @f(%p: tensor<16xf32> {dt.offset = 0 : i64, dt.port = #dt.port<parameter "p">}) {
  // expected-error @below {{M3: the result of 'dt.copy' (tensor<16xf32>) lies in [96, 160), which is not a place of whole cache lines in the arena of 128 bytes}}
  %c = dt.copy %p {dt.offsets = array<i64: 96>} : tensor<16xf32>
  return
}
}

// -----

// A tensor that another function reads lives to the end, whether this one reads it or not.
module attributes {dt.arena = {bytes = 192 : i64, shared = 192 : i64}} {
func.func @f(%p: tensor<16xf32> {dt.offset = 0 : i64, dt.port = #dt.port<parameter "p">}) {
  // expected-error @below {{M4: the result of 'dt.copy' (tensor<16xf32>) lies in [64, 128), where parameter q in [64, 128) is still alive}}
  %c = dt.copy %p {dt.offsets = array<i64: 64>} : tensor<16xf32>
  return
}
func.func @g(%q: tensor<16xf32> {dt.offset = 64 : i64, dt.port = #dt.port<parameter "q">}) { return }
}

// -----

// What a collective reads must stay until the wait.
module attributes {dt.arena = {bytes = 256 : i64, shared = 0 : i64}, dt.mesh = #dt.mesh<"dp" = 2>} {
func.func @f(%p: tensor<16xf32> {dt.offset = 0 : i64, dt.port = #dt.port<parameter "p">}) {
  %c = dt.copy %p {dt.offsets = array<i64: 64>} : tensor<16xf32>
  %f = dt.all_gather %c along 0 over [#dt.axis_ref<"dp", 1, 0>] {dt.offsets = array<i64: 128>} : tensor<16xf32> -> !dt.future<tensor<32xf32>>
  // expected-error @below {{M4: the result of 'dt.copy' (tensor<16xf32>) lies in [64, 128), where the result of 'dt.copy' (tensor<16xf32>) in [64, 128) is still alive}}
  %d = dt.copy %p {dt.offsets = array<i64: 64>} : tensor<16xf32>
  %w = dt.wait %f : !dt.future<tensor<32xf32>> -> tensor<32xf32>
  return
}
}

// -----

// Nor may an operation that works in place write over what another still reads.
module attributes {dt.arena = {bytes = 256 : i64, shared = 0 : i64}, dt.mesh = #dt.mesh<"dp" = 2>} {
func.func @f(%p: tensor<16xf32> {dt.offset = 0 : i64, dt.port = #dt.port<parameter "p">}) {
  %c = dt.copy %p {dt.offsets = array<i64: 64>} : tensor<16xf32>
  %f = dt.all_gather %c along 0 over [#dt.axis_ref<"dp", 1, 0>] {dt.offsets = array<i64: 128>} : tensor<16xf32> -> !dt.future<tensor<32xf32>>
  // expected-error @below {{M4: the result of 'dt.copy' (tensor<16xf32>) lies in [64, 128), where the result of 'dt.copy' (tensor<16xf32>) in [64, 128) is still alive}}
  %d = dt.copy %c {dt.offsets = array<i64: 64>} : tensor<16xf32>
  %w = dt.wait %f : !dt.future<tensor<32xf32>> -> tensor<32xf32>
  return
}
}

// -----

// After it, or in place, the memory is free; a contraction is not in place.
module attributes {dt.arena = {bytes = 256 : i64, shared = 0 : i64}, dt.mesh = #dt.mesh<"dp" = 2>} {
func.func @f(%p: tensor<16xf32> {dt.offset = 0 : i64, dt.port = #dt.port<parameter "p">}) {
  %c = dt.copy %p {dt.offsets = array<i64: 64>} : tensor<16xf32>
  %f = dt.all_reduce sum %c over [#dt.axis_ref<"dp", 1, 0>] {dt.offsets = array<i64: 64>} : tensor<16xf32> -> !dt.future<tensor<16xf32>>
  %w = dt.wait %f : !dt.future<tensor<16xf32>> -> tensor<16xf32>
  %d = dt.copy %w {dt.offsets = array<i64: 64>} : tensor<16xf32>
  // expected-error @below {{M4: the result of 'dt.contract'}}
  %e = dt.contract "a,a->a" %d, %d {dt.offsets = array<i64: 64>} : tensor<16xf32>, tensor<16xf32> -> tensor<16xf32>
  return
}
}

// -----

module attributes {dt.arena = {bytes = 256 : i64, shared = 128 : i64}, dt.mesh = #dt.mesh<"dp" = 2>} {
func.func @f(%p: tensor<16xf32> {dt.offset = 0 : i64, dt.port = #dt.port<parameter "p">}) {
  // expected-error @below {{M5: what a collective reads or writes lies at 0, before the part of the arena that peers see, which begins at 128}}
  %f = dt.all_gather %p along 0 over [#dt.axis_ref<"dp", 1, 0>] {dt.offsets = array<i64: 128>} : tensor<16xf32> -> !dt.future<tensor<32xf32>>
  %w = dt.wait %f : !dt.future<tensor<32xf32>> -> tensor<32xf32>
  return
}
}

// -----

module attributes {dt.arena = {bytes = 192 : i64, shared = 192 : i64}} {
// expected-error @below {{M6: result 0 (output y) is not computed at 128, where it is to lie}}
func.func @f(%p: tensor<16xf32> {dt.offset = 0 : i64, dt.port = #dt.port<parameter "p">})
    -> (tensor<16xf32> {dt.offset = 128 : i64, dt.port = #dt.port<output "y">}) {
  %c = dt.copy %p {dt.offsets = array<i64: 64>} : tensor<16xf32>
  return %c : tensor<16xf32>
}
}
