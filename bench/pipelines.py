"""What measurements of pipelines share: a GPT-2 as wide as gpt2-medium and its runs, on one rank or as a pipeline of
two; the machine in words; dtc's figures of a timetable.

The vocabulary is small and not tied, so that the head takes little time and stages of equally many layers take
about equally long.
"""

import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess

from arguments import ROOT
from compare_gpt2_step import write_tokens
from foretell import processor
from ranks import step_seconds

WIDTH, HEADS, POSITIONS = 1024, 16, 1024
STAGES = 4  # of both ranks together, where a timetable gives each rank two
STAGES_PER_RANK = {"interleaved": 2, "zbv": 2}  # of the others one
WARM_UP = 2  # steps that are not counted


def add_sizes(parser):
    parser.add_argument("--width", type=int, default=WIDTH)
    parser.add_argument("--heads", type=int, default=HEADS)
    parser.add_argument("--layers", type=int, default=STAGES, help=f"a multiple of {STAGES}")
    parser.add_argument("--vocabulary", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=2, help="samples of a micro-batch")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=7)


def check_sizes(parser, args, least):
    if args.layers % STAGES:
        parser.error(f"--layers {args.layers}: {STAGES} stages of as many layers need a multiple of {STAGES}")
    if args.steps < least:
        parser.error(f"--steps {args.steps}: at least {least} are needed")


def machine(build):
    """One line for the table."""
    said = subprocess.run([build / "bin/dtc", "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
    version = ", ".join(" ".join(line.split()) for line in said.splitlines() if line.split()[0] in ("dtc", "commit"))
    return (f"{datetime.date.today()}, {processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f} at the start; "
            f"{version}")


def size_words(args):
    return (f"{args.layers} layers of width {args.width}, vocabulary {args.vocabulary}, {args.micro_batches} micro-batches of "
            f"{args.batch}x{args.tokens} tokens, f32, AdamW, no dropout, no clipping")


def ideal(dtc, timetable, ranks, micro_batches):
    """The figures of `dtc schedule` where the passes of a stage with one stage a rank take 2 each: a stage has half of
    the layers where a rank has two, and takes 1."""
    stages = STAGES_PER_RANK.get(timetable, 1)
    times = [word for which in ("forward", "backward", "weight") for word in (f"--{which}", str(2 / stages))]
    return json.loads(subprocess.run([dtc, "schedule", "--timetable", timetable, "--stages", str(ranks * stages), "--ranks",
                                      str(ranks), "--microbatches", str(micro_batches), *times, "--json"], check=True,
                                     stdout=subprocess.PIPE, text=True).stdout)


class Pipelines:
    """Programs of the model in `folder`, and their runs."""

    def __init__(self, args, folder):
        self.args, self.folder = args, pathlib.Path(folder)
        self.dtc = args.build.resolve() / "bin/dtc"
        self.tokens = self.folder / "tokens.bin"
        write_tokens(self.tokens, 200000, args.vocabulary)
        self.model = self.folder / "model"
        self.model.mkdir()
        (self.model / "config.json").write_text(json.dumps({
            "model_type": "gpt2", "vocab_size": args.vocabulary, "n_positions": POSITIONS, "n_embd": args.width,
            "n_layer": args.layers, "n_head": args.heads, "tie_word_embeddings": False}))

    def compile(self, timetable=None, *more):
        """A program of two ranks with this timetable, or of one rank; both accumulate as many micro-batches."""
        args, program = self.args, self.folder / "".join([timetable or "one-rank", *more])
        settings = {"global_batch": args.batch * args.micro_batches, "accumulation": args.micro_batches,
                    "sequence_length": args.tokens, "dropout": 0, "clip_norm": 0, "validation_fraction": 0}
        sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        mesh = ["--mesh", "pp=2", "--timetable", timetable] if timetable else ["--mesh", "dp=1"]
        subprocess.run([self.dtc, "compile", self.model, *mesh, *more, *sets, "-o", program], check=True, stdout=subprocess.DEVNULL)
        return program

    def run(self, program, *more):
        """The folder of the run's files."""
        out = self.folder / f"{program.name}-out"
        shutil.rmtree(out, ignore_errors=True)
        cores = "0" if program.name == "one-rank" else "0,1"
        subprocess.run(["taskset", "-c", cores, self.dtc, "run", program, "--data", self.tokens, "--steps",
                        str(self.args.steps), "--threads", "1", "--out", out, *more], check=True, stdout=subprocess.DEVNULL)
        return out

    def seconds(self, program):
        """The median of a run's steps without the first two."""
        return statistics.median(step_seconds(self.run(program))[WARM_UP:])


def alternately(things, rounds):
    """Each thing once a round, every other round backwards."""
    for number in range(rounds):
        for thing in things[:: -1 if number % 2 else 1]:
            yield number, thing
