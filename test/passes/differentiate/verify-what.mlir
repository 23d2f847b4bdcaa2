// Each rule of the contract, broken once.
// RUN: dtc-opt %s --split-input-file --verify-diagnostics --dt-verify-what

// expected-error @below {{W1: has no attribute dt.model}}
module {}

// -----

// expected-error @below {{W2: has no function @micro}}
module attributes {dt.model = "m", dt.symbols = {}, dt.parameters = []} {}

// -----

// expected-error @below {{W2: still has @loss}}
module attributes {dt.model = "m", dt.symbols = {}, dt.parameters = []} {
  func.func @micro() { return }
  func.func @reduce() { return }
  func.func @update() { return }
  func.func @eval() { return }
  func.func @loss() { return }
}

// -----

module attributes {dt.model = "m", dt.symbols = {}, dt.parameters = []} {
  // expected-error @below {{W3: argument #0 lacks dt.port}}
  func.func @micro(%x: tensor<f32>) { return }
  func.func @reduce() { return }
  func.func @update() { return }
  func.func @eval() { return }
}

// -----

module attributes {dt.model = "m", dt.symbols = {}, dt.parameters = []} {
  func.func @micro(%x: tensor<f32> {dt.port = #dt.port<input "x" from learning_rate>}) { return }
  // expected-error @below {{W3: argument #0 (input x) has type 'tensor<2xf32>', elsewhere 'tensor<f32>'}}
  func.func @reduce(%x: tensor<2xf32> {dt.port = #dt.port<input "x" from learning_rate>}) { return }
  func.func @update() { return }
  func.func @eval() { return }
}

// -----

module attributes {dt.model = "m", dt.symbols = {}, dt.parameters = []} {
  // expected-error @below {{W3: argument #1 is the second input x}}
  func.func @micro(%x: tensor<f32> {dt.port = #dt.port<input "x" from learning_rate>}, %y: tensor<f32> {dt.port = #dt.port<input "x" from learning_rate>}) { return }
  func.func @reduce() { return }
  func.func @update() { return }
  func.func @eval() { return }
}

// -----

module attributes {dt.model = "m", dt.symbols = {}, dt.parameters = []} {
  // expected-error @below {{W4: argument #0 (slot exp_avg of w) is of no parameter in dt.parameters}}
  func.func @micro(%w: tensor<f32> {dt.port = #dt.port<slot "exp_avg" of "w">}) { return }
  func.func @reduce() { return }
  func.func @update() { return }
  func.func @eval() { return }
}

// -----

module attributes {dt.model = "m", dt.symbols = {}, dt.parameters = [
  #dt.param<"w", file = [4, 3], factored = [4, 3], permutation = [1, 0], dims = ["a", "b"], init = "zeros", stddev = 0.0 : f64, decays = true>]} {
  // expected-error @below {{W4: argument #0 (parameter w) has type 'tensor<4x3xf32>', which is not the parameter's logical shape}}
  func.func @micro(%w: tensor<4x3xf32> {dt.port = #dt.port<parameter "w">}) { return }
  func.func @reduce() { return }
  func.func @update() { return }
  func.func @eval() { return }
}

// -----

module attributes {dt.model = "m", dt.symbols = {}, dt.parameters = []} {
  func.func @micro(%x: tensor<f32> {dt.port = #dt.port<input "x" from learning_rate>}) {
    // expected-error @below {{W5: only plain dt operations belong here}}
    %0 = math.absf %x : tensor<f32>
    return
  }
  func.func @reduce() { return }
  func.func @update() { return }
  func.func @eval() { return }
}

// -----

module attributes {dt.model = "m", dt.symbols = {}, dt.parameters = []} {
  func.func @micro(%x: tensor<2x2xf32> {dt.port = #dt.port<input "x" from learning_rate>}, %key: tensor<4xi32> {dt.port = #dt.port<input "key" from key>}) {
    // expected-error @below {{W6: has not been decomposed}}
    %0 = dt.dropout %x, %key rate 0.5 site 0 : tensor<2x2xf32>, tensor<4xi32>
    return
  }
  func.func @reduce() { return }
  func.func @update() { return }
  func.func @eval() { return }
}

// -----

module attributes {dt.model = "m", dt.symbols = {}, dt.parameters = []} {
  // expected-error @below {{W7: argument #0 (input x) does not say its source: from tokens, ...}}
  func.func @micro(%x: tensor<f32> {dt.port = #dt.port<input "x">}) { return }
  func.func @reduce() { return }
  func.func @update() { return }
  func.func @eval() { return }
}

// -----

module attributes {dt.model = "m", dt.symbols = {}, dt.parameters = []} {
  func.func @micro(%x: tensor<f32> {dt.port = #dt.port<input "x" from learning_rate>}) { return }
  // expected-error @below {{W7: argument #0 (input x) is from #dt.source<bias_correction of "beta1">, elsewhere from #dt.source<learning_rate>}}
  func.func @reduce(%x: tensor<f32> {dt.port = #dt.port<input "x" from bias_correction of "beta1">}) { return }
  func.func @update() { return }
  func.func @eval() { return }
}
