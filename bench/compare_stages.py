#!/usr/bin/env python3
"""A pipeline of two ranks with two stages each, compared with torch.distributed.pipelining: interleaved and zbv.

    compare_stages.py --torch-python PYTHON [--build build] [--timetables interleaved,zbv] [--rounds 3] [--steps 7]
                      [--layers 4] [--width 1024] [--heads 16] [--vocabulary 1024] [--batch 2] [--tokens 128]
                      [--micro-batches 8]

The same GPT-2 of gpt2-medium's width (pipelines.py, pipeline_step.py), four stages of as many layers, the same
micro-batches, f32, AdamW, two cores with one thread each. The peers are ScheduleInterleaved1F1B and
ScheduleZBVZeroBubble over Gloo. On one rank and one core both accumulate as many micro-batches. A process's step is the
median of its steps without the first two. Each runs once a round, every other round backwards.

The figure that counts is dtc's step over PyTorch's, divided by the same ratio of one rank in the same round: what the
pipeline alone gains. Bound 0.95, goal 0.8. Prints each round and the medians.
"""

import json
import statistics
import subprocess
import tempfile

from arguments import ROOT, comparison
from pipelines import STAGES, WARM_UP, Pipelines, add_sizes, alternately, check_sizes, machine, size_words

TIMETABLES = ["interleaved", "zbv"]


def torch_seconds(args, timetable):
    """The peer's step, on one rank where there is no timetable."""
    how = ["--ranks", "2", "--timetable", timetable] if timetable else ["--ranks", "1"]
    cut = ",".join([str(args.layers // STAGES)] * STAGES)
    output = subprocess.run([args.torch_python, ROOT / "bench/pipeline_step.py", *how, "--cut", cut, "--width", str(args.width),
                             "--heads", str(args.heads), "--vocabulary", str(args.vocabulary), "--batch", str(args.batch),
                             "--tokens", str(args.tokens), "--micro-batches", str(args.micro_batches), "--steps",
                             str(args.steps - WARM_UP)], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(output.splitlines()[-1])["median_s"]


def main():
    parser = comparison(__doc__, rounds=3)
    parser.add_argument("--timetables", default=",".join(TIMETABLES))
    add_sizes(parser)
    args = parser.parse_args()
    check_sizes(parser, args, WARM_UP + 1)
    version = subprocess.run([args.torch_python, "-c", "import torch; print(torch.__version__)"], check=True,
                             stdout=subprocess.PIPE, text=True).stdout.strip()
    print(f"{machine(args.build.resolve())}, PyTorch {version}\n\n{size_words(args)}\n", flush=True)
    names = [*args.timetables.split(","), None]
    with tempfile.TemporaryDirectory(prefix="dtc-bench-") as folder:
        bench = Pipelines(args, folder)
        programs = {name: bench.compile(name) for name in names}
        ours, theirs = {name: [] for name in names}, {name: [] for name in names}
        for number, (who, name) in alternately([(who, name) for name in names for who in ("dtc", "PyTorch")], args.rounds):
            if who == "dtc":
                ours[name].append(bench.seconds(programs[name]))
            else:
                theirs[name].append(torch_seconds(args, name))
            seconds = (ours if who == "dtc" else theirs)[name][-1]
            print(f"round {number + 1}: {who}, {name or 'one rank'}: {seconds:.4f} s", flush=True)
    report(names[:-1], ours, theirs)


def report(names, ours, theirs):
    print("\n| timetable | round | dtc: step | of one rank | PyTorch: step | of one rank | dtc / PyTorch: step | divided by one "
          "rank's |\n|---|---|---|---|---|---|---|---|")
    for name in names:
        gains = []
        for number, (our, their, our_one, their_one) in enumerate(zip(ours[name], theirs[name], ours[None], theirs[None])):
            gains.append((our / their) / (our_one / their_one))
            print(f"| {name} | {number + 1} | {our:.4f} s | {our / our_one:.3f} | {their:.4f} s | {their / their_one:.3f} | "
                  f"{our / their:.3f} | {gains[-1]:.3f} |")
        print(f"| {name} | median | {statistics.median(ours[name]):.4f} s | | {statistics.median(theirs[name]):.4f} s | | | "
              f"{statistics.median(gains):.3f} |")


if __name__ == "__main__":
    main()
