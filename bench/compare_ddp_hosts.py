#!/usr/bin/env python3
"""A data-parallel GPT-2 124M step on two hosts: dtc's `ddp` and PyTorch's DistributedDataParallel over Gloo.

    compare_ddp_hosts.py --torch-python PYTHON [--build build] [--rounds 2] [--steps 4] [--rates none,40mbps]

Hosts are two network namespaces of this machine with one core each (needs root); a rate limits what each may send. Runs
the two alternately and prints a table: the median step and its ratio.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from arguments import ROOT, comparison
from compare_gpt2_step import write_tokens
from ranks import RANKS, run_ranks, step_seconds

sys.path.insert(0, str(ROOT / "test/e2e"))
BATCH, TOKENS = 4, 64


def run_dtc(net, folder, program, steps):
    out = folder / "out"
    subprocess.run(["rm", "-rf", out], check=True)
    run_ranks(lambda rank: [program, "--data", folder / "tokens.bin", "--steps", steps, "--threads", 1, "--set",
                            "eval_batches=1", "--out", out], net)
    return step_seconds(out)[1:]


def run_torch(net, python, steps):
    output, _ = run_ranks(lambda rank: [python, ROOT / "bench/ddp_step.py", "--batch", BATCH, "--tokens", TOKENS, "--steps", steps],
                          net)
    result = json.loads(output.splitlines()[-1])
    return result["seconds"][1:], result["torch"]


def main():
    parser = comparison(__doc__, rounds=2)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rates", default="none,40mbps")
    args = parser.parse_args()
    os.environ.update(DTC_BIN=str(args.build.resolve() / "bin"), DTC_SOURCE=str(ROOT))
    from hosts import Hosts
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_tokens(folder / "tokens.bin")
        program = folder / "gpt2"
        subprocess.run([args.build.resolve() / "bin/dtc", "compile", ROOT / "examples/gpt2", "--mesh", f"dp={RANKS}", "--set",
                        f"global_batch={BATCH * RANKS}", "--set", f"sequence_length={TOKENS}", "--set", "dropout=0",
                        "-o", program], check=True, stdout=subprocess.DEVNULL)
        net = Hosts(RANKS, folder)
        try:
            print("| link | dtc s | DDP s | ratio |\n|---|---|---|---|", flush=True)
            for rate in args.rates.split(","):
                if rate != "none":
                    net.limit(rate)
                ours, theirs = [], []
                for _ in range(args.rounds):
                    ours += run_dtc(net, folder, program, args.steps)
                    seconds, version = run_torch(net, args.torch_python, args.steps)
                    theirs += seconds
                a, b = statistics.median(ours), statistics.median(theirs)
                print(f"| {'unlimited' if rate == 'none' else rate} | {a:.3f} | {b:.3f} | {a / b:.3f} |", flush=True)
            print(f"\nPyTorch {version}")
        finally:
            net.remove()


if __name__ == "__main__":
    main()
