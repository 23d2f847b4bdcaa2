// A model's own text is a model again, with the same meaning.

// RUN: dtc compile %examples/llama-small --compile-to model -o %t.mlir
// RUN: dtc compile %t.mlir --compile-to model -o %t.again.mlir
// RUN: cmp %t.mlir %t.again.mlir

// Its sizes are fixed, and it has to be a model.
// RUN: sh -c 'dtc compile %t.mlir --compile-to model --set global_batch=3; test $? = 3' 2>&1 | FileCheck %s --check-prefix=BATCH
// BATCH: written for micro-batches of 8 rows of 128 tokens; training asks for 3
// RUN: sh -c 'dtc compile %s --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=FORM
// FORM: a model in text needs the attributes dt.model, dt.symbols and dt.parameters and a function @loss

// What would not finish compiling is refused.
// RUN: awk '{ print } /func.func @loss/ { for (i = 0; i < 250001; ++i) print "%%x" i " = dt.constant dense<0.0> : tensor<f32>" }' %t.mlir > %t.long.mlir
// RUN: sh -c 'dtc compile %t.long.mlir --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=LONG
// LONG: operations; more than 250000 would not finish compiling

// RUN: echo "module {" > %t.broken.mlir
// RUN: sh -c 'dtc compile %t.broken.mlir --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=SYNTAX
// SYNTAX: is not a module of the dt dialect

module {}
