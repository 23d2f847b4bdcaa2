// RUN: dtc-opt %s --dt-drop-tags | FileCheck %s

// What two layers do is the same once their names are gone, and a tag may also be all that there is between an argument
// and a result.
// CHECK-LABEL: func.func @names_vanish
func.func @names_vanish(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK-NEXT: %[[E:.*]] = dt.exp %arg0
  // CHECK-NEXT: %[[N:.*]] = dt.neg %[[E]]
  // CHECK-NEXT: return %[[N]], %arg1
  %e = dt.exp %x : tensor<8xf32>
  %first = dt.tag %e "h.0.residual" ["embed"] : tensor<8xf32>
  %second = dt.tag %first "h.1.residual" ["embed"] sharded <[{}]> : tensor<8xf32>
  %n = dt.neg %second : tensor<8xf32>
  %z = dt.tag %y "out" ["embed"] : tensor<8xf32>
  return %n, %z : tensor<8xf32>, tensor<8xf32>
}
