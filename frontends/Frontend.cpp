// Which frontend reads a path.
#include "frontends/Frontend.h"

#include "dialect/IR/Ops.h"
#include "frontends/huggingface/Huggingface.h"
#include "frontends/text/Text.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/support/error.h"

#include <filesystem>

using namespace dtc;

void dtc::registerFrontendDialects(mlir::DialectRegistry &registry) {
  registry.insert<mlir::dt::DTDialect, mlir::func::FuncDialect>();
}

Model dtc::load(const std::string &path, const ModelOptions &options, mlir::MLIRContext &context) {
  context.loadDialect<mlir::dt::DTDialect, mlir::func::FuncDialect>();
  std::error_code unreadable;
  std::filesystem::file_status status = std::filesystem::status(path, unreadable);
  if (!std::filesystem::exists(status))
    throw Error(ExitCode::BadInput, path + ": no such model; give a directory with a config.json or a .mlir file");
  if (std::filesystem::is_directory(status))
    return huggingface::load(path, options, context);
  if (std::filesystem::path(path).extension() == ".mlir")
    return text::load(path, options, context);
  if (!std::filesystem::is_regular_file(status))
    throw Error(ExitCode::BadInput, path + ": is neither a directory nor a regular file");
  throw Error(ExitCode::BadInput,
              path + ": is not a model; give the directory that holds the config.json, or a file named *.mlir");
}

Model dtc::loadConfig(const std::string &text, const std::string &name, const ModelOptions &options,
                      mlir::MLIRContext &context) {
  context.loadDialect<mlir::dt::DTDialect, mlir::func::FuncDialect>();
  return huggingface::loadConfig(text, name, options, context);
}
