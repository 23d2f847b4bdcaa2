// RUN: dtc-opt %s --split-input-file --dt-gather-rows=rows=*=gathered | FileCheck %s
// RUN: dtc-opt %s --split-input-file --dt-gather-rows | FileCheck %s --check-prefix=OWN
// RUN: dtc-opt %s --split-input-file --dt-gather-rows=rows=*=reduced | FileCheck %s --check-prefix=WHOLE

module attributes {dt.mesh = #dt.mesh<"dp" = 2, "tp" = 2>} {

// Each rank looks up its half of all ranks' rows.
// CHECK-LABEL: @rows_move_instead_of_the_table
// CHECK-SAME: (%[[W:.*]]: tensor<5x4xf32> {{.*}}, %[[IDS:.*]]: tensor<3x2xi32>)
// CHECK-NEXT: %[[I:.*]] = dt.all_gather %[[IDS]] along 0 over [#dt.axis_ref<"dp", 1, 0>] {dt.direction = #dt.direction<forward>, reason = "rows of dt.gather in w: fewer bytes than all of it"} : tensor<3x2xi32> -> tensor<6x2xi32>
// CHECK-NEXT: %[[P:.*]] = dt.gather %[[W]], %[[I]] {dt.direction = #dt.direction<forward>} : tensor<5x4xf32>, tensor<6x2xi32> -> tensor<6x2x4xf32>
// CHECK-NEXT: %[[R:.*]] = dt.all_to_all %[[P]] split 0 concat 2 over [#dt.axis_ref<"dp", 1, 0>] {dt.direction = #dt.direction<forward>, reason = "rows of dt.gather in w: fewer bytes than all of it"} : tensor<6x2x4xf32> -> tensor<3x2x8xf32>
// CHECK-NEXT: return %[[R]]
// A table of 160 bytes is gathered where nobody says otherwise.
// OWN: module attributes {{.*}}dt.rows = ["w=reduced", "large=gathered"]
// OWN-LABEL: @rows_move_instead_of_the_table
// OWN-NEXT: dt.all_gather %{{.*}} along 1
// WHOLE-LABEL: @rows_move_instead_of_the_table
// WHOLE-NEXT: dt.all_gather %{{.*}} along 1
func.func @rows_move_instead_of_the_table(%w: tensor<5x4xf32> {dt.port = #dt.port<parameter "w">}, %ids: tensor<3x2xi32>) -> tensor<3x2x8xf32> {
  %t = dt.all_gather %w along 1 over [#dt.axis_ref<"dp", 1, 0>] {dt.direction = #dt.direction<forward>} : tensor<5x4xf32> -> tensor<5x8xf32>
  %r = dt.gather %t, %ids {dt.direction = #dt.direction<forward>} : tensor<5x8xf32>, tensor<3x2xi32> -> tensor<3x2x8xf32>
  return %r : tensor<3x2x8xf32>
}

// Where other ranks hold other rows of the table, as over tp, lookups skip what is not theirs as before.
// CHECK-LABEL: @rows_of_a_large_table
// CHECK: dt.gather %{{.*}}, %{{.*}} sharded <[{"tp"}, {"dp"}]> : tensor<600000x1xf32>, tensor<6xi32> -> tensor<6x1xf32>
// CHECK-NEXT: dt.all_to_all %{{.*}} split 0 concat 1
// OWN-LABEL: @rows_of_a_large_table
// OWN: dt.all_to_all
func.func @rows_of_a_large_table(%w: tensor<600000x1xf32> {dt.port = #dt.port<parameter "large">}, %ids: tensor<3xi32>) -> tensor<3x2xf32> {
  %t = dt.all_gather %w along 1 over [#dt.axis_ref<"dp", 1, 0>] : tensor<600000x1xf32> -> tensor<600000x2xf32>
  %r = dt.gather %t, %ids sharded <[{"tp"}, {}]> : tensor<600000x2xf32>, tensor<3xi32> -> tensor<3x2xf32>
  return %r : tensor<3x2xf32>
}

// Somebody else needs the table whole, as what cuts its padding off; it is split along its rows, so that no rank has a
// part of each; it is no parameter.
// CHECK-LABEL: @left_alone
// CHECK-NOT: dt.all_to_all
func.func @left_alone(%a: tensor<5x4xf32> {dt.port = #dt.port<parameter "a">}, %b: tensor<3x4xf32> {dt.port = #dt.port<parameter "b">},
                      %c: tensor<5x4xf32>, %ids: tensor<3xi32>) -> (tensor<3x8xf32>, tensor<5x8xf32>, tensor<3x4xf32>, tensor<3x8xf32>) {
  %wa = dt.all_gather %a along 1 over [#dt.axis_ref<"dp", 1, 0>] : tensor<5x4xf32> -> tensor<5x8xf32>
  %ra = dt.gather %wa, %ids : tensor<5x8xf32>, tensor<3xi32> -> tensor<3x8xf32>
  %ea = dt.exp %wa : tensor<5x8xf32>
  %wb = dt.all_gather %b along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<3x4xf32> -> tensor<6x4xf32>
  %rb = dt.gather %wb, %ids : tensor<6x4xf32>, tensor<3xi32> -> tensor<3x4xf32>
  %wc = dt.all_gather %c along 1 over [#dt.axis_ref<"dp", 1, 0>] : tensor<5x4xf32> -> tensor<5x8xf32>
  %rc = dt.gather %wc, %ids : tensor<5x8xf32>, tensor<3xi32> -> tensor<3x8xf32>
  return %ra, %ea, %rb, %rc : tensor<3x8xf32>, tensor<5x8xf32>, tensor<3x4xf32>, tensor<3x8xf32>
}

}
