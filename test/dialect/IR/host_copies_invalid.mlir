// RUN: dtc-opt %s --split-input-file --verify-diagnostics

func.func @other_type(%x: tensor<8xf32>) {
  // expected-error @below {{C1: copies 'tensor<8xf32>' but gives '!dt.future<tensor<4xf32>>'}}
  %o = dt.offload %x : tensor<8xf32> -> !dt.future<tensor<4xf32>>
  return
}

// -----

func.func @back_as_another_type(%x: tensor<8xf32>) {
  %o = dt.offload %x : tensor<8xf32> -> tensor<8xf32>
  // expected-error @below {{C1: copies 'tensor<8xf32>' but gives 'tensor<8xbf16>'}}
  %b = dt.fetch %o : tensor<8xf32> -> tensor<8xbf16>
  return
}

// -----

func.func @never_left(%x: tensor<8xf32>) {
  // expected-error @below {{C2: reads what no dt.offload has made}}
  %b = dt.fetch %x : tensor<8xf32> -> tensor<8xf32>
  return
}
