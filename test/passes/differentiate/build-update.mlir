// RUN: dtc-opt %s --dt-build-update='settings=weight_decay=0.5 clip-norm=2' | FileCheck %s --check-prefix=ADAMW
// RUN: dtc-opt %s --dt-build-update='optimizer=sgd settings=weight_decay=0.5,momentum=0' | FileCheck %s --check-prefix=SGD
// RUN: dtc-opt %s --dt-build-update='optimizer=sgd settings=momentum=0.5' | FileCheck %s --check-prefix=MOMENTUM
// RUN: not dtc-opt %s --dt-build-update='optimizer=adam' 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not dtc-opt %s --dt-build-update='optimizer=sgd settings=beta1=0.5' 2>&1 | FileCheck %s --check-prefix=SETTING
// RUN: not dtc-opt %s --dt-build-update='settings=beta1=0.5,beta2=1' 2>&1 | FileCheck %s --check-prefix=INTERVAL

// The optimizer is one formula for all parameters that decay, ...
// ADAMW-LABEL: dt.formula @adamw(
// ADAMW-SAME:    %[[G:[a-z0-9]+]]: tensor<f32>, %[[P:[a-z0-9]+]]: tensor<f32>, %[[M:[a-z0-9]+]]: tensor<f32>, %[[V:[a-z0-9]+]]: tensor<f32>, %[[MASK:[a-z0-9]+]]: tensor<i1>
// ADAMW-SAME:    -> (tensor<f32>, tensor<f32>, tensor<f32>)
// ADAMW:         dt.mul %[[P]],
// ... in which every state is the new one or the old, together.
// ADAMW:         %[[NEW_P:.+]] = dt.select %[[MASK]], %{{.+}}, %[[P]]
// ADAMW:         %[[NEW_M:.+]] = dt.select %[[MASK]], %{{.+}}, %[[M]]
// ADAMW:         %[[NEW_V:.+]] = dt.select %[[MASK]], %{{.+}}, %[[V]]
// ADAMW:         dt.yield %[[NEW_P]], %[[NEW_M]], %[[NEW_V]]

// ... and one for those that do not.
// ADAMW-LABEL: dt.formula @adamw_without_decay(
// ADAMW-SAME:    %{{[a-z0-9]+}}: tensor<f32>, %[[P:[a-z0-9]+]]: tensor<f32>
// ADAMW-NOT:     dt.mul %[[P]],
// ADAMW:         dt.yield

// State is updated in place: parameters and both moments come back under their ports.
// ADAMW-LABEL: func.func @update(
// ADAMW-SAME:    %[[W:[a-z0-9]+]]: tensor<3x4xf32> {dt.port = #dt.port<parameter "w">}
// ADAMW-SAME:    %[[B:[a-z0-9]+]]: tensor<4xf32> {dt.port = #dt.port<parameter "b">}
// ADAMW-SAME:    #dt.port<slot "exp_avg" of {{.*}}#dt.port<slot "exp_avg_sq" of {{.*}}#dt.port<reduced_gradient 
// ADAMW-SAME:    %[[LOSS:[a-z0-9]+]]: tensor<f32> {dt.port = #dt.port<output "loss_sum">
// ADAMW-SAME:    %[[COUNT:[a-z0-9]+]]: tensor<f32> {dt.port = #dt.port<output "token_count">
// ADAMW-SAME:    %[[NORM:[a-z0-9]+]]: tensor<f32> {dt.port = #dt.port<output "grad_norm">
// ADAMW-SAME:    %[[RATE:[a-z0-9]+]]: tensor<f32> {dt.port = #dt.port<input "learning_rate" from learning_rate>
// ADAMW-SAME:    <input "bias_correction1" from bias_correction of "beta1">{{.*}}<input "bias_correction2" from bias_correction of "beta2">
// ADAMW-SAME:    -> (tensor<3x4xf32> {dt.port = #dt.port<parameter "w">}, tensor<4xf32> {dt.port = #dt.port<parameter "b">}, tensor<3x4xf32> {dt.port = #dt.port<slot "exp_avg" of "w">}

// The gate is one mask of scalars, ...
// ADAMW:         dt.compare le %[[LOSS]],
// ADAMW:         dt.compare le %[[NORM]],
// ADAMW:         dt.and
// ADAMW:         %[[FINITE:.+]] = dt.and
// ADAMW:         %[[COUNTS:.+]] = dt.compare gt %[[COUNT]],
// ADAMW:         %[[APPLIES:.+]] = dt.and %[[FINITE]], %[[COUNTS]]

// Clipping is min(1, clip / (norm + epsilon)): no branch.
// ADAMW:         %[[SHIFTED:.+]] = dt.add %[[NORM]],
// ADAMW:         %[[RATIO:.+]] = dt.div %{{.+}}, %[[SHIFTED]]
// ADAMW:         dt.min %[[RATIO]],

// The file says that w decays and b does not.
// ADAMW:         dt.apply @adamw(%{{[a-z0-9]+}}, %[[W]], %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %[[APPLIES]],
// ADAMW-SAME:      dt.layer = #dt.layer<"h"[0]>
// ADAMW:         dt.apply @adamw_without_decay(%{{[a-z0-9]+}}, %[[B]], %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %[[APPLIES]],

// ... which the host reads.
// ADAMW:         dt.convert %[[APPLIES]]

// Without momentum gradient descent has no state beside the parameters.
// SGD-LABEL: func.func @update(
// SGD-NOT:     #dt.port<slot
// SGD-NOT:     bias_correction
// SGD:         return

// MOMENTUM-LABEL: func.func @update(
// MOMENTUM-SAME:    #dt.port<slot "momentum_buffer" of 
// MOMENTUM-NOT:     exp_avg

// UNKNOWN: error: unknown optimizer "adam"; there are "adamw", "sgd"

// SETTING: error: the optimizer "sgd" has no setting "beta1=0.5"; it has weight_decay in [0, inf), momentum in [0, 1)
// INTERVAL: error: the optimizer "adamw" has no setting "beta2=1"; it has beta1 in [0, 1), 
module attributes {dt.parameters = [
  #dt.param<"w", layer = <"h"[0]>, file = [4, 3], factored = [4, 3], permutation = [1, 0], dims = ["a", "b"], init = "normal", stddev = 2.0e-02 : f64, decays = true>,
  #dt.param<"b", file = [4], factored = [4], permutation = [0], dims = ["a"], init = "zeros", stddev = 0.0 : f64, decays = false>]} {
}
