// Registration of every pass and phase pipeline.
#include "passes/Passes.h"
#include "passes/pipelines/What.h"

void dtc::registerDtcPasses() { registerWhat(); }
