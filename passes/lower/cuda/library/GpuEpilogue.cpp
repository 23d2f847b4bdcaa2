// Epilogues of products as functions of their own, under the names of the kernels that have them: for shapes for which
// cuBLASLt has the product and not the epilogue, and where that is slower. The product lies in the result already; in
// 16 bits it is rounded twice so, as it is where nothing is fused.
#include "dialect/IR/KernelCode.h"
#include "passes/lower/cuda/library/GpuLibrary.h"
#include "passes/lower/cuda/library/GpuLibraryCode.h"
#include "runtime/abi/library/gemm.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace dtc {
namespace {

using Scalars = abi::library::ProductScalars;
using Arguments = LibraryArguments<Scalars>;

/// One element of the result, and of the sum beside it.
void emitElement(CodeBuilder &builder, const abi::EpilogueForm &form, const Arguments &arguments, Value number,
                 const LibraryElements &elements) {
  Location loc = builder.loc;
  Value row = arith::DivUIOp::create(builder, loc, number, arguments[&Scalars::n]);
  Value column = arith::RemUIOp::create(builder, loc, number, arguments[&Scalars::n]);
  Value at = builder.add(builder.mul(row, arguments[&Scalars::ldc]), column);
  Value other = elements.load(builder, arguments[2u], form.hasBias ? column : at);
  auto first = unsigned(form.inputs());
  Value result = arguments[first];
  Value value = elements.load(builder, result, at);
  if (form.readsOperand)
    value = arith::MulFOp::create(builder, loc, value, dt::emitTanhGeluDerivative(builder, loc, other));
  else
    value = arith::AddFOp::create(builder, loc, value, other);
  if (form.storesSum)
    elements.store(builder, value, arguments[first + 1], at);
  if (form.hasGelu)
    value = dt::emitTanhGelu(builder, loc, value);
  elements.store(builder, value, result, at);
}

void addEpilogue(gpu::GPUModuleOp module, const abi::EpilogueForm &form) {
  auto buffers = unsigned(form.inputs() + form.outputs());
  gpu::GPUFuncOp function =
      addLibraryFunction(module, "dtc_cuda_product$" + std::string(form.name), buffers, Arguments::count);
  Arguments arguments(function, buffers);
  CodeBuilder builder = codeOf(function);
  LibraryElements elements(builder, arguments[&Scalars::result]);
  forEachInTurn(builder, function, builder.mul(arguments[&Scalars::m], arguments[&Scalars::n]),
                [&](CodeBuilder &inner, Value number) { emitElement(inner, form, arguments, number, elements); });
}

} // namespace

/// Accumulating is part of every product.
void addGpuEpilogues(gpu::GPUModuleOp module) {
  for (const abi::EpilogueForm &form : abi::EpilogueForms)
    if (!form.accumulates)
      addEpilogue(module, form);
}

} // namespace dtc
