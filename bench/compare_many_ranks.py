#!/usr/bin/env python3
"""How long `dtc run` of very many ranks on one machine takes, compared with another build of dtc.

    compare_many_ranks.py --before BUILD [--build build] [--ranks 256] [--rounds 5]

The tests' smallest model, one row of 16 tokens per rank, three steps and a checkpoint: nearly all the time goes into
starting, meeting and leaving. Both builds run alternately, each with the program that it has compiled, as one host and
as two network namespaces (which needs root). Prints a table of medians: wall time and CPU time.
"""

import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test/e2e"))


def measure(command):
    """Wall time and CPU time, in seconds."""
    used = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    before, begin = used(), time.monotonic()
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin, used() - before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--ranks", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    builds = {"before": args.before.resolve(), "now": args.build.resolve()}
    os.environ.update(DTC_BIN=str(builds["now"] / "bin"), DTC_SOURCE=str(ROOT))
    from driver import write_tokens
    from hosts import SMALL, Hosts
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        data = write_tokens(folder / "tokens", 40000, 61)
        for name, build in builds.items():
            subprocess.run([build / "bin/dtc", "compile", SMALL, "--mesh", f"dp={args.ranks}", "--set", "sequence_length=16", "--set",
                            f"global_batch={args.ranks}", "--set", "validation_fraction=0", "-o", folder / name], check=True,
                           stdout=subprocess.DEVNULL)
        net = Hosts(2, folder)
        places = ",".join(f"{net.address(host)}:{args.ranks // 2}" for host in range(2))
        kinds = {"one host": lambda run: run,
                 "two hosts": lambda run: net.on(0, *run, "--hosts", places, "--remote-shell", net.remote_shell)}
        times = {}
        try:
            for _ in range(args.rounds):
                for kind, on in kinds.items():
                    for name, build in builds.items():
                        subprocess.run(["rm", "-rf", folder / "out"], check=True)
                        words = [folder / name, "--data", data, "--out", folder / "out", "--threads", 1, "--steps", 3]
                        seconds = measure([*on([build / "bin/dtc", "run"]), *words])
                        times.setdefault((kind, name), []).append(seconds)
                        print(f"{kind}, {name}: {seconds[0]:.2f} s, {seconds[1]:.2f} s of the cores", file=sys.stderr, flush=True)
        finally:
            net.remove()
    print(f"| {args.ranks} ranks | before s | now s | ratio | cores before s | cores now s | ratio |\n|---|---|---|---|---|---|---|")
    for kind in kinds:
        before, now = ([statistics.median(column) for column in zip(*times[kind, name])] for name in builds)
        print(f"| {kind} | " + " | ".join(f"{a:.2f} | {b:.2f} | {b / a:.2f}" for a, b in zip(before, now)) + " |")


if __name__ == "__main__":
    main()
