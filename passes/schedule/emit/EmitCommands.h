// Turns each function into a list of commands.
#pragma once

#include "passes/analysis/Stages.h"
#include "passes/lower/kernels/Kernels.h"
#include "passes/schedule/emit/Channels.h"
#include "passes/schedule/launches/JoinedLaunches.h"
#include "passes/schedule/memory/ArenaLayout.h"
#include "runtime/abi/manifest.pb.h"

namespace dtc {

void emitAxis(mlir::dt::AxisRefAttr ref, mlir::dt::MeshAttr mesh, abi::AxisRef &out);

/// What ranks meet for: each purpose has a channel of its own.
inline constexpr llvm::StringLiteral collectivePurpose = "collectives";
/// The purpose of what one rank along the pipeline sends another: those two have a channel of their own in each
/// direction, since what waits for one rank must not hold up what another waits for. Of three neighbours in a row the
/// first and the third pair never meet.
std::string transferPurpose(Route route, int64_t ranks);

/// The layers that a manifest names, in the order of their first mention.
class LayerTable {
public:
  explicit LayerTable(abi::Manifest &manifest) : manifest(manifest) {}
  uint32_t indexOf(mlir::dt::LayerAttr layer);
  /// The index among the layers of a stage.
  uint32_t indexIn(int64_t stage, mlir::dt::LayerAttr layer);

private:
  abi::Manifest &manifest;
  llvm::DenseMap<mlir::dt::LayerAttr, uint32_t> indices;
  llvm::DenseMap<std::pair<int64_t, mlir::dt::LayerAttr>, uint32_t> inStages;
};

class CommandEmitter {
public:
  CommandEmitter(mlir::ModuleOp module, LayerTable &layers, abi::Manifest &manifest);
  /// Emits the lists of one role's functions. Returns the list of each: an earlier role's if it is equal.
  mlir::FailureOr<llvm::StringMap<std::string>> emit(llvm::ArrayRef<mlir::func::FuncOp> functions, ArenaLayout &arena);

private:
  mlir::LogicalResult emitOperation(mlir::Operation *op);
  mlir::LogicalResult emitLaunch(mlir::dt::LaunchOp launch);
  mlir::LogicalResult emitJoined(llvm::ArrayRef<mlir::dt::LaunchOp> launches);
  mlir::LogicalResult emitLibraryCall(mlir::dt::LibraryOpInterface op);
  mlir::LogicalResult emitStart(mlir::dt::CollectiveOpInterface op);
  void continueBucket(mlir::Operation *part);
  void emitWait(mlir::Operation *op, uint32_t token);
  mlir::LogicalResult emitHostCopy(mlir::dt::HostCopyOpInterface op);
  void emitSend(mlir::dt::SendOp op);
  void emitReceive(mlir::dt::RecvOp op);
  void describeTransfer(mlir::Value value, mlir::dt::PortAttr port, mlir::ArrayAttr over, int64_t shift,
                        abi::Transfer &out);
  void emitAwait(mlir::dt::AwaitOp op);
  uint32_t tokenOf(mlir::dt::PortAttr port);
  std::string nameWithinLayer(llvm::StringRef name) const;
  uint32_t groupIndex(mlir::ArrayRef<mlir::dt::AxisRefAttr> axes, mlir::ArrayRef<int32_t> members,
                      llvm::StringRef purpose);
  std::string findOrKeep(abi::CommandList *emitted);

  abi::Command &addCommand(mlir::Operation *op);
  uint64_t addressOf(mlir::Value value) { return arena->spaceAddress(arena->addressOf(function, value)); }
  void addBuffer(abi::Launch &launch, mlir::Value value);
  /// `sites`: those of the launch; without any, a scalar is the site itself.
  void addScalars(abi::Launch &launch, llvm::ArrayRef<mlir::dt::LaunchScalar> scalars,
                  llvm::ArrayRef<int64_t> sites = {});
  uint32_t siteIndex(int64_t site);
  /// The index of a kernel; `count`: how many elements it computes instead of its own number.
  uint32_t kernelIndex(llvm::StringRef symbol, llvm::function_ref<void(abi::Kernel &)> describe, int64_t count = 0);
  uint32_t locationIndex(mlir::Operation *op);

  mlir::ModuleOp module;
  ArenaLayout *arena = nullptr; ///< of the role
  int64_t stage = 0;            ///< of the function
  LayerTable &layers;
  llvm::StringMap<size_t> layerNumbers; ///< of the stages' layers, in their order
  abi::Manifest &manifest;
  Kernels kernels;
  Formulas formulas;
  mlir::dt::MeshAttr mesh;
  mlir::func::FuncOp function;
  std::optional<JoinedLaunches> joined; ///< of the function
  llvm::DenseSet<mlir::Operation *> parts; ///< of the function: starts that are parts of the one before
  abi::CommandList *list = nullptr;
  /// The names of lists, by everything else that they say: of earlier roles, and of this one.
  llvm::StringMap<std::string> listsOfEarlier, listsOfRole;
  llvm::StringMap<uint32_t> kernelIndices, locationIndices, groupIndices;
  std::vector<Meeting> meetings; ///< of the groups
  /// Locations within layers: several operations share one, and making its text takes long.
  llvm::DenseMap<std::pair<mlir::Attribute, mlir::Attribute>, uint32_t> locationsKnown;
  llvm::DenseMap<std::pair<int64_t, int64_t>, uint32_t> siteIndices; ///< by stage and site
  llvm::DenseMap<mlir::Value, uint32_t> tokens;                    ///< of what is started, by its future
  llvm::DenseMap<mlir::dt::PortIdentity, uint32_t> transferTokens; ///< of what is sent and received
  uint32_t nextToken = 0;                                          ///< of the role
};

} // namespace dtc
