// Registration of every pass and phase pipeline, for tools that name them on a command line.
#pragma once

namespace dtc {

/// Registers all passes of passes/ and the phase pipelines. Each phase's passes are declared in its own Passes.td and
/// registered by the function that mlir-tblgen makes from it.
void registerDtcPasses();

} // namespace dtc
