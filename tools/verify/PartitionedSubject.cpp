#include "tools/verify/PartitionedSubject.h"

#include "dialect/IR/Names.h"
#include "mlir/IR/Diagnostics.h"
#include "tools/verify/Buffer.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc::verify {

PartitionedSubject::PartitionedSubject(ModuleOp module) : mesh(module->getAttrOfType<MeshAttr>(module_attr::mesh)) {
  if (!mesh)
    throw Error(ExitCode::BadInput, "the module has no dt.mesh: it is not partitioned");
  for (auto op : module.getOps<func::FuncOp>()) {
    Function &function = functions[op.getName().str()];
    function.op = op;
    for (unsigned i = 0; i < op.getNumArguments(); ++i)
      function.arguments.push_back(addPort(op, argumentPort(op, i)));
    for (unsigned i = 0; i < op.getNumResults(); ++i)
      function.results.push_back(addPort(op, resultPort(op, i)));
  }
}

TensorKey PartitionedSubject::addPort(func::FuncOp function, PortAttr port) {
  if (!port || !port.isPlaced())
    throw Error(ExitCode::BadInput,
                "an argument or result of @" + function.getName().str() + " has no placed dt.port: run dt-partition");
  TensorKey key = TensorKey::of(port);
  shardings[key] = port.getStored();
  return key;
}

void PartitionedSubject::provide(const TensorKey &key, const HostTensor &whole) {
  if (auto sharding = shardings.find(key); sharding != shardings.end())
    tensors[key] = cut(key, whole, sharding->second, mesh);
}

void PartitionedSubject::run(const std::string &list) {
  if (list == function::refresh && !functions.contains(list)) // the compiler makes copies after this form
    return;
  for (StringRef name : partsOf(list, [&](StringRef name) { return functions.contains(name.str()); }))
    run(functions.at(name.str()));
}

void PartitionedSubject::run(Function &function) {
  lastRun = function.op.getName().str();
  SmallVector<HostTensors> arguments(mesh.getNumRanks());
  for (const TensorKey &key : function.arguments)
    for (auto [ofRank, piece] : llvm::zip_equal(arguments, tensors.at(key)))
      ofRank.push_back(piece);
  std::string problem;
  ScopedDiagnosticHandler handler(mesh.getContext(), [&](Diagnostic &diagnostic) { problem = diagnostic.str(); });
  FailureOr<SmallVector<HostTensors>> results = interpret(function.op, mesh, arguments);
  if (failed(results))
    throw ProgramFault("@" + lastRun + " cannot be interpreted: " + problem);
  for (auto [i, key] : llvm::enumerate(function.results))
    tensors[key] = llvm::map_to_vector(*results, [&](const HostTensors &ofRank) { return ofRank[i]; });
}

Pieces PartitionedSubject::read(const TensorKey &key) const {
  auto pieces = tensors.find(key);
  if (pieces == tensors.end())
    throw Error(ExitCode::BadInput, "the partitioned program has no " + key.describe());
  return {pieces->second, shardings.at(key), mesh};
}

std::string PartitionedSubject::explain(const TensorKey &) const { return "computed by the partitioned @" + lastRun; }

} // namespace dtc::verify
