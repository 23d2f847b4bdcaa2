#!/usr/bin/env python3
"""Whether the demo's model learns with PipeDream in 1.3 times the steps that it takes synchronously.

    pipedream.py [--build build] [--steps 300] [--only together,delayed] [--text /usr/share/dictd/jargon.dict.dz]

Model, text and settings are the demo's (scripts/demo), except that the head and the embedding are two parameters, as
PipeDream needs them to be. With N steps (`--steps`) and the demo's learning rate, 1e-3 after 50 steps of warm-up:

    together      1f1b in two stages, two micro-batches, the demo's clip_norm
    unclipped     the same with clip_norm = 0
    steady        1.3 N steps of PipeDream in two stages: one micro-batch, nesterov = 1, and clip_norm = 0.2, by which
                  PipeDream clips each layer by itself
    four-steady   the same in four stages
    delayed       as steady, but with nesterov = 0 and without clipping
    clipped       as steady, but with nesterov = 0
    ahead         as steady, but without clipping
    long-warm-up  as delayed, with 200 steps of warm-up
    low-rate      the same as delayed, with the learning rate 3e-4
    four-stages   the same as low-rate, in four stages

The learning rate falls to the demo's minimum over the steps of each run. No run is evaluated before its end, because
PipeDream's steps would end for it. Prints the held-out loss as soon as a run ends, and then a table with that loss, the
steps divided by N, and the differences to the losses of `together` and `unclipped`. A run keeps the bound of 1.3 if its
difference to `together` is not above 0. Losses do not depend on what else runs on the machine. By the demo's speed, all
rows take about 18 minutes on two idle cores.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import shutil
import subprocess
import tempfile
import time

from pipelines import ROOT, machine

MODEL, SETTINGS = ROOT / "test/e2e/pipedream/gpt-untied", ROOT / "examples/gpt-small/train.toml"
NOT_FINITE = 5  # dtc's exit code (docs/running.md)
TEXT = pathlib.Path("/usr/share/dictd/jargon.dict.dz")  # of Debian's package dict-jargon
MORE = 13, 10  # steps of PipeDream for so many synchronous ones


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    timetable: str
    stages: int = 2
    rate: str = "1e-3"
    warm_up: int = 50
    clip_norm: float = 0
    nesterov: int = 0

    def steps(self, of_synchronous):
        return of_synchronous * MORE[0] // MORE[1] if self.timetable == "pipedream" else of_synchronous

    def words(self, of_synchronous):
        """Of `dtc compile`."""
        settings = {"steps": self.steps(of_synchronous), "learning_rate": self.rate, "warmup_steps": self.warm_up,
                    "clip_norm": self.clip_norm, "nesterov": self.nesterov, "eval_every": 0,
                    "accumulation": 1 if self.timetable == "pipedream" else 2}
        return ["--mesh", f"pp={self.stages}", "--timetable", self.timetable,
                *(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))]


ROWS = [Row("together", "1f1b", clip_norm=1),
        Row("unclipped", "1f1b"),
        Row("steady", "pipedream", clip_norm=0.2, nesterov=1),
        Row("four-steady", "pipedream", stages=4, clip_norm=0.2, nesterov=1),
        Row("delayed", "pipedream"),
        Row("clipped", "pipedream", clip_norm=0.2),
        Row("ahead", "pipedream", nesterov=1),
        Row("long-warm-up", "pipedream", warm_up=200),
        Row("low-rate", "pipedream", rate="3e-4"),
        Row("four-stages", "pipedream", stages=4, rate="3e-4")]


def held_out(dtc, row, steps, corpus, folder):
    """The loss at the end; not a number if the run ended early because a loss was not finite."""
    program, out = folder / row.name, folder / f"{row.name}.out"
    subprocess.run([dtc, "compile", MODEL, "--config", SETTINGS, *row.words(steps), "-o", program], check=True,
                   stdout=subprocess.DEVNULL)
    code = subprocess.run([dtc, "run", program, "--data", corpus, "--out", out, "--threads", "1"],
                          stdout=subprocess.DEVNULL).returncode
    if code == NOT_FINITE:
        return math.nan
    if code:
        raise SystemExit(f"{row.name}: dtc run ended with {code}")
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    loss, = [line["validation_metrics/loss"] for line in lines if "validation_metrics/loss" in line]
    shutil.rmtree(out)  # with its checkpoint
    return loss


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--steps", type=int, default=300, help="of a synchronous run")
    parser.add_argument("--only", default=",".join(row.name for row in ROWS), help="rows, separated by commas")
    parser.add_argument("--text", type=pathlib.Path, default=TEXT)
    args = parser.parse_args()
    chosen = args.only.split(",")
    if unknown := set(chosen) - {row.name for row in ROWS}:
        parser.error(f"--only {','.join(sorted(unknown))}: the rows are {', '.join(row.name for row in ROWS)}")
    if not args.text.exists():
        parser.error(f"--text {args.text} is not there: install Debian's package dict-jargon, or name another text")
    dtc, losses = args.build.resolve() / "bin/dtc", {}
    print(f"{machine(args.build.resolve())}\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="dtc-bench-") as folder:
        corpus = pathlib.Path(folder) / "corpus.bin"
        subprocess.run([dtc, "data", "pack", args.text, "-o", corpus], check=True, stdout=subprocess.DEVNULL)
        rows = [row for row in ROWS if row.name in chosen]
        for row in rows:
            begin = time.monotonic()
            losses[row.name] = held_out(dtc, row, args.steps, corpus, pathlib.Path(folder))
            print(f"{row.name}: {losses[row.name]:.4f}, {time.monotonic() - begin:.0f} s", flush=True)
    report(rows, args.steps, losses)


def report(rows, steps, losses):
    print("\n| run | steps | divided by N | held-out loss | minus together | minus unclipped |\n|---|---|---|---|---|---|")
    for row in rows:
        taken, loss = row.steps(steps), losses[row.name]
        over = [f"{loss - losses[name]:+.4f}" if name in losses else "" for name in ("together", "unclipped")]
        print(f"| {row.name} | {taken} | {taken / steps:.2f} | {loss:.4f} | {' | '.join(over)} |")


if __name__ == "__main__":
    main()
