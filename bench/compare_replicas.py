#!/usr/bin/env python3
"""How much of a run's time the comparison of replicas takes, at the interval that the run chooses.

    compare_replicas.py [--build build] [--rounds 1]

Each program trains on two ranks of one thread each, pinned to two cores, for some steps more than the interval that it
reports. The time of the comparisons after the third is divided by the time of the steps between two. A large model
would take hours for one interval: there the median comparison of the first three steps is used for the later ones
("expected").
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import statistics
import struct
import subprocess
import tempfile

from compare_gpt2_step import ROOT

MODELS = {  # settings, and how many intervals are run
    "examples/gpt-small": ({"global_batch": 16, "sequence_length": 64}, 4),
    "examples/gpt2": ({"global_batch": 4, "sequence_length": 64}, 0),
}
TRIALS = 3  # steps before the interval is known


def write_tokens(path, count=50000):
    """Bytes, which are in every vocabulary, in llm.c's format."""
    source = random.Random(1)
    path.write_bytes(struct.pack("<3i", 20240520, 1, count).ljust(1024, b"\0")
                     + b"".join(struct.pack("<H", source.randrange(256)) for _ in range(count)))


def train(dtc, program, folder, steps):
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    text = subprocess.run(["taskset", "-c", "0,1", dtc, "run", "-n", "2", program, "--data", folder / "tokens.bin", "--out", out,
                           "--threads", "1", "--steps", str(steps)],
                          check=True, stdout=subprocess.PIPE, text=True).stdout
    interval = int(re.search(r"compared every (\d+) steps", text).group(1))
    return interval, [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def told(lines, key):
    return [line[key] for line in lines if key in line]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    dtc = arguments.build / "bin/dtc"
    print(f"load {os.getloadavg()[0]:.2f}")
    print("| model, dp=2 | state of a rank | a comparison | a step | steps between two | of the time |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="dtc-bench-") as name:
        folder = pathlib.Path(name)
        write_tokens(folder / "tokens.bin")
        for model, (settings, intervals) in MODELS.items():
            program = folder / pathlib.Path(model).name
            assignments = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
            subprocess.run([dtc, "compile", ROOT / model, "--mesh", "dp=2", "--set", "validation_fraction=0", "--set",
                            "eval_every=0", *assignments, "-o", program], check=True, stdout=subprocess.DEVNULL)
            memory = subprocess.run([dtc, "inspect", "--json", program], check=True, stdout=subprocess.PIPE, text=True).stdout
            uses = json.loads(memory)["roles"][0]["memory"]
            state = uses["parameters"] + uses["optimizer state"]
            for round_ in range(arguments.rounds):
                interval, lines = train(dtc, program, folder, 8)
                if intervals:
                    interval, lines = train(dtc, program, folder, intervals * interval)
                steps = told(lines, "time_metrics/end_to_end(s)")[TRIALS:]
                checks = told(lines, "time_metrics/replica_check(s)")
                step, check = statistics.median(steps), statistics.median(checks)
                later = checks[TRIALS:] or [check]
                share = statistics.mean(later) / (interval * statistics.mean(steps))
                print(f"| {model} | {state / 1e6:.0f} MB | {1000 * check:.1f} ms | {1000 * step:.0f} ms | {interval} | "
                      f"{100 * share:.3f} %{'' if intervals else ', expected'} |", flush=True)


if __name__ == "__main__":
    main()
