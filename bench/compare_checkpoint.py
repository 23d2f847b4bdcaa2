#!/usr/bin/env python3
"""How long a checkpoint of GPT-2 124M with AdamW stops training, on one rank and on two, compared with torch.save of
the same state.

    compare_checkpoint.py --torch-python PYTHON [--build build] [--before DIRECTORY] [--rounds 1] [--steps 19] [--every 6]

PYTHON has torch and safetensors (see checkpoint_peer.py, the peer). DIRECTORY holds the binaries of another state of
dtc. Four rows of 64 tokens a step, f32, one thread per rank. Each program runs twice in a round, once with a checkpoint
every few steps and once with only the last one: the extra time of the first run, divided by the number of checkpoints,
is the cost of each, waiting and slower steps together. Next to it is the waiting time that the trainer itself counts,
where it does.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

from arguments import ROOT, comparison
from compare_gpt2_step import write_tokens


def compile_program(binaries, folder, name, ranks):
    program = folder / f"{name}-{ranks}"
    subprocess.run([binaries / "dtc", "compile", ROOT / "examples/gpt2", "--mesh", f"dp={ranks}", "--set", "global_batch=4",
                    "--set", "sequence_length=64", "--set", "validation_fraction=0", "-o", program],
                   check=True, stdout=subprocess.DEVNULL)
    return program


def train(binaries, program, folder, ranks, steps, every):
    """Seconds of the whole run, the steps' lines, and the last checkpoint."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    begin = time.perf_counter()
    subprocess.run(["taskset", "-c", "0,1", binaries / "dtc", "run", "-n", str(ranks), program,
                    "--data", folder / "tokens.bin", "--out", out, "--threads", "1", "--steps", str(steps),
                    "--set", f"checkpoint_every={every}", "--set", "keep=1"], check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - begin
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return seconds, lines, out / f"checkpoints/step-{steps:06}"


def main():
    parser = comparison(__doc__, rounds=1)
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=19)
    parser.add_argument("--every", type=int, default=6)
    arguments = parser.parse_args()
    sides = {"dtc": arguments.build / "bin"} | ({"before": arguments.before} if arguments.before else {})
    count = (arguments.steps - 1) // arguments.every
    print(f"load {os.getloadavg()[0]:.2f}")
    with tempfile.TemporaryDirectory(prefix="dtc-bench-") as name:
        folder = pathlib.Path(name)
        write_tokens(folder / "tokens.bin")
        programs = {(side, ranks): compile_program(binaries, folder, side, ranks)
                    for side, binaries in sides.items() for ranks in (1, 2)}
        for _ in range(arguments.rounds):
            for (side, ranks), program in programs.items():
                without, lines, _ = train(sides[side], program, folder, ranks, arguments.steps, 0)
                step = statistics.median(line["time_metrics/end_to_end(s)"] for line in lines[2:])
                seconds, lines, checkpoint = train(sides[side], program, folder, ranks, arguments.steps, arguments.every)
                waits = [line["time_metrics/checkpoint_wait(s)"] for line in lines if "time_metrics/checkpoint_wait(s)" in line]
                told = ", ".join(f"{wait:.3f}" for wait in waits) or "-"
                print(f"| {side}, {ranks} rank{'s'[:ranks - 1]} | {step:.2f} s | {told} | {(seconds - without) / count:.2f} s |",
                      flush=True)
                if side == "dtc":
                    peer = subprocess.run(["taskset", "-c", "0,1", arguments.torch_python, ROOT / "bench/checkpoint_peer.py",
                                           checkpoint, folder / "peer.pt"], check=True, capture_output=True, text=True).stdout
                    found = json.loads(peer.splitlines()[-1])
                    print(f"| torch.save, {found['bytes'] / 1e9:.2f} GB | | {found['save_s']:.2f}, with fsync "
                          f"{found['synced_s']:.2f} | |", flush=True)
                    os.unlink(folder / "peer.pt")


if __name__ == "__main__":
    main()
