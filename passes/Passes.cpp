// Registration of every pass and phase pipeline.
#include "passes/Passes.h"
#include "passes/pipelines/How.h"
#include "passes/pipelines/What.h"
#include "passes/pipelines/When.h"

void dtc::registerDtcPasses() {
  registerWhat();
  registerWhen();
  registerHow();
}
