#!/usr/bin/env python3
"""What a GPT-2 124M step keeps and what that costs: dtc by ways and limits, PyTorch's checkpointing at its points.

    recompute.py [--torch-python PYTHON] [--build build] [--batch 4] [--tokens 1024] [--steps 3] [--limits 6] [--threads 1]

dtc: `none`, `cheap`, `regather`, `selective`, `full`, and `auto` at limits evenly from the least peak to that of `none`. Of each the promised
peak (the arena), the process's own, and the median seconds of a step; the first is left out. PyTorch (recompute_step.py): nothing, each
block, products and attention kept, and the budget API, which promises a share of what lies between `budget:0` and `compile`. f32, no dropout, AdamW. Prints a table, and for `auto` at half of what `none` has more than
`full` the share of `full`'s extra time.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

from compare_gpt2_step import PIN, ROOT, write_tokens

WAYS = ["none", "cheap", "regather", "selective", "full"]
PEERS = ["none", "full", "selective", "compile"]
BUDGETS = ["budget:0", "budget:0.25", "budget:0.5", "budget:0.75"]


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.dtc = options.build.resolve() / "bin/dtc"
        self.pin = PIN if options.threads == 1 else []
        write_tokens(folder / "tokens.bin", count=200000)

    def compile(self, name, recompute, *words):
        program, options = self.folder / name, self.options
        said = subprocess.run([self.dtc, "compile", ROOT / "examples/gpt2", "--mesh", "dp=1", *words, "--set", "dropout=0", "--set",
                               f"global_batch={options.batch}", "--set", f"sequence_length={options.tokens}", "--set",
                               f"recompute={recompute}", "-o", program], check=True, capture_output=True, text=True)
        role, = json.loads(subprocess.run([self.dtc, "inspect", program, "--json"], check=True, capture_output=True,
                                          text=True).stdout)["roles"]
        return program, role["arena_bytes"], (said.stdout + said.stderr).partition("recompute: ")[2].partition(": peak")[0]

    def run(self, program):
        """Seconds of a step, and bytes of the process at its peak."""
        out = self.folder / "out"
        subprocess.run(["rm", "-rf", out], check=True)
        process = subprocess.Popen([*self.pin, program, "--data", self.folder / "tokens.bin", "--steps", str(self.options.steps + 1),
                                    "--threads", str(self.options.threads), "--set", "eval_every=0", "--out", out],
                                   stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"{program} failed")
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        seconds = [line["time_metrics/end_to_end(s)"] for line in lines if "time_metrics/end_to_end(s)" in line]
        return statistics.median(seconds[1:]), usage.ru_maxrss * 1024

    def peer(self, way):
        options = self.options
        done = subprocess.run([*self.pin, options.torch_python, ROOT / "bench/recompute_step.py", "--way", way, "--batch",
                               str(options.batch), "--tokens", str(options.tokens), "--steps", str(options.steps), "--threads",
                               str(options.threads)], capture_output=True, text=True)
        return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def row(name, promised, seconds, peak):
    said = f"{promised / 1e9:.3f} GB" if promised else "–"
    print(f"| {name} | {said} | {peak / 1e9:.3f} GB | {seconds:.3f} |", flush=True)


def run_peers(bench):
    peaks = {}
    for way in PEERS + BUDGETS:
        result = bench.peer(way)
        if not result:
            print(f"| PyTorch {way} | – | failed | – |", flush=True)
            continue
        peaks[way] = result["peak_bytes"]
        promised = 0
        if way in BUDGETS[1:] and {"compile", BUDGETS[0]} <= peaks.keys():
            least, share = peaks[BUDGETS[0]], float(way.removeprefix("budget:"))
            promised = least + share * (peaks["compile"] - least)
        row(f"PyTorch {way}", promised, result["seconds"], result["peak_bytes"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch-python")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--limits", type=int, default=6)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    print("| | promised | process | seconds a step |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        bench, found = Bench(options, pathlib.Path(folder)), {}
        for way in WAYS:
            program, promised, _ = bench.compile(way, way)
            found[way] = (promised, *bench.run(program))
            row(f"dtc {way}", found[way][0], *found[way][1:])
        most, least = found["none"][0], min(each[0] for each in found.values())
        for step in range(options.limits + 1):
            limit = least + (most - least) * step // options.limits
            program, promised, text = bench.compile(f"auto{step}", "auto", "--memory-limit", str(limit))
            seconds, peak = bench.run(program)
            row(f"dtc auto, limit {limit / 1e9:.3f} GB: {text}", promised, seconds, peak)
            if 2 * step == options.limits:
                half = seconds
        if options.torch_python:
            run_peers(bench)
        if options.limits % 2 == 0:
            share = (half - found["none"][1]) / (found["full"][1] - found["none"][1])
            print(f"\nAt half of the activations' memory `auto` takes {100 * share:.0f}% of the extra time of `full`.")


if __name__ == "__main__":
    main()
