#!/usr/bin/env python3
"""How long `dtc report` takes for 10,000 steps on four ranks, and how large its page is. See report.md."""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent


def write_tokens(path, count):
    """In nanoGPT's format: 16 bits each."""
    path.write_bytes(b"".join(int(i * i % 251).to_bytes(2, "little") for i in range(count)))


def lengthen(metrics, steps):
    """The lines of a real run, repeated under new numbers, each loss a little different."""
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    lines = [line for line in lines if "lr" in line]
    with open(metrics, "w") as file:
        for step in range(1, steps + 1):
            line = dict(lines[step % len(lines)], step=step)
            line["loss_metrics/global_avg_loss"] *= 1 + (step * 7919 % 1000) / 1e5
            file.write(json.dumps(line) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtc", default=SOURCE / "build/bin/dtc", type=pathlib.Path)
    parser.add_argument("--rounds", default=7, type=int)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_tokens(folder / "tokens.bin", 100000)
        def run(*words):
            subprocess.run(list(map(str, words)), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        run(options.dtc, "compile", SOURCE / "examples/gpt-small", "--mesh", "dp=2,tp=2", "-o", folder / "program")
        run(options.dtc, "run", folder / "program", "--data", folder / "tokens.bin", "--data-format", "nanogpt", "--out",
            folder / "out", "--threads", 1, "--steps", 20, "--trace", "11-12")
        lengthen(folder / "out/metrics.jsonl", 10000)
        times = []
        for _ in range(options.rounds):
            begin = time.monotonic()
            run(options.dtc, "report", folder / "out", "-o", folder / "report.html")
            times.append(time.monotonic() - begin)
        size = (folder / "report.html").stat().st_size
        traced = (folder / "out/trace.json").stat().st_size
    print(f"dtc report: median {statistics.median(times):.2f} s, {min(times):.2f} to {max(times):.2f} s; page {size / 1e6:.2f} MB "
          f"of 10,000 steps and a trace of {traced / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
