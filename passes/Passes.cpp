// Registration of every pass and phase pipeline.
#include "passes/Passes.h"

void dtc::registerDtcPasses() {}
