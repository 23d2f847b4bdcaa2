"""Which programs are compared with the processor, and how they are prepared where dtc is built."""

import contextlib
import json
import math
import os
import shutil
import signal
import struct
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
STEPS = 10
LAYOUTS = {  # mesh, strategy
    "ddp": ("dp=2", "ddp"),
    "megatron": ("tp=2", "megatron"),
    "sp": ("tp=2", "megatron-sp"),
    "zero1": ("dp=2", "zero1"),
    "zero3": ("dp=2", "zero3"),
    "zero3-tp": ("dp=2,tp=2", "zero3+megatron"),
}


@dataclass
class Case:
    """A program to train, and the source of its reference losses."""

    name: str
    model: str
    mesh: str = "dp=1"
    strategy: str = "ddp"
    compute: str = "f32"
    accumulation: int = 1
    length: int = 16
    dropout: bool = True  # the model's
    timetable: str = "1f1b"  # of a pipeline
    hides: bool = False  # hides cuDNN; the program and the losses are those of the case before
    losses: list = None

    def ranks(self):
        return math.prod(int(axis.split("=")[1]) for axis in self.mesh.split(","))

    def drops(self):
        return self.dropout and self.model.startswith("gpt")

    def may_be_fused(self):
        """Whether cuDNN's attention supports it."""
        return self.compute == "bf16" and not self.drops()

    def program(self):
        return self.name.removesuffix("-own")


def cases(few):
    if few:
        yield Case("gpt-small-ddp", "gpt-small", *LAYOUTS["ddp"])
        yield Case("gpt-small-long", "gpt-small", compute="bf16", dropout=False)
        yield Case("gpt-small-long-own", "gpt-small", compute="bf16", dropout=False, hides=True)
        return
    for model in ["gpt-small", "llama-small"]:
        for compute in ["f32", "bf16"]:
            yield Case(f"{model}-{compute}", model, compute=compute, accumulation=2)
        for name, (mesh, strategy) in LAYOUTS.items():
            yield Case(f"{model}-{name}", model, mesh, strategy)
        for name, mesh, timetable in [("pipeline", "pp=2", "1f1b"), ("pipeline-4", "pp=4", "1f1b"),
                                      ("pipeline-zbv", "pp=2", "zbv"), ("pipeline-dp-tp", "dp=2,tp=2,pp=2", "1f1b")]:
            yield Case(f"{model}-{name}", model, mesh, "megatron", accumulation=4, timetable=timetable)
    for model in ["gpt-small", "llama-small"]:
        long = {"compute": "bf16", "length": 1024, "dropout": False}
        yield Case(f"{model}-long", model, **long)
        yield Case(f"{model}-long-own", model, **long, hides=True)


def write_tokens(path, count, vocabulary):
    """llm.c's format; hardly any stretch occurs twice, so that no two ranks have the same samples."""
    header = [20240520, 1, count] + [0] * 253
    tokens = [i * i % 1009 % vocabulary for i in range(count)]
    path.write_bytes(struct.pack("<256i", *header) + struct.pack(f"<{count}H", *tokens))


def end(process):
    """Also ends all that it started: what compute-sanitizer runs would stay on the GPU."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def losses_of(program, ranks, folder, *flags, logs=None, environment=None, prefix=(), timeout=300):
    """Each step's loss as a program's ranks log it, and rank 0's output; raises with the output of a rank that failed.
    The whole output of all ranks is kept in files that begin with `logs`. `dtc run` may lack libraries here."""
    losses, out, logs = folder / "losses", folder / "out", logs or folder / "words"
    shutil.rmtree(out, ignore_errors=True)
    losses.unlink(missing_ok=True)
    command = [*prefix, program, *flags, "--data", folder / "tokens.bin", "--out", out, "--log-losses", losses]
    world = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_PORT": str(os.getpid())}  # as torchrun
    files = [Path(f"{logs}.rank{rank}") for rank in range(ranks)]
    started = []
    try:
        for rank, file in enumerate(files):
            with open(file, "w") as words:
                started.append(subprocess.Popen(list(map(str, command)), stdout=words, stderr=words, start_new_session=True,
                                                env={**(environment or os.environ), **world, "RANK": str(rank)}))
        until = time.monotonic() + timeout
        codes = [each.wait(timeout=max(0, until - time.monotonic())) for each in started]
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not done after {timeout:.0f} s (its words: {logs}.rank*)") from None
    finally:
        for each in started:
            end(each)
    words = [file.read_text(errors="replace") for file in files]
    if any(codes):
        failed = next(rank for rank, code in enumerate(codes) if code)
        raise RuntimeError(f"exit codes {codes}: {' '.join(words[failed].split())[-300:]} (all of it: {logs}.rank*)")
    return [float(line.split()[1]) for line in losses.read_text().splitlines()], words[0]


def model_of(case, folder):
    """The example, with as many positions as the case has."""
    config = json.loads((ROOT / "examples" / case.model / "config.json").read_text())
    for key in {"n_positions", "max_position_embeddings"} & config.keys():
        config[key] = max(config[key], case.length)
    model = folder / "model"
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text(json.dumps(config))
    return model


def compile_program(compiler, case, few, model, output, *more):
    settings = {"steps": 2 if few else STEPS, "sequence_length": case.length, "accumulation": case.accumulation,
                "global_batch": (4 if case.length < 100 else 2) * case.accumulation, "compute": case.compute}
    if not case.dropout:
        settings["dropout"] = 0
    subprocess.run([*compiler, "compile", model, "--mesh", case.mesh, "--strategy", case.strategy, "--timetable",
                    case.timetable, *more, "-o", output,
                    *(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def prepare(folder, dtc, compiler, target, few):
    """Writes programs, tokens, and cases.json with the losses of each program's twin on the processor."""
    write_tokens(folder / "tokens.bin", 60000, 50)
    prepared = []
    for case in cases(few):
        print("preparing", case.name, flush=True)
        if case.hides:
            case.losses = prepared[-1].losses
        else:
            model = model_of(case, folder)
            compile_program(compiler, case, few, model, folder / case.program(), "--target", target)
            compile_program([dtc], case, few, model, folder / "twin")
            case.losses, _ = losses_of(folder / "twin", case.ranks(), folder)
        prepared.append(case)
    for name in ["twin", "losses"]:
        (folder / name).unlink()
    for name in ["out", "model"]:
        shutil.rmtree(folder / name)
    for file in folder.glob("words.rank*"):
        file.unlink()
    (folder / "cases.json").write_text(json.dumps([asdict(each) for each in prepared], indent=1))
    return len(prepared)


def read_cases(folder):
    return [Case(**each) for each in json.loads((folder / "cases.json").read_text())]
