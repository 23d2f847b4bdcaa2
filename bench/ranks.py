"""Starts the ranks of a measurement, dtc's and a peer's alike, with the environment that torchrun provides."""

import itertools
import json
import os
import subprocess

RANKS = 2
ports = itertools.count(29500)  # each start has its own port: the last one's may still be closing


def run_ranks(command_of, net=None):
    """Runs a process per rank: on this machine, sharing both cores, or each on a host of `net` (Hosts of
    test/e2e/hosts.py), on the core of its number. Returns rank 0's output, and the largest peak of resident memory in
    GiB, as the kernel counts it."""
    port, jobs, peaks = next(ports), [], []
    for rank in range(RANKS):
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS), "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
                       **(on_host(net) if net else on_machine(rank))}
        words = ["taskset", "-c", str(rank) if net else "0,1", *map(str, command_of(rank))]
        jobs.append(subprocess.Popen(net.on(rank, *words) if net else words, env=environment, text=True,
                                     stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL))
    output = jobs[0].stdout.read()
    for rank, job in enumerate(jobs):
        _, status, usage = os.wait4(job.pid, 0)
        job.returncode = os.waitstatus_to_exitcode(status)
        if job.returncode != 0:
            raise SystemExit(f"rank {rank} ended with {job.returncode}: {job.args}")
        peaks.append(usage.ru_maxrss / 2**20)
    return output, max(peaks)


def on_host(net):
    return {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": net.address(0), "GLOO_SOCKET_IFNAME": "data",
            "DTC_TOKEN": "a token of this measurement"}


def on_machine(rank):
    return {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1"}


def step_seconds(out):
    """Seconds of all steps of a run of dtc, from the files in its folder."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line["time_metrics/end_to_end(s)"] for line in lines if "time_metrics/end_to_end(s)" in line]
