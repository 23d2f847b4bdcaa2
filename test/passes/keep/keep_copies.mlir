// RUN: dtc-opt %s --dt-keep-copies | FileCheck %s
// RUN: sh -c 'dtc-opt %s --dt-keep-copies --dt-keep-copies; test $? = 1' 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: dtc-opt %s '--dt-keep=copies=false' | FileCheck %s --check-prefix=WITHOUT
// RUN: dtc-opt %s '--dt-keep=copies=true' | FileCheck %s --check-prefix=WITH
// RUN: sh -c 'echo "module {}" | dtc-opt --dt-keep-copies; test $? = 1' 2>&1 | FileCheck %s --check-prefix=EMPTY

// EMPTY: error: has no function @update
// TWICE: error: has a function @refresh already
// WITHOUT-NOT: copy
// WITH: func.func @micro_last({{.*}}<copy "w"
// WITH: func.func @refresh(

module attributes {dt.mesh = #dt.mesh<"dp" = 2>} {

// The formula of a parameter that is converted yields the copy of what it has chosen; others keep theirs.
// CHECK: dt.formula @sgd_with_copy(%[[P:.*]]: tensor<f32>, %[[G:.*]]: tensor<f32>, %[[APPLIES:.*]]: tensor<i1>) -> (tensor<f32>, tensor<bf16>) {
// CHECK-NEXT: %[[NEW:.*]] = dt.sub %[[P]], %[[G]]
// CHECK-NEXT: %[[CHOSEN:.*]] = dt.select %[[APPLIES]], %[[NEW]], %[[P]]
// CHECK-NEXT: %[[COPY:.*]] = dt.convert %[[CHOSEN]] : tensor<f32> -> tensor<bf16>
// CHECK-NEXT: dt.yield %[[CHOSEN]], %[[COPY]]
// CHECK: dt.formula @sgd(
dt.formula @sgd(%p: tensor<f32>, %g: tensor<f32>, %applies: tensor<i1>) -> tensor<f32> {
  %new = dt.sub %p, %g : tensor<f32>
  %chosen = dt.select %applies, %new, %p : tensor<i1>, tensor<f32>
  dt.yield %chosen : tensor<f32>
}

// Both conversions of "w" are of the copy, which lies as "w" does and is gathered in 16 bits; the parameter is read in
// f32, too. "n" is read in f32 alone; "z" is gathered after its formula.
// CHECK: func.func @micro(%[[W:.*]]: tensor<4x3xf32> {{.*}}, %{{.*}}<parameter "n"{{.*}}, %[[Z:.*]]: tensor<4xf32> {{.*}}, %[[C:.*]]: tensor<4x3xbf16> {dt.port = #dt.port<copy "w", computed = <[{}, {}]>, stored = <[{"dp"}, {}]>, whole = tensor<8x3xbf16>>})
// CHECK-NEXT: dt.all_gather %[[C]]
// CHECK-NEXT: dt.exp %[[C]]
// CHECK-NEXT: dt.exp %[[W]]
// CHECK-NEXT: dt.convert %[[Z]]
func.func @micro(%w: tensor<4x3xf32> {dt.port = #dt.port<parameter "w", computed = <[{}, {}]>, stored = <[{"dp"}, {}]>, whole = tensor<8x3xf32>>},
                 %n: tensor<3xf32> {dt.port = #dt.port<parameter "n", placed = <[{}]>>},
                 %z: tensor<4xf32> {dt.port = #dt.port<parameter "z", placed = <[{}]>>})
    -> (tensor<8x3xbf16> {dt.port = #dt.port<share "a", partial>}, tensor<4x3xbf16> {dt.port = #dt.port<share "b", partial>},
        tensor<4x3xf32> {dt.port = #dt.port<share "c", partial>}, tensor<4xbf16> {dt.port = #dt.port<share "d", partial>},
        tensor<3xf32> {dt.port = #dt.port<share "e", partial>}) {
  %0 = dt.convert %w : tensor<4x3xf32> -> tensor<4x3xbf16>
  %a = dt.all_gather %0 along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4x3xbf16> -> tensor<8x3xbf16>
  %1 = dt.convert %w : tensor<4x3xf32> -> tensor<4x3xbf16>
  %b = dt.exp %1 : tensor<4x3xbf16>
  %c = dt.exp %w : tensor<4x3xf32>
  %d = dt.convert %z : tensor<4xf32> -> tensor<4xbf16>
  %e = dt.exp %n : tensor<3xf32>
  return %a, %b, %c, %d, %e : tensor<8x3xbf16>, tensor<4x3xbf16>, tensor<4x3xf32>, tensor<4xbf16>, tensor<3xf32>
}

// CHECK: func.func @reduce
func.func @reduce(%l: tensor<4x3xf32> {dt.port = #dt.port<share "c", partial>}) -> (tensor<4x3xf32> {dt.port = #dt.port<output "sum">}) {
  return %l : tensor<4x3xf32>
}

// Arguments and the results that there were stay as they are.
// CHECK: func.func @update({{.*}}) -> (tensor<4x3xf32> {dt.port = #dt.port<parameter "w", {{.*}}}, tensor<3xf32> {dt.port = #dt.port<parameter "n", {{.*}}}, tensor<4xf32> {dt.port = #dt.port<parameter "z", {{.*}}}, tensor<4x3xbf16> {dt.port = #dt.port<copy "w", computed = <[{}, {}]>, stored = <[{"dp"}, {}]>, whole = tensor<8x3xbf16>>}) {
// CHECK-NEXT: %[[BOTH:.*]]:2 = dt.apply @sgd_with_copy
// CHECK-NEXT: %[[N:.*]] = dt.apply @sgd(
// CHECK-NEXT: dt.apply @sgd(
// CHECK-NEXT: %[[ZS:.*]] = dt.all_gather
// CHECK-NEXT: return %[[BOTH]]#0, %[[N]], %[[ZS]], %[[BOTH]]#1
func.func @update(%w: tensor<4x3xf32> {dt.port = #dt.port<parameter "w", placed = <[{"dp"}, {}]>, whole = tensor<8x3xf32>>},
                  %n: tensor<3xf32> {dt.port = #dt.port<parameter "n", placed = <[{}]>>},
                  %z: tensor<4xf32> {dt.port = #dt.port<parameter "z", placed = <[{}]>>},
                  %gw: tensor<4x3xf32> {dt.port = #dt.port<reduced_gradient "w">},
                  %gn: tensor<3xf32> {dt.port = #dt.port<reduced_gradient "n">},
                  %half: tensor<2xf32> {dt.port = #dt.port<reduced_gradient "z">},
                  %applies: tensor<i1> {dt.port = #dt.port<input "applies">})
    -> (tensor<4x3xf32> {dt.port = #dt.port<parameter "w", placed = <[{"dp"}, {}]>, whole = tensor<8x3xf32>>},
        tensor<3xf32> {dt.port = #dt.port<parameter "n", placed = <[{}]>>},
        tensor<4xf32> {dt.port = #dt.port<parameter "z", placed = <[{}]>>}) {
  %0 = dt.apply @sgd(%w, %gw, %applies) : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<i1>) -> tensor<4x3xf32>
  %1 = dt.apply @sgd(%n, %gn, %applies) : (tensor<3xf32>, tensor<3xf32>, tensor<i1>) -> tensor<3xf32>
  %2 = dt.apply @sgd(%half, %half, %applies) : (tensor<2xf32>, tensor<2xf32>, tensor<i1>) -> tensor<2xf32>
  %3 = dt.all_gather %2 along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<2xf32> -> tensor<4xf32>
  return %0, %1, %3 : tensor<4x3xf32>, tensor<3xf32>, tensor<4xf32>
}

// CHECK: func.func @refresh(%[[P:.*]]: tensor<4x3xf32> {dt.port = #dt.port<parameter "w", placed = <[{"dp"}, {}]>, whole = tensor<8x3xf32>>}) -> (tensor<4x3xbf16> {dt.port = #dt.port<copy "w", computed = <[{}, {}]>, stored = <[{"dp"}, {}]>, whole = tensor<8x3xbf16>>}) {
// CHECK-NEXT: %[[COPY:.*]] = dt.convert %[[P]]
// CHECK-NEXT: return %[[COPY]]

}
