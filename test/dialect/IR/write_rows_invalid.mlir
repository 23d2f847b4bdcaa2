// RUN: dtc-opt %s -split-input-file -verify-diagnostics

func.func @the_other_dimensions_differ(%c: tensor<2x8x3x4xf32>, %r: tensor<2x1x3x5xf32>, %p: tensor<1xi32>) -> tensor<2x8x3x4xf32> {
  // expected-error @below {{C1: rows 'tensor<2x1x3x5xf32>' are none of 'tensor<2x8x3x4xf32>'}}
  %0 = dt.write_rows %r into %c at %p : tensor<2x1x3x5xf32>, tensor<1xi32> -> tensor<2x8x3x4xf32>
  return %0 : tensor<2x8x3x4xf32>
}

// -----

func.func @no_batch(%c: tensor<8x4xf32>, %r: tensor<1x4xf32>, %p: tensor<4xi32>) -> tensor<8x4xf32> {
  // expected-error @below {{C1: rows 'tensor<1x4xf32>' are none of 'tensor<8x4xf32>'}}
  %0 = dt.write_rows %r into %c at %p : tensor<1x4xf32>, tensor<4xi32> -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

func.func @a_position_is_missing(%c: tensor<2x8x4xf32>, %r: tensor<2x3x4xf32>, %p: tensor<2xi32>) -> tensor<2x8x4xf32> {
  // expected-error @below {{C2: needs 3 positions, has 'tensor<2xi32>'}}
  %0 = dt.write_rows %r into %c at %p : tensor<2x3x4xf32>, tensor<2xi32> -> tensor<2x8x4xf32>
  return %0 : tensor<2x8x4xf32>
}

// -----

func.func @another_type(%c: tensor<2x8x4xbf16>, %r: tensor<2x1x4xf32>, %p: tensor<1xi32>) -> tensor<2x8x4xbf16> {
  // expected-error @below {{C3: rows of 'f32' are written into 'tensor<2x8x4xbf16>'}}
  %0 = dt.write_rows %r into %c at %p : tensor<2x1x4xf32>, tensor<1xi32> -> tensor<2x8x4xbf16>
  return %0 : tensor<2x8x4xbf16>
}
