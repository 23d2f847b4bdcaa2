#!/usr/bin/env python3
"""Plans that papers published: whether `dtc plan` considers them, what it plans itself, and their steps predicted.

    published_plans.py [--build build] [--parts steps,plans,memory,forms] [--only 22B] [--effort N] [--write] [--fit]

  steps   each run with a published mesh, compiled as it was and simulated on A100s: predicted next to measured. A table
          may change one figure of the cluster file, all its rows the same one
  plans   dtc's own plan for the same model, devices and batch, and theirs, with `--fix` for each part of it: whether it
          is among the candidates, and if so what it takes, both on the cluster file as shipped
  memory  ZeRO's stages for 7.5B parameters on 64 devices: which of them fit, next to the closed form
  forms   closed forms of state, bubble and what a device sends; nothing is compiled

Prints the tables of docs/published-plans.md; --write replaces them there. --fit looks for the figure of each table with
the smallest worst error: the share of attention kernels, or of products, or a factor for the shares of all. --only
takes a part of a run's name.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import re
import tempfile

import plans
import published
from arguments import ROOT
from pipelines import machine

PAGE = ROOT / "docs/published-plans.md"
WITHIN = 0.10  # of what was measured
NAMES = {"selective": "arXiv 2205.05198, sequence parallel + selective", "full": "arXiv 2205.05198, full recomputation",
         "mt-nlg": "arXiv 2201.11990", "weak scaling": "arXiv 2104.04473, table 1"}
# The figure of the cluster file that a table may change: the share that kernels of a class reach, or a factor for the
# shares of all classes. Those of the first three tables are fitted in docs/goldens.md.
FIGURES = ("attention", "product", "all")
WEAK_SCALING = ("all", 0.72)


def changed(text, figure, value):
    """The text of the cluster file with another figure."""
    kernels = r"\w+" if figure == "all" else figure
    pattern = rf'(kernel_class: "{kernels}" points {{ share: )([\d.]+)'
    if not re.search(pattern, text):
        raise SystemExit(f"{published.SUPERPOD}: no share of kernels of class {kernels}")
    return re.sub(pattern, lambda found: f"{found[1]}{value * (float(found[2]) if figure == 'all' else 1):.5g}", text)


class Table:
    def __init__(self, key, runs, figure, value):
        self.key, self.runs, self.figure, self.value = key, runs, figure, value

    def cluster(self, folder, figure, value):
        """As many devices as its largest run has."""
        return published.superpod(folder, max(run.devices for run in self.runs), lambda text: changed(text, figure, value))


def tables(tested, only):
    of_goldens = tested.table("What was fitted")

    attention = float(of_goldens["Steps with selective and full recomputation"][2])
    product = float(of_goldens["Steps of MT-NLG 530B"][2])
    result = [Table("selective", published.korthikanti(tested, True), "attention", attention),
              Table("full", published.korthikanti(tested, False), "attention", attention),
              Table("mt-nlg", published.megatron_turing(tested), "product", product),
              Table("weak scaling", published.narayanan(), *WEAK_SCALING)]
    for table in result:
        table.runs = [run for run in table.runs if only in run.name]
    return [table for table in result if table.runs]


class Bench:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.build = args.build.resolve()
        self.dtc = self.build / "bin/dtc"
        self.tested = published.goldens(self.build)
        self.tables = tables(self.tested, args.only)

    def model(self, run):
        return published.write_model(self.folder, re.sub(r"[ ,=]+", "-", run.name), run.config)

    def compile(self, table, run):
        """Compiled once: figures of a cluster do not change a program that is compiled without one."""
        model = self.model(run)
        program = self.folder / f"{table.key}-{model.name}".replace(" ", "-")
        if not program.exists():
            plans.timed([self.dtc, "compile", *run.compile_words(model, self.folder), "-o", program], self.folder)
        return program

    def seconds(self, program, cluster):
        done, _, _ = plans.timed([self.dtc, "simulate", program, "--cluster", cluster, "--json"], self.folder)
        return json.loads(done.stdout)["seconds"]

    def errors(self, table, figure, value):
        cluster = table.cluster(self.folder, figure, value)
        return [self.seconds(self.compile(table, run), cluster) / run.seconds - 1 for run in table.runs]


def steps(bench):
    lines = ["| run | mesh | micro-batches | measured, s | predicted, s | error |", "|---|---|---|---|---|---|"]
    worst = 0
    for table in bench.tables:
        cluster = table.cluster(bench.folder, table.figure, table.value)
        lines.append(f"| **{NAMES[table.key]}** | | | | | |")
        for run in table.runs:
            predicted = bench.seconds(bench.compile(table, run), cluster)
            error = predicted / run.seconds - 1
            worst = max(worst, abs(error))
            measured = f"{run.seconds:.4g}" + (f" ({run.teraflops:.0f} TFLOP/s)" if run.teraflops else "")
            lines.append(f"| {run.name} | {run.mesh()} | {run.micro_batches} | {measured} | {predicted:.4g} | "
                         f"{100 * error:+.1f}% |")
            print(lines[-1], flush=True)
    print(f"\nworst error {100 * worst:.1f}%, bound {100 * WITHIN:.0f}%: {'met' if worst <= WITHIN else 'NOT met'}")
    return lines


def fit(bench):
    """For each table and each figure that could be the one."""
    for table in bench.tables:
        for figure in FIGURES:
            value, errors = best_value(lambda value: bench.errors(table, figure, value))
            rows = ", ".join(f"{run.name} {100 * error:+.1f}%" for run, error in zip(table.runs, errors))
            print(f"{table.key}: {figure} {value:.3g}: worst error {100 * max(map(abs, errors)):.1f}%; {rows}", flush=True)
        print(f"{table.key}: now {table.figure} {table.value}", flush=True)


def best_value(errors_of, low=0.02, high=1.5):
    """Golden-section search in the logarithm of the value, for the smallest worst error."""
    def worst(logarithm):
        return max(map(abs, errors_of(math.exp(logarithm))))

    golden, low, high = (math.sqrt(5) - 1) / 2, math.log(low), math.log(high)
    a, b = high - golden * (high - low), low + golden * (high - low)
    of_a, of_b = worst(a), worst(b)
    while high - low > 0.01:
        if of_a <= of_b:
            high, b, of_b = b, a, of_a
            a = high - golden * (high - low)
            of_a = worst(a)
        else:
            low, a, of_a = a, b, of_b
            b = low + golden * (high - low)
            of_b = worst(b)
    value = math.exp((low + high) / 2)
    return value, errors_of(value)


def fixes(run):
    """Their plan, part by part, as `dtc plan` takes it."""
    parts = {"tp": run.tp, "pp": run.pp, "dp": run.dp, "micro-batches": run.micro_batches, "recompute": run.recompute}
    if run.pp > 1:
        parts["timetable"] = "interleaved" if run.chunks > 1 else "1f1b"
    if run.tp > 1:
        parts["sp"] = "on" if run.splits_sequence else "off"
    if run.dp > 1:
        parts["state"] = "ddp"
    words = [f"{name}={value}" for name, value in parts.items()]
    return [word for fix in words for word in ("--fix", fix)]


def theirs(bench, run, cluster, words):
    """Whether their plan is among the candidates, or why not; and a step of it."""
    answer = plans.plan(bench.dtc, bench.model(run), cluster, run.devices, run.settings(), bench.folder, *fixes(run),
                        *words, may_fail=True)
    own = f"; its {run.chunks} stages a rank are not: `interleaved` has 2" if run.chunks > 2 else ""
    if answer.best:
        return f"yes{own}", answer.best["seconds"]
    pruned = [each for each in answer.said.get("pruned", []) if each["candidates"]]
    if pruned:
        return f"yes{own}, excluded by the bound '{pruned[0]['bound']}' ({pruned[0]['closest']:.4g})", 0
    return f"no: {answer.problem}", 0


def own_plans(bench):
    lines = ["| run | devices | their plan is a candidate | its step, s | dtc's plan | its step, s | considered | simulated |",
             "|---|---|---|---|---|---|---|---|"]
    words = ["--effort", str(bench.args.effort)] if bench.args.effort else []
    runs = [run for table in bench.tables if table.key != "selective" for run in table.runs]
    runs += [run for run in published.without_mesh() if bench.args.only in run.name]
    for run in runs:
        if "dp=" in run.name:  # their programs recomputed whole layers
            run = dataclasses.replace(run, recompute="full")
        cluster = published.superpod(bench.folder, run.devices)
        is_candidate, seconds = theirs(bench, run, cluster, words) if run.tp else ("no mesh was published", 0)
        answer = plans.plan(bench.dtc, bench.model(run), cluster, run.devices, run.settings(), bench.folder, *words,
                            may_fail=True)
        own = plans.text_of(answer.best) if answer.best else answer.problem
        step = f"{answer.best['seconds']:.4g}" if answer.best else ""
        their_step = f"{seconds:.4g}" if seconds else ""
        lines.append(f"| {run.name} | {run.devices} | {is_candidate} | {their_step} | {own} | {step} | "
                     f"{answer.said.get('considered', '')} | {answer.said.get('simulated', '')} |")
        print(lines[-1], flush=True)
        for bound in answer.said.get("pruned", []):
            print(f"  pruned by {bound['bound']}: {bound['candidates']}", flush=True)
    return lines


def zero(bench):
    """Rajbhandari et al., arXiv 1910.02054, figure 1: 2 bytes of a parameter, 2 of a gradient, 12 of the optimizer."""
    lines = ["| stage | published, GB | 2 + 2 + 12 bytes | as dtc keeps it | `dtc plan`, all of a rank, GB | fits in 80 GB |",
             "|---|---|---|---|---|---|"]
    count, ranks = 7.5e9, 64
    run = published.Run("zero 7.5B", published.gpt(*published.SIZES["7.5B"]), ranks, 128)
    cluster = published.superpod(bench.folder, ranks)
    for stage, strategy, figure in [(0, "ddp", 120), (1, "zero1", 31.4), (2, "zero2", 16.6), (3, "zero3", 1.9)]:
        answer = plans.plan(bench.dtc, bench.model(run), cluster, ranks, run.settings(), bench.folder, "--fix",
                            f"dp={ranks}", "--fix", strategy, may_fail=True)
        found = f"{answer.best['bytes'] / 1e9:.1f} | yes" if answer.best else f" | no: {answer.problem}"
        lines.append(f"| {stage} | {figure} | {zero_bytes(stage, ranks) * count / 1e9:.4g} | "
                     f"{own_zero_bytes(stage, ranks) * count / 1e9:.4g} | {found} |")
        print(lines[-1], flush=True)
    return lines


def zero_bytes(stage, ranks, parameter=2, gradient=2, optimizer=12):
    """Bytes of state for a parameter: each stage splits one more of the three."""
    return (parameter / (ranks if stage >= 3 else 1) + gradient / (ranks if stage >= 2 else 1) +
            optimizer / (ranks if stage >= 1 else 1))


def own_zero_bytes(stage, ranks):
    """As dtc keeps it with several micro-batches (docs/goldens.md): all in f32; a copy in 16 bits where parameters are
    not gathered after the update; in stage 1 the whole gradient, and the reduced part of it."""
    extra = {0: 2, 1: 4 / ranks, 2: 0, 3: 2 / ranks}[stage]
    return zero_bytes(stage, ranks, 4, 4, 8) + extra


def parameters(run):
    """12 L h^2 (1 + 13 / 12 h) + h (V + s), arXiv 2104.04473, equation 2."""
    layers, hidden = run.config["n_layer"], run.config["n_embd"]
    return 12 * layers * hidden**2 * (1 + 13 / (12 * hidden)) + hidden * (published.VOCABULARY + run.sequence)


def volumes(run):
    """Bytes that a device sends in a step, in 16 bits: over tp, 2 (t-1)/t of 4 all-reduces for each layer and
    micro-batch, 6 where the layer is recomputed (arXiv 1909.08053); over pp, twice for each of its stages and
    micro-batch, a t-th where it is sliced; over dp, 2 (d-1)/d of the gradients."""
    layers, hidden = run.config["n_layer"], run.config["n_embd"]
    activation = 2 * run.micro * run.sequence * hidden * run.micro_batches
    sums = 6 if run.recompute == "full" else 4
    crossing = activation / (run.tp if run.crossing == "sliced" or run.splits_sequence else 1)
    return (2 * (run.tp - 1) / run.tp * sums * layers / run.pp * activation,
            2 * run.chunks * crossing if run.pp > 1 else 0,
            2 * (run.dp - 1) / run.dp * 2 * parameters(run) / (run.tp * run.pp))


def forms(bench):
    """The mean over the devices of a run, and the bubble's overhead (p-1) / (v m)."""
    lines = ["| run | parameters | state of a device, 16 and 18 bytes | bubble | sent over tp | over pp | over dp |",
             "|---|---|---|---|---|---|---|"]
    runs = [run for table in bench.tables for run in table.runs if table.key != "mt-nlg"]
    runs += published.unmeasured(bench.tested)
    for run in runs:
        count, (tensor, pipeline, data) = parameters(run), volumes(run)
        share = count / (run.tp * run.pp) / 1e9
        technique = ", full" if run.recompute == "full" and run.name in bench.tested.KORTHIKANTI else ""
        lines.append(f"| {run.name}{technique} | {count / 1e9:.1f} billion | {16 * share:.1f}, {18 * share:.1f} GB | "
                     f"{100 * (run.pp - 1) / (run.chunks * run.micro_batches):.1f}% | {tensor / 1e9:.1f} GB | "
                     f"{pipeline / 1e9:.2f} GB | {data / 1e9:.2f} GB |")
    return lines


def write(name, lines):
    """Replaces a table of the page, between two comments."""
    text, begin, end = PAGE.read_text(), f"<!-- {name}: bench/published_plans.py -->\n", f"<!-- end of {name} -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise SystemExit(f"{PAGE}: '{begin.strip()}' and '{end}' should be there once each")
    before, rest = text.split(begin)
    PAGE.write_text(before + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1])


PARTS = {"steps": steps, "plans": own_plans, "memory": zero, "forms": forms}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--only", default="")
    parser.add_argument("--effort", type=int)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--fit", action="store_true")
    args = parser.parse_args()
    if args.write and args.only:
        parser.error("--write with --only would leave rows out of the page")
    print(f"{machine(args.build.resolve())}\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="dtc-bench-") as folder:
        bench = Bench(args, pathlib.Path(folder))
        if args.fit:
            return fit(bench)
        for part in args.parts.split(","):
            print(f"\n{part}:\n", flush=True)
            lines = PARTS[part](bench)
            print("\n" + "\n".join(lines), flush=True)
            if args.write:
                write(part, lines)


if __name__ == "__main__":
    main()
