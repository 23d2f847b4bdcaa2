#!/usr/bin/env python3
"""The cost of a planner's questions next to compiling: GPT-3 175B, 96 layers, dp=512, tp=8; of a search's, GPT-2
124M; and of `dtc plan`.

    plan.py [--build build] [--before BUILD] [--rounds 5] [--orders 50] [--effort 24]
            [--parts questions,search,scheduled,plans,rate] [--models 124M,175B,70B,65B,1T] [--plan-rounds 1]

`--before` names the build whose `dtc compile` is the reference, for instance of commit 406e13e:

    git worktree add ../before 406e13e && cd ../before && cmake -G Ninja -B build && ninja -C build dtc dtc-program

Without it the build itself is the reference. Both run alternately, and all numbers are user CPU seconds: other work on
the machine makes them larger, but not by much. `plan_bench` (bench/plan/plan.cpp, `ninja -C BUILD plan_bench`) asks the
planner.

  search  GPT-2 124M on two hosts of one core with 140 MB/s between them: how many candidate plans (choices that are
          planned and simulated) take the time of one compilation in the simple order. Reading the model, *what* and
          *where* are subtracted from that time, as they are run only once. `search_bench` (bench/plan/search.cpp)
          searches
  scheduled  GPT-3 175B in bf16 for 4096 H100s, dp=64, tp=8 with megatron-sp, pp=8: compiled with `--cluster`, so that
          the order is searched, the step is proven not to hang and simulated, and remedies are sought, compared with
          compiling in the simple order
  plans   `dtc plan` of five models for 8 to 3072 devices, in compilations of the plan that it proposes. That command
          runs as printed but without its cluster file, so that it searches no order and simulates nothing. Both run
          alternately, whole processes on the same two cores, and the median of their wall times counts
  rate    candidates that `dtc plan` places, packs and simulates in a second, GPT-2 124M for 8 to 64 devices: all that
          it reports, divided by the wall time of the whole process
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile

import plans as planning
import published

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL, MESH, BATCH, SEQUENCE = ROOT / "examples/gpt3-175b", "dp=512,tp=8", 512, 2048
SEARCHED = [("dp=2", "ddp", 8), ("dp=2", "zero3", 8), ("tp=2", "megatron", 4), ("tp=2", "megatron-sp", 4)]
H100S = ROOT / "examples/clusters/h100x512.textproto"
HOSTS = """
name: "two hosts"
devices { name: "core" threads: 1 peaks { type: "f32" flops: 260e9 } memory_bandwidth: 38e9 launch_seconds: 1e-6 }
nodes { device: "core" cores: 1 count: 2 memory_bytes: 24000000000 }
levels { name: "network" latency: 20e-6 bandwidth: 140e6 }
"""


def user_seconds(words):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True,
                          env={**os.environ, "MIMALLOC_ALLOW_DECOMMIT": "0"})
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, done.stdout


def compile_words(build, model, mesh, batch, sequence, work, *words):
    return [build / "bin/dtc", "compile", model, "--mesh", mesh, "--set", f"global_batch={batch}", "--set",
            f"sequence_length={sequence}", *words, "-o", work / "program"]


def questions(options, work):
    compiled, asked = [], []
    for _ in range(options.rounds):
        compiled.append(user_seconds(compile_words(options.before or options.build, MODEL, MESH, BATCH, SEQUENCE, work))[0])
        asked.append(json.loads(user_seconds([options.build / "bench/plan/plan_bench", MODEL, MESH, BATCH, SEQUENCE,
                                              options.orders])[1]))
    base = statistics.median(compiled)
    print(f"{asked[0]['commands']} commands, {asked[0]['classes']} classes moved")
    print("| | user s, median | least | most | of compiling |\n|---|---|---|---|---|")
    rows = {"`dtc compile`" + (" of before" if options.before else ""): compiled}
    for name, key in (("first plan, from the model's file", "first"), ("of that: reading the model", "load"),
                      ("of that: *what* and *where*, once for each planner", "place"),
                      ("of that: lowering a clone, and planning it", "lower"),
                      ("other gathers: lowered again", "gathers"),
                      ("another order", "again"), ("the slowest of these", "again_most")):
        rows[name] = [each[key] for each in asked]
    for name, values in rows.items():
        print(f"| {name} | {statistics.median(values):.4f} | {min(values):.4f} | {max(values):.4f} | "
              f"{statistics.median(values) / base:.3f} |")


def search(options, work):
    (work / "hosts.textproto").write_text(HOSTS)
    print("| GPT-2 124M | compiling, user s | read and placed once | candidates | a candidate | in the time of one compilation |\n"
          "|---|---|---|---|---|---|")
    for mesh, strategy, batch in SEARCHED:
        compiled, placed, each, plans = [], [], [], 0
        for _ in range(options.rounds):
            words = compile_words(options.build, ROOT / "examples/gpt2", mesh, batch, 256, work)
            compiled.append(user_seconds([*words, "--strategy", strategy])[0])
            said = json.loads(user_seconds([options.build / "bench/plan/search_bench", ROOT / "examples/gpt2", mesh, strategy, batch,
                                            256, work / "hosts.textproto", options.effort])[1])
            placed.append(said["place"])
            each.append(said["search"] / said["plans"])
            plans = said["plans"]
        base, once, one = (statistics.median(values) for values in (compiled, placed, each))
        print(f"| {mesh}, {strategy} | {base:.3f} | {once:.3f} | {plans} | {one:.4f} | {(base - once) / one:.1f} |", flush=True)


def scheduled(options, work):
    cluster = work / "h100x4096.textproto"
    cluster.write_text(H100S.read_text().replace("count: 64", "count: 512").replace("units: 64", "units: 0"))
    words = [options.build, MODEL, "dp=64,tp=8,pp=8", BATCH, SEQUENCE, work, "--strategy", "megatron-sp", "--set", "accumulation=8", "--set",
             "compute=bf16"]
    simple, searched = [], []
    for _ in range(options.rounds):
        simple.append(user_seconds(compile_words(*words))[0])
        searched.append(user_seconds(compile_words(*words, "--cluster", cluster))[0])
    a, b = statistics.median(simple), statistics.median(searched)
    print("| GPT-3 175B | user s, median | ratio |\n|---|---|---|")
    print(f"| compiled in the simple order | {a:.3f} | 1 |\n| ordered for a cluster, proven and simulated | {b:.3f} | {b / a:.2f} |\n",
          flush=True)


class Planned:
    """A model and the devices to plan it for. `must`, `goal`: compilations."""

    def __init__(self, name, devices, settings, must, goal, needed=0):
        self.name, self.devices, self.settings = name, devices, {**settings, "compute": "bf16"}
        self.must, self.goal, self.needed = must, goal, needed  # needed: candidates to simulate at least

    def files(self, work):
        """The model and the cluster."""
        if self.name == "124M":
            return ROOT / "examples/gpt2", ROOT / "examples/clusters/h100x8.textproto"
        if self.name == "175B":
            return MODEL, published.superpod(work, self.devices)
        is_llama = self.name in published.LLAMAS
        config = published.llama(self.name) if is_llama else published.gpt(*published.SIZES["1008B"])
        return published.write_model(work, self.name, config), published.superpod(work, self.devices)


PLANNED = [Planned("124M", 8, {"global_batch": 64, "sequence_length": 1024}, 30, 9),
           Planned("175B", 1024, {"global_batch": 1536, "sequence_length": 2048}, 400, 100, 100),
           Planned("70B", 64, {"global_batch": 1024, "sequence_length": 4096}, 400, 100, 100),
           Planned("65B", 2048, {"global_batch": 2048, "sequence_length": 2048}, 400, 100, 100),
           Planned("1T", 3072, {"global_batch": 3072, "sequence_length": 2048}, 400, 100, 100)]


def verdict(figure, must, goal):
    """For the larger the worse where `goal` is below `must`, else the other way round."""
    sign = 1 if goal < must else -1
    return "goal" if sign * figure <= sign * goal else "must" if sign * figure <= sign * must else "MISSED"


def plans(options, work):
    dtc, notes = options.build.resolve() / "bin/dtc", []
    print("| model | devices | considered | pruned | simulated | plan, s | user s | compiling, s | with its cluster, s | "
          "compilations | must | goal | |\n" + "|---" * 13 + "|", flush=True)
    for each in [each for each in PLANNED if each.name in options.models.split(",")]:
        model, cluster = each.files(work)
        answers, alone, searched = [], [], []
        for number in range(max(options.plan_rounds, options.rounds)):
            if number < options.plan_rounds:
                answers.append(planning.plan(dtc, model, cluster, each.devices, each.settings, work))
            for seconds, searches in ((alone, False), (searched, True)):
                words = planning.compile_words(answers[0].best, dtc, work / "program", searches)
                seconds.append(planning.timed(words, work)[1])
        said, wall = answers[0].said, statistics.median(answer.wall for answer in answers)
        pruned = sum(bound["candidates"] for bound in said["pruned"])
        ratio = wall / statistics.median(alone)
        print(f"| {each.name} | {each.devices} | {said['considered']} | {pruned} | {said['simulated']} | {wall:.2f} | "
              f"{statistics.median(answer.user for answer in answers):.2f} | {statistics.median(alone):.3f} | "
              f"{statistics.median(searched):.3f} | {ratio:.1f} | {each.must} | {each.goal} | "
              f"{verdict(ratio, each.must, each.goal)} |", flush=True)
        bounds = ", ".join(f"{bound['bound']} {bound['candidates']}" for bound in said["pruned"]) or "nothing"
        few = f"; fewer than {each.needed} simulated" if said["simulated"] < each.needed else ""
        notes.append(f"- {each.name}: {planning.text_of(answers[0].best)}: {answers[0].best['seconds']:.4g} s a step; "
                     f"{'all' if said['complete'] else 'NOT all'} candidates covered; pruned: {bounds}{few}")
    print("\n" + "\n".join(notes) + "\n", flush=True)


def rate(options, work):
    cluster = ROOT / "examples/clusters/h100x512.textproto"
    settings = {"global_batch": 64, "sequence_length": 1024, "compute": "bf16"}
    rates, simulated = [], 0
    for _ in range(options.rounds):
        answer = planning.plan(options.build.resolve() / "bin/dtc", ROOT / "examples/gpt2", cluster, "8,16,32,64", settings,
                               work)
        simulated = answer.said["simulated"]
        rates.append(simulated / answer.wall)
    median = statistics.median(rates)
    print("| GPT-2 124M, 12 layers | candidates simulated | a second | least | most | must | goal | |\n" + "|---" * 8 + "|")
    print(f"| 8, 16, 32 and 64 devices | {simulated} | {median:.1f} | {min(rates):.1f} | {max(rates):.1f} | 20 | 70 | "
          f"{verdict(median, 20, 70)} |\n", flush=True)


PARTS = {"questions": questions, "search": search, "scheduled": scheduled, "plans": plans, "rate": rate}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--orders", type=int, default=50)
    parser.add_argument("--effort", type=int, default=24)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--models", default=",".join(each.name for each in PLANNED))
    parser.add_argument("--plan-rounds", type=int, default=1, help="plans of each model; --rounds compilations of it")
    options = parser.parse_args()
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as work:
        for part in options.parts.split(","):
            PARTS[part](options, pathlib.Path(work))


if __name__ == "__main__":
    main()
