#!/usr/bin/env python3
"""The products of a GPT-2 124M step in bf16 by PyTorch (oneDNN) on one thread, in the lines of `gemm_floor bf16`.

    gemm_peer.py [ROWS]     ROWS = batch * tokens of the step, 1024 by default

Times are CPU time of the thread, the least of a few runs over different weights, as in gemm_floor.cpp. Gradients of
weights are bf16 here (torch.mm has no other), where those of dtc are f32. Needs torch from PyPI.
"""

import sys
import time

import torch

LAYERS, WIDTH, VOCABULARY = 12, 768, 50257


def products(rows):
    """Name, M, N, K, whether A and whether B is transposed, times per step: productsOf of gemm_floor.cpp."""
    layers = (("attention in", WIDTH, 3 * WIDTH), ("attention out", WIDTH, WIDTH),
              ("mlp up", WIDTH, 4 * WIDTH), ("mlp down", 4 * WIDTH, WIDTH))
    for name, k, n in layers:
        yield name + " forward", rows, n, k, False, False, LAYERS
        yield name + " dx", rows, k, n, False, True, LAYERS
        yield name + " dw", k, n, rows, True, False, LAYERS
    yield "logits forward", rows, VOCABULARY, WIDTH, False, True, 1
    yield "logits dx", rows, WIDTH, VOCABULARY, False, False, 1
    yield "logits dw", VOCABULARY, WIDTH, rows, True, False, 1


def matrix(rows, columns, transposed):
    """Values like those of gemm_floor.cpp instead of random ones, which take longer to generate than to multiply."""
    shape = (columns, rows) if transposed else (rows, columns)
    values = (torch.arange(shape[0] * shape[1]) % 251 * 1e-3).to(torch.bfloat16).view(shape)
    return values.t() if transposed else values


def main():
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    torch.set_num_threads(1)
    total = flops = 0.0
    for name, m, n, k, transpose_a, transpose_b, times in products(rows):
        a = matrix(m, k, transpose_a)
        weights = [matrix(k, n, transpose_b) for _ in range(min(times, 8))]
        out = torch.empty(m, n, dtype=torch.bfloat16)
        least = float("inf")
        for run in range(3 if 2 * m * n * k > 1e10 else 8):
            start = time.thread_time()
            torch.mm(a, weights[run % len(weights)], out=out)
            least = min(least, time.thread_time() - start)
        print(f"{name:<24} {m:6} {n:6} {k:6} {least * 1e3:10.2f} {2e-9 * m * n * k / least:10.1f}", flush=True)
        total += least * times
        flops += 2.0 * m * n * k * times
    print(f"{rows} rows: products {total:.3f} s ({flops / total * 1e-9:.0f} GFLOP/s)")


if __name__ == "__main__":
    main()
