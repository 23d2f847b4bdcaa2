#!/usr/bin/env python3
"""How much of the communication between two hosts is hidden, against the lower bound and against PyTorch.

    hidden.py [--torch-python PYTHON] [--build build] [--steps 4] [--rates 40,90,140,300,600]
              [--parts bound,sum,ddp,delay,fsdp,sp,replicas,regret]

GPT-2 124M in f32, four rows of 256 tokens per rank, AdamW, one thread and one core per rank; hosts are two network
namespaces of this machine (needs root), each of which sends at most RATE MB/s. The machine and each link are calibrated
first, and programs are compiled for them (`dtc compile --cluster`), so that their orders are searched.

  bound  each rate, and ddp, zero1, zero3 and tp with sequence parallelism: the measured step against the lower bound
  sum    ddp at 140 MB/s, at which the gradients take about as long as the backward pass: the step against forward +
         max(backward, communication) + update, each measured alone
  ddp    the same against DistributedDataParallel over Gloo, the best of its buckets of 1, 25 and 100 MB
  delay  likewise, with 1 ms of delay in each direction on the same link: a process between the hosts adds both
  fsdp   zero3 at 40 MB/s against FSDP2 over Gloo: step, peak memory of a process, bytes on the wire
  sp     tp with sequence parallelism against tp alone, plain and in parts of the batch (docs/choices.md) as the search
         would choose, at 140 MB/s: seconds of a step in which a rank waits, predicted and by the trace of a run, and the
         bytes of its activations next to those of the terms of docs/goldens.md
  replicas  ddp on two cores of one host against two runs of one rank at once, a core each: tokens per second
  regret how much longer the order that is predicted to be the fastest takes than the fastest of six that are measured
         (`dtc tune`), for a smaller model, at 140 and 40 MB/s

Prints tables of medians of all steps except a run's first.
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
from foretell import VOCABULARY, config, processor
from ranks import RANKS, step_seconds
from relayed_hosts import RelayedHosts
from two_hosts import BATCH, LAYOUTS, TOKENS, Bench

ALIKE, SLOW = 140, 40  # MB/s
BOUND = ["ddp", "zero1", "zero3", "tp+sp"]  # layouts
LAYERS, WIDTH, WORDS = 12, 768, 50257  # of GPT-2 124M


def bound(bench):
    print("| link | layout | lower bound | predicted | measured | measured over bound |\n|---|---|---|---|---|---|")
    gaps = []
    for rate in map(int, bench.args.rates.split(",")):
        cluster = bench.cluster(rate)
        for layout in BOUND:
            program = bench.compile_for(layout, cluster)
            said = bench.foretell(program, cluster)
            measured, _ = bench.step(program, bench.net)
            gaps.append(measured / said["lower_bound"]["seconds"] - 1)
            print(f"| {rate} MB/s | {layout} | {said['lower_bound']['seconds']:.2f} s | {said['seconds']:.2f} s | {measured:.2f} s | "
                  f"{100 * gaps[-1]:+.1f}% |", flush=True)
    print(f"\nmedian {100 * statistics.median(gaps):+.1f}%, worst {100 * max(gaps):+.1f}%\n", flush=True)


def parts_alone(bench):
    """Seconds of forward, backward and update of one rank without peers, from its trace."""
    program, out = bench.compile_alone(), bench.folder / "alone-out"
    shutil.rmtree(out, ignore_errors=True)  # from another part of the script
    subprocess.run(["taskset", "-c", "0", bench.dtc, "run", program, "--data", bench.corpus, "--threads", "1", "--out", out, "--trace",
                    f"3-{bench.steps}"], check=True, stdout=subprocess.DEVNULL)
    steps, parts = bench.steps - 2, {"forward": 0, "backward": 0, "update": 0}
    for event in json.loads((out / "trace.json").read_text())["traceEvents"]:
        direction = event.get("args", {}).get("direction", "")
        if event.get("ph") == "X" and direction:
            parts["backward" if direction.endswith("gradient") else direction] += event["dur"] / 1e6 / steps
    return parts


def communication_alone(cluster, layout_bytes):
    """Seconds of an all-reduce between both hosts, at the rate of the largest that was measured."""
    rates = [(float(size), float(seconds)) for size, seconds in re.findall(
        r'collective: "all_reduce"\s+ranks: 2\s+bytes: (\S+)\s+seconds: (\S+)', cluster.read_text().split('name: "network"')[1])]
    size, seconds = max(rates)
    return layout_bytes / size * seconds


def against_sum(bench):
    cluster = bench.cluster(ALIKE)
    parts, moved = parts_alone(bench), communication_alone(cluster, 124439808 * 4)
    ideal = parts["forward"] + max(parts["backward"], moved) + parts["update"]
    measured, _ = bench.step(bench.compile_for("ddp", cluster), bench.net)
    print("| forward | backward | communication | update | sum of what must be | step | ratio |\n|---|---|---|---|---|---|---|")
    print(f"| {parts['forward']:.2f} s | {parts['backward']:.2f} s | {moved:.2f} s | {parts['update']:.2f} s | {ideal:.2f} s | "
          f"{measured:.2f} s | {measured / ideal:.3f} |\n", flush=True)


def alone(bench):
    """Seconds of a step of one rank on one core, of dtc and of the peer: the time that does not depend on hosts."""
    parts = parts_alone(bench)
    one = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29499", "OMP_NUM_THREADS": "1"}
    said = subprocess.run(["taskset", "-c", "0", bench.args.torch_python, ROOT / "bench/ddp_step.py", "--batch", str(BATCH), "--tokens",
                           str(TOKENS), "--steps", str(bench.steps)], env={**os.environ, **one}, check=True, stdout=subprocess.PIPE,
                          text=True).stdout
    return sum(parts.values()), statistics.median(json.loads(said.splitlines()[-1])["seconds"][1:])


def against_ddp(bench, net=None, link=f"{ALIKE} MB/s"):
    net = net or bench.net
    program = bench.compile_for("ddp", bench.cluster(ALIKE))
    ours, buckets = [], {1: [], 25: [], 100: []}
    for _ in range(2):
        ours.append(bench.step(program, net)[0])
        for size, seconds in buckets.items():
            seconds.append(bench.torch_step("ddp_step.py", net, "--bucket", size)[0])
    a = statistics.median(ours)
    size, b = min(((size, statistics.median(seconds)) for size, seconds in buckets.items()), key=lambda each: each[1])
    one, peer = alone(bench)
    print("| link | dtc | DDP, its best bucket | ratio | one rank alone, dtc | PyTorch | more than that, ratio |\n"
          "|---|---|---|---|---|---|---|")
    print(f"| {link} | {a:.2f} s | {b:.2f} s, {size} MB | {a / b:.3f} | {one:.2f} s | {peer:.2f} s | {(a - one) / (b - peer):.2f} |\n",
          flush=True)


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
    (ours, our_peak), (theirs, their_peak) = bench.step(program, bench.net), bench.torch_step("fsdp2_step.py", bench.net)
    sent = bench.foretell(program, cluster)["ranks"][0]["links"]["network"]["sent_bytes"]
    print("| link | dtc | FSDP2 | step, ratio | peak memory, ratio | dtc sends in a step |\n|---|---|---|---|---|---|")
    print(f"| {SLOW} MB/s | {ours:.2f} s, {our_peak:.2f} GiB | {theirs:.2f} s, {their_peak:.2f} GiB | {ours / theirs:.3f} | "
          f"{our_peak / their_peak:.2f} | {sent / 1e6:.0f} MB |\n", flush=True)


def regret(bench):
    model, tokens = bench.folder / "small", bench.folder / "small.bin"
    model.mkdir()
    model.joinpath("config.json").write_text(json.dumps(config("gpt2", 576, 6)))
    write_tokens(tokens, 40000, VOCABULARY)
    print("| link | layout | orders | the one predicted to be the fastest | the fastest | regret |\n|---|---|---|---|---|---|")
    regrets = []
    for rate in (ALIKE, SLOW):
        cluster = bench.cluster(rate)
        for layout in BOUND:
            program = bench.folder / f"small-{layout}-{rate}"
            subprocess.run([bench.dtc, "compile", model, *LAYOUTS[layout], "--cluster", cluster, "--set",
                            f"global_batch={BATCH * RANKS}", "--set", "sequence_length=160", "--set", "dropout=0", "--set", "validation_fraction=0", "-o", program], check=True,
                           stdout=subprocess.DEVNULL)
            said = json.loads(subprocess.run(
                map(str, bench.on_hosts("tune", "--data", tokens, "--cluster", cluster, "--steps", 6, "--rounds", 6, "--json", "-o",
                                        bench.folder / "tuned.toml", program)),
                check=True, stdout=subprocess.PIPE, text=True).stdout)
            orders = said["candidates"]
            chosen, best = min(orders, key=lambda each: each["predicted"]), min(orders, key=lambda each: each["measured"])
            regrets.append(said["regret"])
            print(f"| {rate} MB/s | {layout} | {len(orders)} | {with_uncertainty(chosen)} | {with_uncertainty(best)} | "
                  f"{100 * regrets[-1]:.1f}% |", flush=True)
    print(f"\nmedian {100 * statistics.median(regrets):.1f}%, worst {100 * max(regrets):.1f}%\n", flush=True)


def with_uncertainty(order):
    return f"{order['measured']:.3f} +- {order['uncertainty']:.3f} s"


def waited(bench, program):
    """Seconds of a step in which rank 0 computes nothing, as it waits for a transfer or for the other rank, from a
    trace. A transfer that is waited for right at its start has no wait of its own there."""
    bench.step(program, bench.net, "--trace", f"3-{bench.steps}")
    return idle_seconds(json.loads((bench.folder / "out/trace.json").read_text())["traceEvents"])


def idle_seconds(events):
    seconds = {"step": [], "kernel": [], "copy": []}
    for event in events:
        if event.get("ph") == "X" and event["pid"] == 0 and event.get("cat") in seconds:
            seconds[event["cat"]].append(event["dur"] / 1e6)
    return (sum(seconds["step"]) - sum(seconds["kernel"]) - sum(seconds["copy"])) / len(seconds["step"])


def activations(bench, program):
    """Bytes of a rank's activations, including gathered ones, in the memory plan."""
    said = json.loads(subprocess.run([bench.dtc, "inspect", program, "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout)
    memory = said["roles"][0]["memory"]
    return memory["activations and workspace"] + memory["communication buffers"]


def activations_by_terms(layout):
    """What the layers keep by the terms of docs/goldens.md, in f32 and without dropout, and the logits. Without
    sequence parallelism the norms' inputs are whole, and their outputs, which products read, are recomputed; with it
    these are gathered and kept."""
    terms = 40 + 8 * RANKS if layout == "tp+sp" else 32 + 8 * RANKS
    return BATCH * TOKENS / RANKS * (LAYERS * terms * WIDTH + 4 * WORDS)


def against_tp(bench):
    cluster, exposed = bench.cluster(ALIKE), {}
    print("| layout | step, predicted | waited for, predicted | waited for, measured | activations | by dtc's terms |\n"
          "|---|---|---|---|---|---|")
    for layout in ("tp whole", "tp", "tp+sp"):
        program = bench.compile_for(layout, cluster)
        said = bench.foretell(program, cluster)
        exposed[layout] = said["exposed"] + said["idle"], waited(bench, program)
        print(f"| {layout} | {said['seconds']:.2f} s | {exposed[layout][0]:.2f} s | {exposed[layout][1]:.2f} s | "
              f"{activations(bench, program) / 1e6:.0f} MB | {activations_by_terms(layout) / 1e6:.0f} MB |", flush=True)
    for layout, how in ("tp whole", "plain tp"), ("tp", "tp in parts of the batch, too"):
        foretold, measured = (sp / tp for tp, sp in zip(exposed[layout], exposed["tp+sp"]))
        print(f"\nexposed with sp over {how}: {foretold:.3f} predicted, {measured:.3f} measured", flush=True)
    print()


def two_at_once(bench, program):
    """The mean of the median steps of two independent runs, one core each."""
    outs = [bench.folder / f"single{core}" for core in range(RANKS)]
    for out in outs:
        shutil.rmtree(out, ignore_errors=True)
    jobs = [subprocess.Popen(["taskset", "-c", str(core), bench.dtc, "run", program, "--data", bench.corpus, "--threads", "1", "--out",
                              out], stdout=subprocess.DEVNULL) for core, out in enumerate(outs)]
    if any(job.wait() != 0 for job in jobs):
        raise SystemExit(f"a run failed: {jobs[0].args}")
    return statistics.mean(statistics.median(step_seconds(out)[1:]) for out in outs)


def against_singles(bench):
    single, together, alone = bench.compile_alone(), [], []
    replicas = bench.compile_for("ddp", bench.devices)
    for _ in range(7):  # the single runs differ by 3%
        together.append(bench.step(replicas, None)[0])
        alone.append(two_at_once(bench, single))
    a, b = statistics.median(together), statistics.median(alone)
    print("| | step | tokens a second |\n|---|---|---|")
    for name, seconds in ((f"dp={RANKS} on one host", a), (f"{RANKS} runs of one rank at once", b)):
        print(f"| {name} | {seconds:.3f} s | {RANKS * BATCH * TOKENS / seconds:.0f} |")
    print(f"\nratio {b / a:.3f}\n", flush=True)


PARTS = {"bound": bound, "sum": against_sum, "ddp": against_ddp, "delay": delayed, "fsdp": against_fsdp, "sp": against_tp,
         "replicas": against_singles, "regret": regret}


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
