#!/usr/bin/env python3
"""From the start of a compiled program to the start of its first step: GPT-2 124M, seeded initial weights.

    start_up.py [--build build] [--rounds 5]

The time from exec to the end of the first step, minus the step itself as the program measures it: mapping the program,
checking the data, allocating the arena, initial weights, compiling nothing. Prints the median for one rank with two
threads and for dp=2 with one thread each.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

from compare_gpt2_step import ROOT, write_tokens
from data_parallel import compile_for


def seconds_to_first_step(build, folder, program, ranks):
    out = folder / f"out-{ranks}"
    shutil.rmtree(out, ignore_errors=True) # dtc refuses to overwrite another run's results
    begin = time.monotonic()
    run = subprocess.Popen([build / "bin/dtc", "run", "-n", str(ranks), program, "--data", folder / "tokens.bin", "--steps",
                            "1", "--set", "eval_batches=1", "--out", out], stdout=subprocess.PIPE, text=True)
    for line in run.stdout:
        if line.startswith("step 1/"):
            end = time.monotonic()
            break
    run.stdout.read()
    if run.wait() != 0:
        raise SystemExit("start_up: the program failed")
    first = json.loads((out / "metrics.jsonl").read_text().splitlines()[0])
    return end - begin - first["time_metrics/end_to_end(s)"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    build = args.build.resolve()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_tokens(folder / "tokens.bin")
        for ranks in (1, 2):
            program = compile_for(build, folder, ranks)
            times = [seconds_to_first_step(build, folder, program, ranks) for _ in range(args.rounds)]
            print(f"dp={ranks}: " + ", ".join(f"{t:.2f}" for t in times) + f" s; median {statistics.median(times):.2f} s",
                  flush=True)


if __name__ == "__main__":
    main()
