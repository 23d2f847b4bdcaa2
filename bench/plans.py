"""`dtc plan` and the commands that it prints, for scripts that measure them."""

import dataclasses
import json
import os
import resource
import shlex
import subprocess
import time

from published import assignments

CORES = ["taskset", "-c", "0,1"]


@dataclasses.dataclass
class Answer:
    """What `dtc plan --json` said. `problem`: its last line, where there is no plan."""
    said: dict
    problem: str
    wall: float
    user: float

    @property
    def best(self):
        return self.said["plans"][0] if self.said.get("plans") else None


def timed(words, folder, may_fail=False):
    """A whole process on both cores: what it printed, its wall time and its user CPU time."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime, time.monotonic()
    done = subprocess.run([*CORES, *map(str, words)], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "MIMALLOC_ALLOW_DECOMMIT": "0"})
    wall, user = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    if done.returncode != 0 and not may_fail:
        raise SystemExit(f"{shlex.join(map(str, words))}\nended with {done.returncode}: {done.stderr.strip()}")
    return done, wall, user


def of_one_number(said):
    """The answer and the fields of its number of devices in one, with the commands next to the plan. `simulated` counts
    the candidates of all numbers."""
    for number in said.get("numbers", []):
        if number["devices"] == said["devices"]:
            said = {**number, **said}
    if said.get("plans") and said.get("commands"):
        said["plans"][0]["compile"], said["plans"][0]["run"] = said["commands"]
    for bound in said.get("pruned", []):
        bound.setdefault("candidates", bound.get("plans"))
        bound.setdefault("closest", bound.get("closest_bytes", bound.get("closest_seconds")))
    return said


def plan(dtc, model, cluster, devices, settings, folder, *words, may_fail=False):
    """Runs `dtc plan`; `devices` is a number, or several with commas."""
    done, wall, user = timed([dtc, "plan", model, "--cluster", cluster, "--devices", devices, *assignments(**settings),
                              *words, "--json"], folder, may_fail)
    try:
        said = of_one_number(json.loads(done.stdout))
    except json.JSONDecodeError:
        said = {}
    lines = done.stderr.strip().splitlines()
    return Answer(said, "" if said.get("plans") else lines[-1] if lines else f"exit code {done.returncode}", wall, user)


def text_of(row):
    """A plan in a line: "dp=16,pp=8,tp=8, megatron+zero1, interleaved, 12 micro-batches, recompute full"."""
    parts = [row["mesh"], row["strategy"], row.get("timetable") or "", f"{row['micro_batches']} micro-batches",
             f"recompute {row['recompute']}"]
    return ", ".join(part for part in parts if part)


def compile_words(row, dtc, program, searches=True):
    """The printed command that compiles a plan, with our dtc and another output; choices come from the answer itself.
    Without `searches` the cluster is left out, so that nothing is searched and simulated: compiling alone."""
    words, result = shlex.split(row["compile"]), [str(dtc)]
    if words[0].rpartition("/")[2] != "dtc" or words[1] != "compile":
        raise SystemExit(f"dtc plan: not a 'dtc compile' command: {row['compile']}")
    dropped = ["-o"] + ([] if searches else ["--cluster", "--schedule-effort"])
    dropped += ["--choices"] if row.get("choices") else []
    number = 1
    while number < len(words):
        if words[number] in dropped:
            number += 2
            continue
        result.append(words[number])
        number += 1
    return result + choices_words(row, program) + ["-o", str(program)]


def choices_words(row, program):
    """The choices of a refined plan, in a file next to the program."""
    if not row.get("choices"):
        return []
    file = program.with_suffix(".choices.toml")
    file.write_text(row["choices"])
    return ["--choices", str(file)]
