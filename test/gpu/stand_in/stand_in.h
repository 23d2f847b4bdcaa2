// What the stand-in for NVIDIA's driver has besides the driver's functions, for stand-ins of NVIDIA's libraries. They
// find these functions in libcuda.so.1 by name, and then work in the order of a stream, as the real libraries do.
//
// The stand-in's GPU is this machine: kernels are those of the same gpu.module, compiled to threads
// (test/gpu/machine.h). Work of a stream is not done before somebody waits for it, and then only as much as is waited
// for. Memory is where the host cannot access it, and is not zero. What a real GPU leaves undefined ends a launch, and
// the machine's report is written to the standard error.
//
// DTC_STAND_IN in the environment changes it, as in "devices=2,memory=1000000":
//   devices       how many GPUs there are                       version         of CUDA, as 12080
//   architecture  of the GPUs, as 90                            memory          bytes of each
//   lost_at       the launch at which the GPU is lost, from 1   multiprocessors of each
//   refused_at    the launch that the driver does not take      first          which of the machine's GPUs the first is
#pragma once

#include "runtime/device/cuda/driver.h"

extern "C" {

/// Gives a stream `function(argument)` to run: once, or, where the stream is captured, whenever the graph is launched.
/// When it is no longer needed, runs `release(argument)`, unless that is null.
typedef void dtc_stand_in_enqueue_fn(CUstream_st *stream, void (*function)(void *), void *argument,
                                     void (*release)(void *));
/// The same for work that may have to wait for another process: it is called again while it returns NotReady, and other
/// streams work meanwhile.
typedef void dtc_stand_in_attempt_fn(CUstream_st *stream, int (*function)(void *), void *argument,
                                     void (*release)(void *));
/// Where the bytes of an address of the device are; null unless all of them are one allocation's.
typedef void *dtc_stand_in_reach_fn(dtc::cuda::DevicePointer address, size_t bytes);
/// Whether a stream's work that waits for a peer blocks no other stream: each has its own queue, and no code is loaded
/// at its first use, which waits for all work.
typedef int dtc_stand_in_may_wait_fn();
/// Does all work of any stream, the busiest stream last, and of equally busy ones the oldest: work that waits for
/// nothing comes first, as on a GPU, and before the operands that an older stream still has to write.
typedef void dtc_stand_in_finish_fn();
/// Called from a stream's work: on the GPU's clock, which events read, it takes that much longer. Nobody waits for it.
typedef void dtc_stand_in_take_time_fn(int64_t nanoseconds);

/// Of the stand-in for cuBLASLt: how many algorithms it has for a product, the last of which is the fastest, and how
/// many products one has done.
#define DTC_STAND_IN_ALGORITHMS 3
typedef int dtc_stand_in_products_run_fn(int algorithm);

dtc_stand_in_enqueue_fn dtc_stand_in_enqueue;
dtc_stand_in_attempt_fn dtc_stand_in_attempt;
dtc_stand_in_finish_fn dtc_stand_in_finish;
dtc_stand_in_may_wait_fn dtc_stand_in_may_wait;
dtc_stand_in_reach_fn dtc_stand_in_reach;
dtc_stand_in_take_time_fn dtc_stand_in_take_time;
}
