#!/usr/bin/env python3
"""How much of what a step moves is hidden, between two hosts: against what no order can beat, and against PyTorch.

    hidden.py [--torch-python PYTHON] [--build build] [--steps 4] [--rates 40,90,140,300,600] [--parts bound,sum,ddp,delay,fsdp,regret]

GPT-2 124M in f32, four rows of 256 tokens a rank, AdamW, one thread and one core a rank; hosts are two namespaces of this
machine's network (needs root), of which each sends at most RATE MB/s. The machine and each link are calibrated first, and
programs are compiled for them (`dtc compile --cluster`), so that their orders are searched.

  bound  each rate, and ddp, zero1, zero3 and tp with sequence parallelism: the measured step against the lower bound
  sum    ddp at 140 MB/s, at which the gradients move in about the time of the backward pass: the step against forward +
         max(backward, communication) + update, each measured alone
  ddp    the same against DistributedDataParallel over Gloo, the best of its buckets of 1, 25 and 100 MB
  delay  likewise, with 1 ms of delay each way on the same link: a process between the hosts makes both
  fsdp   zero3 at 40 MB/s against FSDP2 over Gloo: step, peak memory of a process, bytes on the wire
  regret what the order that is foretold to be the fastest takes longer than the fastest of six that are measured (`dtc tune`), of a
         smaller model, at 140 and 40 MB/s

Prints tables of medians of all steps but a run's first.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile

from compare_gpt2_step import ROOT, write_tokens
from foretell import Machine, VOCABULARY, config, processor
from relayed_hosts import RelayedHosts

BATCH, TOKENS, RANKS = 4, 256, 2
LAYOUTS = {"ddp": ["--mesh", "dp=2", "--strategy", "ddp"], "zero1": ["--mesh", "dp=2", "--strategy", "zero1"],
           "zero3": ["--mesh", "dp=2", "--strategy", "zero3"], "tp+sp": ["--mesh", "tp=2", "--strategy", "megatron-sp"]}
ALIKE, SLOW = 140, 40  # MB/s


class Bench(Machine):
    def __init__(self, args, folder):
        super().__init__(args, folder)
        self.args = args
        self.add_hosts()
        self.corpus = folder / "corpus.bin"
        write_tokens(self.corpus)
        self.devices, _ = self.calibrate()
        self.clusters = {}

    def cluster(self, rate):
        """The file of the two hosts at a rate, to which the link is then limited."""
        self.limit(rate)
        if rate not in self.clusters:
            self.clusters[rate] = self.calibrate_network(self.devices, f"network{rate}")
        return self.clusters[rate]

    def compile_for(self, layout, cluster):
        rows = BATCH if layout == "tp+sp" else BATCH * RANKS
        program = self.folder / f"{layout}-{cluster.stem}"
        subprocess.run([self.dtc, "compile", ROOT / "examples/gpt2", *LAYOUTS[layout], "--cluster", cluster, *self.settings(rows),
                        "-o", program], check=True, stdout=subprocess.DEVNULL)
        return program

    def settings(self, rows):
        return ["--set", f"global_batch={rows}", "--set", f"sequence_length={TOKENS}", "--set", "dropout=0", "--set",
                "validation_fraction=0", "--set", f"steps={self.steps}"]

    def run_ranks(self, net, command_of, port):
        """A process on each host, by torchrun's variables: what rank 0 printed, and the largest peak in GiB."""
        jobs, peaks = [], []
        for rank in range(RANKS):
            environment = {**os.environ, "RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": "1",
                           "MASTER_ADDR": net.address(0), "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "data",
                           "OMP_NUM_THREADS": "1", "DTC_TOKEN": "a token of this measurement"}
            jobs.append(subprocess.Popen(net.on(rank, "taskset", "-c", rank, *command_of(rank)), env=environment, text=True,
                                         stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL))
        output = jobs[0].stdout.read()
        for job in jobs:
            _, status, usage = os.wait4(job.pid, 0)
            job.returncode = os.waitstatus_to_exitcode(status)
            if job.returncode != 0:
                raise SystemExit(f"a rank failed: {job.args}")
            peaks.append(usage.ru_maxrss / 2**20)
        return output, max(peaks)

    def step(self, program, net=None, *words):
        """Median seconds of a step of dtc, and the peak."""
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        _, peak = self.run_ranks(net or self.net, lambda rank: [program, "--data", self.corpus, "--threads", 1, "--out", out, *words],
                                 29500)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        return statistics.median([line["time_metrics/end_to_end(s)"] for line in lines if "time_metrics/end_to_end(s)" in line][1:]), peak

    def torch_step(self, script, net=None, *words):
        output, peak = self.run_ranks(net or self.net, lambda rank: [self.args.torch_python, ROOT / "bench" / script, "--batch", BATCH,
                                                                     "--tokens", TOKENS, "--steps", self.steps, *words], 29600)
        result = json.loads(output.splitlines()[-1])
        return statistics.median(result["seconds"][1:]), peak


def bound(bench):
    print("| link | layout | lower bound | foretold | measured | measured over bound |\n|---|---|---|---|---|---|")
    gaps = []
    for rate in map(int, bench.args.rates.split(",")):
        cluster = bench.cluster(rate)
        for layout in LAYOUTS:
            program = bench.compile_for(layout, cluster)
            said = bench.foretell(program, cluster)
            measured, _ = bench.step(program)
            gaps.append(measured / said["lower_bound"]["seconds"] - 1)
            print(f"| {rate} MB/s | {layout} | {said['lower_bound']['seconds']:.2f} s | {said['seconds']:.2f} s | {measured:.2f} s | "
                  f"{100 * gaps[-1]:+.1f}% |", flush=True)
    print(f"\nmedian {100 * statistics.median(gaps):+.1f}%, worst {100 * max(gaps):+.1f}%\n", flush=True)


def parts_alone(bench):
    """Seconds of forward, backward and update of one rank that has nobody to talk to, from its trace."""
    program, out = bench.folder / "alone", bench.folder / "alone-out"
    subprocess.run([bench.dtc, "compile", ROOT / "examples/gpt2", *bench.settings(BATCH), "-o", program], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run(["taskset", "-c", "0", bench.dtc, "run", program, "--data", bench.corpus, "--threads", "1", "--out", out, "--trace",
                    f"3-{bench.steps}"], check=True, stdout=subprocess.DEVNULL)
    steps, parts = bench.steps - 2, {"forward": 0, "backward": 0, "update": 0}
    for event in json.loads((out / "trace.json").read_text())["traceEvents"]:
        direction = event.get("args", {}).get("direction", "")
        if event.get("ph") == "X" and direction:
            parts["backward" if direction.endswith("gradient") else direction] += event["dur"] / 1e6 / steps
    return parts


def communication_alone(cluster, layout_bytes):
    """Of an all-reduce between both hosts, at the rate of the largest that was measured."""
    rates = [(float(size), float(seconds)) for size, seconds in re.findall(
        r'collective: "all_reduce"\s+ranks: 2\s+bytes: (\S+)\s+seconds: (\S+)', cluster.read_text().split('name: "network"')[1])]
    size, seconds = max(rates)
    return layout_bytes / size * seconds


def against_sum(bench):
    cluster = bench.cluster(ALIKE)
    parts, moved = parts_alone(bench), communication_alone(cluster, 124439808 * 4)
    ideal = parts["forward"] + max(parts["backward"], moved) + parts["update"]
    measured, _ = bench.step(bench.compile_for("ddp", cluster))
    print("| forward | backward | communication | update | sum of what must be | step | ratio |\n|---|---|---|---|---|---|---|")
    print(f"| {parts['forward']:.2f} s | {parts['backward']:.2f} s | {moved:.2f} s | {parts['update']:.2f} s | {ideal:.2f} s | "
          f"{measured:.2f} s | {measured / ideal:.3f} |\n", flush=True)


def against_ddp(bench, net=None, link=f"{ALIKE} MB/s"):
    program = bench.compile_for("ddp", bench.cluster(ALIKE))
    ours, buckets = [], {1: [], 25: [], 100: []}
    for _ in range(2):
        ours.append(bench.step(program, net)[0])
        for size, seconds in buckets.items():
            seconds.append(bench.torch_step("ddp_step.py", net, "--bucket", size)[0])
    a = statistics.median(ours)
    size, b = min(((size, statistics.median(seconds)) for size, seconds in buckets.items()), key=lambda each: each[1])
    print("| link | dtc | DDP, its best bucket | ratio |\n|---|---|---|---|")
    print(f"| {link} | {a:.2f} s | {b:.2f} s, {size} MB | {a / b:.3f} |\n", flush=True)


def delayed(bench):
    subprocess.run(["ninja", "-C", bench.args.build, "bench_relay"], check=True, stdout=subprocess.DEVNULL)
    net = RelayedHosts(bench.args.build / "bench/hosts/bench_relay", 1, ALIKE)
    try:
        against_ddp(bench, net, f"{ALIKE} MB/s, 1 ms each way")
    finally:
        net.remove()


def against_fsdp(bench):
    cluster = bench.cluster(SLOW)
    program = bench.compile_for("zero3", cluster)
    (ours, our_peak), (theirs, their_peak) = bench.step(program), bench.torch_step("fsdp2_step.py")
    sent = bench.foretell(program, cluster)["ranks"][0]["links"]["network"]["sent_bytes"]
    print("| link | dtc | FSDP2 | step, ratio | peak memory, ratio | dtc sends in a step |\n|---|---|---|---|---|---|")
    print(f"| {SLOW} MB/s | {ours:.2f} s, {our_peak:.2f} GiB | {theirs:.2f} s, {their_peak:.2f} GiB | {ours / theirs:.3f} | "
          f"{our_peak / their_peak:.2f} | {sent / 1e6:.0f} MB |\n", flush=True)


def regret(bench):
    model, tokens = bench.folder / "small", bench.folder / "small.bin"
    model.mkdir()
    model.joinpath("config.json").write_text(json.dumps(config("gpt2", 576, 6)))
    write_tokens(tokens, 40000, VOCABULARY)
    print("| link | layout | orders | the one foretold to be the fastest | the fastest | regret |\n|---|---|---|---|---|---|")
    regrets = []
    for rate in (ALIKE, SLOW):
        cluster = bench.cluster(rate)
        for layout, words in LAYOUTS.items():
            program = bench.folder / f"small-{layout}-{rate}"
            subprocess.run([bench.dtc, "compile", model, *words, "--cluster", cluster, "--set", f"global_batch={BATCH * RANKS}", "--set",
                            "sequence_length=160", "--set", "dropout=0", "--set", "validation_fraction=0", "-o", program], check=True,
                           stdout=subprocess.DEVNULL)
            said = json.loads(subprocess.run(
                map(str, bench.on_hosts("tune", "--data", tokens, "--cluster", cluster, "--steps", 5, "--rounds", 2, "--json", "-o",
                                        bench.folder / "tuned.toml", program)),
                check=True, stdout=subprocess.PIPE, text=True).stdout)
            orders = said["candidates"]
            chosen, best = min(orders, key=lambda each: each["predicted"]), min(orders, key=lambda each: each["measured"])
            regrets.append(said["regret"])
            print(f"| {rate} MB/s | {layout} | {len(orders)} | {chosen['measured']:.3f} s | {best['measured']:.3f} s | "
                  f"{100 * regrets[-1]:.1f}% |", flush=True)
    print(f"\nmedian {100 * statistics.median(regrets):.1f}%, worst {100 * max(regrets):.1f}%\n", flush=True)


PARTS = {"bound": bound, "sum": against_sum, "ddp": against_ddp, "delay": delayed, "fsdp": against_fsdp, "regret": regret}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch-python")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rates", default="40,90,140,300,600")
    parser.add_argument("--parts", default=",".join(PARTS))
    args = parser.parse_args()
    args.build = args.build.resolve()
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True).stdout.strip()
    print(f"## {datetime.date.today()}\n\n- Machine: {processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f} at the "
          f"start; dtc {commit}\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args, pathlib.Path(folder))
        try:
            for part in args.parts.split(","):
                PARTS[part](bench)
        finally:
            bench.remove()


if __name__ == "__main__":
    main()
