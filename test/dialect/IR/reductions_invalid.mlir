// Operations and shardings have single values and accept no reduction that combines tuples.

// RUN: dtc-opt %s --split-input-file --verify-diagnostics

func.func @reduction(%a: tensor<2xf32>) -> tensor<f32> {
  // expected-error @below {{custom op 'dt.reduce' expected string or keyword containing one of the following enum values for attribute 'kind' [sum, max]}}
  %0 = dt.reduce log_sum_exp %a over [0] : tensor<2xf32> -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func @collective(%a: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @below {{custom op 'dt.all_reduce' expected string or keyword containing one of the following enum values for attribute 'kind' [sum, max]}}
  %0 = dt.all_reduce log_sum_exp %a over [#dt.axis_ref<"tp", 1, 0>] : tensor<2xf32> -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// expected-error @below {{unknown reduction 'log_sum_exp': use sum or max}}
func.func private @sharding(tensor<4x8xf32> {dt.sharding = #dt.sharding<[{}, {}], partial = log_sum_exp {"tp"}>})
