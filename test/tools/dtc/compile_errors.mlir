// What the compiler refuses is bad input (exit code 3), said with the value and what to do; words that are wrong by
// themselves are usage (2).

// RUN: sh -c 'dtc compile %examples/gpt-small --mesh dp=3 --set global_batch=8 -o %t; test $? = 3' 2>&1 | FileCheck %s --check-prefix=BATCH
// BATCH: dimension batch of size 8 does not divide over 3 ranks; change the batch or the mesh
// BATCH-NOT: func.func

// RUN: sh -c 'dtc compile %examples/gpt-small --mesh dp=0 -o %t; test $? = 2' 2>&1 | FileCheck %s --check-prefix=MESH
// MESH: dp

// RUN: sh -c 'dtc compile %examples/gpt-small --strategy megaton -o %t; test $? = 3' 2>&1 | FileCheck %s --check-prefix=STRATEGY
// STRATEGY: megatron

// RUN: sh -c 'dtc compile %examples/gpt-small --memory-limit 1MB -o %t; test $? = 3' 2>&1 | FileCheck %s --check-prefix=MEMORY
// MEMORY: 1000000

// RUN: sh -c 'dtc compile %examples/gpt-small --target cpu:pentium -o %t; test $? = 2' 2>&1 | FileCheck %s --check-prefix=TARGET
// TARGET: pentium

// RUN: sh -c 'dtc compile %examples/gpt-small; test $? = 2' 2>&1 | FileCheck %s --check-prefix=OUTPUT
// OUTPUT: -o PROGRAM is required
