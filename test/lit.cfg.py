# Structure tests: every .mlir file below test/ says in RUN lines how it is run and in CHECK lines what it expects.
# Substitutions: %S and %s (lit's own), %examples (the shipped model files),
# %python (this Python).
import os
import sys

import lit.formats

config.name = "dtc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.join(config.dtc_source_dir, "test")
config.test_exec_root = os.path.join(config.dtc_binary_dir, "test", "lit")

path = [os.path.join(config.dtc_binary_dir, "bin"), config.llvm_tools_dir, config.environment.get("PATH", "")]
config.environment["PATH"] = os.pathsep.join(path)
config.substitutions.append(("%examples", os.path.join(config.dtc_source_dir, "examples")))
config.substitutions.append(("%python", sys.executable))
