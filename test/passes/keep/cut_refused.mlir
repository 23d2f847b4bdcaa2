// RUN: dtc-opt %s --split-input-file --verify-diagnostics --dt-cut

// expected-error @+1 {{a pipeline of 3 stages (mesh axis 'pp') needs as many layers, and the model has 1; make the axis shorter}}
module attributes {dt.mesh = #dt.mesh<"pp" = 3>} {
func.func @eval(%x: tensor<8xf32> {dt.port = #dt.port<input "x">}) -> (tensor<8xf32> {dt.port = #dt.port<output "y">}) {
  %y = dt.exp %x {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32>
  return %y : tensor<8xf32>
}
}

// -----

// expected-error @+1 {{a pipeline of 129 stages (mesh axis 'pp') is longer than the 128 stages that there may be}}
module attributes {dt.mesh = #dt.mesh<"pp" = 129>} {
func.func @eval(%x: tensor<8xf32> {dt.port = #dt.port<input "x">}) -> (tensor<8xf32> {dt.port = #dt.port<output "y">}) {
  %y = dt.exp %x {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32>
  return %y : tensor<8xf32>
}
}

// -----

// expected-error @+1 {{and 2 layers cannot be cut as [stages] says, into 2 stages with 3 layers}}
module attributes {dt.mesh = #dt.mesh<"pp" = 2>, dt.stage_layers = array<i64: 1, 2>} {
func.func @eval(%w: tensor<8xf32> {dt.port = #dt.port<parameter "w">}) -> (tensor<8xf32> {dt.port = #dt.port<output "y">}) {
  %x = dt.exp %w {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32>
  %y = dt.exp %x {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32>
  return %y : tensor<8xf32>
}
}

// -----

// The first stage would need a result of the last.
module attributes {dt.mesh = #dt.mesh<"pp" = 2>} {
func.func @eval(%w: tensor<8xf32> {dt.port = #dt.port<parameter "w">}, %x: tensor<8xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<8xf32> {dt.port = #dt.port<output "y">}) {
  %a = dt.mul %w, %x {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32>
  // expected-error @+1 {{what stage 1 of the pipeline makes here is needed by stage 0, which has run by then; cut the model elsewhere}}
  %b = dt.exp %a {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32>
  %c = dt.exp %b {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32>
  return %c : tensor<8xf32>
}
}

// -----

// Two stages that update by themselves cannot have a parameter together.
// expected-error @+1 {{pipedream updates each stage by itself, and stages 0 and 1 both read the parameter "w" (a tied embedding): they would have to wait for each other; untie it}}
module attributes {dt.mesh = #dt.mesh<"pp" = 2>, dt.asynchronous} {
func.func @micro_last(%w: tensor<8xf32> {dt.port = #dt.port<parameter "w">}, %x: tensor<8xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<8xf32> {dt.port = #dt.port<output "y">}) {
  %a = dt.mul %w, %x {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32>
  %b = dt.mul %a, %w {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32>
  return %b : tensor<8xf32>
}
}

// -----

// A stage keeps versions of what it stores.
// expected-error @+1 {{pipedream: the parameter w is stored in pieces and gathered to be computed with (zero1, zero2, zero3, fsdp), which cannot be kept in versions yet}}
module attributes {dt.mesh = #dt.mesh<"dp" = 2, "pp" = 2>, dt.asynchronous} {
func.func @eval(%w: tensor<4xf32> {dt.port = #dt.port<parameter "w", computed = <[{} ]>, stored = <[{"dp"} ]>, whole = tensor<8xf32>>})
    -> (tensor<4xf32> {dt.port = #dt.port<output "y">}) {
  %a = dt.exp %w {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4xf32>
  %b = dt.exp %a {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<4xf32>
  return %b : tensor<4xf32>
}
}

// -----

// Each stage updates at its own time: two of them cannot add up what they have.
module attributes {dt.mesh = #dt.mesh<"pp" = 2>, dt.asynchronous} {
func.func @micro_last(%w: tensor<8xf32> {dt.port = #dt.port<parameter "w">}, %v: tensor<8xf32> {dt.port = #dt.port<parameter "v">},
                      %x: tensor<8xf32> {dt.port = #dt.port<input "x">}) -> (tensor<8xf32> {dt.port = #dt.port<output "y">}) {
  %a = dt.mul %w, %x {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32>
  %b = dt.mul %a, %v {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32>
  return %b : tensor<8xf32>
}
func.func @update(%w: tensor<8xf32> {dt.port = #dt.port<parameter "w">}, %v: tensor<8xf32> {dt.port = #dt.port<parameter "v">})
    -> (tensor<8xf32> {dt.port = #dt.port<parameter "w">}, tensor<8xf32> {dt.port = #dt.port<parameter "v">}) {
  // expected-error @+1 {{pipedream updates each stage by itself, and this is needed by ranks 0, 1 of the pipeline together}}
  %a = dt.add %w, %v {dt.direction = #dt.direction<update>} : tensor<8xf32>
  %b = dt.sqrt %a {dt.direction = #dt.direction<update>} : tensor<8xf32>
  %c = dt.mul %w, %b {dt.direction = #dt.direction<update>} : tensor<8xf32>
  %d = dt.mul %v, %b {dt.direction = #dt.direction<update>} : tensor<8xf32>
  return %c, %d : tensor<8xf32>, tensor<8xf32>
}
}
