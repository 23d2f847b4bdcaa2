"""Run by machine.probe(), in the environment of programs: prints what the loader finds, one line each.

The exit code is 1 where the driver, a GPU or cuBLASLt is missing: no program runs without these.
"""

import ctypes
import os
import platform
import shutil
import subprocess
import sys

# Where Triton looks for it.
HEADERS = """
import os, sysconfig
print("there" if os.path.exists(sysconfig.get_path("include", "posix_prefix") + "/Python.h") else "NONE")
"""


def version_of(library, function, returns_it):
    """A library's version, or why it cannot be loaded. Some functions return it, others write it."""
    try:
        found = getattr(ctypes.CDLL(library), function)
    except (OSError, AttributeError) as problem:
        return None, str(problem)
    if returns_it:
        found.restype = ctypes.c_size_t
        return found(), ""
    value = ctypes.c_int()
    return (value.value, "") if found(ctypes.byref(value)) == 0 else (None, f"{function} failed")


def gpus():
    """How many GPUs the driver shows, or why not."""
    try:
        driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    except OSError as problem:
        return 0, str(problem)
    result = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    return count.value, f"the driver says error {result}" if result else ""


def output_of(*command):
    if not shutil.which(command[0]):
        return "no such program"
    done = subprocess.run(command, capture_output=True, text=True)
    return (done.stdout or done.stderr).strip().replace("\n", "; ")


def main():
    count, problem = gpus()
    print(f"GPUs: {problem or count}")
    print("nvidia-smi:", output_of("nvidia-smi", "--query-gpu=name,memory.total,driver_version,mig.mode.current",
                                   "--format=csv,noheader"))
    missing = count == 0
    libraries = {}
    for name, function, returns_it in [("libcuda.so.1", "cuDriverGetVersion", False), ("libcublasLt.so.13", "cublasLtGetVersion", True),
                                       ("libcublasLt.so.12", "cublasLtGetVersion", True), ("libcudnn.so.9", "cudnnGetVersion", True),
                                       ("libnccl.so.2", "ncclGetVersion", False)]:
        libraries[name], why = version_of(name, function, returns_it)
        print(f"{name}: {libraries[name] if libraries[name] else 'NONE: ' + why}")
    missing = missing or not (libraries["libcublasLt.so.13"] or libraries["libcublasLt.so.12"])
    shm = os.statvfs("/dev/shm")
    print(f"/dev/shm: {shm.f_bavail * shm.f_frsize / 2**20:.0f} MiB free")
    print(f"processor: {os.cpu_count()} cores; {platform.libc_ver()[0]} {platform.libc_ver()[1]}; Linux {platform.release()}")
    print("compute-sanitizer:", shutil.which("compute-sanitizer") or "none")
    print("PyTorch:", output_of(*sys.argv[1:], "-c", "import torch; print(torch.__version__, torch.cuda.is_available())"))
    print("for torch.compile, a C compiler:", os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang") or "NONE")
    print("for torch.compile, Python.h:", output_of(*sys.argv[1:], "-c", HEADERS))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
