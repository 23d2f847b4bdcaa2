"""Measures the GPU by `dtc calibrate`, predicts the steps of the bench's models from that, and then measures these
steps."""

import json
import os
import shutil
import statistics
import subprocess

import gpu_training
import machine


def prepare(folder, dtc, compiler, target, few):
    """Copies dtc and the programs of a calibration into `folder`."""
    folder.mkdir()
    shutil.copy(dtc.resolve(), folder / "dtc")
    programs = folder / "programs"
    if not few:
        subprocess.run([*compiler, "calibrate", "--target", target, "--programs", programs, "--compile-only"], check=True)
        return
    # One program that a stand-in can run, instead of all.
    config = {"model_type": "gpt2", "vocab_size": 64, "n_positions": 16, "n_embd": 16, "n_layer": 1, "n_head": 1}
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(config))
    for number in range(14):
        (programs / str(number)).mkdir(parents=True)
        settings = [f"--set={each}" for each in ["steps=12", "sequence_length=16", "global_batch=1", "dropout=0",
                                                 f"compute={'bf16' if number % 2 else 'f32'}"]]
        program = programs / str(number) / "program"
        if number < 2:
            subprocess.run([*compiler, "compile", model, *settings, "--target", target, "-o", program], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        else:
            os.link(programs / str(number % 2) / "program", program)  # which is packed only once


def calibrate(folder, environment, cluster, timeout):
    subprocess.run([folder / "dtc", "calibrate", "--target", "cuda", "--programs", folder / "programs", "-o", cluster],
                   env=environment, check=True, timeout=timeout)


def foretold(folder, program, cluster):
    """Seconds of a step."""
    words = subprocess.run([folder / "dtc", "simulate", program, "--cluster", cluster, "--json"], check=True,
                           stdout=subprocess.PIPE, text=True).stdout
    return json.loads(words)["seconds"]


def run(folder, bench, few, python, steps, only, clock, logs):
    """Prints a table; returns the exit code."""
    logs.mkdir(parents=True, exist_ok=True)
    environment, cluster = machine.environment(python), logs / "gpu.textproto"
    calibrate(folder, environment, cluster, clock.left())
    models = only or list(gpu_training.models(few))
    predicted = {name: foretold(folder, bench / name / "program", cluster) for name in models}
    print("foretold:", ", ".join(f"{name} {1e3 * seconds:.2f} ms" for name, seconds in predicted.items()), flush=True)
    data = bench / "tokens.bin"
    gpu_training.write_tokens(data, 400_000, 250 if few else 50000)
    rows = []
    for name in models:
        metrics, _ = gpu_training.run_dtc(bench / name, data, steps, environment, ["--tune", bench / name / "tuned"],
                                          clock.left())
        for each in ["metrics.jsonl", "trace.json"]:
            shutil.copy(bench / name / "out" / each, logs / f"{name}.{each}")
        seconds = statistics.median(line["time_metrics/end_to_end(s)"] for line in metrics)
        rows.append([name, f"{1e3 * predicted[name]:.2f}", f"{1e3 * seconds:.2f}",
                     f"{100 * (predicted[name] / seconds - 1):+.1f}%"])
    gpu_training.table(["model", "foretold, ms", "measured, ms", "error"], rows)
    return 0
