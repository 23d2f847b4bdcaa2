// What dt-verify-when says about timetables: the message with which a program with them would be refused.
// RUN: dtc-opt %s --dt-verify-when=accumulation=3 --split-input-file --verify-diagnostics

// Three micro-batches take turns in two places.
module attributes {dt.arena = {bytes = 192 : i64, shared = 192 : i64, spaces = [array<i64: 2, 64, 64, 2>]}, dt.timetables = [
  #dt.timetable<"step", rank = 0, [<@f, micro_batch = 0>, <@f, micro_batch = 1, places = [0, 0, 1]>, <@b, micro_batch = 0>, <@f, micro_batch = 2>, <@b, micro_batch = 1, places = [0, 0, 1]>, <@b, micro_batch = 2>]>]} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    -> (tensor<16xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64: 64>, values = array<i64: 64>}, dt.duty = #dt.duty<forward, stage = 0, timetable = "step", for = none>} {
  %s = dt.copy %p : tensor<16xf32>
  return %s : tensor<16xf32>
}
func.func @b(%s: tensor<16xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.offsets = {arguments = array<i64: 64>, results = array<i64>, values = array<i64>}, dt.duty = #dt.duty<backward, stage = 0, timetable = "step", for = none>} {
  return
}
}

// -----

// Two places do not do for three micro-batches under way.
// expected-error @below {{M9: role 'all': in its step list 'b' on micro-batch 0 in stage 0 (entry 3) reads stash s of place 0 of space 'stash', where list 'f' on micro-batch 2 in stage 0 (entry 2) has written: the place is taken too early}}
module attributes {dt.arena = {bytes = 192 : i64, shared = 192 : i64, spaces = [array<i64: 2, 64, 64, 2>]}, dt.timetables = [
  #dt.timetable<"step", rank = 0, [<@f, micro_batch = 0>, <@f, micro_batch = 1, places = [0, 0, 1]>, <@f, micro_batch = 2>, <@b, micro_batch = 0>, <@b, micro_batch = 1, places = [0, 0, 1]>, <@b, micro_batch = 2>]>]} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    -> (tensor<16xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64: 64>, values = array<i64: 64>}, dt.duty = #dt.duty<forward, stage = 0, timetable = "step", for = none>} {
  %s = dt.copy %p : tensor<16xf32>
  return %s : tensor<16xf32>
}
func.func @b(%s: tensor<16xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.offsets = {arguments = array<i64: 64>, results = array<i64>, values = array<i64>}, dt.duty = #dt.duty<backward, stage = 0, timetable = "step", for = none>} {
  return
}
}

// -----

// A place of nobody.
// expected-error @below {{M9: role 'all': in its step list 'b' on micro-batch 0 in stage 0 (entry 1) reads stash s of place 1 of space 'stash', which nothing has written}}
module attributes {dt.arena = {bytes = 192 : i64, shared = 192 : i64, spaces = [array<i64: 2, 64, 64, 2>]}, dt.timetables = [
  #dt.timetable<"step", rank = 0, [<@f, micro_batch = 0>, <@b, micro_batch = 0, places = [0, 0, 1]>, <@f, micro_batch = 1, places = [0, 0, 1]>, <@b, micro_batch = 1, places = [0, 0, 1]>, <@f, micro_batch = 2>, <@b, micro_batch = 2>]>]} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    -> (tensor<16xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64: 64>, values = array<i64: 64>}, dt.duty = #dt.duty<forward, stage = 0, timetable = "step", for = none>} {
  %s = dt.copy %p : tensor<16xf32>
  return %s : tensor<16xf32>
}
func.func @b(%s: tensor<16xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.offsets = {arguments = array<i64: 64>, results = array<i64>, values = array<i64>}, dt.duty = #dt.duty<backward, stage = 0, timetable = "step", for = none>} {
  return
}
}

// -----

// A backward pass without its forward pass.
// expected-error @below {{M9: role 'all': its step runs list 'b' on micro-batch 1 in stage 0 (entry 2) before its turn}}
module attributes {dt.arena = {bytes = 192 : i64, shared = 192 : i64, spaces = [array<i64: 2, 64, 64, 2>]}, dt.timetables = [
  #dt.timetable<"step", rank = 0, [<@f, micro_batch = 0>, <@b, micro_batch = 0>, <@b, micro_batch = 1, places = [0, 0, 1]>, <@f, micro_batch = 1, places = [0, 0, 1]>, <@f, micro_batch = 2>, <@b, micro_batch = 2>]>]} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    -> (tensor<16xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64: 64>, values = array<i64: 64>}, dt.duty = #dt.duty<forward, stage = 0, timetable = "step", for = none>} {
  %s = dt.copy %p : tensor<16xf32>
  return %s : tensor<16xf32>
}
func.func @b(%s: tensor<16xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.offsets = {arguments = array<i64: 64>, results = array<i64>, values = array<i64>}, dt.duty = #dt.duty<backward, stage = 0, timetable = "step", for = none>} {
  return
}
}

// -----

// Gradients that would add in another order than those of one rank.
// expected-error @below {{M9: role 'all': its step adds the gradients of list 'b' on micro-batch 0 in stage 0 (entry 3) behind those of list 'b' on micro-batch 1 in stage 0 (entry 2); they add in the order of the micro-batches}}
module attributes {dt.arena = {bytes = 192 : i64, shared = 192 : i64, spaces = [array<i64: 2, 64, 64, 2>]}, dt.timetables = [
  #dt.timetable<"step", rank = 0, [<@f, micro_batch = 0>, <@f, micro_batch = 1, places = [0, 0, 1]>, <@b, micro_batch = 1, places = [0, 0, 1]>, <@b, micro_batch = 0>, <@f, micro_batch = 2>, <@b, micro_batch = 2>]>]} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    -> (tensor<16xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64: 64>, values = array<i64: 64>}, dt.duty = #dt.duty<forward, stage = 0, timetable = "step", for = none>} {
  %s = dt.copy %p : tensor<16xf32>
  return %s : tensor<16xf32>
}
func.func @b(%s: tensor<16xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.offsets = {arguments = array<i64: 64>, results = array<i64>, values = array<i64>}, dt.duty = #dt.duty<backward, stage = 0, timetable = "step", for = none>} {
  return
}
}

// -----

// The same where sums depend on the timetable.
module attributes {dt.sums_by_timetable, dt.arena = {bytes = 192 : i64, shared = 192 : i64, spaces = [array<i64: 2, 64, 64, 2>]}, dt.timetables = [
  #dt.timetable<"step", rank = 0, [<@f, micro_batch = 0>, <@f, micro_batch = 1, places = [0, 0, 1]>, <@b, micro_batch = 1, places = [0, 0, 1]>, <@b, micro_batch = 0>, <@f, micro_batch = 2>, <@b, micro_batch = 2>]>]} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    -> (tensor<16xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64: 64>, values = array<i64: 64>}, dt.duty = #dt.duty<forward, stage = 0, timetable = "step", for = none>} {
  %s = dt.copy %p : tensor<16xf32>
  return %s : tensor<16xf32>
}
func.func @b(%s: tensor<16xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.offsets = {arguments = array<i64: 64>, results = array<i64>, values = array<i64>}, dt.duty = #dt.duty<backward, stage = 0, timetable = "step", for = none>} {
  return
}
}

// -----

// A micro-batch that is left over, and one that is left out.
// expected-error @below {{M9: role 'all': its step leaves micro-batch 2 in stage 0 without its backward pass after list 'f' on micro-batch 2 in stage 0 (entry 4)}}
module attributes {dt.arena = {bytes = 192 : i64, shared = 192 : i64, spaces = [array<i64: 2, 64, 64, 2>]}, dt.timetables = [
  #dt.timetable<"step", rank = 0, [<@f, micro_batch = 0>, <@b, micro_batch = 0>, <@f, micro_batch = 1, places = [0, 0, 1]>, <@b, micro_batch = 1, places = [0, 0, 1]>, <@f, micro_batch = 2>]>]} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    -> (tensor<16xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64: 64>, values = array<i64: 64>}, dt.duty = #dt.duty<forward, stage = 0, timetable = "step", for = none>} {
  %s = dt.copy %p : tensor<16xf32>
  return %s : tensor<16xf32>
}
func.func @b(%s: tensor<16xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.offsets = {arguments = array<i64: 64>, results = array<i64>, values = array<i64>}, dt.duty = #dt.duty<backward, stage = 0, timetable = "step", for = none>} {
  return
}
}

// -----

// expected-error @below {{M9: role 'all': its step runs 2 micro-batches of 3 in stage 0}}
module attributes {dt.arena = {bytes = 192 : i64, shared = 192 : i64, spaces = [array<i64: 2, 64, 64, 2>]}, dt.timetables = [
  #dt.timetable<"step", rank = 0, [<@f, micro_batch = 0>, <@b, micro_batch = 0>, <@f, micro_batch = 1, places = [0, 0, 1]>, <@b, micro_batch = 1, places = [0, 0, 1]>]>]} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    -> (tensor<16xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64: 64>, values = array<i64: 64>}, dt.duty = #dt.duty<forward, stage = 0, timetable = "step", for = none>} {
  %s = dt.copy %p : tensor<16xf32>
  return %s : tensor<16xf32>
}
func.func @b(%s: tensor<16xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.offsets = {arguments = array<i64: 64>, results = array<i64>, values = array<i64>}, dt.duty = #dt.duty<backward, stage = 0, timetable = "step", for = none>} {
  return
}
}

// -----

// More than there are.
// expected-error @below {{M9: role 'all': its step runs list 'f' on micro-batch 3 in stage 0 (entry 4); a step has 3 micro-batches}}
module attributes {dt.arena = {bytes = 192 : i64, shared = 192 : i64, spaces = [array<i64: 2, 64, 64, 2>]}, dt.timetables = [
  #dt.timetable<"step", rank = 0, [<@f, micro_batch = 0>, <@b, micro_batch = 0>, <@f, micro_batch = 1, places = [0, 0, 1]>, <@b, micro_batch = 1, places = [0, 0, 1]>, <@f, micro_batch = 3>, <@b, micro_batch = 3>]>]} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    -> (tensor<16xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64: 64>, values = array<i64: 64>}, dt.duty = #dt.duty<forward, stage = 0, timetable = "step", for = none>} {
  %s = dt.copy %p : tensor<16xf32>
  return %s : tensor<16xf32>
}
func.func @b(%s: tensor<16xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.offsets = {arguments = array<i64: 64>, results = array<i64>, values = array<i64>}, dt.duty = #dt.duty<backward, stage = 0, timetable = "step", for = none>} {
  return
}
}

// -----

// A function that does not exist.
// expected-error @below {{M9: role 'all': its step runs list 'g' on micro-batch 0 in stage 0 (entry 0), which does not exist}}
module attributes {dt.arena = {bytes = 192 : i64, shared = 192 : i64, spaces = [array<i64: 2, 64, 64, 2>]}, dt.timetables = [
  #dt.timetable<"step", rank = 0, [<@g, micro_batch = 0>]>]} {
func.func @f(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    -> (tensor<16xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64: 64>, values = array<i64: 64>}, dt.duty = #dt.duty<forward, stage = 0, timetable = "step", for = none>} {
  %s = dt.copy %p : tensor<16xf32>
  return %s : tensor<16xf32>
}
func.func @b(%s: tensor<16xf32> {dt.port = #dt.port<stash "s">})
    attributes {dt.offsets = {arguments = array<i64: 64>, results = array<i64>, values = array<i64>}, dt.duty = #dt.duty<backward, stage = 0, timetable = "step", for = none>} {
  return
}
}
