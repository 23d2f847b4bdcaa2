"""The machine with the GPU: where NVIDIA's libraries are, and which of them a program finds."""

import os
import subprocess
import sys
from pathlib import Path

# For a Python environment: PyTorch brings cuBLASLt, cuDNN and NCCL as packages, and often they are nowhere else.
FOLDERS = """
import glob, sys
print(*sorted({folder for each in sys.path if each for folder in glob.glob(each + "/nvidia/*/lib")}), sep="\\n")
"""


def library_folders(python):
    done = subprocess.run([*python, "-c", FOLDERS], capture_output=True, text=True)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


def environment(python, hide=None):
    """An environment in which programs find what PyTorch finds, wherever it is. `hide`: a folder that gets an empty
    cuDNN, which the loader meets first and rejects."""
    folders = [os.environ["LD_LIBRARY_PATH"]] if os.environ.get("LD_LIBRARY_PATH") else []
    folders += library_folders(python)
    if hide:
        hide.mkdir(exist_ok=True)
        (hide / "libcudnn.so.9").write_bytes(b"")
        folders.insert(0, str(hide))
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(folders)}


def finds(library, environment):
    """Whether a program can load the library."""
    command = [sys.executable, "-c", f"import ctypes; ctypes.CDLL({library!r})"]
    return subprocess.run(command, env=environment, capture_output=True).returncode == 0


def probe(python, folder, logs):
    """Prints what there is; the exit code is 1 where something is missing that every program needs."""
    here = environment(python)
    print("LD_LIBRARY_PATH:", here["LD_LIBRARY_PATH"] or "(empty)")
    words = subprocess.run([sys.executable, Path(__file__).parent / "probe.py", *python], env=here, text=True,
                           stdout=subprocess.PIPE)
    program = min(each for each in folder.iterdir() if os.access(each, os.X_OK) and each.is_file())
    starts = subprocess.run([program, "--help"], env=here, capture_output=True, text=True)
    line = f"a program starts: {'yes' if starts.returncode == 0 else 'NO: ' + starts.stderr.strip()}"
    print(words.stdout + line)
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "probe").write_text(words.stdout + line + "\n")
    return 1 if words.returncode or starts.returncode else 0
