// `dtc run` starts as many ranks as the program's mesh has, and passes the rest of the command line to the program.

// RUN: dtc compile %examples/gpt-small --mesh dp=2 --set global_batch=4 --set steps=1 --set eval_batches=1 --set validation_fraction=0 -o %t.program
// RUN: dtc data pack %examples/gpt-small/train.toml %s -o %t.bin
// RUN: rm -rf %t.out
// RUN: dtc run %t.program --data %t.bin --out %t.out 2>&1 | FileCheck %s
// CHECK: gpt2 on dp=2 (2 ranks
// CHECK: step 1/1

// RUN: sh -c 'dtc run -n 3 %t.program --data %t.bin --out %t.out; test $? = 3' 2>&1 | FileCheck %s --check-prefix=RANKS
// RANKS: 3

// RUN: sh -c 'dtc run -n 1 ./no-such-program; test $? = 3' 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: no-such-program

// RUN: sh -c 'dtc run; test $? = 2' 2>&1 | FileCheck %s --check-prefix=USAGE
// USAGE: PROGRAM is required
