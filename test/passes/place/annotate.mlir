// A strategy's entries become placements of parameters, of what belongs to them, of inputs and of tags.

// RUN: split-file %s %t
// RUN: dtc-opt %t/module.mlir --dt-annotate="mesh=dp=2,tp=2 strategy=%t/strategy.toml" | FileCheck %s
// RUN: not dtc-opt %t/module.mlir --dt-annotate="mesh=dp=2,tp=2 strategy=%t/name.toml" 2>&1 | FileCheck %s --check-prefix=NAME
// NAME: name.toml:2: no parameter is named 'uo' (did you mean 'up'?)
// RUN: not dtc-opt %t/module.mlir --dt-annotate="mesh=dp=2,tp=2 strategy=%t/dimension.toml" 2>&1 | FileCheck %s --check-prefix=DIMENSION
// DIMENSION: dimension.toml:4: what 'x' matches has no dimension 'batc' (did you mean 'batch'?)
// RUN: not dtc-opt %t/module.mlir --dt-annotate="mesh=dp=2,tp=2 strategy=%t/idle.toml" 2>&1 | FileCheck %s --check-prefix=IDLE
// IDLE: axis 'dp' of the mesh splits nothing under strategy '{{.*}}idle.toml': its 2 ranks would all repeat the same work
// RUN: not dtc-opt %t/module.mlir --dt-annotate="mesh=dp=3,tp=2 strategy=%t/strategy.toml" 2>&1 | FileCheck %s --check-prefix=UNEVEN
// UNEVEN: input x: dimension batch of size 4 does not divide over 3 ranks; change the batch or the mesh

//--- strategy.toml
[parameters]
"*" = { mlp = ["tp"] }
"out" = { mlp = [] }
[storage]
"*" = { any = ["dp"] }
[slots]
"out" = { embed = ["tp"] }
[inputs]
"x" = { batch = ["dp"] }
[tags]
"hidden" = { batch = ["dp"], mlp = ["tp"] }

//--- name.toml
[parameters]
"uo" = { mlp = ["tp"] }
[inputs]
"x" = { batch = ["dp"] }

//--- dimension.toml
[parameters]
"*" = { mlp = ["tp"] }
[inputs]
"x" = { batc = ["dp"] }

//--- idle.toml
[parameters]
"*" = { mlp = ["tp"] }

//--- module.mlir
#up = #dt.param<"up", file = [6, 8], factored = [6, 8], permutation = [0, 1], dims = ["embed", "mlp"], init = "normal", stddev = 0.02 : f64, decays = true>
#out = #dt.param<"out", file = [8, 6], factored = [8, 6], permutation = [0, 1], dims = ["mlp", "embed"], init = "normal", stddev = 0.02 : f64, decays = true>
module attributes {dt.parameters = [#up, #out]} {
  // Later entries override earlier ones, dimension by dimension: out is computed with whole. Storage splits each
  // further, along the first dimension that divides: embed of up, mlp of out. Outputs are whole.
  // CHECK-LABEL: func.func @loss
  // CHECK-SAME: %arg0: tensor<6x8xf32> {dt.dims = ["embed", "mlp"], dt.port = #dt.port<parameter "up", computed = <[{}, {"tp"}]>, stored = <[{"dp"}, {"tp"}]>
  // CHECK-SAME: %arg1: tensor<8x6xf32> {dt.dims = ["mlp", "embed"], dt.port = #dt.port<parameter "out", computed = <[{}, {}]>, stored = <[{"dp"}, {}]>
  // CHECK-SAME: %arg2: tensor<4x6xf32> {dt.dims = ["batch", "embed"], dt.port = #dt.port<input "x", placed = <[{"dp"}, {}]>
  // CHECK-SAME: -> (tensor<4x6xf32> {dt.port = #dt.port<output "y", placed = <[{}, {}]>
  func.func @loss(%up: tensor<6x8xf32> {dt.port = #dt.port<parameter "up">},
                  %out: tensor<8x6xf32> {dt.port = #dt.port<parameter "out">},
                  %x: tensor<4x6xf32> {dt.dims = ["batch", "embed"], dt.port = #dt.port<input "x">})
      -> (tensor<4x6xf32> {dt.port = #dt.port<output "y">}) {
    // CHECK: dt.tag {{.*}} "hidden" ["batch", "mlp"] sharded <[{"dp"}, {"tp"}]>
    // CHECK-NOT: sharded
    // CHECK: return
    %0 = dt.contract "bd,df->bf" %x, %up : tensor<4x6xf32>, tensor<6x8xf32> -> tensor<4x8xf32>
    %1 = dt.tag %0 "hidden" ["batch", "mlp"] : tensor<4x8xf32>
    %2 = dt.contract "bf,fd->bd" %1, %out : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    %3 = dt.tag %2 "result" ["batch", "embed"] : tensor<4x6xf32>
    return %3 : tensor<4x6xf32>
  }

  // Where state is updated, it is computed with as the slots lie: without an entry of theirs, as it is stored.
  // CHECK-LABEL: func.func @update
  // CHECK-SAME: #dt.port<parameter "up", placed = <[{"dp"}, {"tp"}]>
  // CHECK-SAME: #dt.port<parameter "out", computed = <[{}, {"tp"}]>, stored = <[{"dp"}, {}]>
  // CHECK-SAME: #dt.port<slot "m" of "up", placed = <[{"dp"}, {"tp"}]>
  // CHECK-SAME: #dt.port<slot "m" of "out", placed = <[{}, {"tp"}]>
  func.func @update(%up: tensor<6x8xf32> {dt.port = #dt.port<parameter "up">},
                    %out: tensor<8x6xf32> {dt.port = #dt.port<parameter "out">},
                    %upM: tensor<6x8xf32> {dt.port = #dt.port<slot "m" of "up">},
                    %outM: tensor<8x6xf32> {dt.port = #dt.port<slot "m" of "out">})
      -> (tensor<6x8xf32> {dt.port = #dt.port<parameter "up">}, tensor<8x6xf32> {dt.port = #dt.port<parameter "out">}) {
    %0 = dt.add %up, %upM : tensor<6x8xf32>
    %1 = dt.add %out, %outM : tensor<8x6xf32>
    return %0, %1 : tensor<6x8xf32>, tensor<8x6xf32>
  }
}
