// RUN: dtc-opt %s --split-input-file --dt-choose-precision='compute=bf16' | FileCheck %s
// RUN: dtc-opt %s --split-input-file --dt-choose-precision='compute=f16' | FileCheck %s --check-prefix=F16
// RUN: dtc-opt %s --split-input-file --dt-choose-precision='compute=f32' | FileCheck %s --check-prefix=F32
// RUN: not dtc-opt %s --split-input-file --dt-choose-precision='compute=half' 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// F16: dt.contract "bd,df->bf" %{{.*}} : tensor<2x4xf16>, tensor<4x3xf16> -> tensor<2x3xf16>
// F32-NOT: dt.convert
// UNKNOWN: error: unknown floating-point type "half"; there are "f32", "bf16" and "f16"

// Products and what lies between them are bf16; parameters are converted, a bias before it is repeated; what reads no
// 16 bits, and what asks for f32 (an exponential, the loss), is f32.
// CHECK-LABEL: func.func @loss(
// CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<4x3xf32> {{.*}}, %[[B:[a-z0-9]+]]: tensor<3xf32> {{.*}}, %[[X:[a-z0-9]+]]: tensor<2x4xf32>
// CHECK:         %[[E:.+]] = dt.exp %[[X]] : tensor<2x4xf32>
// CHECK:         %[[NARROWX:.+]] = dt.convert %[[E]] {dt.layer = #dt.layer<"h"[0]>} : tensor<2x4xf32> -> tensor<2x4xbf16>
// CHECK:         %[[NARROWW:.+]] = dt.convert %[[W]] {dt.layer = #dt.layer<"h"[0]>} : tensor<4x3xf32> -> tensor<4x3xbf16>
// CHECK:         %[[H:.+]] = dt.contract "bd,df->bf" %[[NARROWX]], %[[NARROWW]] {{.*}} -> tensor<2x3xbf16>
// CHECK:         %[[NARROWB:.+]] = dt.convert %[[B]] : tensor<3xf32> -> tensor<3xbf16>
// CHECK:         %[[ROWS:.+]] = dt.broadcast %[[NARROWB]] dims [1] : tensor<3xbf16> -> tensor<2x3xbf16>
// CHECK:         %[[SUM:.+]] = dt.add %[[H]], %[[ROWS]] : tensor<2x3xbf16>
// CHECK:         %[[G:.+]] = dt.gelu %[[SUM]] : tensor<2x3xbf16>
// CHECK:         %[[BACK:.+]] = dt.contract "bf,df->bd" %[[G]], %[[NARROWW]] {{.*}} -> tensor<2x4xbf16>
// CHECK:         %[[WIDE:.+]] = dt.convert %[[BACK]] : tensor<2x4xbf16> -> tensor<2x4xf32>
// CHECK:         %[[RESIDUAL:.+]] = dt.add %[[E]], %[[WIDE]] : tensor<2x4xf32>
// CHECK:         %[[LOSS:.+]] = dt.reduce sum %[[RESIDUAL]] over [0, 1] : tensor<2x4xf32> -> tensor<f32>
// CHECK:         return %[[LOSS]], %[[LOSS]]
func.func @loss(%w: tensor<4x3xf32> {dt.port = #dt.port<parameter "w">}, %b: tensor<3xf32> {dt.port = #dt.port<parameter "b">},
                %x: tensor<2x4xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<f32> {dt.port = #dt.port<output "loss_sum">}, tensor<f32> {dt.port = #dt.port<output "token_count">}) {
  %e = dt.exp %x : tensor<2x4xf32>
  %h = dt.contract "bd,df->bf" %e, %w {dt.layer = #dt.layer<"h"[0]>} : tensor<2x4xf32>, tensor<4x3xf32> -> tensor<2x3xf32>
  %rows = dt.broadcast %b dims [1] : tensor<3xf32> -> tensor<2x3xf32>
  %sum = dt.add %h, %rows : tensor<2x3xf32>
  %g = dt.gelu %sum : tensor<2x3xf32>
  %y = dt.contract "bf,df->bd" %g, %w : tensor<2x3xf32>, tensor<4x3xf32> -> tensor<2x4xf32>
  %r = dt.add %e, %y : tensor<2x4xf32>
  %s = dt.reduce sum %r over [0, 1] : tensor<2x4xf32> -> tensor<f32>
  return %s, %s : tensor<f32>, tensor<f32>
}

// -----

// Norms and softmax keep f32 operands, results and statistics; attention's log-sum-exp stays f32 beside a bf16 output.
// CHECK-LABEL: func.func @loss(
// CHECK:         dt.rms_norm {{.*}} : (tensor<1x2x1x1x4xf32>, tensor<4xf32>) -> (tensor<1x2x1x1x4xf32>, tensor<1x2x1x1xf32>)
// CHECK:         dt.attention {{.*}} : (tensor<1x2x1x1x4xbf16>, tensor<1x2x1x4xbf16>, tensor<1x2x1x4xbf16>, {{.*}}) -> (tensor<1x2x1x1x4xbf16>, tensor<1x1x1x2xf32>)
// CHECK:         %[[ROW:.+]] = dt.reshape %{{.+}} : tensor<1x2x1x1x4xbf16> -> tensor<2x4xbf16>
// CHECK:         %[[LOGITS:.+]] = dt.convert %[[ROW]] : tensor<2x4xbf16> -> tensor<2x4xf32>
// CHECK:         dt.softmax_cross_entropy %[[LOGITS]], {{.*}} : (tensor<2x4xf32>, tensor<2xi32>) -> (tensor<2xf32>, tensor<2xf32>)
func.func @loss(%scale: tensor<4xf32> {dt.port = #dt.port<parameter "scale">}, %x: tensor<1x2x1x1x4xf32> {dt.port = #dt.port<input "x">},
                %kv: tensor<1x2x1x4xf32> {dt.port = #dt.port<input "kv">}, %targets: tensor<2xi32> {dt.port = #dt.port<input "targets">},
                %key: tensor<4xi32> {dt.port = #dt.port<input "key">})
    -> (tensor<f32> {dt.port = #dt.port<output "loss_sum">}, tensor<f32> {dt.port = #dt.port<output "token_count">}) {
  %n, %rstd = dt.rms_norm %x, %scale epsilon 1.0e-05 : (tensor<1x2x1x1x4xf32>, tensor<4xf32>) -> (tensor<1x2x1x1x4xf32>, tensor<1x2x1x1xf32>)
  %out, %lse = dt.attention %n, %kv, %kv, %targets, %targets, %key {scale = 0.5 : f64, causal = true, dropout = 0.0 : f64, site = 0 : i64, global_shape = array<i64: 1, 1, 1, 2>} : (tensor<1x2x1x1x4xf32>, tensor<1x2x1x4xf32>, tensor<1x2x1x4xf32>, tensor<2xi32>, tensor<2xi32>, tensor<4xi32>) -> (tensor<1x2x1x1x4xf32>, tensor<1x1x1x2xf32>)
  %rows = dt.reshape %out : tensor<1x2x1x1x4xf32> -> tensor<2x4xf32>
  %nll, %l = dt.softmax_cross_entropy %rows, %targets ignore -100 : (tensor<2x4xf32>, tensor<2xi32>) -> (tensor<2xf32>, tensor<2xf32>)
  %s = dt.reduce sum %nll over [0] : tensor<2xf32> -> tensor<f32>
  return %s, %s : tensor<f32>, tensor<f32>
}

// -----

// Whatever a loss is made of, it leaves in f32.
// CHECK-LABEL: func.func @loss(
// CHECK:         %[[H:.+]] = dt.contract {{.*}} -> tensor<2x3xbf16>
// CHECK:         %[[S:.+]] = dt.reduce sum %[[H]]
// CHECK:         %[[WIDE:.+]] = dt.convert %[[S]] : tensor<bf16> -> tensor<f32>
// CHECK:         return %[[WIDE]], %[[WIDE]] : tensor<f32>, tensor<f32>
func.func @loss(%w: tensor<4x3xf32> {dt.port = #dt.port<parameter "w">}, %x: tensor<2x4xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<f32> {dt.port = #dt.port<output "loss_sum">}, tensor<f32> {dt.port = #dt.port<output "token_count">}) {
  %h = dt.contract "bd,df->bf" %x, %w : tensor<2x4xf32>, tensor<4x3xf32> -> tensor<2x3xf32>
  %s = dt.reduce sum %h over [0, 1] : tensor<2x3xf32> -> tensor<f32>
  return %s, %s : tensor<f32>, tensor<f32>
}
