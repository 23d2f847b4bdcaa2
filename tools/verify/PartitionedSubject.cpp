#include "tools/verify/PartitionedSubject.h"

#include "dialect/IR/Roles.h"
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
      function.arguments.push_back(addPort(op, op.getArgAttrDict(i)));
    for (unsigned i = 0; i < op.getNumResults(); ++i)
      function.results.push_back(addPort(op, op.getResultAttrDict(i)));
  }
}

TensorKey PartitionedSubject::addPort(func::FuncOp function, DictionaryAttr attributes) {
  auto get = [&](StringRef name) { return attributes ? attributes.getAs<StringAttr>(name) : nullptr; };
  auto sharding = attributes ? attributes.getAs<ShardingAttr>("dt.sharding") : nullptr;
  if (!get(roleAttr) || !get(nameAttr) || !sharding)
    throw Error(ExitCode::BadInput, "an argument or result of @" + function.getName().str() +
                                        " lacks dt.role, dt.name or dt.sharding: run dt-partition");
  TensorKey key(get(roleAttr).str(), get(nameAttr).str());
  shardings[key] = sharding;
  return key;
}

void PartitionedSubject::provide(const TensorKey &key, const HostTensor &whole) {
  if (auto sharding = shardings.find(key); sharding != shardings.end())
    tensors[key] = cut(key, whole, sharding->second, mesh);
}

void PartitionedSubject::run(const std::string &list) {
  Function &function = functions.at(list == "micro_first" ? function::micro.str() : list);
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
    throw Error(ExitCode::BadInput, "the partitioned program has no " + describe(key));
  return {pieces->second, shardings.at(key), mesh};
}

std::string PartitionedSubject::explain(const TensorKey &) const { return "computed by the partitioned @" + lastRun; }

} // namespace dtc::verify
