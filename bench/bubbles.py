#!/usr/bin/env python3
"""What the ranks of a pipeline wait in a step, measured and predicted, and how much faster zbv is than 1F1B.

    bubbles.py [--build build] [--cluster FILE] [--timetables 1f1b,interleaved,zb-h1,zbv] [--rounds 3] [--steps 7]
               [--layers 4] [--width 1024] [--heads 16] [--vocabulary 1024] [--batch 2] [--tokens 128]
               [--micro-batches 8]

A GPT-2 of gpt2-medium's width as a pipeline of two ranks on two cores, one thread each (pipelines.py). The machine is
calibrated first (`dtc calibrate`, about a minute; nothing else should run), or FILE is a cluster file of it. All
programs are predicted before any of them runs. Then each runs once a round, every other round backwards. The last two
steps of a run are traced. Of the others, without the first two, the median is the run's step.

A step lasts from the first rank's begin to the last rank's end. A rank's wait is the sum of the waits in its trace,
plus the time by which it begins later and ends earlier. Waits include the time in which data moves, so the prediction
is `idle` plus `exposed` of `dtc simulate`. Both are shares of the step. The last column is the difference to `dtc
simulate --profile`, in which kernels take as long as they took in the first round: it does not depend on calibrated
kernels.

Prints the medians over the rounds for each timetable: the step and its prediction; the share that ranks wait, measured
and predicted, as a mean and for each rank; measured minus predicted in percentage points (bound 3, goal 1). Then 1F1B's
step divided by each other timetable's. For zbv the bound is 1.06 and the goal 1.10. With equal passes the ratio is
(m + p - 1) / m where steps overlap: 1.125 for p = 2 and m = 8. The table also has the ratio of single steps.

`zbv, overlapping` is zbv with --overlap-steps. Its steps are not apart, so it has no waits and is in the second table
only. Its step is predicted by `dtc inspect --cluster`.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

from pipelines import (ROOT, WARM_UP, Pipelines, add_sizes, alternately, check_sizes, ideal, machine, size_words,
                       step_seconds)

TIMETABLES = ["1f1b", "interleaved", "zb-h1", "zbv"]
RANKS = 2
TRACED = 2  # steps, the last ones


def waits_of(trace):
    """The share of the traced steps that each rank waits. All ranks meet between two steps."""
    slices = [event for event in json.loads(trace.read_text())["traceEvents"] if event.get("ph") == "X"]
    length, waits = 0.0, [0.0] * RANKS
    for name in {event["name"] for event in slices if event["cat"] == "step"}:
        spans = {e["pid"]: (e["ts"], e["ts"] + e["dur"]) for e in slices if e["cat"] == "step" and e["name"] == name}
        begin, end = min(span[0] for span in spans.values()), max(span[1] for span in spans.values())
        length += end - begin
        for rank, (own_begin, own_end) in spans.items():
            inside = sum(e["dur"] for e in slices if e["pid"] == rank and e["tid"] == 0 and e["cat"] == "wait"
                         and own_begin <= e["ts"] < own_end)
            waits[rank] += own_begin - begin + inside + end - own_end
    return [seconds / length for seconds in waits]


def predict(dtc, program, cluster, *more):
    """Seconds of a step, and the share of it that each rank waits."""
    said = json.loads(subprocess.run([dtc, "simulate", program, "--cluster", cluster, "--json", *more], check=True,
                                     stdout=subprocess.PIPE, text=True).stdout)
    waits = [0.0] * RANKS
    for of_class in said["ranks"]: # both ranks are one class where they have equal work
        for rank in range(of_class["rank"], of_class["rank"] + of_class["ranks"]):
            waits[rank] = (of_class["idle"] + of_class["exposed"]) / said["seconds"]
    return said["seconds"], waits


class Row:
    """A timetable with its prediction and its runs."""

    def __init__(self, bench, timetable, cluster):
        self.bench, self.timetable, self.name, self.cluster = bench, timetable, timetable, cluster
        self.program = bench.compile(timetable)
        self.predicted, self.predicted_waits = predict(bench.dtc, self.program, cluster)
        self.steps, self.waits, self.profiled_waits = [], [], None

    def measure(self):
        last = self.bench.args.steps
        out = self.bench.run(self.program, "--trace", f"{last - TRACED + 1}-{last}")
        self.steps.append(statistics.median(step_seconds(out)[WARM_UP:-TRACED]))
        self.waits.append(waits_of(out / "trace.json"))
        if not self.profiled_waits:
            _, self.profiled_waits = predict(self.bench.dtc, self.program, self.cluster, "--profile", out)
        return f"{self.timetable}: step {self.steps[-1]:.4f} s, ranks wait {words(self.waits[-1])}"

    def step(self):
        return statistics.median(self.steps)

    def line(self):
        measured = [statistics.median(of_rank) for of_rank in zip(*self.waits)]
        mean = statistics.median(statistics.mean(waits) for waits in self.waits)
        error = mean - statistics.mean(self.predicted_waits)
        profiled = mean - statistics.mean(self.profiled_waits)
        return (f"| {self.timetable} | {self.step():.4f} s | {self.predicted:.4f} s | {100 * mean:.2f}% ({words(measured)}) | "
                f"{words([statistics.mean(self.predicted_waits)])} ({words(self.predicted_waits)}) | {100 * error:+.2f} | "
                f"{100 * profiled:+.2f} |")


class OverlappingRow:
    """zbv with steps that overlap: steps only."""

    timetable, name = "zbv", "zbv, overlapping"

    def __init__(self, bench, cluster):
        self.bench, self.program = bench, bench.compile(self.timetable, "--overlap-steps")
        said = json.loads(subprocess.run([bench.dtc, "inspect", self.program, "--cluster", cluster, "--json"], check=True,
                                         stdout=subprocess.PIPE, text=True).stdout)
        self.predicted, self.steps = said["cluster"]["seconds"], []

    def measure(self):
        out = self.bench.run(self.program)
        self.steps.append(statistics.median(step_seconds(out)[WARM_UP:-TRACED])) # the last ends without a next one
        return f"{self.name}: step {self.steps[-1]:.4f} s"


def words(shares):
    return ", ".join(f"{100 * share:.2f}%" for share in shares)


def print_speeds(args, dtc, base, others):
    ideal_base = ideal(dtc, "1f1b", RANKS, args.micro_batches)
    print("\n| 1f1b / | measured | round by round | predicted | equal passes, one step | equal passes, steps that overlap |")
    print("|---|---|---|---|---|---|")
    for row in others:
        ratios = [theirs / ours for theirs, ours in zip(base.steps, row.steps)]
        equal = ideal(dtc, row.timetable, RANKS, args.micro_batches)
        print(f"| {row.name} | {statistics.median(ratios):.3f} | {', '.join(f'{ratio:.3f}' for ratio in ratios)} | "
              f"{base.predicted / row.predicted:.3f} | {ideal_base['seconds'] / equal['seconds']:.3f} | "
              f"{ideal_base['seconds_without_barrier'] / equal['seconds_without_barrier']:.3f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--cluster", type=pathlib.Path, help="a cluster file of this machine; by default it is calibrated")
    parser.add_argument("--timetables", default=",".join(TIMETABLES))
    parser.add_argument("--rounds", type=int, default=3)
    add_sizes(parser)
    args = parser.parse_args()
    check_sizes(parser, args, WARM_UP + 1 + TRACED)
    print(f"{machine(args.build.resolve())}\n\n{size_words(args)}\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="dtc-bench-") as folder:
        bench = Pipelines(args, folder)
        cluster = args.cluster or bench.folder / "cluster.textproto"
        if not args.cluster:
            subprocess.run([bench.dtc, "calibrate", "-o", cluster], check=True, stdout=subprocess.DEVNULL)
        rows = {name: Row(bench, name, cluster) for name in args.timetables.split(",")}
        overlapping = [OverlappingRow(bench, cluster)] if "zbv" in rows else []
        for number, row in alternately([*rows.values(), *overlapping], args.rounds):
            print(f"round {number + 1}: {row.measure()}", flush=True)
        print("\n| timetable | step | predicted | ranks wait | predicted | points | points, own kernels |\n|---|---|---|---|---|---|---|")
        for row in rows.values():
            print(row.line())
        if "1f1b" in rows and len(rows) > 1:
            print_speeds(args, bench.dtc, rows.pop("1f1b"), [*rows.values(), *overlapping])


if __name__ == "__main__":
    main()
