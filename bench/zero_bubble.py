#!/usr/bin/env python3
"""How much shorter zero-bubble timetables are than 1F1B, where all passes of a stage take equally long.

    zero_bubble.py [--build build] [--ranks 4] [--micro-batches 8]

From `dtc schedule`, so it depends on no machine. A pass of a stage takes 2 with one stage a rank, and 1 with two, which
have half of the layers. Transfers take no time. One step lasts from the beginning of its first pass to the end of its
last; without a barrier, each rank begins the next step when it has ended its own part of one. Bounds with 4 ranks and 8
micro-batches: zb-h1 1.20 in one step (theory 1.22), zbv 1.30 without a barrier (theory 1.375).
"""

import argparse
import pathlib

from pipelines import ROOT, ideal

TIMETABLES = ["1f1b", "interleaved", "zb-h1", "zb-h2", "zbv"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--micro-batches", type=int, default=8)
    args = parser.parse_args()
    base = None
    print("| timetable | work of a rank | one step | 1f1b / it | without a barrier | 1f1b / it | most stashes of a rank |\n"
          "|---|---|---|---|---|---|---|")
    for name in TIMETABLES:
        figures = ideal(args.build.resolve() / "bin/dtc", name, args.ranks, args.micro_batches)
        base = base or figures
        step, steady = figures["seconds"], figures["seconds_without_barrier"]
        print(f"| {name} | {figures['work']:g} | {step:g} | {base['seconds'] / step:.3f} | {steady:g} | "
              f"{base['seconds_without_barrier'] / steady:.3f} | {max(rank['peak_stashes'] for rank in figures['ranks'])} |")


if __name__ == "__main__":
    main()
