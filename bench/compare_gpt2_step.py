#!/usr/bin/env python3
"""A GPT-2 124M training step by dtc and by PyTorch, alternately on one core, next to the machine's probe.

    compare_gpt2_step.py --torch-python PYTHON [--build build] [--rounds 3] [--steps 5] [--modes eager,compile] [--precision f32] [--gradients f32]

PYTHON has torch from PyPI (see gpt2_step.py, the peer). f32, or bf16 against autocast; one thread, four rows of 64 and
of 256 tokens, no dropout, AdamW. Prints a table: median seconds of a step (the first two left out), peak resident
memory, the ratio to the best of PyTorch's modes, and the ratio to the floor: the step's products with weights and AdamW
(gemm_floor, in f32) in the same run.
"""

import array
import json
import pathlib
import random
import re
import statistics
import subprocess
import tempfile

from arguments import ROOT, comparison

PIN = ["taskset", "-c", "0"]


def write_tokens(path, count=50000, vocabulary=50257):
    """Random tokens in llm.c's format."""
    random.seed(1)
    header = array.array("i", [20240520, 1, count] + [0] * 253)
    tokens = array.array("H", (random.randrange(vocabulary) for _ in range(count)))
    path.write_bytes(header.tobytes() + tokens.tobytes())


def run_dtc(build, folder, tokens, steps, precision, gradients):
    program, out = folder / f"gpt2-{tokens}", folder / f"out-{tokens}"
    if not program.exists():
        subprocess.run([build / "bin/dtc", "compile", ROOT / "examples/gpt2", "--mesh", "dp=1", "--set", "global_batch=4",
                        "--set", f"sequence_length={tokens}", "--set", "dropout=0",
                        "--set", f"compute={precision}", "--set", f"gradients={gradients}", "-o", program],
                       check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", out], check=True)
    subprocess.run([*PIN, program, "--data", folder / "tokens.bin", "--steps", str(steps), "--threads", "1",
                    "--set", "eval_batches=1", "--out", out], check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "time_metrics/end_to_end(s)" in line]
    return (statistics.median(line["time_metrics/end_to_end(s)"] for line in steps[2:]),
            max(line["memory/max_reserved(GiB)"] for line in steps))


def run_torch(python, tokens, mode, steps, precision):
    output = subprocess.run([*PIN, python, ROOT / "bench/gpt2_step.py", "--tokens", str(tokens), "--mode", mode,
                             "--precision", precision, "--steps", str(steps)], check=True, capture_output=True, text=True).stdout
    result = json.loads(output.splitlines()[-1])
    return result["median_s"], result["peak_gib"]


def run_floor(build, tokens):
    """The output of gemm_floor: its last line has the seconds of products and AdamW."""
    output = subprocess.run([*PIN, build / "bench/gemm_floor", str(4 * tokens)], check=True, capture_output=True,
                            text=True).stdout
    return output


def main():
    parser = comparison(__doc__, rounds=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--modes", default="eager,compile")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--gradients", choices=["f32", "bf16"], default="f32", help="as dtc stores them")
    args = parser.parse_args()
    build = args.build.resolve()
    subprocess.run(["ninja", "-C", build, "gemm_floor"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_tokens(folder / "tokens.bin")
        print("| tokens | dtc | " + " | ".join(f"PyTorch {mode}" for mode in args.modes.split(",")) +
              " | dtc / best | memory | floor | dtc / floor |\n|" + "---|" * (7 + args.modes.count(",")))
        for tokens in (64, 256):
            ours, theirs, floors = [], {mode: [] for mode in args.modes.split(",")}, []
            for _ in range(args.rounds):
                ours.append(run_dtc(build, folder, tokens, args.steps, args.precision, args.gradients))
                for mode in theirs:
                    theirs[mode].append(run_torch(args.torch_python, tokens, mode, args.steps, args.precision))
                floors.append(run_floor(build, tokens))
            report(tokens, ours, theirs, floors)


def report(tokens, ours, theirs, floors):
    ours_s, ours_gib = (statistics.median(values) for values in zip(*ours))
    peers = {mode: [statistics.median(values) for values in zip(*runs)] for mode, runs in theirs.items()}
    best_s, best_gib = min(peer[0] for peer in peers.values()), min(peer[1] for peer in peers.values())
    floor = statistics.median(float(re.search(r"floor ([0-9.]+) s", text).group(1)) for text in floors)
    print(f"| 4x{tokens} | {ours_s:.3f} s, {ours_gib:.2f} GiB | " +
          " | ".join(f"{seconds:.2f} s, {gib:.2f} GiB" for seconds, gib in peers.values()) +
          f" | {ours_s / best_s:.2f} | {ours_gib / best_gib:.2f} | {floor:.3f} s | {ours_s / floor:.2f} |", flush=True)


if __name__ == "__main__":
    main()
