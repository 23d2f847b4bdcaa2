#!/usr/bin/env python3
"""Two-way data parallelism on two cores against one rank with half the batch: GPT-2 124M, 4x256 tokens per rank, f32.

    data_parallel.py [--build build] [--pairs 5] [--steps 5]

Runs the two alternately. Efficiency is the time of a step on one rank (core 0) over that on two ranks (cores 0 and 1,
twice the tokens): 1 would be perfect. Prints each pair and the median. The all-reduce moves 498 MB of gradients a step.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

from compare_gpt2_step import ROOT, write_tokens


def compile_for(build, folder, ranks):
    program = folder / f"gpt2-{ranks}"
    subprocess.run([build / "bin/dtc", "compile", ROOT / "examples/gpt2", "--mesh", f"dp={ranks}", "--set",
                    f"global_batch={4 * ranks}", "--set", "sequence_length=256", "--set", "dropout=0", "-o", program],
                   check=True, stdout=subprocess.DEVNULL)
    return program


def seconds_per_step(build, folder, program, ranks, steps):
    out = folder / f"out-{ranks}"
    subprocess.run(["taskset", "-c", "0" if ranks == 1 else "0,1", build / "bin/dtc", "run", "-n", str(ranks), program,
                    "--data", folder / "tokens.bin", "--steps", str(steps), "--threads", "1", "--set", "eval_batches=1",
                    "--out", out], check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    times = [line["time_metrics/end_to_end(s)"] for line in lines if "time_metrics/end_to_end(s)" in line]
    return statistics.median(times[2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    build = args.build.resolve()
    efficiencies = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_tokens(folder / "tokens.bin")
        programs = {ranks: compile_for(build, folder, ranks) for ranks in (1, 2)}
        for pair in range(args.pairs):
            one, two = (seconds_per_step(build, folder, programs[ranks], ranks, args.steps) for ranks in (1, 2))
            efficiencies.append(one / two)
            print(f"pair {pair + 1}: one rank {one:.3f} s, two ranks {two:.3f} s, efficiency {one / two:.3f}", flush=True)
    print(f"median efficiency {statistics.median(efficiencies):.3f}")


if __name__ == "__main__":
    main()
