// The command line's answers; its exit codes are the documented ones.

// RUN: dtc --help | FileCheck %s --check-prefix=HELP
// HELP: Exit codes: 0 success
// HELP: dtc compile

// RUN: not dtc compil 2>&1 | FileCheck %s --check-prefix=VERB
// VERB: did you mean 'compile'?

// RUN: not dtc inspect x --jsn 2>&1 | FileCheck %s --check-prefix=OPTION
// OPTION: did you mean '--json'?

// RUN: sh -c 'dtc compile; test $? = 2' 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: MODEL is required

// RUN: sh -c 'dtc compile no/such/model --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=INPUT
// INPUT: dtc: error: no/such/model: no such model

// RUN: sh -c 'dtc compile %examples/gpt2 --compile-to model --set batch=3; test $? = 2' 2>&1 | FileCheck %s --check-prefix=SET
// SET: --set batch: unknown setting

// RUN: sh -c 'dtc inspect %s; test $? = 3' 2>&1 | FileCheck %s --check-prefix=PROGRAM
// PROGRAM: dtc: error: {{.*}}usage.mlir

// Settings may stand before and after the model, and repeat.
// RUN: dtc compile --set global_batch=4 --set sequence_length=16 %examples/gpt2 --compile-to model --set accumulation=2 | FileCheck %s --check-prefix=SETTINGS
// SETTINGS: batch = 2 : i64
// SETTINGS-SAME: sequence = 16 : i64
