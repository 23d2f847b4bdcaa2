"""Trains the prepared programs on a GPU, several ranks sharing it, and compares their losses with the processor's."""

import fnmatch
import shutil
import sys
import time

import machine
from cases import losses_of, read_cases

TOLERANCE = {"f32": 1e-5, "bf16": 2e-3}  # relative, of each step's loss; docs/cuda.md says why
LONGEST = 120  # seconds of a case: one that hangs leaves time for the others


class Clock:
    """The rest of a command's time."""

    def __init__(self, minutes):
        self.end = time.monotonic() + 60 * minutes

    def left(self):
        return self.end - time.monotonic()


def attention_problem(case, words, has_cudnn):
    """What is wrong with the choice of attention kernels; "" for nothing. A case that should have used cuDNN's and
    silently ran others would prove nothing."""
    if not case.may_be_fused():
        return ""
    if case.hides:
        return "" if "attention runs in the program's own kernels" in words else "cuDNN was found although it was hidden"
    if not has_cudnn:
        return ""
    if " is cuDNN's" in words and " is the program's own" not in words:
        return ""
    return "cuDNN is there, and attention did not run in it"


def check(case, folder, environment, flags, **more):
    """The result of a case: "ok" or what is wrong, and the largest relative difference of a loss."""
    try:
        got, words = losses_of(folder / case.program(), case.ranks(), folder, "--share-gpu", *flags, environment=environment, **more)
    except RuntimeError as problem:
        return str(problem), float("nan")
    if len(got) != len(case.losses):
        return f"{len(got)} steps, not {len(case.losses)}", float("nan")
    worst = max(abs(a - b) / abs(b) for a, b in zip(got, case.losses))
    if not worst <= TOLERANCE[case.compute]:
        return "losses differ", worst
    return attention_problem(case, words, machine.finds("libcudnn.so.9", environment)) or "ok", worst


def chosen(folder, patterns):
    every = read_cases(folder)
    found = [case for case in every if not patterns or any(fnmatch.fnmatch(case.name, each) for each in patterns)]
    if not found:
        sys.exit(f"gpu-check: no case is called {' or '.join(patterns)}; there are {', '.join(each.name for each in every)}")
    return found


def run(folder, logs, python, only, flags, minutes, prefix=(), longest=LONGEST):
    """Runs cases until the time is over; returns the exit code. Prints a row when its case has ended."""
    clock, rows = Clock(minutes), []
    logs.mkdir(parents=True, exist_ok=True)
    environments = {False: machine.environment(python), True: machine.environment(python, hide=folder / "hidden")}
    print("| case | | largest difference of a loss | s |\n|---|---|---|---|", flush=True)
    for case in chosen(folder, only):
        begin, result, worst = time.monotonic(), "not run: the time is over", float("nan")
        if clock.left() > 5:
            result, worst = check(case, folder, environments[case.hides], flags, logs=logs / case.name, prefix=prefix,
                                  timeout=min(clock.left(), longest))
        rows.append(result)
        print(f"| {case.name} | {result} | {worst:.1e} | {time.monotonic() - begin:.1f} |", flush=True)
    failed = sum(result != "ok" for result in rows)
    print(f"\n{len(rows) - failed} of {len(rows)} as on the processor; every rank's words are in {logs}")
    return 1 if failed else 0


def sanitizer(folder, logs, python, only, flags, minutes):
    """The same under compute-sanitizer, which finds accesses beyond a buffer and races in shared memory."""
    program = shutil.which("compute-sanitizer")
    if not program:
        sys.exit("gpu-check: compute-sanitizer is not in PATH; it comes with the CUDA toolkit")
    # Errors of calls are left to the program, which asks for functions that may be missing.
    prefix = [program, "--target-processes", "all", "--report-api-errors", "no", "--error-exitcode", "9"]
    patience = ["--start-timeout", "400", "--watchdog", "400"]  # everything is many times slower
    return run(folder, logs, python, only or ["gpt-small-ddp"], flags or patience, minutes, prefix, longest=60 * minutes)
