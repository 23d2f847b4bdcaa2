// Text that nests thousands deep, in brackets, through aliases or in sums of affine maps, is refused before the
// parser would end the process.

// RUN: %python -c "print('module attributes {dt.a = ' + '[' * 100000 + ']' * 100000 + '} {}')" > %t.brackets.mlir
// RUN: %python -c "print('module {' * 100000)" > %t.modules.mlir
// RUN: %python -c "print('#a0 = [1]'); [print(f'#a{i} = [#a{i-1}]') for i in range(1, 100000)]; print('module attributes {dt.a = #a99999} {}')" > %t.aliases.mlir
// RUN: %python -c "print('module attributes {dt.a = affine_map<(d0) -> (' + 'd0 + ' * 100000 + 'd0)>} {}')" > %t.affine.mlir
// RUN: %python -c "print('// ' + '[' * 1000); print('module attributes {dt.a = \"' + '[' * 1000 + '\"} {}')" > %t.harmless.mlir
// RUN: sh -c 'dtc compile %t.brackets.mlir --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=DEEP
// RUN: sh -c 'dtc compile %t.modules.mlir --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=DEEP
// RUN: sh -c 'dtc compile %t.aliases.mlir --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=ALIASES
// RUN: sh -c 'dtc compile %t.affine.mlir --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=AFFINE
// RUN: sh -c 'dtc compile %t.harmless.mlir --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=HARMLESS
// A number of 25,000 digits kept the parser busy for many seconds.
// RUN: %python -c "print('module attributes {dt.a = ' + '7' * 25000 + ' : i64} {}')" > %t.digits.mlir
// RUN: sh -c 'timeout 5 dtc compile %t.digits.mlir --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=DIGITS
// DIGITS: line 1: a number of more than 40 digits
// DEEP: line 1: nests more than 100 levels deep
// ALIASES: line {{[0-9]+}}: nests more than 100 levels deep
// AFFINE: line 1: affine_map is no part of a model
// HARMLESS: a model in text needs the attributes
