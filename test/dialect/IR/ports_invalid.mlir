// RUN: dtc-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{a port of kind slot, and no other, names a slot: slot "moment1" of "w" (C1)}}
func.func private @slot(tensor<f32> {dt.port = #dt.port<slot "" of "w">})

// -----

// expected-error @below {{a port of kind output has a source; only inputs have one (C2)}}
func.func private @output(tensor<f32> {dt.port = #dt.port<output "x" from tokens>})

// -----

// expected-error @below {{unknown source 'words' of an input}}
func.func private @unknown(tensor<f32> {dt.port = #dt.port<input "x" from words>})

// -----

// expected-error @below {{a bias correction, and no other source, names a setting: bias_correction of "beta1" (C1)}}
func.func private @missing(tensor<f32> {dt.port = #dt.port<input "x" from bias_correction>})

// -----

// expected-error @below {{a bias correction, and no other source, names a setting: bias_correction of "beta1" (C1)}}
func.func private @superfluous(tensor<f32> {dt.port = #dt.port<input "x" from tokens of "beta1">})

// -----

// expected-error @below {{a parameter is whole between steps, it cannot be partial (C3)}}
func.func private @partial_state(tensor<8xf32> {dt.port = #dt.port<parameter "w", partial>})
