#!/usr/bin/env python3
"""Steps foretold by `dtc simulate` and then measured, of programs that calibration has not seen.

    foretell.py [--build build] [--cluster FILE] [--count 24] [--seed 1] [--steps 9] [--out FOLDER]

Calibrates this machine (or takes FILE), draws programs at random from the seed: gpt2 and llama of four sizes; one rank, dp,
tp, sequence parallelism, ZeRO-3, pipelines of two stages with GPipe and 1F1B; f32 and bf16. First all are compiled and foretold,
and the predictions written down (FOLDER/predictions.json). Then each runs, and the median step counts, without the first two.

A probe, one small program, is measured when the machine is calibrated and before and after each run. The ratio of the probes scales
the prediction, as processors change their clocks; nothing else does. Where the two probes of a row differ by more than 5%, the
row is measured again, at most thrice. Prints every row, and the median and the worst error.
"""

import argparse
import json
import pathlib
import random
import statistics
import subprocess
import tempfile

from compare_gpt2_step import ROOT, write_tokens

SIZES = [(192, 3, 3), (256, 4, 2), (448, 3, 4), (576, 4, 2)]  # width, layers, rows of each rank
LAYOUTS = {
    "one rank": (["--mesh", "dp=1"], 1, 1),
    "dp": (["--mesh", "dp=2"], 2, 1),
    "tp": (["--mesh", "tp=2"], 2, 1),
    "sp": (["--mesh", "tp=2", "--strategy", "megatron-sp"], 2, 1),
    "zero3": (["--mesh", "dp=2", "--strategy", "zero3"], 2, 1),
    "pp gpipe": (["--mesh", "pp=2", "--timetable", "gpipe"], 2, 4),
    "pp 1f1b": (["--mesh", "pp=2", "--timetable", "1f1b"], 2, 4),
}
VOCABULARY, SEQUENCE, HEAD = 1536, 160, 64


def config(family, width, layers):
    if family == "gpt2":
        return {"model_type": "gpt2", "vocab_size": VOCABULARY, "n_positions": SEQUENCE, "n_embd": width, "n_layer": layers,
                "n_head": width // HEAD, "tie_word_embeddings": False}
    return {"model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": width, "intermediate_size": 8 * width // 3 // 16 * 16,
            "num_hidden_layers": layers, "num_attention_heads": width // HEAD, "num_key_value_heads": width // HEAD,
            "max_position_embeddings": SEQUENCE, "tie_word_embeddings": False}


class Machine:
    def __init__(self, args, folder):
        self.dtc, self.folder, self.steps = args.build.resolve() / "bin/dtc", folder, args.steps
        self.tokens = folder / "tokens.bin"
        write_tokens(self.tokens, 40000, VOCABULARY)
        self.probe_program = self.compile("probe", "gpt2", SIZES[0], "dp", "f32")

    def compile(self, name, family, size, layout, compute):
        width, layers, rows = size
        words, ranks, accumulation = LAYOUTS[layout]
        model = self.folder / f"{name}-model"
        model.mkdir()
        (model / "config.json").write_text(json.dumps(config(family, width, layers)))
        settings = {"sequence_length": SEQUENCE, "global_batch": rows * ranks * accumulation, "accumulation": accumulation,
                    "compute": compute, "dropout": 0, "steps": self.steps, "validation_fraction": 0}
        sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        program = self.folder / name
        subprocess.run([self.dtc, "compile", model, *words, *sets, "-o", program], check=True, stdout=subprocess.DEVNULL)
        return program

    def foretell(self, program, cluster):
        return json.loads(subprocess.run([self.dtc, "simulate", program, "--cluster", cluster, "--json"], check=True,
                                         stdout=subprocess.PIPE, text=True).stdout)

    def measure(self, program):
        out = self.folder / "out"
        subprocess.run(["rm", "-rf", out], check=True)
        subprocess.run([self.dtc, "run", program, "--data", self.tokens, "--out", out], check=True,
                       stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        times = [line["time_metrics/end_to_end(s)"] for line in lines if "time_metrics/end_to_end(s)" in line]
        return statistics.median(times[2:])

    def probe(self):
        return self.measure(self.probe_program)


def draw(args):
    """`count` different programs."""
    choices = [(family, size, layout, compute) for family in ("gpt2", "llama") for size in SIZES for layout in LAYOUTS
               for compute in ("f32", "bf16")]
    return random.Random(args.seed).sample(choices, args.count)


def name_of(program):
    family, (width, layers, rows), layout, compute = program
    return f"{family} {layers}x{width}, {layout}, {compute}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--cluster", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(args, pathlib.Path(folder))
        cluster = args.cluster or pathlib.Path(folder) / "cluster.textproto"
        before = machine.probe()
        if not args.cluster:
            subprocess.run([machine.dtc, "calibrate", "-o", cluster], check=True, stdout=subprocess.DEVNULL)
        calibrated = (before + machine.probe()) / 2
        programs = draw(args)
        files = [machine.compile(f"program{i}", *program) for i, program in enumerate(programs)]
        foretold = [machine.foretell(file, cluster)["seconds"] for file in files]
        if args.out:
            args.out.mkdir(parents=True, exist_ok=True)
            (args.out / "predictions.json").write_text(json.dumps(dict(zip(map(name_of, programs), foretold)), indent=1))
            (args.out / "cluster.textproto").write_text(cluster.read_text())
        print("| program | foretold | measured | probe | error | again |\n|---|---|---|---|---|---|")
        errors = []
        for program, file, seconds in zip(programs, files, foretold):
            for again in range(4):
                first, measured, last = machine.probe(), machine.measure(file), machine.probe()
                if abs(first / last - 1) <= 0.05:
                    break
            ratio = (first + last) / 2 / calibrated
            errors.append(abs(seconds * ratio - measured) / measured)
            print(f"| {name_of(program)} | {1e3 * seconds * ratio:.2f} ms | {1e3 * measured:.2f} ms | {ratio:.3f} | "
                  f"{100 * (seconds * ratio / measured - 1):+.1f}% | {again or ''} |", flush=True)
        print(f"\nmedian error {100 * statistics.median(errors):.1f}%, worst {100 * max(errors):.1f}%")


if __name__ == "__main__":
    main()
