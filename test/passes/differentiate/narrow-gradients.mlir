// RUN: dtc-opt %s --dt-narrow-gradients='gradients=f32' | FileCheck %s --check-prefix=KEPT
// RUN: dtc-opt %s --dt-narrow-gradients='gradients=bf16' --canonicalize | FileCheck %s --check-prefix=NARROW
// RUN: dtc-opt %s --dt-narrow-gradients='gradients=bf16 accumulates' --canonicalize | FileCheck %s --check-prefix=SUMMED
// RUN: dtc-opt %s --dt-narrow-gradients='gradients=bf16 accumulates' --dt-build-reduction --dt-narrow-reduction='gradients=bf16' | FileCheck %s --check-prefix=REDUCED

// Sums of products are formed in f32 and stay so, also below the addition of a tied table; a sum that somebody else
// reads in bf16 is left alone.
// KEPT-LABEL: func.func @micro(
// KEPT:         %[[W:.+]] = dt.contract "bd,bf->df" {{.*}} -> tensor<4x3xf32>
// KEPT:         %[[B:.+]] = dt.reduce sum %{{.+}} over [0] {{.*}}: tensor<2x3xbf16> -> tensor<3xf32>
// KEPT:         %[[T:.+]] = dt.contract "bd,bf->df" {{.*}} -> tensor<4x3xf32>
// KEPT:         %[[TIED:.+]] = dt.add %[[T]], %{{.+}} {{.*}}: tensor<4x3xf32>
// KEPT:         %[[S:.+]] = dt.reduce sum %{{.+}} over [0] {{.*}}: tensor<2x3xbf16> -> tensor<3xbf16>
// KEPT:         %[[SHARED:.+]] = dt.convert %[[S]]
// KEPT:         return %{{.+}}, %{{.+}}, %[[W]], %[[B]], %[[TIED]], %[[SHARED]]

// In 16 bits the products' own results leave; the port has their type.
// NARROW-LABEL: func.func @micro(
// NARROW-SAME:    tensor<4x3xbf16> {dt.port = #dt.port<gradient "w", partial>}
// NARROW:         %[[W:.+]] = dt.contract "bd,bf->df" {{.*}} -> tensor<4x3xbf16>
// NARROW:         %[[SUM:.+]] = dt.add {{.*}} : tensor<4x3xf32>
// NARROW:         %[[TIED:.+]] = dt.convert %[[SUM]] {{.*}}: tensor<4x3xf32> -> tensor<4x3xbf16>
// NARROW:         return %{{.+}}, %{{.+}}, %[[W]], %{{.+}}, %[[TIED]]

// What is added up afterwards is rounded, and f32 again.
// SUMMED-LABEL: func.func @micro(
// SUMMED-SAME:    tensor<4x3xf32> {dt.port = #dt.port<gradient "w", partial>}
// SUMMED:         %[[W:.+]] = dt.contract "bd,bf->df" {{.*}} -> tensor<4x3xbf16>
// SUMMED:         %[[WIDE:.+]] = dt.convert %[[W]] {{.*}}: tensor<4x3xbf16> -> tensor<4x3xf32>
// SUMMED:         %[[SUM:.+]] = dt.add {{.*}} : tensor<4x3xf32>
// SUMMED-NEXT:    %[[ROUNDED:.+]] = dt.convert %[[SUM]] {{.*}}: tensor<4x3xf32> -> tensor<4x3xbf16>
// SUMMED-NEXT:    %[[TIED:.+]] = dt.convert %[[ROUNDED]] {{.*}}: tensor<4x3xbf16> -> tensor<4x3xf32>
// SUMMED:         return %{{.+}}, %{{.+}}, %[[WIDE]], %{{.+}}, %[[TIED]]

// The sum is rounded before it travels; norm and update read what has travelled.
// REDUCED-LABEL: func.func @reduce(
// REDUCED:         %[[SENT:.+]] = dt.convert %[[SUM:.+]] {{.*}}: tensor<4x3xf32> -> tensor<4x3xbf16>
// REDUCED-NEXT:    %[[WIDE:.+]] = dt.convert %[[SENT]] {{.*}}: tensor<4x3xbf16> -> tensor<4x3xf32>
// REDUCED-NEXT:    dt.mul %[[WIDE]], %[[WIDE]]
// REDUCED:         return %[[WIDE]],
func.func @micro(%x: tensor<2x4xbf16> {dt.port = #dt.port<input "x">}, %g: tensor<2x3xbf16> {dt.port = #dt.port<input "g">},
                 %t: tensor<4x3xf32> {dt.port = #dt.port<input "t">}, %l: tensor<f32> {dt.port = #dt.port<input "l">})
    -> (tensor<f32> {dt.port = #dt.port<share "micro_loss_sum", partial>}, tensor<f32> {dt.port = #dt.port<share "micro_token_count", partial>},
        tensor<4x3xf32> {dt.port = #dt.port<gradient "w", partial>}, tensor<3xf32> {dt.port = #dt.port<gradient "b", partial>},
        tensor<4x3xf32> {dt.port = #dt.port<gradient "tied", partial>}, tensor<3xf32> {dt.port = #dt.port<gradient "shared", partial>},
        tensor<3xbf16> {dt.port = #dt.port<share "s", partial>}) {
  %0 = dt.contract "bd,bf->df" %x, %g : tensor<2x4xbf16>, tensor<2x3xbf16> -> tensor<4x3xbf16>
  %w = dt.convert %0 : tensor<4x3xbf16> -> tensor<4x3xf32>
  %1 = dt.reduce sum %g over [0] : tensor<2x3xbf16> -> tensor<3xbf16>
  %b = dt.convert %1 : tensor<3xbf16> -> tensor<3xf32>
  %2 = dt.contract "bd,bf->df" %x, %g : tensor<2x4xbf16>, tensor<2x3xbf16> -> tensor<4x3xbf16>
  %head = dt.convert %2 : tensor<4x3xbf16> -> tensor<4x3xf32>
  %tied = dt.add %head, %t : tensor<4x3xf32>
  %s = dt.reduce sum %g over [0] : tensor<2x3xbf16> -> tensor<3xbf16>
  %shared = dt.convert %s : tensor<3xbf16> -> tensor<3xf32>
  return %l, %l, %w, %b, %tied, %shared, %s : tensor<f32>, tensor<f32>, tensor<4x3xf32>, tensor<3xf32>, tensor<4x3xf32>, tensor<3xf32>, tensor<3xbf16>
}
