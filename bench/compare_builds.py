#!/usr/bin/env python3
"""Steps of the same model by two builds of dtc, alternately: did a change make anything slower?

    compare_builds.py --before BUILD [--build build] [--rounds 7] [--only NAME ...]

Each build runs the program that it has compiled, with one thread per rank; a single rank is pinned to one core. A
process's step is the median of its steps without the first two; a build's is the median over its processes. There are
many short processes, each with a new copy of the program, since a process keeps the physical pages that it got, and a
file keeps those of its code: these alone make one process 5% faster or slower than the next.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import tempfile

from compare_gpt2_step import PIN, ROOT
from compare_replicas import write_tokens

GPT2 = {"global_batch": 4, "sequence_length": 64, "dropout": 0}
PAIR = {**GPT2, "global_batch": 8}
SMALL = {"global_batch": 16, "sequence_length": 128}
CASES = {  # model, mesh, strategy, settings, steps
    "gpt2 f32 4x64": ("gpt2", "dp=1", None, GPT2, 6),
    "gpt2 f32 4x256": ("gpt2", "dp=1", None, {**GPT2, "sequence_length": 256}, 4),
    "gpt2 bf16 4x64": ("gpt2", "dp=1", None, {**GPT2, "compute": "bf16"}, 6),
    "gpt2 bf16 4x256": ("gpt2", "dp=1", None, {**GPT2, "sequence_length": 256, "compute": "bf16"}, 5),
    "gpt2 f16 4x64": ("gpt2", "dp=1", None, {**GPT2, "compute": "f16", "gradients": "f16"}, 6),
    "gpt2 f32 dp=2": ("gpt2", "dp=2", None, PAIR, 6),
    "gpt2 bf16 dropout dp=2": ("gpt2", "dp=2", None, {**PAIR, "compute": "bf16", "dropout": 0.1}, 6),
    "gpt2 zero3": ("gpt2", "dp=2", "zero3", PAIR, 6),
    "gpt2 zero3 bf16 accumulation": ("gpt2", "dp=2", "zero3", {**PAIR, "compute": "bf16", "gradients": "bf16", "accumulation": 2}, 6),
    "llama-small megatron-sp tp=2": ("llama-small", "tp=2", "megatron-sp", SMALL, 40),
    "gpt-small dp=2": ("gpt-small", "dp=2", None, SMALL, 40),
}


def compile_case(build, program, model, mesh, strategy, settings):
    words = [build / "bin/dtc", "compile", ROOT / "examples" / model, "--mesh", mesh, "-o", program]
    words += ["--strategy", strategy] if strategy else []
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def step_seconds(build, program, folder, mesh, steps):
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    fresh = folder / "fresh"
    fresh.unlink(missing_ok=True)
    shutil.copy(program, fresh)
    start = [*PIN, fresh] if mesh == "dp=1" else ["taskset", "-c", "0,1", build / "bin/dtc", "run", fresh]
    subprocess.run([*start, "--data", folder / "tokens.bin", "--steps", str(steps), "--threads", "1", "--set", "eval_batches=1",
                    "--out", out], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return statistics.median([line["time_metrics/end_to_end(s)"] for line in lines if "time_metrics/end_to_end(s)" in line][2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), metavar="NAME", help=", ".join(CASES))
    args = parser.parse_args()
    builds = {"before": args.before.resolve(), "now": args.build.resolve()}
    print("| step | before s | now s | ratio |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="dtc-bench-") as folder:
        folder = pathlib.Path(folder)
        write_tokens(folder / "tokens.bin")
        for case in args.only:
            model, mesh, strategy, settings, steps = CASES[case]
            for name, build in builds.items():
                compile_case(build, folder / name, model, mesh, strategy, settings)
            seconds = {name: [] for name in builds}
            for round_ in range(args.rounds):
                for name in list(builds)[::1 if round_ % 2 else -1]:
                    seconds[name].append(step_seconds(builds[name], folder / name, folder, mesh, steps))
            before, now = (statistics.median(values) for values in seconds.values())
            print(f"| {case} | {before:.4f} | {now:.4f} | {now / before:.3f} |", flush=True)


if __name__ == "__main__":
    main()
