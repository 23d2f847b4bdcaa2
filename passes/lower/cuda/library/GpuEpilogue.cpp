// Epilogues of products as functions of their own, under the names of the kernels that have them: for shapes for which
// cuBLASLt has the product and not the epilogue, and where that is slower. The product lies in the result already; in
// 16 bits it is rounded twice so, as it is where nothing is fused.
#include "dialect/IR/KernelCode.h"
#include "passes/lower/cuda/library/GpuLibrary.h"
#include "passes/lower/cuda/library/GpuLibraryCode.h"
#include "runtime/abi/epilogue.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace dtc {
namespace {

/// The scalars of dtc_cuda_product$..., of which these count here.
constexpr unsigned M = 1, N = 2, LeadingC = 8, ResultType = 15, Scalars = 17;

/// One element of the result, and of the sum beside it.
void emitElement(CodeBuilder &builder, const abi::EpilogueForm &form, ValueRange buffers, ValueRange scalars,
                 Value number, const LibraryElements &elements) {
  Location loc = builder.loc;
  Value row = arith::DivUIOp::create(builder, loc, number, scalars[N]);
  Value column = arith::RemUIOp::create(builder, loc, number, scalars[N]);
  Value at = builder.add(builder.mul(row, scalars[LeadingC]), column);
  Value other = elements.load(builder, buffers[2], form.hasBias ? column : at), result = buffers[form.inputs()];
  Value value = elements.load(builder, result, at);
  if (form.readsOperand)
    value = arith::MulFOp::create(builder, loc, value, dt::emitTanhGeluDerivative(builder, loc, other));
  else
    value = arith::AddFOp::create(builder, loc, value, other);
  if (form.storesSum)
    elements.store(builder, value, buffers.back(), at);
  if (form.hasGelu)
    value = dt::emitTanhGelu(builder, loc, value);
  elements.store(builder, value, result, at);
}

void addEpilogue(gpu::GPUModuleOp module, const abi::EpilogueForm &form) {
  auto buffers = unsigned(form.inputs() + form.outputs());
  gpu::GPUFuncOp function = addLibraryFunction(module, "dtc_cuda_product$" + std::string(form.name), buffers, Scalars);
  ValueRange arguments = function.getArguments(), scalars = arguments.drop_front(buffers);
  CodeBuilder builder = codeOf(function);
  LibraryElements elements(builder, scalars[ResultType]);
  forEachInTurn(builder, function, builder.mul(scalars[M], scalars[N]), [&](CodeBuilder &inner, Value number) {
    emitElement(inner, form, arguments.take_front(buffers), scalars, number, elements);
  });
}

} // namespace

/// Accumulating is part of every product.
void addGpuEpilogues(gpu::GPUModuleOp module) {
  for (const abi::EpilogueForm &form : abi::EpilogueForms)
    if (!form.accumulates)
      addEpilogue(module, form);
}

} // namespace dtc
