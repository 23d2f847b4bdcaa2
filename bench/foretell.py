#!/usr/bin/env python3
"""Steps predicted by `dtc simulate` and then measured, of programs that calibration has not seen.

    foretell.py [--build build] [--count 24] [--seed 1] [--steps 9] [--rate 125] [--out FOLDER] [--kinds shared,network,limited]

Calibrates this machine, then the links between two hosts, which are network namespaces with a core each (needs root),
once unlimited and once limited to RATE MB/s. Draws programs from the seed, each layout in turn: gpt2 and llama of four
sizes; one rank, dp, tp, sequence parallelism, ZeRO-3, pipelines of two stages with GPipe and 1F1B; f32 and bf16; over
shared memory and over both networks. First all programs are compiled and predicted, and the predictions are written
down (FOLDER/predictions.json). Then each runs, and the median step counts, without the first two. Finally the limited
link is halved: the earlier predictions of `simulate --what-if bandwidth=0.5` for the same programs are compared with
steps over the slower link.

A probe, one small program, is measured when the machine is calibrated and before and after each run. The prediction is
scaled by the ratio of the probes, as processors change their clocks, and by nothing else. Where the two probes of a row
differ by more than 5%, the row is measured again, at most three times. Prints every row, and the median and the worst
error.
"""

import argparse
import datetime
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
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
KINDS = ("shared", "network", "limited")  # of links
VOCABULARY, SEQUENCE, HEAD = 1536, 160, 64
# A limit of the system lets some bytes pass at once, which no card does: the burst is as small as possible without
# splitting packets. Smaller packets cost more CPU time than with a card, which splits them itself.
PACKET, BURST = 65536, "80kb"


def config(family, width, layers):
    if family == "gpt2":
        return {"model_type": "gpt2", "vocab_size": VOCABULARY, "n_positions": SEQUENCE, "n_embd": width, "n_layer": layers,
                "n_head": width // HEAD, "tie_word_embeddings": False}
    return {"model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": width, "intermediate_size": 8 * width // 3 // 16 * 16,
            "num_hidden_layers": layers, "num_attention_heads": width // HEAD, "num_key_value_heads": width // HEAD,
            "max_position_embeddings": SEQUENCE, "tie_word_embeddings": False}


class Machine:
    """This machine with its programs, its hosts and their cluster files."""

    def __init__(self, args, folder):
        self.dtc, self.folder, self.steps = args.build.resolve() / "bin/dtc", folder, args.steps
        self.tokens = folder / "tokens.bin"
        write_tokens(self.tokens, 40000, VOCABULARY)
        self.net = None
        self.probe_program = self.compile("probe", "gpt2", SIZES[0], "dp", "f32")

    def add_hosts(self):
        os.environ.update(DTC_BIN=str(self.dtc.parent), DTC_SOURCE=str(ROOT))
        sys.path.insert(0, str(ROOT / "test/e2e"))
        from hosts import Hosts
        self.net = Hosts(2, self.folder)
        self.shell = self.folder / "shell"
        self.shell.write_text(f'#!/bin/sh\nshift\nexec {" ".join(self.net.on(1, "taskset", "-c", 1))} sh -c "$*"\n')
        self.shell.chmod(0o755)

    def remove(self):
        if self.net:
            self.net.remove()

    def on_hosts(self, verb, *words):
        addresses = f"{self.net.address(0)},{self.net.address(1)}"
        return self.net.on(0, "taskset", "-c", 0, self.dtc, verb, "--hosts", addresses, "--remote-shell", self.shell, *words)

    def limit(self, rate):
        """Limits both hosts' links, in MB/s; none: no limit."""
        for host in range(2):
            subprocess.run(self.net.on(host, "tc", "qdisc", "del", "dev", "data", "root"), stderr=subprocess.DEVNULL)
            subprocess.run(self.net.on(host, "ip", "link", "set", "data", "gso_max_size", PACKET if rate else 65536), check=True)
        if rate:
            self.net.limit(f"{rate}mbps", BURST)

    def calibrate(self):
        """The cluster file of this machine, and the probe's time meanwhile."""
        file = self.folder / "shared.textproto"
        probes = [self.probe() for _ in range(3)]
        subprocess.run([self.dtc, "calibrate", "-o", file], check=True, stdout=subprocess.DEVNULL)
        return file, statistics.median(probes + [self.probe() for _ in range(3)])

    def calibrate_network(self, devices, kind):
        """The cluster file of two hosts like this machine, with one of its cores each."""
        file = self.folder / f"{kind}.textproto"
        subprocess.run(self.on_hosts("calibrate", "--devices", devices, "-o", file), check=True, stdout=subprocess.DEVNULL)
        file.write_text(file.read_text().replace("cores: 2", "cores: 1"))
        return file

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

    def foretell(self, program, cluster, *options):
        return json.loads(subprocess.run([self.dtc, "simulate", program, "--cluster", cluster, "--json", *options], check=True,
                                         stdout=subprocess.PIPE, text=True).stdout)

    def measure(self, program, kind="shared"):
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        words = [program, "--data", self.tokens, "--out", out]
        command = [self.dtc, "run", *words] if kind == "shared" else self.on_hosts("run", *words, "--threads", "1")
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        times = [line["time_metrics/end_to_end(s)"] for line in lines if "time_metrics/end_to_end(s)" in line]
        return statistics.median(times[2:])

    def probe(self):
        return self.measure(self.probe_program)


class Row:
    """A program on one kind of links."""

    def __init__(self, drawn):
        self.family, self.size, self.layout, self.compute, self.kind = drawn
        width, layers, _ = self.size
        self.name = f"{self.family} {layers}x{width}, {self.layout}, {self.compute}, {self.kind}"


def draw(args, kinds):
    """`count` different programs: each layout in turn, all else random."""
    chance = random.Random(args.seed)
    choices = {layout: [(family, size, layout, compute, kind) for family in ("gpt2", "llama") for size in SIZES
                        for compute in ("f32", "bf16") for kind in kinds if kind == "shared" or LAYOUTS[layout][1] > 1]
               for layout in LAYOUTS}
    for of_layout in choices.values():
        chance.shuffle(of_layout)
    layouts = [layout for layout in chance.sample(list(LAYOUTS), len(LAYOUTS)) if choices[layout]]
    return [Row(choices[layouts[i % len(layouts)]].pop()) for i in range(args.count)]


class Table:
    """Rows of predicted and measured steps."""

    def __init__(self, machine, calibrated, rate):
        self.machine, self.calibrated, self.rate = machine, calibrated, rate
        self.errors = []
        print("| program | predicted | measured | probe | error | again |\n|---|---|---|---|---|---|")

    def add(self, row, seconds):
        if row.kind != "shared":
            self.machine.limit(self.rate if row.kind == "limited" else None)
        for again in range(4):
            first, measured, last = self.machine.probe(), self.machine.measure(row.program, row.kind), self.machine.probe()
            if abs(first / last - 1) <= 0.05:
                break
        ratio = (first + last) / 2 / self.calibrated
        self.errors.append(seconds * ratio / measured - 1)
        print(f"| {row.name} | {1e3 * seconds * ratio:.2f} ms | {1e3 * measured:.2f} ms | {ratio:.3f} | "
              f"{100 * self.errors[-1]:+.1f}% | {again or ''} |", flush=True)

    def finish(self):
        sizes = [abs(error) for error in self.errors]
        print(f"\nmedian error {100 * statistics.median(sizes):.1f}%, worst {100 * max(sizes):.1f}%\n")


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--rate", type=int, default=125)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    kinds = args.kinds.split(",")
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True).stdout.strip()
    print(f"## {datetime.date.today()}\n\n- Machine: {processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f} at the "
          f"start; dtc {commit}; seed {args.seed}; a limited link has {args.rate} MB/s\n")
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(args, pathlib.Path(folder))
        try:
            foretell_and_measure(args, machine, draw(args, kinds), kinds)
        finally:
            machine.remove()


def foretell_and_measure(args, machine, rows, kinds):
    shared, calibrated = machine.calibrate()
    clusters = {"shared": shared}
    for kind in [kind for kind in kinds if kind != "shared"]:
        if not machine.net:
            machine.add_hosts()
        machine.limit(args.rate if kind == "limited" else None)
        clusters[kind] = machine.calibrate_network(shared, kind)
    for number, row in enumerate(rows):
        row.program = machine.compile(f"program{number}", row.family, row.size, row.layout, row.compute)
        half = ["--what-if", "bandwidth.network=0.5"] if row.kind == "limited" else []
        said = machine.foretell(row.program, clusters[row.kind], *half)
        row.seconds = said["seconds"]
        row.halved = said["what_if"][0]["seconds"] if half else None
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "predictions.json").write_text(json.dumps({row.name: [row.seconds, row.halved] for row in rows}, indent=1))
        for kind, file in clusters.items():
            (args.out / f"{kind}.textproto").write_text(file.read_text())
    table = Table(machine, calibrated, args.rate)
    for row in rows:
        table.add(row, row.seconds)
    table.finish()
    limited = [row for row in rows if row.kind == "limited"]
    if limited:
        print("The limited link halved:\n")
        table = Table(machine, calibrated, args.rate / 2)
        for row in limited:
            table.add(row, row.halved)
        table.finish()


if __name__ == "__main__":
    main()
