// RUN: dtc-opt %s --dt-choose-precision='compute=bf16' --dt-store-narrow='compute=bf16' | FileCheck %s

// A table that a product reads in 16 bits is stored so: the product reads it as it lies, and rows that are looked up in it
// are widened after that. A scale that only a sum in f32 reads stays as it is. The caches have the type of what is
// written.
// CHECK-LABEL: func.func @generate(
// CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<4x3xbf16> {dt.port = #dt.port<parameter "w">}, %[[S:[a-z0-9]+]]: tensor<1x1x3xf32>
// CHECK-SAME:    %[[C:[a-z0-9]+]]: tensor<1x8x3xbf16> {dt.port = #dt.port<cache "c">}
// CHECK-SAME:  -> (tensor<1x8x3xbf16> {dt.port = #dt.port<cache "c">}, tensor<1x1x4xf32>
// CHECK:         %[[ROWS:.+]] = dt.gather %[[W]], %{{.+}} : tensor<4x3xbf16>, tensor<1x1xi32> -> tensor<1x1x3xbf16>
// CHECK:         %[[WIDE:.+]] = dt.convert %[[ROWS]] : tensor<1x1x3xbf16> -> tensor<1x1x3xf32>
// CHECK:         %[[X:.+]] = dt.mul %[[WIDE]], %[[S]] : tensor<1x1x3xf32>
// CHECK:         %[[NARROW:.+]] = dt.convert %[[X]] : tensor<1x1x3xf32> -> tensor<1x1x3xbf16>
// CHECK:         %[[KEPT:.+]] = dt.write_rows %[[NARROW]] into %[[C]]
// CHECK:         %[[Y:.+]] = dt.contract "bsd,vd->bsv" %[[NARROW]], %[[W]]
// CHECK:         %[[LOGITS:.+]] = dt.convert %[[Y]] : tensor<1x1x4xbf16> -> tensor<1x1x4xf32>
// CHECK:         return %[[KEPT]], %[[LOGITS]]
func.func @prompt(%w: tensor<4x3xf32> {dt.port = #dt.port<parameter "w">}, %x: tensor<1x1x3xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<1x1x4xf32> {dt.port = #dt.port<output "logits">}) {
  %y = dt.contract "bsd,vd->bsv" %x, %w : tensor<1x1x3xf32>, tensor<4x3xf32> -> tensor<1x1x4xf32>
  return %y : tensor<1x1x4xf32>
}
func.func @generate(%w: tensor<4x3xf32> {dt.port = #dt.port<parameter "w">}, %s: tensor<1x1x3xf32> {dt.port = #dt.port<parameter "s">},
                    %i: tensor<1x1xi32> {dt.port = #dt.port<input "i" from tokens>}, %p: tensor<1xi32> {dt.port = #dt.port<input "p" from positions>},
                    %c: tensor<1x8x3xf32> {dt.port = #dt.port<cache "c">})
    -> (tensor<1x8x3xf32> {dt.port = #dt.port<cache "c">}, tensor<1x1x4xf32> {dt.port = #dt.port<output "logits">}) {
  %rows = dt.gather %w, %i : tensor<4x3xf32>, tensor<1x1xi32> -> tensor<1x1x3xf32>
  %x = dt.mul %rows, %s : tensor<1x1x3xf32>
  %kept = dt.write_rows %x into %c at %p : tensor<1x1x3xf32>, tensor<1xi32> -> tensor<1x8x3xf32>
  %y = dt.contract "bsd,vd->bsv" %x, %w : tensor<1x1x3xf32>, tensor<4x3xf32> -> tensor<1x1x4xf32>
  return %kept, %y : tensor<1x8x3xf32>, tensor<1x1x4xf32>
}
