#!/usr/bin/env python3
"""What a GPT-2 124M step keeps and what that costs: dtc by ways and limits, PyTorch with its forms of checkpointing.

    recompute.py [--torch-python PYTHON] [--build build] [--batch 4] [--tokens 1024] [--steps 2] [--rounds 3] [--limits 6] [--threads 1]

dtc: `none`, `cheap`, `regather`, `selective`, `full`, and `auto` at limits spread evenly from the least peak to that of
`none`. For each the promised peak (the arena), the process's own, and the median seconds of a step; the first step of a
run is left out. PyTorch (recompute_step.py): no checkpointing, each block, products and attention kept, and the budget
API, which promises a share of the range between `budget:0` and `compile`. f32, no dropout, AdamW. All are run once per
round, one after the other, so that a temporary slowdown of the machine affects all of them. Prints a table, and for
`auto`, at half of what `none` has more than `full`, the share of `full`'s extra time.
"""

import argparse
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
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
        """Seconds of each step but the first, and bytes of the process at its peak."""
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
        return seconds[1:], usage.ru_maxrss * 1024

    def peer(self, way):
        options = self.options
        done = subprocess.run([*self.pin, options.torch_python, ROOT / "bench/recompute_step.py", "--way", way, "--batch",
                               str(options.batch), "--tokens", str(options.tokens), "--steps", str(options.steps), "--threads",
                               str(options.threads)], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        said = json.loads(done.stdout.splitlines()[-1])
        return said["seconds"], said["peak_bytes"]


class Way:
    """A program or a peer, with the results of its runs."""

    def __init__(self, name, run, promised=0):
        self.name, self.run, self.promised = name, run, promised
        self.seconds, self.peak = [], 0

    def measure(self):
        seconds, peak = self.run()
        self.seconds += seconds
        self.peak = max(self.peak, peak)

    def median(self):
        return statistics.median(self.seconds)

    def row(self):
        said = f"{self.promised / 1e9:.3f} GB" if self.promised else "–"
        return f"| {self.name} | {said} | {self.peak / 1e9:.3f} GB | {self.median():.2f} | {min(self.seconds):.2f} |"


def compiled_ways(bench, limits):
    """Keyed by what is recomputed, and for `auto` by the share of the activations' memory that it may use."""
    def way(name, recompute, *words):
        program, promised, said = bench.compile(name.replace(" ", "-"), recompute, *words)
        return Way(f"dtc {name}{': ' + said if words else ''}", functools.partial(bench.run, program), promised)

    ways = {name: way(name, name) for name in WAYS}
    most, least = ways["none"].promised, min(each.promised for each in ways.values())
    for step in range(limits + 1):
        limit = least + (most - least) * step // limits
        ways[step / limits] = way(f"auto {limit / 1e9:.3f} GB", "auto", "--memory-limit", str(limit))
    return ways


def promise_budgets(peers):
    """A budget is a share of the memory that the compiled step takes above that of budget 0."""
    least, most = peers[BUDGETS[0]].peak, peers["compile"].peak
    for way in BUDGETS[1:]:
        peers[way].promised = least + float(way.removeprefix("budget:")) * (most - least)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch-python")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limits", type=int, default=6)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, pathlib.Path(folder))
        ways, peers = compiled_ways(bench, options.limits), {}
        if options.torch_python:
            peers = {way: Way(f"PyTorch {way}", functools.partial(bench.peer, way)) for way in PEERS + BUDGETS}
        for _ in range(options.rounds):
            for way in [*ways.values(), *peers.values()]:
                way.measure()
                print(way.row(), file=sys.stderr, flush=True)
    if peers:
        promise_budgets(peers)
    print("| | promised | process | seconds a step, median | least |\n|---|---|---|---|---|")
    for way in [*ways.values(), *peers.values()]:
        print(way.row())
    if 0.5 in ways:
        none, full, half = (ways[name].median() for name in ("none", "full", 0.5))
        print(f"\nAt half of the activations' memory `auto` takes {100 * (half - none) / (full - none):.0f}% of the extra time of `full`.")


if __name__ == "__main__":
    main()
