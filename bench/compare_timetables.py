#!/usr/bin/env python3
"""How fast the timetable of interleaved 1F1B is made and checked, compared with PyTorch's (timetables_peer.py).

    compare_timetables.py --torch-python PYTHON [--build build] [--rounds 5] [--ranks 64] [--stages-per-rank 4]
                          [--micro-batches 512]

dtc's rate is in the row `interleaved` of BUILD/bench/timetables: made and checked (ranks that wait for each other,
stashes within a limit, weight gradients in order). PyTorch has two: made and validated, which does not find ranks that
wait for each other; and also with sends and receives put in, which finds them. Both run once a round on one core, every
other round backwards. Prints millions of entries a second, the medians. The bound is 0.2 and the goal 1, with 64 ranks,
4 stages a rank and 512 micro-batches.
"""

import json
import statistics
import subprocess

from arguments import ROOT, comparison
from compare_gpt2_step import PIN
from pipelines import alternately, machine


def our_rate(args):
    """Entries, and millions of them a second, the median of five."""
    output = subprocess.run([*PIN, args.build / "bench/timetables", *map(str, sizes(args)), "5"], check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    cells = next(line.split("|") for line in output.splitlines() if line.startswith("| interleaved |"))
    if "wrong" in cells[-1]:
        raise SystemExit("compare_timetables: dtc's own check refuses its timetable")
    return int(cells[3]), float(cells[4])


def their_rates(args):
    """PyTorch's version, entries, and millions of them a second: made and validated, and with transfers put in."""
    names = ("--ranks", "--stages-per-rank", "--micro-batches")
    words = [word for name, value in zip(names, sizes(args)) for word in (name, str(value))]
    said = json.loads(subprocess.run([*PIN, args.torch_python, ROOT / "bench/timetables_peer.py", *words], check=True,
                                     stdout=subprocess.PIPE, text=True).stdout)
    validated = said["make_s"] + said["validate_s"]
    return said["torch"], said["entries"], [said["entries"] / seconds / 1e6 for seconds in
                                            (validated, validated + said["add_transfers_s"])]


def sizes(args):
    return args.ranks, args.stages_per_rank, args.micro_batches


def main():
    parser = comparison(__doc__, rounds=5)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--stages-per-rank", type=int, default=4)
    parser.add_argument("--micro-batches", type=int, default=512)
    args = parser.parse_args()
    args.build = args.build.resolve()
    subprocess.run(["ninja", "-C", args.build, "timetables"], check=True, stdout=subprocess.DEVNULL)
    print(f"{machine(args.build)}\n", flush=True)
    ours, theirs = [], []
    for _, who in alternately(["dtc", "PyTorch"], args.rounds):
        if who == "dtc":
            entries, rate = our_rate(args)
            ours.append(rate)
        else:
            version, their_entries, rates = their_rates(args)
            theirs.append(rates)
    if entries != their_entries:
        raise SystemExit(f"compare_timetables: dtc's timetable has {entries} entries, PyTorch's {their_entries}")
    validated, added = (statistics.median(rates) for rates in zip(*theirs))
    ours = statistics.median(ours)
    print(f"| entries | dtc | PyTorch {version}: made, validated | with transfers | dtc / PyTorch: validated | with transfers |\n"
          f"|---|---|---|---|---|---|\n| {entries} | {ours:.1f} | {validated:.2f} | {added:.3f} | {ours / validated:.1f} | "
          f"{ours / added:.0f} |")


if __name__ == "__main__":
    main()
