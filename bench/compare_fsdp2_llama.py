#!/usr/bin/env python3
"""Fine-tuning a model of Llama 3.2's kind in bf16 on two ranks: zero3 by dtc, and PyTorch's FSDP2 over Gloo,
alternately.

    compare_fsdp2_llama.py --torch-python PYTHON [--build build] [--rounds 5] [--steps 5] [--rows 1]

PYTHON has torch and transformers. make_llama.py describes the model, fsdp2_llama_step.py how the peer trains it. Both
begin with the same weights, and each step of both has the same windows of 512 tokens, `rows` per rank: the data are a
single batch. AdamW at a constant rate, f32 gradients and state, norms clipped to 1, one thread per rank; ranks are
started alike and share both cores.

The peer runs under autocast and with FSDP2's own mixed precision; its better result counts.

Prints a row per round: median seconds of a step without the run's first, the peak resident memory of the larger rank
(compare_fsdp2.py), the ratio of the seconds, and the greatest difference of the losses. Ends with the median of the
rounds' ratios, and with exit code 1 where the losses differ by more than LOSS_BOUND, relatively, or the ratio is above
RATIO_BOUND.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from arguments import ROOT, comparison
from compare_gpt2_step import write_tokens
from ranks import RANKS, run_ranks

LENGTH = 512
PEERS = ["autocast", "mixed"]
LOSS_BOUND = 2e-3  # for bf16: each side rounds where its own kernels do
RATIO_BOUND = 0.7


def compile_dtc(build, folder, rows):
    settings = {"global_batch": rows * RANKS, "sequence_length": LENGTH, "compute": "bf16", "schedule": "constant",
                "validation_fraction": 0}
    assignments = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    subprocess.run([build / "bin/dtc", "compile", folder / "model", "--mesh", f"dp={RANKS}", "--strategy", "zero3",
                    *assignments, "-o", folder / "program"], check=True, stdout=subprocess.DEVNULL)


def run_dtc(folder, steps):
    out = folder / "out"
    subprocess.run(["rm", "-rf", out], check=True)
    _, peak = run_ranks(lambda rank: [folder / "program", "--data", folder / "tokens.bin", "--steps", steps, "--threads", 1,
                                      "--out", out])
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return ([line["time_metrics/end_to_end(s)"] for line in lines], [line["loss_metrics/global_avg_loss"] for line in lines],
            peak)


def run_torch(python, folder, steps, rows, precision):
    output, peak = run_ranks(lambda rank: [python, ROOT / "bench/fsdp2_llama_step.py", folder / "model", folder / "tokens.bin",
                                           "--precision", precision, "--length", LENGTH, "--rows", rows, "--steps", steps])
    result = json.loads(output.splitlines()[-1])
    return result["seconds"], result["losses"], peak, f"PyTorch {result['torch']}, transformers {result['transformers']}"


def compare(args, folder):
    """The rounds' ratios and the greatest difference of losses."""
    ratios, worst = [], 0
    print("| round | dtc | " + " | ".join(f"FSDP2, {peer}" for peer in PEERS) +
          " | step, dtc / best | last losses | largest difference of a loss |\n|" + "---|" * (5 + len(PEERS)), flush=True)
    for number in range(1, args.rounds + 1):
        runs = [run_dtc(folder, args.steps)]
        for peer in PEERS:
            *run, versions = run_torch(args.torch_python, folder, args.steps, args.rows, peer)
            runs.append(run)
        medians = [statistics.median(seconds[1:]) for seconds, _, _ in runs]
        difference = max(abs(ours - theirs) / theirs for _, losses, _ in runs[1:]
                         for ours, theirs in zip(runs[0][1], losses, strict=True))
        ratios, worst = ratios + [medians[0] / min(medians[1:])], max(worst, difference)
        cells = [f"{median:.3f} s, {peak:.2f} GiB" for median, (_, _, peak) in zip(medians, runs)]
        losses = " ".join(f"{losses[-1]:.5f}" for _, losses, _ in runs)
        print(f"| {number} | {' | '.join(cells)} | {ratios[-1]:.2f} | {losses} | {difference:.1e} |", flush=True)
    print(f"\nmedian ratio {statistics.median(ratios):.2f}; {versions}")
    return ratios, worst


def main():
    parser = comparison(__doc__, rounds=5)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1, help="of each rank")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        subprocess.run([args.torch_python, ROOT / "bench/make_llama.py", folder / "model"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        write_tokens(folder / "tokens.bin", args.rows * RANKS * LENGTH + 1, vocabulary=16384)
        compile_dtc(args.build.resolve(), folder, args.rows)
        ratios, worst = compare(args, folder)
    sys.exit(worst > LOSS_BOUND or statistics.median(ratios) > RATIO_BOUND)


if __name__ == "__main__":
    main()
