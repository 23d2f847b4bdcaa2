// RUN: dtc-opt %s --split-input-file --verify-diagnostics --dt-differentiate | FileCheck %s

// Gradients of a value's uses are summed, and the seed is 1 for the loss alone: the count has no gradient.

// CHECK-LABEL: func.func @micro(
// CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<4xf32>
// CHECK-SAME:  -> (tensor<f32> {dt.port = #dt.port<share "micro_loss_sum", partial>}, tensor<f32> {dt.port = #dt.port<share "micro_token_count", partial>}, tensor<4xf32> {dt.port = #dt.port<gradient "w", partial>})
// CHECK:         %[[E:.+]] = dt.exp %[[W]]
// CHECK:         %[[S:.+]] = dt.reduce sum
// CHECK:         %[[ONE:.+]] = dt.constant dense<1.000000e+00> : tensor<f32>
// CHECK:         %[[G:.+]] = dt.broadcast %[[ONE]]
// CHECK:         %[[BYX:.+]] = dt.mul %[[G]], %[[E]]
// CHECK:         %[[BYE:.+]] = dt.mul %[[G]], %[[W]]
// CHECK:         %[[THROUGH:.+]] = dt.mul %[[BYE]], %[[E]]
// CHECK:         %[[SUM:.+]] = dt.add %[[BYX]], %[[THROUGH]]
// CHECK:         return %[[S]], %{{.+}}, %[[SUM]]
func.func @loss(%w: tensor<4xf32> {dt.port = #dt.port<parameter "w">})
    -> (tensor<f32> {dt.port = #dt.port<output "loss_sum">}, tensor<f32> {dt.port = #dt.port<output "token_count">}) {
  %e = dt.exp %w : tensor<4xf32>
  %p = dt.mul %w, %e : tensor<4xf32>
  %s = dt.reduce sum %p over [0] : tensor<4xf32> -> tensor<f32>
  %n = dt.reduce sum %e over [0] : tensor<4xf32> -> tensor<f32>
  return %s, %n : tensor<f32>, tensor<f32>
}

// -----

// A conversion between floating-point types hands the gradient on, in the operand's type: a parameter that is used in
// bf16 has a gradient in f32. One through integers or masks ends there. A derivative's formula is computed in f32 and
// rounded once.

// CHECK-LABEL: func.func @micro(
// CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<4xf32>
// CHECK-SAME:    %[[V:[a-z0-9]+]]: tensor<4xf32>
// CHECK:         %[[H:.+]] = dt.convert %[[W]] {{.*}}: tensor<4xf32> -> tensor<4xbf16>
// CHECK:         %[[ONES:.+]] = dt.broadcast
// CHECK:         %[[NARROW:.+]] = dt.convert %[[ONES]] {{.*}}: tensor<4xf32> -> tensor<4xbf16>
// CHECK:         %[[F:.+]] = dt.convert %[[NARROW]] {{.*}}: tensor<4xbf16> -> tensor<4xf32>
// CHECK:         %[[P:.+]] = dt.mul %[[F]], %{{.+}} {{.*}}: tensor<4xf32>
// CHECK:         %[[G:.+]] = dt.convert %[[P]] {{.*}}: tensor<4xf32> -> tensor<4xbf16>
// CHECK:         %[[WIDE:.+]] = dt.convert %[[G]] {{.*}}: tensor<4xbf16> -> tensor<4xf32>
// CHECK:         %[[NONE:.+]] = dt.constant dense<0.000000e+00> : tensor<4xf32>
// CHECK:         return %{{.+}}, %{{.+}}, %[[WIDE]], %[[NONE]]
func.func @loss(%w: tensor<4xf32> {dt.port = #dt.port<parameter "w">}, %v: tensor<4xf32> {dt.port = #dt.port<parameter "v">})
    -> (tensor<f32> {dt.port = #dt.port<output "loss_sum">}, tensor<f32> {dt.port = #dt.port<output "token_count">}) {
  %h = dt.convert %w : tensor<4xf32> -> tensor<4xbf16>
  %e = dt.exp %h : tensor<4xbf16>
  %back = dt.convert %e : tensor<4xbf16> -> tensor<4xf32>
  %whole = dt.convert %v : tensor<4xf32> -> tensor<4xi32>
  %floor = dt.convert %whole : tensor<4xi32> -> tensor<4xf32>
  %both = dt.add %back, %floor : tensor<4xf32>
  %s = dt.reduce sum %both over [0] : tensor<4xf32> -> tensor<f32>
  return %s, %s : tensor<f32>, tensor<f32>
}

// -----

// A parameter without influence on the loss gets zeros, so that every parameter has a gradient.

// CHECK-LABEL: func.func @micro(
// CHECK:         %[[ZERO:.+]] = dt.constant dense<0.000000e+00> : tensor<3xf32>
// CHECK:         return {{.*}}, %[[ZERO]] :
func.func @loss(%w: tensor<f32> {dt.port = #dt.port<parameter "w">}, %unused: tensor<3xf32> {dt.port = #dt.port<parameter "unused">})
    -> (tensor<f32> {dt.port = #dt.port<output "loss_sum">}, tensor<f32> {dt.port = #dt.port<output "token_count">}) {
  %n = dt.constant dense<1.0> : tensor<f32>
  return %w, %n : tensor<f32>, tensor<f32>
}

// -----

// Layers follow gradients, so that later passes may group by layer; nothing is built for what needs no gradient.

// CHECK-LABEL: func.func @micro(
// CHECK:         dt.contract "ab,b->a" {{.*}}dt.layer = #dt.layer<"h"[0]>
// CHECK-NOT:     dt.contract "a,b
// CHECK:         dt.contract "ab,a->b" %{{.*}} {{.*}}dt.layer = #dt.layer<"h"[0]>}
// CHECK-NOT:     dt.contract
func.func @loss(%w: tensor<4xf32> {dt.port = #dt.port<parameter "w">}, %x: tensor<2x4xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<f32> {dt.port = #dt.port<output "loss_sum">}, tensor<f32> {dt.port = #dt.port<output "token_count">}) {
  %y = dt.contract "ab,b->a" %x, %w {dt.layer = #dt.layer<"h"[0]>} : tensor<2x4xf32>, tensor<4xf32> -> tensor<2xf32>
  %s = dt.reduce sum %y over [0] : tensor<2xf32> -> tensor<f32>
  return %s, %s : tensor<f32>, tensor<f32>
}

// -----

// SwiGLU saves the gate and not its activation: the backward pass recomputes it.

// CHECK-LABEL: func.func @micro(
// CHECK-SAME:    %[[GATE:[a-z0-9]+]]: tensor<4xf32> {{{[^}]*}}}, %[[UP:[a-z0-9]+]]: tensor<4xf32>
// CHECK:         dt.silu %[[GATE]]
// CHECK:         %[[G:.+]] = dt.broadcast
// CHECK:         %[[AGAIN:.+]] = dt.silu %[[GATE]]
// CHECK:         dt.mul %[[G]], %[[AGAIN]]
func.func @loss(%gate: tensor<4xf32> {dt.port = #dt.port<parameter "gate">}, %up: tensor<4xf32> {dt.port = #dt.port<parameter "up">})
    -> (tensor<f32> {dt.port = #dt.port<output "loss_sum">}, tensor<f32> {dt.port = #dt.port<output "token_count">}) {
  %a = dt.silu %gate : tensor<4xf32>
  %h = dt.mul %a, %up : tensor<4xf32>
  %s = dt.reduce sum %h over [0] : tensor<4xf32> -> tensor<f32>
  return %s, %s : tensor<f32>, tensor<f32>
}

// -----

// An operation that cannot state its gradient is an error that names the missing interface.

func.func @loss(%w: tensor<4xf32> {dt.port = #dt.port<parameter "w">})
    -> (tensor<f32> {dt.port = #dt.port<output "loss_sum">}, tensor<f32> {dt.port = #dt.port<output "token_count">}) {
  // expected-error @below {{cannot be differentiated: it does not implement DifferentiableOpInterface}}
  %c = math.absf %w : tensor<4xf32>
  %s = dt.reduce sum %c over [0] : tensor<4xf32> -> tensor<f32>
  return %s, %s : tensor<f32>, tensor<f32>
}

// -----

func.func @loss(%w: tensor<4xf32> {dt.port = #dt.port<parameter "w">})
    -> (tensor<f32> {dt.port = #dt.port<output "loss_sum">}, tensor<f32> {dt.port = #dt.port<output "token_count">}) {
  // expected-error @below {{cannot be differentiated: only sums have a gradient}}
  %m = dt.reduce max %w over [0] : tensor<4xf32> -> tensor<f32>
  return %m, %m : tensor<f32>, tensor<f32>
}

// -----

// expected-error @below {{has no function @loss}}
module {}

// -----

// expected-error @below {{@loss must have the outputs "loss_sum" and "token_count"}}
func.func @loss(%w: tensor<f32> {dt.port = #dt.port<parameter "w">}) -> tensor<f32> {
  return %w : tensor<f32>
}

// -----

func.func @loss(%w: tensor<f32> {dt.port = #dt.port<parameter "w">})
    -> (tensor<f32> {dt.port = #dt.port<output "loss_sum">}, tensor<f32> {dt.port = #dt.port<output "token_count">}) {
  // expected-error @below {{no gradient is defined for the maximum; write it as a select}}
  %m = dt.max %w, %w : tensor<f32>
  return %m, %m : tensor<f32>, tensor<f32>
}

// -----

// What a composite returns for its own gradient only cannot carry one.

func.func @loss(%w: tensor<1x4xf32> {dt.port = #dt.port<parameter "w">}, %s: tensor<4xf32> {dt.port = #dt.port<parameter "s">})
    -> (tensor<f32> {dt.port = #dt.port<output "loss_sum">}, tensor<f32> {dt.port = #dt.port<output "token_count">}) {
  // expected-error @below {{has no gradient through its result 'rstd'}}
  %n, %rstd = dt.rms_norm %w, %s epsilon 1.0e-5 : (tensor<1x4xf32>, tensor<4xf32>) -> (tensor<1x4xf32>, tensor<1xf32>)
  %r = dt.reduce sum %rstd over [0] : tensor<1xf32> -> tensor<f32>
  return %r, %r : tensor<f32>, tensor<f32>
}

// -----

// Marks. The gradient of %h, and what it is made of, is awaited by what came before it. That of a weight is awaited by
// nobody in the backward pass, be the weight read as it is or after a conversion: %v16 is still a weight.

// CHECK-LABEL: func.func @micro(
// CHECK-DAG:     dt.contract "bd,df->bf" %{{.+}}, %{{.+}} {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>}
// CHECK-DAG:     dt.contract "bf,df->bd" %{{.+}} {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[1]>}
// CHECK-DAG:     dt.contract "bd,bf->df" %{{.+}} {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[1]>}
// CHECK-DAG:     dt.contract "bd,bf->df" %{{.+}} {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[0]>}
// CHECK-DAG:     dt.convert %{{.+}} {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<4x4xbf16> -> tensor<4x4xf32>
func.func @loss(%w: tensor<4x4xf32> {dt.port = #dt.port<parameter "w">}, %v: tensor<4x4xf32> {dt.port = #dt.port<parameter "v">},
                %x: tensor<2x4xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<f32> {dt.port = #dt.port<output "loss_sum">}, tensor<f32> {dt.port = #dt.port<output "token_count">}) {
  %h = dt.contract "bd,df->bf" %x, %w {dt.layer = #dt.layer<"h"[0]>} : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  %h16 = dt.convert %h {dt.layer = #dt.layer<"h"[1]>} : tensor<2x4xf32> -> tensor<2x4xbf16>
  %v16 = dt.convert %v {dt.layer = #dt.layer<"h"[1]>} : tensor<4x4xf32> -> tensor<4x4xbf16>
  %y = dt.contract "bd,df->bf" %h16, %v16 {dt.layer = #dt.layer<"h"[1]>} : tensor<2x4xbf16>, tensor<4x4xbf16> -> tensor<2x4xbf16>
  %wide = dt.convert %y : tensor<2x4xbf16> -> tensor<2x4xf32>
  %s = dt.reduce sum %wide over [0, 1] : tensor<2x4xf32> -> tensor<f32>
  %n = dt.constant dense<8.0> : tensor<f32>
  return %s, %n : tensor<f32>, tensor<f32>
}
