#!/usr/bin/env python3
"""zero3 on two ranks of this machine by dtc, and PyTorch's FSDP2 over Gloo, alternately.

    compare_fsdp2.py --torch-python PYTHON [--build build] [--rounds 3] [--steps 6] [--models medium,gpt2] [--tokens 64]

PYTHON has torch from PyPI (see fsdp2_step.py, the peer). GPT-2's architecture in f32, four rows per rank, no dropout,
AdamW, one thread per rank. This script starts both sides' ranks, with the environment that torchrun provides; they
share both cores. Prints a table: median seconds of a step, without each run's first two, and the peak resident memory
of the larger rank as the kernel counts it for the whole process, from start to end: it includes libraries, start-up and
dtc's checkpoint at the end, and nothing is subtracted. Memory of a peer that a rank has mapped counts for both.
"""

import json
import pathlib
import statistics
import subprocess
import tempfile

from arguments import ROOT, comparison
from compare_gpt2_step import write_tokens
from ranks import RANKS, run_ranks, step_seconds

BATCH = 4
MODELS = {"medium": (8, 512, 8), "gpt2": (12, 768, 12)}  # layers, width, heads


def write_model(folder, name):
    layers, width, heads = MODELS[name]
    config = json.loads((ROOT / "examples/gpt2/config.json").read_text())
    model = folder / name
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text(json.dumps({**config, "n_layer": layers, "n_embd": width, "n_head": heads}))
    return model


def run_dtc(build, folder, name, tokens, steps):
    program, out = folder / f"{name}.train", folder / f"out-{name}"
    if not program.exists():
        subprocess.run([build / "bin/dtc", "compile", write_model(folder, name), "--mesh", f"dp={RANKS}", "--strategy", "zero3",
                        "--set", f"global_batch={BATCH * RANKS}", "--set", f"sequence_length={tokens}", "--set", "dropout=0",
                        "-o", program], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", out], check=True)
    _, peak = run_ranks(lambda rank: [program, "--data", folder / "tokens.bin", "--steps", steps, "--threads", 1,
                                      "--set", "eval_batches=1", "--out", out])
    return step_seconds(out)[2:], peak


def run_torch(python, name, tokens, steps):
    layers, width, heads = MODELS[name]
    output, peak = run_ranks(lambda rank: [python, ROOT / "bench/fsdp2_step.py", "--layers", layers, "--width", width,
                                           "--heads", heads, "--batch", BATCH, "--tokens", tokens, "--steps", steps])
    result = json.loads(output.splitlines()[-1])
    return result["seconds"][2:], peak, result


def main():
    parser = comparison(__doc__, rounds=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--tokens", type=int, default=64)
    args = parser.parse_args()
    build = args.build.resolve()
    print("| model | tokens a rank | dtc | FSDP2 | step, dtc / FSDP2 | bytes, dtc / FSDP2 |\n|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_tokens(folder / "tokens.bin")
        for name in args.models.split(","):
            ours, theirs, our_peaks, their_peaks, result = [], [], [], [], {}
            for _ in range(args.rounds):
                seconds, peak = run_dtc(build, folder, name, args.tokens, args.steps)
                ours, our_peaks = ours + seconds, our_peaks + [peak]
                seconds, peak, result = run_torch(args.torch_python, name, args.tokens, args.steps)
                theirs, their_peaks = theirs + seconds, their_peaks + [peak]
            ours_s, theirs_s = statistics.median(ours), statistics.median(theirs)
            ours_gib, theirs_gib = statistics.median(our_peaks), statistics.median(their_peaks)
            print(f"| {name} {MODELS[name]} | {BATCH}x{args.tokens} | {ours_s:.3f} s, {ours_gib:.2f} GiB | {theirs_s:.2f} s, "
                  f"{theirs_gib:.2f} GiB | {ours_s / theirs_s:.2f} | {ours_gib / theirs_gib:.2f} |", flush=True)
    print(f"\nPyTorch {result['torch']}; before its model is made, a rank of it holds {result['libraries_gib']:.2f} GiB")


if __name__ == "__main__":
    main()
