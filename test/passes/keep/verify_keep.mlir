// RUN: dtc-opt %s --dt-verify-keep --split-input-file --verify-diagnostics

func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{K1: is only a name, which must not tell equal layers apart}}
  %t = dt.tag %x "x" ["d"] : tensor<8xf32>
  return %t : tensor<8xf32>
}

// -----

func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %c = dt.constant dense<1.0> : tensor<8xf32>
  %a = dt.add %x, %c {dt.direction = #dt.direction<forward>} : tensor<8xf32>
  // expected-error @below {{K2: belongs to no part of the step; run dt-complete-marks}}
  %b = dt.exp %a : tensor<8xf32>
  return %b : tensor<8xf32>
}

// -----

module attributes {dt.stages = [[], []]} {
// expected-error @below {{K3: of a model in 2 stages, does not say of which it is}}
func.func @f() { return }
}

// -----

module attributes {dt.stages = [[], []]} {
// expected-error @below {{K3: of a model in 2 stages, does not say of which it is}}
func.func @f() attributes {dt.duty = #dt.duty<once, stage = 2, timetable = "step", for = none>} { return }
}

// -----

module attributes {dt.stages = [[], []]} {
// expected-error @below {{K3: does both passes of a micro-batch, between which other stages come}}
func.func @f() attributes {dt.duty = #dt.duty<both, stage = 1, timetable = "step", for = last>} { return }
}

// -----

module attributes {dt.stages = [[], []]} {
func.func @f(%x: tensor<8xf32>) -> (tensor<8xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.duty = #dt.duty<forward, stage = 1, timetable = "step", for = last>} {
  return %x : tensor<8xf32>
}
// expected-error @below {{K4: has the stash s as 'tensor<4xf32>', another function of stage 1 as 'tensor<8xf32>'}}
func.func @b(%s: tensor<4xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.duty = #dt.duty<backward, stage = 1, timetable = "step", for = last>} { return }
}

// -----

module attributes {dt.stages = [[], []]} {
// expected-error @below {{K5: takes the stash s, which stage 0 does not pass on}}
func.func @b(%s: tensor<8xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.duty = #dt.duty<backward, stage = 0, timetable = "step", for = last>} { return }
func.func @f(%x: tensor<8xf32>) -> (tensor<8xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.duty = #dt.duty<forward, stage = 1, timetable = "step", for = last>} {
  return %x : tensor<8xf32>
}
}

// -----

module attributes {dt.stages = [[], []]} {
func.func @f(%x: tensor<8xf32>) -> (tensor<8xf32> {dt.port = #dt.port<sent "y">})
    attributes {dt.duty = #dt.duty<forward, stage = 0, timetable = "step", for = last>} {
  return %x : tensor<8xf32>
}
// expected-error @below {{K5: takes the received y, which stage 0 passes on with another type}}
func.func @g(%y: tensor<4xf32> {dt.port = #dt.port<received "y">})
    attributes {dt.duty = #dt.duty<forward, stage = 1, timetable = "step", for = last>} { return }
}

// -----

module attributes {dt.stages = [[], []]} {
// expected-error @below {{K5: takes the received_gradient d, which stage 1 does not pass on}}
func.func @g(%d: tensor<4xf32> {dt.port = #dt.port<received_gradient "d">})
    attributes {dt.duty = #dt.duty<backward, stage = 0, timetable = "step", for = last>} { return }
}

// -----

module attributes {dt.stages = [[], []]} {
// expected-error @below {{K6: makes the sent y, which nobody takes}}
func.func @f(%x: tensor<8xf32>) -> (tensor<8xf32> {dt.port = #dt.port<sent "y">})
    attributes {dt.duty = #dt.duty<forward, stage = 1, timetable = "step", for = last>} {
  return %x : tensor<8xf32>
}
}

// -----

module attributes {dt.stages = [[], []]} {
func.func @f(%x: tensor<8xf32>) -> (tensor<8xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.duty = #dt.duty<forward, stage = 0, timetable = "step", for = last>} {
  return %x : tensor<8xf32>
}
// expected-error @below {{K5: takes the weight_stash s, which stage 0 does not pass on}}
func.func @w(%s: tensor<8xf32> {dt.port = #dt.port<weight_stash "s">})
    attributes {dt.duty = #dt.duty<weight_gradients, stage = 0, timetable = "step", for = last>} { return }
}
