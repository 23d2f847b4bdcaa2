// Registration of every pass and phase pipeline.
#include "passes/Passes.h"
#include "passes/pipelines/How.h"
#include "passes/pipelines/Keep.h"
#include "passes/pipelines/What.h"
#include "passes/pipelines/When.h"
#include "passes/pipelines/Where.h"

void dtc::registerDtcPasses() {
  registerWhat();
  registerWhere();
  registerKeep();
  registerHow();
  registerWhen();
}
