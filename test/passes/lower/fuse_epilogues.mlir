// What is done with a contraction's elements joins its library call where that saves passes over memory, and only there.

// RUN: dtc-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(dt-fuse-epilogues))' | FileCheck %s

module attributes {dt.target = "cuda:sm_90"} {

// The gradient lies where it has been added up; the sum's reader is the caller, and a kernel besides.
// CHECK-LABEL: func.func @sums_join_their_accumulator
// CHECK-NEXT: [[SUM:%.*]] = dt.product "md,mf->df" %arg0, %arg1 onto %arg2 : tensor<16x24xf32> {dt.layer = #dt.layer<"h"[0]>}
// CHECK-SAME: tensor<8x16xbf16>, tensor<8x24xbf16> -> tensor<16x24xf32>
// CHECK-NEXT: dt.mul [[SUM]], [[SUM]]
func.func @sums_join_their_accumulator(%x: tensor<8x16xbf16>, %g: tensor<8x24xbf16>, %sum: tensor<16x24xf32>)
    -> (tensor<16x24xf32>, tensor<16x24xf32>) {
  %c = dt.contract "md,mf->df" %x, %g {dt.layer = #dt.layer<"h"[0]>} : tensor<8x16xbf16>, tensor<8x24xbf16> -> tensor<16x24xf32>
  %new = dt.add %sum, %c : tensor<16x24xf32>
  %square = dt.mul %new, %new : tensor<16x24xf32>
  return %new, %square : tensor<16x24xf32>, tensor<16x24xf32>
}

// A product of 16 bits is not rounded to them on its way into a sum in f32.
// CHECK-LABEL: func.func @conversions_to_the_accumulators_type_are_passed
// CHECK-NEXT: dt.product "md,mf->df" %arg0, %arg1 onto %arg2
// CHECK-NEXT: return
func.func @conversions_to_the_accumulators_type_are_passed(%x: tensor<8x16xf16>, %g: tensor<8x24xf16>,
                                                           %sum: tensor<16x24xf32>) -> tensor<16x24xf32> {
  %c = dt.contract "md,mf->df" %x, %g : tensor<8x16xf16>, tensor<8x24xf16> -> tensor<16x24xf16>
  %wide = dt.convert %c : tensor<16x24xf16> -> tensor<16x24xf32>
  %new = dt.add %wide, %sum : tensor<16x24xf32>
  return %new : tensor<16x24xf32>
}

// But a narrow sum of f32 products is none that the library has.
// CHECK-LABEL: func.func @narrower_sums_stay
// CHECK-NOT: dt.product
func.func @narrower_sums_stay(%x: tensor<8x16xf32>, %g: tensor<8x24xf32>, %sum: tensor<16x24xbf16>)
    -> tensor<16x24xbf16> {
  %c = dt.contract "md,mf->df" %x, %g : tensor<8x16xf32>, tensor<8x24xf32> -> tensor<16x24xf32>
  %narrow = dt.convert %c : tensor<16x24xf32> -> tensor<16x24xbf16>
  %new = dt.add %sum, %narrow : tensor<16x24xbf16>
  return %new : tensor<16x24xbf16>
}

// The product would have to be stored as well.
// CHECK-LABEL: func.func @products_with_other_readers_stay
// CHECK-NOT: dt.product
func.func @products_with_other_readers_stay(%x: tensor<8x16xf32>, %g: tensor<8x24xf32>, %sum: tensor<16x24xf32>)
    -> (tensor<16x24xf32>, tensor<16x24xf32>) {
  %c = dt.contract "md,mf->df" %x, %g : tensor<8x16xf32>, tensor<8x24xf32> -> tensor<16x24xf32>
  %other = dt.exp %c : tensor<16x24xf32>
  %new = dt.add %sum, %c : tensor<16x24xf32>
  return %new, %other : tensor<16x24xf32>, tensor<16x24xf32>
}

// What else is read cannot be overwritten: a residual that is needed for the gradient.
// CHECK-LABEL: func.func @accumulators_with_other_readers_stay
// CHECK-NOT: dt.product
func.func @accumulators_with_other_readers_stay(%x: tensor<8x16xf32>, %g: tensor<8x24xf32>, %sum: tensor<16x24xf32>)
    -> (tensor<16x24xf32>, tensor<16x24xf32>) {
  %c = dt.contract "md,mf->df" %x, %g : tensor<8x16xf32>, tensor<8x24xf32> -> tensor<16x24xf32>
  %new = dt.add %sum, %c : tensor<16x24xf32>
  %later = dt.exp %sum : tensor<16x24xf32>
  return %new, %later : tensor<16x24xf32>, tensor<16x24xf32>
}

// The sum is stored for the slices; columns are the last two dimensions, whichever operand they come from.
// CHECK-LABEL: func.func @stored_sums_take_their_bias
// CHECK-NEXT: [[SUM:%.*]] = dt.product "md,dhe->mhe" %arg0, %arg1 bias %arg2 : tensor<2x12xbf16>
// CHECK-NEXT: dt.slice [[SUM]]
// CHECK-NEXT: [[OTHER:%.*]] = dt.product "hed,md->mhe" %arg3, %arg0 bias %arg2
// CHECK-NEXT: dt.slice [[OTHER]]
func.func @stored_sums_take_their_bias(%x: tensor<8x16xbf16>, %w: tensor<16x2x12xbf16>, %b: tensor<2x12xbf16>,
                                       %v: tensor<2x12x16xbf16>) -> (tensor<8x1x12xbf16>, tensor<8x1x12xbf16>) {
  %bias = dt.broadcast %b dims [1, 2] : tensor<2x12xbf16> -> tensor<8x2x12xbf16>
  %c = dt.contract "md,dhe->mhe" %x, %w : tensor<8x16xbf16>, tensor<16x2x12xbf16> -> tensor<8x2x12xbf16>
  %sum = dt.add %c, %bias : tensor<8x2x12xbf16>
  %half = dt.slice %sum at [0, 1, 0] : tensor<8x2x12xbf16> -> tensor<8x1x12xbf16>
  %d = dt.contract "hed,md->mhe" %v, %x : tensor<2x12x16xbf16>, tensor<8x16xbf16> -> tensor<8x2x12xbf16>
  %other = dt.add %bias, %d : tensor<8x2x12xbf16>
  %first = dt.slice %other at [0, 0, 0] : tensor<8x2x12xbf16> -> tensor<8x1x12xbf16>
  return %half, %first : tensor<8x1x12xbf16>, tensor<8x1x12xbf16>
}

// The kernel of the residual reads the product in any case, and adds the bias at no cost.
// CHECK-LABEL: func.func @biases_of_kernels_stay
// CHECK-NOT: dt.product
func.func @biases_of_kernels_stay(%x: tensor<8x16xf32>, %w: tensor<16x24xf32>, %b: tensor<24xf32>,
                                  %residual: tensor<8x24xf32>) -> tensor<8x24xf32> {
  %c = dt.contract "md,df->mf" %x, %w : tensor<8x16xf32>, tensor<16x24xf32> -> tensor<8x24xf32>
  %bias = dt.broadcast %b dims [1] : tensor<24xf32> -> tensor<8x24xf32>
  %sum = dt.add %c, %bias : tensor<8x24xf32>
  %new = dt.add %residual, %sum : tensor<8x24xf32>
  return %new : tensor<8x24xf32>
}

// A library's bias is along the columns.
// CHECK-LABEL: func.func @biases_of_rows_stay
// CHECK-NOT: dt.product
func.func @biases_of_rows_stay(%x: tensor<8x16xf32>, %w: tensor<16x8xf32>, %b: tensor<8xf32>, %p: tensor<4x8xf32>)
    -> (tensor<8x8xf32>, tensor<8x2x4x4xf32>) {
  %c = dt.contract "md,df->mf" %x, %w : tensor<8x16xf32>, tensor<16x8xf32> -> tensor<8x8xf32>
  %bias = dt.broadcast %b dims [0] : tensor<8xf32> -> tensor<8x8xf32>
  %sum = dt.add %c, %bias : tensor<8x8xf32>
  // The last dimension alone is not all of the columns, and of both operands' dimensions is too much.
  %w2 = dt.reshape %w : tensor<16x8xf32> -> tensor<16x2x4xf32>
  %d = dt.contract "md,dhe->mhe" %x, %w2 : tensor<8x16xf32>, tensor<16x2x4xf32> -> tensor<8x2x4xf32>
  %q = dt.slice %p at [0, 0] : tensor<4x8xf32> -> tensor<4x4xf32>
  %e = dt.contract "mhe,fe->mhef" %d, %q : tensor<8x2x4xf32>, tensor<4x4xf32> -> tensor<8x2x4x4xf32>
  return %sum, %e : tensor<8x8xf32>, tensor<8x2x4x4xf32>
}

// Inference needs only the activation.
// CHECK-LABEL: func.func @activations_join
// CHECK-NEXT: [[Y:%.*]] = dt.product "md,df->mf" %arg0, %arg1 bias %arg2 : tensor<24xbf16> gelu : {{.*}} -> tensor<8x24xbf16>{{$}}
// CHECK-NEXT: dt.contract "md,dv->mv" [[Y]], %arg3
func.func @activations_join(%x: tensor<8x16xbf16>, %w: tensor<16x24xbf16>, %b: tensor<24xbf16>, %v: tensor<24x8xbf16>)
    -> tensor<8x8xbf16> {
  %c = dt.contract "md,df->mf" %x, %w : tensor<8x16xbf16>, tensor<16x24xbf16> -> tensor<8x24xbf16>
  %bias = dt.broadcast %b dims [1] : tensor<24xbf16> -> tensor<8x24xbf16>
  %sum = dt.add %c, %bias : tensor<8x24xbf16>
  %y = dt.gelu %sum tanh : tensor<8x24xbf16>
  %z = dt.contract "md,dv->mv" %y, %v : tensor<8x24xbf16>, tensor<24x8xbf16> -> tensor<8x8xbf16>
  return %z : tensor<8x8xbf16>
}

// The other form of dt.gelu is not the library's; the bias still is, where its sum is stored.
// CHECK-LABEL: func.func @other_activations_stay
// CHECK-NEXT: dt.contract "md,df->mf"
// CHECK-NEXT: dt.broadcast
// CHECK-NEXT: dt.add
// CHECK-NEXT: dt.gelu
func.func @other_activations_stay(%x: tensor<8x16xbf16>, %w: tensor<16x24xbf16>, %b: tensor<24xbf16>,
                                  %v: tensor<24x8xbf16>) -> tensor<8x8xbf16> {
  %c = dt.contract "md,df->mf" %x, %w : tensor<8x16xbf16>, tensor<16x24xbf16> -> tensor<8x24xbf16>
  %bias = dt.broadcast %b dims [1] : tensor<24xbf16> -> tensor<8x24xbf16>
  %sum = dt.add %c, %bias : tensor<8x24xbf16>
  %y = dt.gelu %sum : tensor<8x24xbf16>
  %z = dt.contract "md,dv->mv" %y, %v : tensor<8x24xbf16>, tensor<24x8xbf16> -> tensor<8x8xbf16>
  return %z : tensor<8x8xbf16>
}

// Training: the sum is stored next to the activation, and what is recomputed is computed from it.
// CHECK-LABEL: func.func @sums_stay_for_the_gradient
// CHECK-NEXT: [[Y:%.*]], [[X:%.*]] = dt.product "md,df->mf" %arg0, %arg1 bias %arg2 : tensor<24xbf16> gelu
// CHECK-NEXT: [[AGAIN:%.*]] = dt.barrier [[X]]
// CHECK-NEXT: [[ACTIVATION:%.*]] = dt.gelu [[AGAIN]] tanh
// CHECK-NEXT: dt.contract "mf,mv->fv" [[ACTIVATION]], %arg3
// CHECK-NEXT: [[GRADIENT:%.*]] = dt.product "mv,fv->mf" %arg3, %arg4 gelu_grad [[X]] : tensor<8x24xbf16>
// CHECK-NEXT: dt.contract "mf,md->fd" [[GRADIENT]], %arg0
// CHECK-NEXT: return [[Y]]
func.func @sums_stay_for_the_gradient(%x: tensor<8x16xbf16>, %w: tensor<16x24xbf16>, %b: tensor<24xbf16>,
                                      %g: tensor<8x8xbf16>, %v: tensor<24x8xbf16>)
    -> (tensor<8x24xbf16>, tensor<24x8xf32>, tensor<24x16xf32>) {
  %c = dt.contract "md,df->mf" %x, %w : tensor<8x16xbf16>, tensor<16x24xbf16> -> tensor<8x24xbf16>
  %bias = dt.broadcast %b dims [1] : tensor<24xbf16> -> tensor<8x24xbf16>
  %sum = dt.add %c, %bias : tensor<8x24xbf16>
  %y = dt.gelu %sum tanh : tensor<8x24xbf16>
  %kept = dt.barrier %c : tensor<8x24xbf16>
  %bias2 = dt.broadcast %b dims [1] : tensor<24xbf16> -> tensor<8x24xbf16>
  %sum2 = dt.add %kept, %bias2 : tensor<8x24xbf16>
  %y2 = dt.gelu %sum2 tanh : tensor<8x24xbf16>
  %dv = dt.contract "mf,mv->fv" %y2, %g : tensor<8x24xbf16>, tensor<8x8xbf16> -> tensor<24x8xf32>
  %dy = dt.contract "mv,fv->mf" %g, %v : tensor<8x8xbf16>, tensor<24x8xbf16> -> tensor<8x24xbf16>
  %dx = dt.gelu_grad %dy, %sum tanh : tensor<8x24xbf16>
  %dw = dt.contract "mf,md->fd" %dx, %x : tensor<8x24xbf16>, tensor<8x16xbf16> -> tensor<24x16xf32>
  return %y, %dv, %dw : tensor<8x24xbf16>, tensor<24x8xf32>, tensor<24x16xf32>
}

// Where the product was to wait in the host's memory, the sum does.
// CHECK-LABEL: func.func @sums_wait_in_the_hosts_memory
// CHECK-NEXT: [[Y:%.*]], [[X:%.*]] = dt.product "md,df->mf" %arg0, %arg1 bias %arg2 : tensor<24xbf16> gelu
// CHECK-NEXT: [[OUT:%.*]] = dt.offload [[X]]
// CHECK-NEXT: [[BACK:%.*]] = dt.fetch [[OUT]]
// CHECK-NEXT: [[AGAIN:%.*]] = dt.barrier [[BACK]]
// CHECK-NEXT: [[ACTIVATION:%.*]] = dt.gelu [[AGAIN]] tanh
// CHECK-NEXT: dt.contract "mf,mv->fv" [[ACTIVATION]], %arg3
// CHECK-NEXT: [[GRADIENT:%.*]] = dt.product "mv,fv->mf" %arg3, %arg4 gelu_grad [[BACK]] : tensor<8x24xbf16>
// CHECK-NEXT: dt.contract "mf,md->fd" [[GRADIENT]], %arg0
// CHECK-NEXT: return [[Y]]
func.func @sums_wait_in_the_hosts_memory(%x: tensor<8x16xbf16>, %w: tensor<16x24xbf16>, %b: tensor<24xbf16>,
                                         %g: tensor<8x8xbf16>, %v: tensor<24x8xbf16>)
    -> (tensor<8x24xbf16>, tensor<24x8xf32>, tensor<24x16xf32>) {
  %c = dt.contract "md,df->mf" %x, %w : tensor<8x16xbf16>, tensor<16x24xbf16> -> tensor<8x24xbf16>
  %out = dt.offload %c : tensor<8x24xbf16> -> tensor<8x24xbf16>
  %bias = dt.broadcast %b dims [1] : tensor<24xbf16> -> tensor<8x24xbf16>
  %sum = dt.add %c, %bias : tensor<8x24xbf16>
  %y = dt.gelu %sum tanh : tensor<8x24xbf16>
  %back = dt.fetch %out : tensor<8x24xbf16> -> tensor<8x24xbf16>
  %kept = dt.barrier %back : tensor<8x24xbf16>
  %bias2 = dt.broadcast %b dims [1] : tensor<24xbf16> -> tensor<8x24xbf16>
  %sum2 = dt.add %kept, %bias2 : tensor<8x24xbf16>
  %y2 = dt.gelu %sum2 tanh : tensor<8x24xbf16>
  %dv = dt.contract "mf,mv->fv" %y2, %g : tensor<8x24xbf16>, tensor<8x8xbf16> -> tensor<24x8xf32>
  %dy = dt.contract "mv,fv->mf" %g, %v : tensor<8x8xbf16>, tensor<24x8xbf16> -> tensor<8x24xbf16>
  %sum3 = dt.add %back, %bias : tensor<8x24xbf16>
  %dx = dt.gelu_grad %dy, %sum3 tanh : tensor<8x24xbf16>
  %dw = dt.contract "mf,md->fd" %dx, %x : tensor<8x24xbf16>, tensor<8x16xbf16> -> tensor<24x16xf32>
  return %y, %dv, %dw : tensor<8x24xbf16>, tensor<24x8xf32>, tensor<24x16xf32>
}

// Where the bias was gathered again for what is made again, that is the same sum; nothing reads its gather then.
// CHECK-LABEL: func.func @sums_stay_for_a_gradient_with_a_gather_of_its_own
// CHECK-NEXT: [[B:%.*]] = dt.all_gather %arg2
// CHECK-NEXT: [[Y:%.*]], [[X:%.*]] = dt.product "md,df->mf" %arg0, %arg1 bias [[B]] : tensor<24xbf16> gelu
// CHECK-NEXT: [[GRADIENT:%.*]] = dt.product "mv,fv->mf" %arg3, %arg4 gelu_grad [[X]] : tensor<8x24xbf16>
// CHECK-NEXT: [[AGAIN:%.*]] = dt.barrier [[X]]
// CHECK-NEXT: [[ACTIVATION:%.*]] = dt.gelu [[AGAIN]] tanh
// CHECK-NEXT: dt.contract "mf,mv->fv" [[ACTIVATION]], %arg3
// CHECK-NEXT: dt.contract "mf,md->fd" [[GRADIENT]], %arg0
// CHECK-NEXT: return [[Y]]
func.func @sums_stay_for_a_gradient_with_a_gather_of_its_own(
    %x: tensor<8x16xbf16>, %w: tensor<16x24xbf16>, %b: tensor<12xbf16> {dt.port = #dt.port<parameter "b">},
    %g: tensor<8x8xbf16>, %v: tensor<24x8xbf16>) -> (tensor<8x24xbf16>, tensor<24x8xf32>, tensor<24x16xf32>) {
  %c = dt.contract "md,df->mf" %x, %w : tensor<8x16xbf16>, tensor<16x24xbf16> -> tensor<8x24xbf16>
  %whole = dt.all_gather %b along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<12xbf16> -> tensor<24xbf16>
  %bias = dt.broadcast %whole dims [1] : tensor<24xbf16> -> tensor<8x24xbf16>
  %sum = dt.add %c, %bias : tensor<8x24xbf16>
  %y = dt.gelu %sum tanh : tensor<8x24xbf16>
  %dy = dt.contract "mv,fv->mf" %g, %v : tensor<8x8xbf16>, tensor<24x8xbf16> -> tensor<8x24xbf16>
  %later = dt.barrier %b : tensor<12xbf16>
  %whole2 = dt.all_gather %later along 0 over [#dt.axis_ref<"dp", 1, 0>] {reason = "again"} : tensor<12xbf16> -> tensor<24xbf16>
  %bias2 = dt.broadcast %whole2 dims [1] : tensor<24xbf16> -> tensor<8x24xbf16>
  %sum2 = dt.add %c, %bias2 : tensor<8x24xbf16>
  %dx = dt.gelu_grad %dy, %sum2 tanh : tensor<8x24xbf16>
  %kept = dt.barrier %c : tensor<8x24xbf16>
  %bias3 = dt.broadcast %whole2 dims [1] : tensor<24xbf16> -> tensor<8x24xbf16>
  %sum3 = dt.add %kept, %bias3 : tensor<8x24xbf16>
  %y2 = dt.gelu %sum3 tanh : tensor<8x24xbf16>
  %dv = dt.contract "mf,mv->fv" %y2, %g : tensor<8x24xbf16>, tensor<8x8xbf16> -> tensor<24x8xf32>
  %dw = dt.contract "mf,md->fd" %dx, %x : tensor<8x24xbf16>, tensor<8x16xbf16> -> tensor<24x16xf32>
  return %y, %dv, %dw : tensor<8x24xbf16>, tensor<24x8xf32>, tensor<24x16xf32>
}

// What is made again is another sum: the product is needed itself.
// CHECK-LABEL: func.func @sums_with_another_bias_stay
// CHECK-NOT: dt.product
func.func @sums_with_another_bias_stay(%x: tensor<8x16xbf16>, %w: tensor<16x24xbf16>, %b: tensor<24xbf16>,
                                       %a: tensor<24xbf16>) -> (tensor<8x24xbf16>, tensor<8x24xbf16>) {
  %c = dt.contract "md,df->mf" %x, %w : tensor<8x16xbf16>, tensor<16x24xbf16> -> tensor<8x24xbf16>
  %bias = dt.broadcast %b dims [1] : tensor<24xbf16> -> tensor<8x24xbf16>
  %sum = dt.add %c, %bias : tensor<8x24xbf16>
  %y = dt.gelu %sum tanh : tensor<8x24xbf16>
  %kept = dt.barrier %c : tensor<8x24xbf16>
  %other = dt.broadcast %a dims [1] : tensor<24xbf16> -> tensor<8x24xbf16>
  %again = dt.add %kept, %other : tensor<8x24xbf16>
  return %y, %again : tensor<8x24xbf16>, tensor<8x24xbf16>
}

// Rows of 12 are no multiple of 8, which the library asks of what lies beside a result. The activation alone may have
// them, and x that a kernel would have to be made for is not stored for the gradient.
// CHECK-LABEL: func.func @limits_of_the_library
// CHECK-NEXT: dt.product "md,df->mf" %arg0, %arg1 bias %arg2 : tensor<12xf32> gelu
// CHECK-NOT: gelu_grad %
// CHECK: dt.gelu_grad
// CHECK-NOT: dt.product
// CHECK: dt.gelu_grad
// CHECK: return
func.func @limits_of_the_library(%x: tensor<8x16xf32>, %w: tensor<16x12xf32>, %b: tensor<12xf32>, %s: tensor<8x12xf32>,
                                 %v: tensor<16x24xf32>, %t: tensor<8x24xf32>)
    -> (tensor<8x12xf32>, tensor<8x12xf32>, tensor<8x24xf32>) {
  %c = dt.contract "md,df->mf" %x, %w : tensor<8x16xf32>, tensor<16x12xf32> -> tensor<8x12xf32>
  %bias = dt.broadcast %b dims [1] : tensor<12xf32> -> tensor<8x12xf32>
  %sum = dt.add %c, %bias : tensor<8x12xf32>
  %y = dt.gelu %sum tanh : tensor<8x12xf32>
  %d = dt.contract "md,df->mf" %x, %w : tensor<8x16xf32>, tensor<16x12xf32> -> tensor<8x12xf32>
  %narrow = dt.gelu_grad %d, %s tanh : tensor<8x12xf32>
  %e = dt.contract "md,df->mf" %x, %v : tensor<8x16xf32>, tensor<16x24xf32> -> tensor<8x24xf32>
  %shifted = dt.exp %t : tensor<8x24xf32>
  %wide = dt.gelu_grad %e, %shifted tanh : tensor<8x24xf32>
  return %y, %narrow, %wide : tensor<8x12xf32>, tensor<8x12xf32>, tensor<8x24xf32>
}

// A contraction is the gradient, not the place that the gradient is for.
// CHECK-LABEL: func.func @gradients_for_a_contraction_stay
// CHECK-NOT: dt.product
func.func @gradients_for_a_contraction_stay(%x: tensor<8x16xf32>, %w: tensor<16x24xf32>, %g: tensor<8x24xf32>)
    -> tensor<8x24xf32> {
  %c = dt.contract "md,df->mf" %x, %w : tensor<8x16xf32>, tensor<16x24xf32> -> tensor<8x24xf32>
  %y = dt.gelu_grad %g, %c tanh : tensor<8x24xf32>
  return %y : tensor<8x24xf32>
}

// CHECK-LABEL: func.func @batches_stay
// CHECK-NOT: dt.product
func.func @batches_stay(%x: tensor<2x8x16xf32>, %w: tensor<2x16x24xf32>, %sum: tensor<2x8x24xf32>) -> tensor<2x8x24xf32> {
  %c = dt.contract "bmd,bdf->bmf" %x, %w : tensor<2x8x16xf32>, tensor<2x16x24xf32> -> tensor<2x8x24xf32>
  %new = dt.add %sum, %c : tensor<2x8x24xf32>
  return %new : tensor<2x8x24xf32>
}
}

// -----

module attributes {dt.target = "x86-64-v3"} {
// CHECK-LABEL: func.func @processors_have_none
// CHECK-NOT: dt.product
func.func @processors_have_none(%x: tensor<8x16xf32>, %g: tensor<8x24xf32>, %sum: tensor<16x24xf32>)
    -> tensor<16x24xf32> {
  %c = dt.contract "md,mf->df" %x, %g : tensor<8x16xf32>, tensor<8x24xf32> -> tensor<16x24xf32>
  %new = dt.add %sum, %c : tensor<16x24xf32>
  return %new : tensor<16x24xf32>
}
}
