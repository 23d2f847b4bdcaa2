// RUN: dtc-opt %s --split-input-file --verify-diagnostics

// The dialect has the types of runtime/abi/element_type.h.

func.func @f64(%x: tensor<2xf64>) {
  // expected-error @+1 {{'dt.copy' op operand #0 must be statically shaped tensor of 32-bit float or bfloat16 type or 16-bit float or 32-bit signless integer or 8-bit signless integer or 1-bit signless integer values, but got 'tensor<2xf64>'}}
  %y = dt.copy %x : tensor<2xf64>
  return
}

// -----

// i8 is only moved, never computed with.

func.func @i8(%x: tensor<2xi8>) {
  // expected-error @+1 {{'dt.add' op operand #0 must be}}
  %y = dt.add %x, %x : tensor<2xi8>
  return
}

// -----

func.func @moved(%x: tensor<2xi8>, %h: tensor<2xbf16>, %f: tensor<2xf16>) -> tensor<4xi8> {
  %y = dt.concat %x, %x along 0 : tensor<2xi8>, tensor<2xi8> -> tensor<4xi8>
  %g = dt.convert %h : tensor<2xbf16> -> tensor<2xf16>
  %s = dt.add %f, %g : tensor<2xf16>
  return %y : tensor<4xi8>
}

// -----

// Operands of one type; the result has it, or f32.

func.func @mixed_contraction(%x: tensor<2x3xbf16>, %w: tensor<3x4xf32>) {
  // expected-error @+1 {{C4: cannot contract 'tensor<2x3xbf16>' and 'tensor<3x4xf32>' to 'tensor<2x4xbf16>': convert to one element type before}}
  %y = dt.contract "ab,bc->ac" %x, %w : tensor<2x3xbf16>, tensor<3x4xf32> -> tensor<2x4xbf16>
  return
}

// -----

func.func @widened_contraction(%x: tensor<2x3xbf16>, %w: tensor<3x4xbf16>) {
  %y = dt.contract "ab,bc->ac" %x, %w : tensor<2x3xbf16>, tensor<3x4xbf16> -> tensor<2x4xf32>
  // expected-error @+1 {{C4: cannot contract}}
  %z = dt.contract "ab,cb->ac" %y, %y : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x2xbf16>
  return
}

// -----

func.func @narrowed_sum(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{C2: expected a result of shape [2] and the operand's element type or its accumulator's}}
  %y = dt.reduce sum %x over [1] : tensor<2x3xf32> -> tensor<2xbf16>
  return
}
