// Text becomes tokens, and tokens are measured: "abab" has two equally frequent bytes, so its unigram entropy is ln 2,
// and each byte tells the next, so its bigram entropy is 0.

// RUN: printf abababab > %t.txt
// RUN: dtc data pack %t.txt -o %t.bin | FileCheck %s
// RUN: dtc data show %t.bin --json | FileCheck %s --check-prefix=JSON
// RUN: dtc data check %t.bin --vocabulary 99
// RUN: sh -c 'dtc data check %t.bin --vocabulary 98; test $? = 3' 2>&1 | FileCheck %s --check-prefix=RANGE

// CHECK: 8 tokens of 16 bits in llm.c's format
// CHECK: 2 different tokens, the largest is 98
// CHECK: unigram entropy 0.6931 nats
// CHECK: bigram entropy {{-?}}0.0000 nats
// JSON: "tokens": 8,
// RANGE: the token at position 1 is 98
