#!/usr/bin/env python3
"""A pipeline of two stages on two cores against the time of its stages: untied GPT-2 124M, 9 and 3 layers, 1F1B, f32.

    compare_pipeline.py [--build build] [--batch 2] [--tokens 128] [--micro-batches 8] [--steps 6] [--rounds 3]
                        [--torch-python PYTHON]

The first bound is the critical path of 1F1B: each stage's forward and backward passes from the trace of the run itself,
with both cores busy and without their waits, walked through the timetable with messages that take no time. The second
is one rank on one core that accumulates as many micro-batches: at best, two cores halve its time. With a PYTHON that
has torch from PyPI, the peer is torch.distributed.pipelining (pipeline_step.py), with one rank and with two. Prints,
for each round, the step, both bounds and the ratios; finally the medians.
"""

import argparse
import collections
import json
import pathlib
import shutil
import statistics
import subprocess
import tempfile

from compare_gpt2_step import ROOT, write_tokens


def model(folder):
    config = json.loads((ROOT / "examples/gpt2/config.json").read_text())
    (folder / "gpt2").mkdir()
    (folder / "gpt2/config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    return folder / "gpt2"


def compile_for(args, folder, name, mesh, *more):
    program = folder / name
    settings = {"global_batch": args.batch * args.micro_batches, "accumulation": args.micro_batches,
                "sequence_length": args.tokens, "dropout": 0}
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    subprocess.run([args.build / "bin/dtc", "compile", folder / "gpt2", "--mesh", mesh, *words, *more, "-o", program],
                   check=True, stdout=subprocess.DEVNULL)
    return program


def run(args, folder, program, ranks, *more):
    out = folder / f"{program.name}-out"
    shutil.rmtree(out, ignore_errors=True)
    subprocess.run(["taskset", "-c", "0" if ranks == 1 else "0,1", args.build / "bin/dtc", "run", program, "--data",
                    folder / "tokens.bin", "--steps", str(args.steps), "--threads", "1", "--set", "eval_batches=1", "--out",
                    out, *more], check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    times = [line["time_metrics/end_to_end(s)"] for line in lines if "time_metrics/end_to_end(s)" in line]
    return statistics.median(times[2:]), out


def run_torch(args, ranks):
    output = subprocess.run([args.torch_python, ROOT / "bench/pipeline_step.py", "--ranks", str(ranks), "--batch", str(args.batch),
                             "--tokens", str(args.tokens), "--micro-batches", str(args.micro_batches), "--steps",
                             str(args.steps - 2)], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(output.splitlines()[-1])["median_s"]


def pass_times(trace):
    """For each rank, the median seconds of work in a list, without waits; and the lists in the order of the last
    step."""
    work = [collections.defaultdict(list), collections.defaultdict(list)]
    order = [[], []]
    events = json.loads(trace.read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    slices = [e for e in events if e.get("ph") == "X" and e.get("tid") == 0]
    for rank in (0, 1):
        last = None
        for event in sorted((e for e in slices if e["pid"] == rank), key=lambda e: e["ts"]):
            name, index = event["args"]["list"], event["args"]["command"]
            if last is None or name != last[0] or index <= last[1]:
                work[rank][name].append(0.0)
                order[rank].append(name)
            last = (name, index)
            if not event["args"].get("wait") and not event["name"].startswith("wait"):
                work[rank][name][-1] += event["dur"] / 1e6
    return [{name: statistics.median(times) for name, times in of.items()} for of in work], order


def critical_path(times, order, micro_batches):
    """Walks both ranks' lists of one step: a forward pass of stage 1 waits for stage 0's, a backward pass of stage 0 for
    stage 1's; the update waits for both stages' last passes (norm and loss)."""
    steps = []
    for rank in (0, 1):
        update = [i for i, name in enumerate(order[rank]) if name.startswith("update")]
        steps.append(order[rank][update[-2] + 1:update[-1] + 1])
    at, next_, done = [0.0, 0.0], [0, 0], {}
    seen = [collections.Counter(), collections.Counter()]
    while any(next_[rank] < len(steps[rank]) for rank in (0, 1)):
        for rank in (0, 1):
            while next_[rank] < len(steps[rank]):
                name = steps[rank][next_[rank]]
                kind = next((k for k in ("forward", "backward", "update") if k in name and "sent" not in name
                             and "receive" not in name), None)
                needed = {"forward": (0, "forward"), "backward": (1, "backward")}.get(kind)
                number = seen[rank][kind]
                if needed and needed[0] != rank:
                    if (*needed, number) not in done:
                        break
                    at[rank] = max(at[rank], done[(*needed, number)])
                if kind == "update":
                    last = [(r, "backward", micro_batches - 1) for r in (0, 1)]
                    if any(key not in done for key in last):
                        break
                    at[rank] = max(at[rank], *(done[key] for key in last))
                at[rank] += times[rank][name]
                done[(rank, kind, number)] = at[rank]
                seen[rank][kind] += 1
                next_[rank] += 1
    return max(at)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--batch", type=int, default=2, help="samples of a micro-batch")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--torch-python", help="a Python with torch from PyPI: measures the peer")
    args = parser.parse_args()
    args.build = args.build.resolve()
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model(folder)
        write_tokens(folder / "tokens.bin")
        (folder / "cut.toml").write_text('preset = "megatron"\n[stages]\nlayers = [9, 3]\n')
        two = compile_for(args, folder, "two", "pp=2", "--strategy", folder / "cut.toml")
        one = compile_for(args, folder, "one", "dp=1")
        for number in range(args.rounds):
            step, _ = run(args, folder, two, 2)
            traced, out = run(args, folder, two, 2, "--trace", f"{args.steps - 1}-{args.steps}")
            alone, _ = run(args, folder, one, 1)
            path = critical_path(*pass_times(out / "trace.json"), args.micro_batches)
            ratios.append([step / path, step / alone])
            print(f"round {number + 1}: step {step:.3f} s (traced {traced:.3f} s), critical path {path:.3f} s: "
                  f"{step / path:.3f}; one rank {alone:.3f} s: {step / alone:.3f}", flush=True)
            if args.torch_python:
                theirs, their_one = run_torch(args, 2), run_torch(args, 1)
                ratios[-1].append((step / theirs) / (alone / their_one))
                print(f"  PyTorch: step {theirs:.3f} s, one rank {their_one:.3f} s: {theirs / their_one:.3f}; ours / theirs "
                      f"{step / theirs:.3f}, of one rank {alone / their_one:.3f}: {ratios[-1][2]:.3f}", flush=True)
    print(f"median: {statistics.median(r[0] for r in ratios):.3f} of the critical path, "
          f"{statistics.median(r[1] for r in ratios):.3f} of one rank" +
          (f", {statistics.median(r[2] for r in ratios):.3f} of PyTorch's" if args.torch_python else ""))


if __name__ == "__main__":
    main()
