// The whole phase on a model with a tied embedding: what is saved for the backward pass, and what is recomputed.
// RUN: dtc-opt %s --dt-what='accumulation=2' | FileCheck %s
// RUN: dtc-opt %s --dt-what='compute=f16' | FileCheck %s --check-prefix=SCALED
// RUN: dtc-opt %s --dt-what='compute=bf16 gradients=bf16' | FileCheck %s --check-prefix=UNSCALED

// Gradients in f16 are those of the scaled loss; norm and update divide by the scale. bf16 needs none.
// SCALED-LABEL:   func.func @micro(
// SCALED-SAME:      %[[SCALE:[a-z0-9]+]]: tensor<f32> {dt.port = #dt.port<input "loss_scale" from loss_scale>}
// SCALED:           dt.broadcast %[[SCALE]] dims [] {{.*}}: tensor<f32> -> tensor<2x3xf32>
// SCALED-LABEL:   func.func @reduce(
// SCALED-SAME:      %[[SCALE:[a-z0-9]+]]: tensor<f32> {dt.port = #dt.port<input "loss_scale" from loss_scale>}
// SCALED:           %[[INVERSE:.+]] = dt.div %{{.+}}, %[[SCALE]]
// SCALED-NEXT:      %[[SQUARE:.+]] = dt.mul %[[INVERSE]], %[[INVERSE]]
// SCALED-NEXT:      dt.broadcast %[[SQUARE]]
// SCALED-LABEL:   func.func @update(
// SCALED-SAME:      %[[SCALE:[a-z0-9]+]]: tensor<f32> {dt.port = #dt.port<input "loss_scale" from loss_scale>}
// SCALED:           dt.div %{{.+}}, %[[SCALE]]
// UNSCALED-NOT:   loss_scale

// The head's gradient and the lookup's gradient meet in one table without a table of zeros.
// CHECK-LABEL: func.func @micro(
// CHECK:         %[[HEAD:.+]] = dt.contract "bsd,bsv->vd"
// CHECK:         %[[TABLE:.+]] = dt.scatter_add %[[HEAD]],
// CHECK:         return %{{.+}}, %{{.+}}, %[[TABLE]]

// Masks are drawn again in the backward pass instead of being kept.
// CHECK-LABEL: func.func @micro_next(
// CHECK-SAME:    %[[RUNNING:[a-z0-9]+]]: tensor<8x4xf32> {dt.port = #dt.port<gradient "wte", partial>}
// CHECK:         dt.random %{{.+}} site 0
// CHECK:         %[[HEAD:.+]] = dt.contract "bsd,bsv->vd"
// CHECK:         dt.random %{{.+}} site 0
// CHECK:         %[[SUM:.+]] = dt.add %[[RUNNING]], %[[HEAD]]
// CHECK:         dt.scatter_add %[[SUM]],

// CHECK-LABEL: func.func @reduce(
// CHECK-LABEL: func.func @update(

// CHECK-NOT:   @loss
module attributes {dt.model = "toy", dt.symbols = {embed = 4}, dt.parameters = [
  #dt.param<"wte", file = [8, 4], factored = [8, 4], permutation = [0, 1], dims = ["vocab", "embed"], init = "normal", stddev = 2.0e-02 : f64, decays = true>]} {
  func.func @loss(%w: tensor<8x4xf32> {dt.port = #dt.port<parameter "wte">},
                  %tokens: tensor<2x3xi32> {dt.port = #dt.port<input "tokens" from tokens>},
                  %targets: tensor<2x3xi32> {dt.port = #dt.port<input "targets" from next_tokens>},
                  %key: tensor<4xi32> {dt.port = #dt.port<input "key" from key>})
      -> (tensor<f32> {dt.port = #dt.port<output "loss_sum">}, tensor<f32> {dt.port = #dt.port<output "token_count">}) {
    %x = dt.gather %w, %tokens : tensor<8x4xf32>, tensor<2x3xi32> -> tensor<2x3x4xf32>
    %d = dt.dropout %x, %key rate 0.5 site 0 : tensor<2x3x4xf32>, tensor<4xi32>
    %l = dt.contract "bsd,vd->bsv" %d, %w : tensor<2x3x4xf32>, tensor<8x4xf32> -> tensor<2x3x8xf32>
    %nll, %lse = dt.softmax_cross_entropy %l, %targets ignore -100 : (tensor<2x3x8xf32>, tensor<2x3xi32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
    %sum = dt.reduce sum %nll over [0, 1] : tensor<2x3xf32> -> tensor<f32>
    return %sum, %sum : tensor<f32>, tensor<f32>
  }
}
