#!/usr/bin/env python3
"""What a planner's questions cost beside compiling: GPT-3 175B, 96 layers, dp=512, tp=8.

    plan.py [--build build] [--before BUILD] [--rounds 5] [--orders 50]

`--before` names a build whose `dtc compile` is the measure, for instance of commit 406e13e:

    git worktree add ../before 406e13e && cd ../before && cmake -G Ninja -B build && ninja -C build dtc dtc-program

Without it the build itself is. Both run alternately, and all numbers are seconds of the processor in user mode: other
work on the machine makes them larger, but not by much. `plan_bench` (bench/plan/plan.cpp, `ninja -C BUILD plan_bench`)
asks the planner.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL, MESH, BATCH, SEQUENCE = ROOT / "examples/gpt3-175b", "dp=512,tp=8", 512, 2048


def user_seconds(words):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True,
                          env={**os.environ, "MIMALLOC_ALLOW_DECOMMIT": "0"})
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--orders", type=int, default=50)
    options = parser.parse_args()
    compiled, asked = [], []
    with tempfile.TemporaryDirectory() as work:
        for _ in range(options.rounds):
            words = [(options.before or options.build) / "bin/dtc", "compile", MODEL, "--mesh", MESH]
            words += ["--set", f"global_batch={BATCH}", "--set", f"sequence_length={SEQUENCE}"]
            compiled.append(user_seconds([*words, "-o", pathlib.Path(work) / "program"])[0])
            asked.append(json.loads(user_seconds([options.build / "bench/plan/plan_bench", MODEL, MESH, BATCH, SEQUENCE,
                                                  options.orders])[1]))
    base = statistics.median(compiled)
    print(f"load of the machine: {os.getloadavg()[0]:.1f}; {asked[0]['commands']} commands, "
          f"{asked[0]['classes']} classes moved")
    print("| | user s, median | least | most | of compiling |\n|---|---|---|---|---|")
    rows = {"`dtc compile`" + (" of before" if options.before else ""): compiled}
    for name, key in (("first plan, from the model's file", "first"), ("of that: reading the model", "load"),
                      ("of that: *what* and *where*, once for each planner", "place"),
                      ("of that: lowering a clone, and planning it", "lower"),
                      ("other gathers: lowered again", "gathers"),
                      ("another order", "again"), ("the slowest of these", "again_most")):
        rows[name] = [each[key] for each in asked]
    for name, values in rows.items():
        print(f"| {name} | {statistics.median(values):.4f} | {min(values):.4f} | {max(values):.4f} | "
              f"{statistics.median(values) / base:.3f} |")


if __name__ == "__main__":
    main()
