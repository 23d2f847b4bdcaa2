#!/usr/bin/env python3
"""The products with weights of one token of GPT-2 124M on one thread: dtc_gemm, PyTorch and the rate of reading memory.

    taskset -c 0 bench/gemv.py [BUILD_DIRECTORY] [ROWS] [ROUNDS]     build, 1 and 3 by default

Builds and runs bench/gemv.cpp and times the same products in PyTorch, alternately; prints a table of medians (gemv.md).
Times are CPU time of the thread, the least of a few passes over weights that caches do not hold. Needs torch from PyPI.
"""

import collections
import os
import statistics
import subprocess
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"

import torch

PRODUCTS = {"attention in": (768, 2304, False), "attention out": (768, 768, False), "mlp up": (768, 3072, False),
            "mlp down": (3072, 768, False), "logits": (768, 50257, True)}
BYTES = 200 << 20


def torch_time(kind, name, rows):
    """Microseconds of one product."""
    depth, columns, has_whole_columns = PRODUCTS[name]
    dtype = torch.float32 if kind == "f32" else torch.bfloat16
    shape = (columns, depth) if has_whole_columns else (depth, columns)
    copies = max(1, BYTES // (depth * columns * dtype.itemsize))
    weights = torch.full((copies, *shape), 0.01, dtype=dtype)
    a, out = torch.full((rows, depth), 0.5, dtype=dtype), torch.empty(rows, columns, dtype=dtype)
    least = float("inf")
    with torch.inference_mode():
        for _ in range(5):
            start = time.thread_time()
            for weight in weights:
                torch.mm(a, weight.t() if has_whole_columns else weight, out=out)
            least = min(least, (time.thread_time() - start) / copies)
    return least * 1e6


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else "build"
    rows, rounds = (int(sys.argv[i]) if len(sys.argv) > i else default for i, default in ((2, 1), (3, 3)))
    torch.set_num_threads(1)
    subprocess.run(["cmake", "--build", build, "--target", "gemv"], check=True, stdout=subprocess.DEVNULL)
    times = collections.defaultdict(lambda: ([], [], [], []))  # dtc, its rate, the probe's, PyTorch
    for _ in range(rounds):
        lines = subprocess.run([f"{build}/bench/gemv", str(rows)], check=True, stdout=subprocess.PIPE, text=True).stdout
        for kind, name, *values in (line.split(",") for line in lines.splitlines()):
            for column, value in zip(times[kind, name], [*values, torch_time(kind, name, rows)]):
                column.append(float(value))
    print(f"PyTorch {torch.__version__}, {rows} row{'s' if rows > 1 else ''}, medians of {rounds}\n")
    print("| weights | product | dtc, us | GB/s | of reading | share | PyTorch, us | PyTorch / dtc |\n|---|---|---|---|---|---|---|---|")
    for (kind, name), columns in times.items():
        share = statistics.median(rate / bound for rate, bound in zip(columns[1], columns[2]))
        dtc, rate, bound, peer = (statistics.median(column) for column in columns)
        print(f"| {kind} | {name} | {dtc:.0f} | {rate:.1f} | {bound:.1f} | {share:.2f} | {peer:.0f} | {peer / dtc:.1f} |")


if __name__ == "__main__":
    main()
