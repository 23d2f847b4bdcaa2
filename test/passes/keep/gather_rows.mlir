// RUN: dtc-opt %s --split-input-file --dt-gather-rows=rows=*=gathered | FileCheck %s
// RUN: dtc-opt %s --split-input-file --dt-gather-rows | FileCheck %s --check-prefix=OWN
// RUN: sh -c 'dtc-opt %s --split-input-file "--dt-gather-rows=rows=*=gathered,small=reduced"' | FileCheck %s --check-prefix=LAST
// RUN: sh -c 'dtc-opt %s --split-input-file --dt-gather-rows=rows=*=sent; test $? = 1' 2>&1 | FileCheck %s --check-prefix=REFUSED

// REFUSED: error: '*=sent' is not PATTERN=gathered or PATTERN=reduced

module attributes {dt.mesh = #dt.mesh<"dp" = 2>} {

// The gradient of the product is reduced right after it; the ids are there from the start, the rows when they are
// ready.
// CHECK-LABEL: @rows_move_instead_of_the_table
// CHECK-SAME: (%[[IDS:.*]]: tensor<3xi32>, %[[X:.*]]: tensor<2x5xf32>, %[[Y:.*]]: tensor<2x4xf32>, %[[ROWS:.*]]: tensor<3x4xf32>)
// CHECK-NEXT: %[[I:.*]] = dt.all_gather %[[IDS]] along 0 over [#dt.axis_ref<"dp", 1, 0>] {dt.direction = #dt.direction<weight_gradient>, reason = "rows of dt.scatter_add for the gradient of small: fewer bytes than all of it"} : tensor<3xi32> -> tensor<6xi32>
// CHECK-NEXT: %[[A:.*]] = dt.contract
// CHECK-NEXT: %[[R:.*]] = dt.all_reduce sum %[[A]] over [#dt.axis_ref<"dp", 1, 0>] {dt.direction = #dt.direction<update>, reason = "partial over dp; without the rows of dt.scatter_add, which are gathered", remedy = "none"} : tensor<5x4xf32> -> tensor<5x4xf32>
// CHECK-NEXT: %[[E:.*]] = dt.exp
// CHECK-NEXT: %[[U:.*]] = dt.all_gather %[[E]] along 0 over [#dt.axis_ref<"dp", 1, 0>] {dt.direction = #dt.direction<weight_gradient>, reason = "rows of dt.scatter_add for the gradient of small: fewer bytes than all of it"} : tensor<3x4xf32> -> tensor<6x4xf32>
// CHECK-NEXT: %[[S:.*]] = dt.scatter_add %[[R]], %[[I]], %[[U]] {dt.direction = #dt.direction<weight_gradient>} : tensor<5x4xf32>, tensor<6xi32>, tensor<6x4xf32>
// CHECK-NEXT: dt.neg %[[S]]
// A table of 80 bytes is left as it is where nobody says otherwise, and so is one that the last rule names.
// OWN: module attributes {{.*}}dt.rows = ["small=reduced", "early=reduced", "large=gathered", "many=reduced"]
// OWN-LABEL: @rows_move_instead_of_the_table
// OWN-NOT: dt.all_gather
// LAST-NOT: dt.rows
// LAST-LABEL: @rows_move_instead_of_the_table
// LAST-NOT: dt.all_gather
func.func @rows_move_instead_of_the_table(%ids: tensor<3xi32>, %x: tensor<2x5xf32>, %y: tensor<2x4xf32>, %rows: tensor<3x4xf32>)
    -> (tensor<5x4xf32> {dt.port = #dt.port<reduced_gradient "small">}) {
  %a = dt.contract "ab,ac->bc" %x, %y : tensor<2x5xf32>, tensor<2x4xf32> -> tensor<5x4xf32>
  %u = dt.exp %rows : tensor<3x4xf32>
  %s = dt.scatter_add %a, %ids, %u {dt.direction = #dt.direction<weight_gradient>} : tensor<5x4xf32>, tensor<3xi32>, tensor<3x4xf32>
  %r = dt.all_reduce sum %s over [#dt.axis_ref<"dp", 1, 0>] {dt.direction = #dt.direction<update>, reason = "partial over dp", remedy = "none"} : tensor<5x4xf32> -> tensor<5x4xf32>
  %n = dt.neg %r : tensor<5x4xf32>
  return %n : tensor<5x4xf32>
}

// What makes the table comes before what else reads the same, and what earlier micro-batches have added is added there.
// CHECK-LABEL: @the_table_is_made_early
// LAST-LABEL: @the_table_is_made_early
// CHECK-SAME: (%[[BEFORE:.*]]: tensor<5x4xf32>, %{{.*}})
// CHECK: %[[G:.*]] = dt.exp
// CHECK-NEXT: %[[A:.*]] = dt.contract "ab,ac->bc" %[[G]]
// CHECK-NEXT: %[[T:.*]] = dt.add %[[BEFORE]], %[[A]]
// CHECK-NEXT: dt.all_reduce sum %[[T]]
// CHECK-NEXT: %[[H:.*]] = dt.contract "ab,bc->ac" %[[G]]
// CHECK-NEXT: dt.all_gather %[[H]]
func.func @the_table_is_made_early(%before: tensor<5x4xf32>, %ids: tensor<2xi32>, %x: tensor<2x5xf32>, %y: tensor<2x4xf32>, %w: tensor<5x4xf32>)
    -> (tensor<5x4xf32> {dt.port = #dt.port<reduced_gradient "early">}) {
  %g = dt.exp %x {dt.direction = #dt.direction<input_gradient>} : tensor<2x5xf32>
  %h = dt.contract "ab,bc->ac" %g, %w {dt.direction = #dt.direction<input_gradient>} : tensor<2x5xf32>, tensor<5x4xf32> -> tensor<2x4xf32>
  %a = dt.contract "ab,ac->bc" %g, %y {dt.direction = #dt.direction<weight_gradient>} : tensor<2x5xf32>, tensor<2x4xf32> -> tensor<5x4xf32>
  %t = dt.add %before, %a {dt.direction = #dt.direction<weight_gradient>} : tensor<5x4xf32>
  %s = dt.scatter_add %t, %ids, %h {dt.direction = #dt.direction<weight_gradient>} : tensor<5x4xf32>, tensor<2xi32>, tensor<2x4xf32>
  %r = dt.all_reduce sum %s over [#dt.axis_ref<"dp", 1, 0>] : tensor<5x4xf32> -> tensor<5x4xf32>
  return %r : tensor<5x4xf32>
}

// Rows of 100 tokens for a table of 2 MiB: of zeros nothing is reduced at all.
// CHECK-LABEL: @zeros_are_not_reduced
// OWN-LABEL: @zeros_are_not_reduced
// OWN-NEXT: %[[U:.*]] = dt.all_gather %arg1 {{.*}} : tensor<100x64xf32> -> tensor<200x64xf32>
// OWN-NEXT: %[[I:.*]] = dt.all_gather %arg0 {{.*}} : tensor<100xi32> -> tensor<200xi32>
// OWN-NEXT: %[[Z:.*]] = dt.constant dense<0.000000e+00> : tensor<8192x64xf32>
// OWN-NEXT: %[[S:.*]] = dt.scatter_add %[[Z]], %[[I]], %[[U]]
// OWN-NEXT: return %[[S]]
// LAST-LABEL: @zeros_are_not_reduced
// LAST-NOT: dt.all_reduce
// LAST: dt.scatter_add
func.func @zeros_are_not_reduced(%ids: tensor<100xi32>, %rows: tensor<100x64xf32>)
    -> (tensor<8192x64xf32> {dt.port = #dt.port<reduced_gradient "large">}) {
  %z = dt.constant dense<0.0> : tensor<8192x64xf32>
  %s = dt.scatter_add %z, %ids, %rows : tensor<8192x64xf32>, tensor<100xi32>, tensor<100x64xf32>
  %r = dt.all_reduce sum %s over [#dt.axis_ref<"dp", 1, 0>] : tensor<8192x64xf32> -> tensor<8192x64xf32>
  return %r : tensor<8192x64xf32>
}

// 4096 rows are half of the table.
// OWN-LABEL: @half_of_the_table_is_not_worth_it
// OWN-NEXT: dt.scatter_add
// OWN-NEXT: dt.all_reduce
func.func @half_of_the_table_is_not_worth_it(%z: tensor<8192x64xf32>, %ids: tensor<4096xi32>, %rows: tensor<4096x64xf32>)
    -> (tensor<8192x64xf32> {dt.port = #dt.port<reduced_gradient "many">}) {
  %s = dt.scatter_add %z, %ids, %rows : tensor<8192x64xf32>, tensor<4096xi32>, tensor<4096x64xf32>
  %r = dt.all_reduce sum %s over [#dt.axis_ref<"dp", 1, 0>] : tensor<8192x64xf32> -> tensor<8192x64xf32>
  return %r : tensor<8192x64xf32>
}
}

// -----

module attributes {dt.mesh = #dt.mesh<"dp" = 4, "tp" = 2>} {

// A rank that keeps part of each row needs that part of everybody's rows. What micro-batches before have added up is
// reduced from the start.
// CHECK-LABEL: @columns
// CHECK-NEXT: %[[U:.*]] = dt.all_to_all %arg2 split 2 concat 0 over [#dt.axis_ref<"dp", 1, 0>] {{.*}} : tensor<2x3x8xf32> -> tensor<8x3x2xf32>
// CHECK-NEXT: %[[I:.*]] = dt.all_gather %arg1 along 0 {{.*}} : tensor<2x3xi32> -> tensor<8x3xi32>
// CHECK-NEXT: %[[R:.*]] = dt.reduce_scatter sum %arg0 along 1 {{.*}} : tensor<5x8xf32> -> tensor<5x2xf32>
// CHECK-NEXT: %[[S:.*]] = dt.scatter_add %[[R]], %[[I]], %[[U]] : tensor<5x2xf32>, tensor<8x3xi32>, tensor<8x3x2xf32>
// CHECK-NEXT: return %[[S]]
func.func @columns(%before: tensor<5x8xf32>, %ids: tensor<2x3xi32>, %rows: tensor<2x3x8xf32>)
    -> (tensor<5x2xf32> {dt.port = #dt.port<reduced_gradient "w">}) {
  %s = dt.scatter_add %before, %ids, %rows : tensor<5x8xf32>, tensor<2x3xi32>, tensor<2x3x8xf32>
  %r = dt.reduce_scatter sum %s along 1 over [#dt.axis_ref<"dp", 1, 0>] : tensor<5x8xf32> -> tensor<5x2xf32>
  return %r : tensor<5x2xf32>
}

// One that keeps some rows of the table knows which, and skips others; the table may have been split before.
// CHECK-LABEL: @some_rows_of_the_table
// CHECK: %[[R:.*]] = dt.reduce_scatter sum %arg0 along 0 {{.*}} : tensor<8x6xf32> -> tensor<2x6xf32>
// CHECK-NEXT: dt.scatter_add %[[R]], %{{.*}}, %{{.*}} sharded <[{"tp", "dp"}, {}]> : tensor<2x6xf32>, tensor<12xi32>, tensor<12x6xf32>
func.func @some_rows_of_the_table(%before: tensor<8x6xf32>, %ids: tensor<3xi32>, %rows: tensor<3x6xf32>)
    -> (tensor<2x6xf32> {dt.port = #dt.port<gradient "w">}) {
  %s = dt.scatter_add %before, %ids, %rows sharded <[{"tp"}, {}]> : tensor<8x6xf32>, tensor<3xi32>, tensor<3x6xf32>
  %r = dt.reduce_scatter sum %s along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<8x6xf32> -> tensor<2x6xf32>
  return %r : tensor<2x6xf32>
}

// Where the rows of the table do not divide, it is padded before.
// CHECK-LABEL: @padded_rows_of_the_table
// CHECK: %[[P:.*]] = dt.pad %arg0 at [0, 0] : tensor<7x6xf32> -> tensor<8x6xf32>
// CHECK-NEXT: %[[R:.*]] = dt.reduce_scatter sum %[[P]] along 0 {{.*}} : tensor<8x6xf32> -> tensor<2x6xf32>
// CHECK-NEXT: dt.scatter_add %[[R]], %{{.*}}, %{{.*}} sharded <[{"dp"}, {}]>
func.func @padded_rows_of_the_table(%before: tensor<7x6xf32>, %ids: tensor<3xi32>, %rows: tensor<3x6xf32>)
    -> (tensor<2x6xf32> {dt.port = #dt.port<gradient "w">}) {
  %s = dt.scatter_add %before, %ids, %rows : tensor<7x6xf32>, tensor<3xi32>, tensor<3x6xf32>
  %p = dt.pad %s at [0, 0] : tensor<7x6xf32> -> tensor<8x6xf32>
  %r = dt.reduce_scatter sum %p along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<8x6xf32> -> tensor<2x6xf32>
  return %r : tensor<2x6xf32>
}

// So does one that cuts the table before.
// CHECK-LABEL: @a_table_that_is_cut
// CHECK: %[[C:.*]] = dt.shard_slice %arg0 along 0 over [#dt.axis_ref<"tp", 1, 0>] : tensor<8x6xf32> -> tensor<4x6xf32>
// CHECK-NEXT: %[[R:.*]] = dt.reduce_scatter sum %[[C]] along 0 {{.*}} : tensor<4x6xf32> -> tensor<1x6xf32>
// CHECK-NEXT: dt.scatter_add %[[R]], %{{.*}}, %{{.*}} sharded <[{"tp", "dp"}, {}]>
func.func @a_table_that_is_cut(%before: tensor<8x6xf32>, %ids: tensor<3xi32>, %rows: tensor<3x6xf32>)
    -> (tensor<1x6xf32> {dt.port = #dt.port<gradient "w">}) {
  %s = dt.scatter_add %before, %ids, %rows : tensor<8x6xf32>, tensor<3xi32>, tensor<3x6xf32>
  %p = dt.shard_slice %s along 0 over [#dt.axis_ref<"tp", 1, 0>] : tensor<8x6xf32> -> tensor<4x6xf32>
  %r = dt.reduce_scatter sum %p along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4x6xf32> -> tensor<1x6xf32>
  return %r : tensor<1x6xf32>
}

// Other ranks do not wait longer because of it.
// CHECK-LABEL: @nobody_waits_for_the_table
// CHECK: %[[P:.*]] = dt.contract "ab,bc->ac"
// CHECK-NEXT: %[[A:.*]] = dt.contract "ab,ac->bc"
// CHECK-NEXT: dt.all_reduce sum %[[A]] over [#dt.axis_ref<"dp", 1, 0>]
// CHECK-NEXT: dt.all_reduce sum %[[P]] over [#dt.axis_ref<"tp", 1, 0>]
func.func @nobody_waits_for_the_table(%ids: tensor<2xi32>, %x: tensor<2x5xf32>, %y: tensor<2x4xf32>, %w: tensor<5x4xf32>)
    -> (tensor<5x4xf32> {dt.port = #dt.port<reduced_gradient "w">}) {
  %g = dt.exp %x {dt.direction = #dt.direction<input_gradient>} : tensor<2x5xf32>
  %p = dt.contract "ab,bc->ac" %g, %w {dt.direction = #dt.direction<input_gradient>} : tensor<2x5xf32>, tensor<5x4xf32> -> tensor<2x4xf32>
  %a = dt.contract "ab,ac->bc" %g, %y {dt.direction = #dt.direction<weight_gradient>} : tensor<2x5xf32>, tensor<2x4xf32> -> tensor<5x4xf32>
  %h = dt.all_reduce sum %p over [#dt.axis_ref<"tp", 1, 0>] {dt.direction = #dt.direction<input_gradient>} : tensor<2x4xf32> -> tensor<2x4xf32>
  %s = dt.scatter_add %a, %ids, %h {dt.direction = #dt.direction<weight_gradient>} : tensor<5x4xf32>, tensor<2xi32>, tensor<2x4xf32>
  %r = dt.all_reduce sum %s over [#dt.axis_ref<"dp", 1, 0>] : tensor<5x4xf32> -> tensor<5x4xf32>
  return %r : tensor<5x4xf32>
}

// Of two collectives one after the other, both move the rows: of the ranks within a group first.
// CHECK-LABEL: @two_collectives
// CHECK: %[[V:.*]] = dt.all_to_all %arg2 split 1 concat 0 over [#dt.axis_ref<"dp", 2, 2>] {{.*}} : tensor<3x6xf32> -> tensor<6x3xf32>
// CHECK-NEXT: %[[U:.*]] = dt.all_gather %[[V]] along 0 over [#dt.axis_ref<"dp", 1, 2>] {{.*}} : tensor<6x3xf32> -> tensor<12x3xf32>
// CHECK-NEXT: %[[H:.*]] = dt.all_gather %arg1 along 0 over [#dt.axis_ref<"dp", 2, 2>] {{.*}} : tensor<3xi32> -> tensor<6xi32>
// CHECK-NEXT: %[[I:.*]] = dt.all_gather %[[H]] along 0 over [#dt.axis_ref<"dp", 1, 2>] {{.*}} : tensor<6xi32> -> tensor<12xi32>
// CHECK-NEXT: %[[R:.*]] = dt.reduce_scatter sum %arg0 along 1
// CHECK-NEXT: %[[T:.*]] = dt.all_reduce sum %[[R]]
// CHECK-NEXT: dt.scatter_add %[[T]], %[[I]], %[[U]]
func.func @two_collectives(%before: tensor<7x6xf32>, %ids: tensor<3xi32>, %rows: tensor<3x6xf32>)
    -> (tensor<7x3xf32> {dt.port = #dt.port<gradient "w">}) {
  %s = dt.scatter_add %before, %ids, %rows : tensor<7x6xf32>, tensor<3xi32>, tensor<3x6xf32>
  %r = dt.reduce_scatter sum %s along 1 over [#dt.axis_ref<"dp", 2, 2>] : tensor<7x6xf32> -> tensor<7x3xf32>
  %t = dt.all_reduce sum %r over [#dt.axis_ref<"dp", 1, 2>] : tensor<7x3xf32> -> tensor<7x3xf32>
  return %t : tensor<7x3xf32>
}
}

// -----

module attributes {dt.mesh = #dt.mesh<"dp" = 2, "tp" = 2>} {

// What is no sum over ranks of one gradient stays: a maximum, one that is read before it is reduced, one of no
// parameter, and rows that are cut or padded.
// CHECK-NOT: dt.all_gather
func.func @maximum(%a: tensor<5x4xf32>, %ids: tensor<3xi32>, %rows: tensor<3x4xf32>) -> (tensor<5x4xf32> {dt.port = #dt.port<gradient "w">}) {
  %s = dt.scatter_add %a, %ids, %rows : tensor<5x4xf32>, tensor<3xi32>, tensor<3x4xf32>
  %r = dt.all_reduce max %s over [#dt.axis_ref<"dp", 1, 0>] : tensor<5x4xf32> -> tensor<5x4xf32>
  return %r : tensor<5x4xf32>
}
func.func @read_before(%a: tensor<5x4xf32>, %ids: tensor<3xi32>, %rows: tensor<3x4xf32>) -> (tensor<5x4xf32> {dt.port = #dt.port<gradient "w">}, tensor<5x4xf32>) {
  %s = dt.scatter_add %a, %ids, %rows : tensor<5x4xf32>, tensor<3xi32>, tensor<3x4xf32>
  %r = dt.all_reduce sum %s over [#dt.axis_ref<"dp", 1, 0>] : tensor<5x4xf32> -> tensor<5x4xf32>
  return %r, %s : tensor<5x4xf32>, tensor<5x4xf32>
}
func.func @of_no_parameter(%a: tensor<5x4xf32>, %ids: tensor<3xi32>, %rows: tensor<3x4xf32>) -> (tensor<5x4xf32> {dt.port = #dt.port<output "table">}) {
  %s = dt.scatter_add %a, %ids, %rows : tensor<5x4xf32>, tensor<3xi32>, tensor<3x4xf32>
  %r = dt.all_reduce sum %s over [#dt.axis_ref<"dp", 1, 0>] : tensor<5x4xf32> -> tensor<5x4xf32>
  return %r : tensor<5x4xf32>
}
func.func @cut_rows(%a: tensor<5x4xf32>, %ids: tensor<3xi32>, %rows: tensor<3x4xf32>) -> (tensor<5x2xf32> {dt.port = #dt.port<gradient "w">}) {
  %s = dt.scatter_add %a, %ids, %rows : tensor<5x4xf32>, tensor<3xi32>, tensor<3x4xf32>
  %p = dt.shard_slice %s along 1 over [#dt.axis_ref<"tp", 1, 0>] : tensor<5x4xf32> -> tensor<5x2xf32>
  %r = dt.all_reduce sum %p over [#dt.axis_ref<"dp", 1, 0>] : tensor<5x2xf32> -> tensor<5x2xf32>
  return %r : tensor<5x2xf32>
}
func.func @padded_rows(%a: tensor<5x3xf32>, %ids: tensor<3xi32>, %rows: tensor<3x3xf32>) -> (tensor<5x2xf32> {dt.port = #dt.port<gradient "w">}) {
  %s = dt.scatter_add %a, %ids, %rows : tensor<5x3xf32>, tensor<3xi32>, tensor<3x3xf32>
  %p = dt.pad %s at [0, 0] : tensor<5x3xf32> -> tensor<5x4xf32>
  %r = dt.reduce_scatter sum %p along 1 over [#dt.axis_ref<"dp", 1, 0>] : tensor<5x4xf32> -> tensor<5x2xf32>
  return %r : tensor<5x2xf32>
}
}

// -----

module attributes {dt.mesh = #dt.mesh<"pp" = 2, "dp" = 2>} {

// What a pipeline's micro-batches have added up is reduced behind all passes, and so are the rows of the last one.
// CHECK-LABEL: @behind_the_passes
// CHECK-NEXT: dt.scatter_add
// CHECK-NEXT: dt.all_reduce
func.func @behind_the_passes(%before: tensor<5x4xf32> {dt.port = #dt.port<gradient "w">}, %ids: tensor<3xi32>, %rows: tensor<3x4xf32>)
    -> (tensor<5x4xf32> {dt.port = #dt.port<reduced_gradient "w">}) {
  %s = dt.scatter_add %before, %ids, %rows {dt.direction = #dt.direction<weight_gradient>} : tensor<5x4xf32>, tensor<3xi32>, tensor<3x4xf32>
  %r = dt.all_reduce sum %s over [#dt.axis_ref<"dp", 1, 0>] : tensor<5x4xf32> -> tensor<5x4xf32>
  return %r : tensor<5x4xf32>
}

// A single micro-batch adds to nothing.
// CHECK-LABEL: @in_the_only_pass
// CHECK: dt.all_gather
// CHECK: dt.scatter_add
// CHECK-NOT: dt.all_reduce
func.func @in_the_only_pass(%ids: tensor<3xi32>, %rows: tensor<3x4xf32>) -> (tensor<5x4xf32> {dt.port = #dt.port<reduced_gradient "w">}) {
  %z = dt.constant dense<0.0> : tensor<5x4xf32>
  %s = dt.scatter_add %z, %ids, %rows {dt.direction = #dt.direction<weight_gradient>} : tensor<5x4xf32>, tensor<3xi32>, tensor<3x4xf32>
  %r = dt.all_reduce sum %s over [#dt.axis_ref<"dp", 1, 0>] : tensor<5x4xf32> -> tensor<5x4xf32>
  return %r : tensor<5x4xf32>
}
}
