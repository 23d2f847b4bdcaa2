#!/usr/bin/env python3
"""How much longer the plan that `dtc plan` proposes takes than the fastest of all that were tried, on this machine.

    plan_regret.py [--build build] [--seed 1] [--rounds 3] [--rates 140,40] [--ranks 2,4]
                   [--models gpt2,llama] [--front 8] [--random 4] [--seconds 2] [--minutes 60] [--cluster FILE]
                   [--out FOLDER] [--quick]

A case is a model, 2 or 4 ranks, and links: shared memory, or two hosts that send at most RATE MB/s each. Hosts are
network namespaces with a core each (needs root). The machine and each link are calibrated first (`dtc calibrate`), or
FILE is a cluster file of the machine. This machine has two cores, and so does its cluster file (`cores: 2`; on two
hosts `cores: 1`): four ranks are predicted as ranks that share cores.

For each case all of the front is compiled that `dtc plan` prints (at most --front plans, the proposed one first), and
--random others: mesh, strategy, state, timetable, micro-batches and recomputation are drawn from a seed, and compiled
with the same search for an order. There are 12 plans at least: where the front has fewer, more are drawn. A random plan
that is predicted to take three times as long as the proposed one is drawn again, as it would only cost time. All plans
are predicted before any of them runs.

Then each runs once a round, every other round backwards, for as many steps as take about --seconds, and two more that
do not count. The median over a run's steps and then over the rounds is the plan's step. A probe, one small program,
runs before and after each of these runs. Where the two differ by more than 5%, the run is repeated, at most twice.

The regret of a case is the step of the proposed plan divided by the shortest of all, minus 1. Bounds: median 3%, worst
10%; goals 2% and 5%. A case begins only if one like the longest so far would end within --minutes; the others are
listed as not measured. --quick: one model, two ranks, one limited link, one round of six plans.
"""

import argparse
import json
import pathlib
import random
import shutil
import statistics
import subprocess
import tempfile
import time

import plans as planning
from foretell import ROOT, Machine
from pipelines import alternately, machine
from published import assignments, write_model
from ranks import step_seconds

WARM_UP = 2
LEAST_PLANS = 12
MOST_DRAWN = 400  # many of these have no program, or are there already
LONGEST_STEP = 2.0  # seconds, of a case's proposed plan
DRIFT = 0.05
RUN_SECONDS = 300  # after which a run is given up
BOUNDS, GOALS = (0.03, 0.10), (0.02, 0.05)  # median, worst
VOCABULARY, SEQUENCE, BATCH = 1536, 128, 16
SETTINGS = {"global_batch": BATCH, "sequence_length": SEQUENCE, "dropout": 0, "validation_fraction": 0}
# Both have heads that four ranks of tensor parallelism divide. No calibration program has these sizes.
MODELS = {
    "gpt2": {"model_type": "gpt2", "vocab_size": VOCABULARY, "n_positions": SEQUENCE, "n_embd": 384, "n_layer": 4, "n_head": 8,
             "tie_word_embeddings": False},
    "llama": {"model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": 256, "intermediate_size": 704,
              "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": SEQUENCE,
              "tie_word_embeddings": False}}
STATES = ["ddp", "zero1", "zero2", "zero3"]
TIMETABLES = ["gpipe", "1f1b", "interleaved", "zb-h1", "zbv"]
RECOMPUTE = ["none", "cheap", "selective", "full"]


class Shop(Machine):
    """This machine: it compiles, predicts and runs plans."""

    def __init__(self, args, folder):
        super().__init__(args, folder)
        self.args, self.ratios = args, []
        self.last_probe = None

    def cluster(self, kind, devices):
        """The cluster file of the links; a limited link is set up, too."""
        if kind == "shared":
            return devices
        if not self.net:
            self.add_hosts()
        self.limit(kind)
        file = self.folder / f"network{kind}.textproto"
        return file if file.exists() else self.calibrate_network(devices, f"network{kind}")

    def run_plan(self, program, kind, ranks, steps):
        """The median step of a run."""
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        words = [program, "--data", self.tokens, "--steps", steps + WARM_UP, "--threads", 1, "--out", out]
        if kind == "shared":
            command = [*planning.CORES, self.dtc, "run", *words]
        else:
            hosts = ",".join(f"{self.net.address(host)}:{ranks // 2}" for host in range(2))
            command = self.net.on(0, "taskset", "-c", 0, self.dtc, "run", "--hosts", hosts, "--remote-shell", self.shell,
                                  *words)
        subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL, timeout=RUN_SECONDS)
        return statistics.median(step_seconds(out)[WARM_UP:])

    def measure_plan(self, plan, case):
        """Between two probes, again where they differ."""
        for _ in range(3):
            before = self.last_probe or self.probe()
            seconds = self.run_plan(plan.program, case.kind, case.ranks, plan.steps(self.args.seconds))
            self.last_probe = self.probe()
            self.ratios.append(self.last_probe / before)
            if abs(self.ratios[-1] - 1) <= DRIFT:
                break
        return seconds


class Plan:
    def __init__(self, text, program, predicted, kind):
        self.text, self.program, self.predicted, self.kind = text, program, predicted, kind
        self.measured = []

    def steps(self, seconds):
        return min(max(round(seconds / self.predicted), 5), 15)

    def step(self):
        return statistics.median(self.measured)


def factors(number, count):
    """All ways to write a number as a product of `count` factors, in order."""
    if count == 1:
        return [(number,)]
    return [(first, *rest) for first in range(1, number + 1) if number % first == 0
            for rest in factors(number // first, count - 1)]


def draw(chance, ranks, kind):
    """A row as `dtc plan` would print it; not each has a program. The order of axes matters only between hosts."""
    pp, dp, tp = chance.choice(factors(ranks, 3))
    axes = [f"{name}={size}" for name, size in (("pp", pp), ("dp", dp), ("tp", tp)) if size > 1]
    if kind != "shared":
        chance.shuffle(axes)
    state = chance.choice(STATES) if dp > 1 else "ddp"
    tensor = chance.choice(["megatron", "megatron-sp"]) if tp > 1 else ""
    strategy = "+".join(part for part in (tensor, state if state != "ddp" or not tensor else "") if part)
    micro = chance.choice([each for each in (1, 2, 4, 8, 16) if BATCH // dp % each == 0 and (pp == 1 or each >= pp)])
    return {"mesh": ",".join(axes), "strategy": strategy, "timetable": chance.choice(TIMETABLES) if pp > 1 else "",
            "micro_batches": micro, "recompute": chance.choice(RECOMPUTE)}


def command_of(row, dtc, model, cluster):
    timetable = ["--timetable", row["timetable"]] if row["timetable"] else []
    return [dtc, "compile", model, "--cluster", cluster, "--mesh", row["mesh"], "--strategy", row["strategy"], *timetable,
            *assignments(**SETTINGS, accumulation=row["micro_batches"], recompute=row["recompute"])]


class Case:
    def __init__(self, model, ranks, kind):
        self.model, self.ranks, self.kind = model, ranks, kind
        self.name = f"{model}, {ranks} ranks, {'shared memory' if kind == 'shared' else f'{kind} MB/s'}"
        self.plans = []

    def prepare(self, shop, devices, chance):
        args, cluster = shop.args, shop.cluster(self.kind, devices)
        model = write_model(shop.folder, self.model, MODELS[self.model])
        answer = planning.plan(shop.dtc, model, cluster, self.ranks, SETTINGS, shop.folder)
        front = answer.said["plans"][:args.front]
        for row in front:
            program = shop.folder / f"plan{len(self.plans)}"
            words = planning.compile_words(row, shop.dtc, program) if row.get("compile") else [
                *command_of(row, shop.dtc, model, cluster), *planning.choices_words(row, program),
                *(["--schedule-effort", 1] if row.get("choices") else []), "-o", program]
            if not self.add(shop, words, program, row, cluster, "front") and row is front[0]:
                raise SystemExit(f"{self.name}: the proposed plan does not compile: {row.get('compile') or words}")
        known = {planning.text_of(row) for row in answer.said["plans"]}
        wanted = max(args.random, args.least - len(self.plans))
        for _ in range(MOST_DRAWN):
            row, program = draw(chance, self.ranks, self.kind), shop.folder / f"plan{len(self.plans)}"
            if wanted == 0 or planning.text_of(row) in known:
                continue
            known.add(planning.text_of(row))
            words = [*command_of(row, shop.dtc, model, cluster), "-o", program]
            wanted -= self.add(shop, words, program, row, cluster, "random")
        self.note = (f"{answer.said['considered']} considered, {answer.said['simulated']} simulated in "
                     f"{answer.wall:.1f} s; {sum(plan.kind == 'front' for plan in self.plans)} of the front, "
                     f"{sum(plan.kind == 'random' for plan in self.plans)} at random")

    def add(self, shop, words, program, row, cluster, kind):
        """Compiles and predicts a plan; whether it joins the case."""
        if planning.timed(words, shop.folder, may_fail=True)[0].returncode != 0:
            return False
        predicted = shop.foretell(program, cluster)["seconds"]
        if kind == "random" and predicted > 3 * self.plans[0].predicted:
            return False
        self.plans.append(Plan(planning.text_of(row), program, predicted, kind))
        return True

    def measure(self, shop):
        shop.ratios, shop.last_probe = [], None
        for _, plan in alternately(self.plans, shop.args.rounds):
            plan.measured.append(shop.measure_plan(plan, self))

    def regret(self):
        return self.plans[0].step() / min(plan.step() for plan in self.plans) - 1

    def print(self, shop):
        best = min(plan.step() for plan in self.plans)
        drift = max(abs(ratio - 1) for ratio in shop.ratios)
        print(f"\n{self.name}: {self.note}; a probe differed from the one before it by {100 * drift:.1f}% at most\n\n"
              "| plan | | predicted | measured | round by round | error | over the fastest |\n" + "|---" * 7 + "|")
        for number, plan in enumerate(self.plans):
            rounds = ", ".join(f"{1e3 * seconds:.1f}" for seconds in plan.measured)
            print(f"| {plan.text} | {'proposed' if number == 0 else plan.kind} | {1e3 * plan.predicted:.1f} ms | "
                  f"{1e3 * plan.step():.1f} ms | {rounds} | {100 * (plan.predicted / plan.step() - 1):+.1f}% | "
                  f"{100 * (plan.step() / best - 1):.1f}% |")
        long = f"; its step takes more than {LONGEST_STEP:g} s" if self.plans[0].step() > LONGEST_STEP else ""
        print(f"\nregret {100 * self.regret():.1f}%{long}", flush=True)


def summarize(done, skipped, minutes):
    regrets = [case.regret() for case in done]
    figures = (statistics.median(regrets), max(regrets))
    print("\n| case | plans | step | regret |\n|---|---|---|---|")
    for case in done:
        print(f"| {case.name} | {len(case.plans)} | {1e3 * case.plans[0].step():.1f} ms | {100 * case.regret():.1f}% |")
    for name, figure, bound, goal in zip(("median", "worst"), figures, BOUNDS, GOALS):
        print(f"\n{name} regret {100 * figure:.1f}%; bound {100 * bound:g}%, goal {100 * goal:g}%: "
              f"{'goal' if figure <= goal else 'bound' if figure <= bound else 'MISSED'}")
    errors = [abs(plan.predicted / plan.step() - 1) for case in done for plan in case.plans]
    print(f"\n{len(errors)} plans in {minutes:.0f} minutes; predictions: median error "
          f"{100 * statistics.median(errors):.1f}%, worst {100 * max(errors):.1f}%")
    for case in skipped:
        print(f"\nNOT measured for lack of time: {case.name}")


def save(args, case):
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        rows = [{"plan": plan.text, "kind": plan.kind, "predicted": plan.predicted, "measured": plan.measured}
                for plan in case.plans]
        (args.out / f"{case.model}-{case.ranks}-{case.kind}.json").write_text(json.dumps(rows, indent=1))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rates", default="140,40", help="MB/s")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--front", type=int, default=8)
    parser.add_argument("--random", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--steps", type=int, default=9, help="of the probe")
    parser.add_argument("--cluster", type=pathlib.Path, help="a cluster file of this machine; by default it is calibrated")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    args.least = LEAST_PLANS
    if args.quick:
        args.models, args.ranks, args.rates = args.models.split(",")[0], "2", args.rates.split(",")[0]
        args.rounds, args.front, args.random, args.least = 1, 4, 2, 6
    return args


def cases_of(args):
    """One of each kind first, so that none is left out where time is short."""
    kinds = ["shared", *(int(rate) for rate in args.rates.split(",") if rate)]
    return [Case(model, int(ranks), kind) for model in args.models.split(",") for kind in kinds
            for ranks in args.ranks.split(",")]


def main():
    args, begin = parse(), time.monotonic()
    print(f"{machine(args.build.resolve())}; seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="dtc-bench-") as folder:
        shop = Shop(args, pathlib.Path(folder))
        try:
            devices = args.cluster.resolve() if args.cluster else shop.calibrate()[0]
            chance, done, skipped, longest = random.Random(args.seed), [], [], 0
            for case in cases_of(args):
                started = time.monotonic()
                if started - begin + longest > 60 * args.minutes:
                    skipped.append(case)
                    continue
                case.prepare(shop, devices, chance)
                case.measure(shop)
                case.print(shop)
                save(args, case)
                done.append(case)
                longest = max(longest, time.monotonic() - started)
            summarize(done, skipped, (time.monotonic() - begin) / 60)
        finally:
            shop.remove()


if __name__ == "__main__":
    main()
