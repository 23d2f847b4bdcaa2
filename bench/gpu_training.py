"""The measurements of `scripts/gpu-check bench`: training steps on one GPU next to PyTorch's (gpu_peer.py), in one run.

prepare() compiles the programs where dtc is; bench() runs them where the GPU is, each model by dtc and then by PyTorch.
As soon as it has them, it prints a table of steps and one of all kernels of a traced step, without PyTorch's figures
where there are none. All with bf16, AdamW, no dropout and no clipping; random tokens.
"""

import json
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path

import cases  # scripts/gpu_check
import machine

ROOT = Path(__file__).resolve().parent.parent
TOKENS = 1024
SKIPPED = 3  # steps in which algorithms are chosen and graphs are captured

# An example, what differs from it, and rows of a batch. The examples exist only where programs are prepared.
MODELS = {
    "gpt2-124m": ("gpt2", {}, 16),
    "gpt2-1.5b": ("gpt2", {"n_layer": 48, "n_embd": 1600, "n_head": 25}, 4),
    "llama-1b": ("llama-small", {"hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32,
                                 "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 128256,
                                 "rope_theta": 500000.0, "max_position_embeddings": 8192, "tie_word_embeddings": True}, 4),
}
FEW = {"gpt2-tiny": ("gpt2", {"vocab_size": 250, "n_layer": 1, "n_embd": 128, "n_head": 2}, 2)}


def models(few):
    return FEW if few else MODELS


def prepare(compiler, target, folder, few):
    """Writes models and programs into `folder`."""
    for name, (example, changes, batch) in models(few).items():
        print("preparing", name, flush=True)
        config = {**json.loads((ROOT / "examples" / example / "config.json").read_text()), **changes}
        (folder / name).mkdir(parents=True)
        (folder / name / "config.json").write_text(json.dumps(config))
        settings = {"compute": "bf16", "global_batch": batch, "sequence_length": 16 if few else TOKENS, "dropout": 0,
                    "clip_norm": 0}
        subprocess.run([*compiler, "compile", folder / name, "--mesh", "dp=1", "--target", target, "-o",
                        folder / name / "program",
                        *(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def write_tokens(path, count, vocabulary):
    """Random tokens in llm.c's format."""
    random.seed(1)
    tokens = random.choices(range(vocabulary), k=count)
    path.write_bytes(struct.pack("<256i", 20240520, 1, count, *[0] * 253) + struct.pack(f"<{count}H", *tokens))


def lines_of(path):
    """The complete lines of a file that may still be written to."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def run_dtc(folder, data, steps, environment, flags, timeout):
    """Metrics of the measured steps, and the trace of the one after them. Then the run is killed: nobody needs its
    checkpoint."""
    out, last = folder / "out", SKIPPED + steps
    shutil.rmtree(out, ignore_errors=True)
    command = [folder / "program", "--data", data, "--out", out, "--steps", last + 1000, "--trace",
               f"{last + 1}-{last + 1}", "--set", "eval_every=0", "--set", "checkpoint_every=0", *flags]
    with open(folder / "words", "w") as words:
        process = subprocess.Popen(list(map(str, command)), stdout=words, stderr=words, env=environment,
                                   start_new_session=True)
        try:
            until = time.monotonic() + timeout
            while not (out / "trace.json").exists() or len(lines_of(out / "metrics.jsonl")) < last:
                if process.poll() is not None or time.monotonic() > until:
                    end = " ".join((folder / "words").read_text().split())[-400:]
                    why = f"not done after {timeout:.0f} s" if process.poll() is None else f"exit code {process.poll()}"
                    raise RuntimeError(f"{why}: {end}")
                time.sleep(0.2)
        finally:
            cases.end(process)
    for line in (folder / "words").read_text().splitlines():
        if "attention" in line:  # says whose kernels attention uses
            print(line.strip())
    trace = json.loads((out / "trace.json").read_text())["traceEvents"]
    return lines_of(out / "metrics.jsonl")[SKIPPED:last], trace


def problem_of(words):
    """The line that names an exception; the whole output where there is none."""
    lines = [line for line in words.splitlines() if re.match(r"[\w.]*(Error|Exception)\b", line)]
    return (lines[-1] if lines else " ".join(words.split()))[-400:]


def run_peer(python, folder, batch, steps, clock, logs):
    """PyTorch's figures; where there are none, prints why and returns nothing. torch.compile needs a C compiler and
    Python's headers: without them, the model runs in eager mode."""
    for mode in ["compile", "eager"]:
        command = [*python, ROOT / "bench/gpu_peer.py", folder / "config.json", "--batch", str(batch), "--tokens", str(TOKENS),
                   "--steps", str(steps), "--mode", mode]
        with open(logs / f"{folder.name}.pytorch-{mode}", "w+") as words:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=words, text=True, start_new_session=True)
            try:
                figures, _ = process.communicate(timeout=max(0, clock.left()))
            except subprocess.TimeoutExpired as late:
                print(f"{folder.name}: PyTorch ({mode}) was not done after {late.timeout:.0f} s", flush=True)
                return None
            finally:
                cases.end(process)
            if process.returncode == 0:
                return {**json.loads(figures.splitlines()[-1]), "mode": mode}
            words.seek(0)
            print(f"{folder.name}: PyTorch ({mode}): {problem_of(words.read())}", flush=True)
    return None


def describe_steps(metrics, peer, tokens):
    """A row of the first table: ours, PyTorch's and their ratios, where PyTorch has figures."""
    median = lambda key: statistics.median(line[key] for line in metrics)
    seconds = median("time_metrics/end_to_end(s)")
    host = statistics.median(1 - line["time_metrics/device_wait(s)"] / line["time_metrics/end_to_end(s)"] for line in metrics)
    gib = max(line["memory/max_reserved(GiB)"] for line in metrics)
    use = f"{median('mfu(%)'):.1f}%" if "mfu(%)" in metrics[0] else "unknown"
    speeds, sizes = ["-", "-"], ["-", "-"]
    if peer:
        peer_gib = peer["peak_bytes"] / 2**30
        speeds = [f"{tokens / peer['seconds']:.0f}", f"{peer['seconds'] / seconds:.3f}"]
        sizes = [f"{peer_gib:.2f}", f"{gib / peer_gib:.2f}" if peer_gib else "-"]
    return [f"{tokens / seconds:.0f}", *speeds, f"{gib:.2f}", *sizes, use, f"{100 * host:.1f}%"]


def describe_kernels(trace, bandwidth):
    """Rows of the second table: every kernel, those that take most of a step first. The rate says little about products
    and attention, which mostly compute."""
    kernels = {}
    for event in trace:
        if event.get("cat") == "kernel":
            kernels.setdefault(event["name"], []).append((event["args"]["bytes"], event["dur"] / 1e6))
    rows = []
    for name, launches in kernels.items():
        moved, seconds = map(sum, zip(*launches))
        rows.append((seconds, name, len(launches), moved / seconds))
    total = sum(row[0] for row in rows)
    return [[name, f"{count}", f"{1e3 * seconds:.3f}", f"{100 * seconds / total:.1f}%", f"{speed / 1e9:.0f}",
             f"{100 * speed / bandwidth:.0f}%" if bandwidth else "-"] for seconds, name, count, speed in sorted(rows, reverse=True)]


def table(titles, rows):
    print("\n| " + " | ".join(titles) + " |\n|" + "---|" * len(titles))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def show(name, metrics, trace, peer, tokens):
    """The tables of a model."""
    bandwidth = peer and peer["copy_bytes_per_second"]
    if peer:
        print(f"{name}: {peer.get('gpu', 'no GPU')}, torch {peer['torch']} ({peer['mode']}), a copy moves {bandwidth / 1e9:.0f} "
              "GB/s")
    table(["model", "tokens/s", "PyTorch", "ratio", "GiB", "PyTorch", "ratio", "model flops used", "host's share of a step"],
          [[name, *describe_steps(metrics, peer, tokens)]])
    table(["model", "kernel", "launches", "ms of a step", "of all", "GB/s", "of a copy's"],
          [[name, *row] for row in describe_kernels(trace, bandwidth)])


def bench(folder, few, python, steps, only, clock, flags, logs):
    """Prints the tables; returns the exit code: 1 where something did not run. Prints no bounds: the reader knows
    them."""
    data = folder / "tokens.bin"
    write_tokens(data, 400_000, 250 if few else 50000)
    environment = machine.environment(python)
    unknown = set(only or []) - models(few).keys()
    if unknown:
        sys.exit(f"gpu-check: no model is called {' or '.join(sorted(unknown))}; there are {', '.join(models(few))}")
    logs.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in only or models(few):
        print("measuring", name, flush=True)
        batch = models(few)[name][2]
        try:
            metrics, trace = run_dtc(folder / name, data, steps, environment, flags or ["--tune", folder / name / "tuned"],
                                     clock.left())
        except RuntimeError as problem:
            failed += 1
            print(f"{name}: {problem}", flush=True)
            continue
        finally:  # the available ones
            for each in ["words", "out/metrics.jsonl", "out/trace.json"]:
                if (folder / name / each).exists():
                    shutil.copy(folder / name / each, logs / f"{name}.{Path(each).name}")
        peer = run_peer(python, folder / name, batch, steps, clock, logs)
        failed += not peer
        show(name, metrics, trace, peer, batch * (16 if few else TOKENS))
    return 1 if failed else 0
