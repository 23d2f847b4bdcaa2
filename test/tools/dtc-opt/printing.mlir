// Debugging starts from the module after every pass and from the pipeline as it ran.

// RUN: dtc-opt %s --canonicalize --mlir-print-ir-after-all 2>&1 | FileCheck %s --check-prefix=PRINT
// RUN: dtc-opt %s --canonicalize --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PRINT: IR Dump After Canonicalizer
// PRINT: func.func @identity
// PIPELINE: Pass Manager with
// PIPELINE: canonicalize
func.func @identity(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
