// Every operation of the dialect.
#ifndef DT_OPS_TD
#define DT_OPS_TD

include "dialect/IR/ElementwiseOps.td"
include "dialect/IR/StructuralOps.td"
include "dialect/IR/CompositeOps.td"
include "dialect/IR/CollectiveOps.td"
include "dialect/IR/KernelOps.td"
include "dialect/IR/LibraryOps.td"
include "dialect/IR/MemoryOps.td"

#endif // DT_OPS_TD
