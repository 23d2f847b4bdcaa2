#!/usr/bin/env python3
"""How long a pipeline of 105 stages takes to compile, compared with the same model without a pipeline.

    compile_stages.py [--build build] [--rounds 3] [--ranks 35] [--stages-per-rank 3] [--micro-batches 280]
                      [--options "--target cuda:sm_80 --set compute=bf16"]

A model as MT-NLG 530B (arXiv 2201.11990; sizes in docs/goldens.md): 105 layers of width 20480 with 128 heads, 51200 words,
sequences of 2048 tokens. On tp=8 x pp=35 x dp=16 each of the 35 ranks along the pipeline has three stages of one layer
each, interleaved; on tp=8 x dp=16 there is no pipeline. Both have the same micro-batches of one sequence. Whole processes,
code generation included, one after the other, every other round backwards. Prints each round, both medians and their
ratio. Bound 2, goal 1.3. `--options` adds words to both commands.
"""

import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import tempfile
import time

from arguments import ROOT
from pipelines import alternately, machine

LAYERS, HIDDEN, HEADS, VOCABULARY, SEQUENCE = 105, 20480, 128, 51200, 2048
WAYS, REPLICAS = 8, 16  # tp, dp


def layers_of_stages(stages):
    """As evenly as possible, in order."""
    return [(number + 1) * LAYERS // stages - number * LAYERS // stages for number in range(stages)]


class Bench:
    def __init__(self, args, folder):
        self.args, self.folder = args, pathlib.Path(folder)
        self.dtc = args.build.resolve() / "bin/dtc"
        self.model = self.folder / "model"
        self.model.mkdir()
        (self.model / "config.json").write_text(json.dumps({
            "model_type": "gpt2", "vocab_size": VOCABULARY, "n_positions": SEQUENCE, "n_embd": HIDDEN, "n_layer": LAYERS,
            "n_head": HEADS, "activation_function": "gelu_new", "tie_word_embeddings": True}))
        layers = layers_of_stages(args.ranks * args.stages_per_rank)
        self.strategy = self.folder / "stages.toml"
        self.strategy.write_text(f'preset = "megatron"\n[stages]\nlayers = {layers}\n')

    def seconds(self, is_pipeline):
        args = self.args
        mesh = [f"dp={REPLICAS}", f"pp={args.ranks}", f"tp={WAYS}"] if is_pipeline else [f"dp={REPLICAS}", f"tp={WAYS}"]
        layout = ["--strategy", self.strategy, "--timetable", "interleaved"] if is_pipeline else ["--strategy", "megatron"]
        settings = {"global_batch": REPLICAS * args.micro_batches, "accumulation": args.micro_batches,
                    "sequence_length": SEQUENCE}
        sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        begin = time.monotonic()
        subprocess.run([self.dtc, "compile", self.model, "--mesh", ",".join(mesh), *layout, *sets,
                        *shlex.split(args.options), "-o", self.folder / "program"], check=True, stdout=subprocess.DEVNULL)
        return time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=35)
    parser.add_argument("--stages-per-rank", type=int, default=3)
    parser.add_argument("--micro-batches", type=int, default=280)
    parser.add_argument("--options", default="")
    args = parser.parse_args()
    if not 2 <= args.stages_per_rank <= LAYERS // args.ranks:
        parser.error(f"--stages-per-rank {args.stages_per_rank}: interleaved has 2 or more, and there are {LAYERS} layers")
    names = {True: f"dp={REPLICAS},pp={args.ranks},tp={WAYS}, {args.stages_per_rank} stages a rank",
             False: f"dp={REPLICAS},tp={WAYS}"}
    print(f"{machine(args.build.resolve())}\n\n{LAYERS} layers of width {HIDDEN}, {args.micro_batches} micro-batches of one "
          f"sequence of {SEQUENCE} tokens\n", flush=True)
    seconds = {True: [], False: []}
    with tempfile.TemporaryDirectory(prefix="dtc-bench-") as folder:
        bench = Bench(args, folder)
        for number, is_pipeline in alternately([True, False], args.rounds):
            seconds[is_pipeline].append(bench.seconds(is_pipeline))
            print(f"round {number + 1}: {names[is_pipeline]}: {seconds[is_pipeline][-1]:.2f} s", flush=True)
    print("\n| compilation | seconds, median | least |\n|---|---|---|")
    for is_pipeline, name in names.items():
        print(f"| {name} | {statistics.median(seconds[is_pipeline]):.2f} | {min(seconds[is_pipeline]):.2f} |")
    print(f"\nRatio {statistics.median(seconds[True]) / statistics.median(seconds[False]):.2f}; bound 2, goal 1.3.")


if __name__ == "__main__":
    main()
