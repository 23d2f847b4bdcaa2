#!/usr/bin/env python3
"""How long two hosts take from the death of a rank until they train again: `dtc run --max-restarts` and torchrun.

    compare_restart.py --torch-python PYTHON [--build build] [--rounds 3]

GPT-2 124M, dp=2, 4x64 tokens per rank, f32, a checkpoint every second step, on two network namespaces (needs root).
Rank 1 is killed after some steps; the time ends when the first step after the restart is done, so it includes one step.
Prints a table of medians.
"""

import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from arguments import ROOT, comparison
from compare_gpt2_step import write_tokens

sys.path.insert(0, str(ROOT / "test/e2e"))


def await_true(condition, seconds=300):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("it takes too long")
        time.sleep(0.01)


def lines_of(path):
    return path.read_text().splitlines() if path.exists() else []


def time_dtc(net, build, folder, program):
    subprocess.run(f"rm -rf {folder}/out*", shell=True, check=True)
    losses, output = folder / "out.losses", folder / "output"
    with open(output, "w") as file:
        job = subprocess.Popen(net.on(0, build / "bin/dtc", "run", "--max-restarts", 1, "--hosts",
                                      f"{net.address(0)}:1,{net.address(1)}:1", "--remote-shell", net.remote_shell, program,
                                      "--data", folder / "tokens.bin", "--threads", 1, "--set", "checkpoint_every=2", "--set",
                                      "keep=1", "--set", "eval_batches=1", "--out", folder / "out", "--log-losses", losses),
                               stdout=file, stderr=file)
    await_true(lambda: "checkpoint: " in output.read_text())
    victim = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_rank_1(pid, program)]
    os.kill(victim[0], signal.SIGKILL)
    begin = time.monotonic()
    await_true(lambda: "going on after step" in output.read_text())
    resumed = len(lines_of(losses))
    await_true(lambda: len(lines_of(losses)) > resumed)
    seconds = time.monotonic() - begin
    job.kill()
    job.wait()
    await_true(lambda: not any(is_rank_1(pid, program) for pid in map(int, filter(str.isdigit, os.listdir("/proc")))))
    return seconds


def is_rank_1(pid, program):
    try:
        return (os.readlink(f"/proc/{pid}/exe") == str(program)
                and b"\0DTC_RANK=1\0" in pathlib.Path(f"/proc/{pid}/environ").read_bytes())
    except OSError:
        return False


def time_torch(net, python, folder, port):
    subprocess.run(f"rm -f {folder}/steps.* {folder}/*.pt", shell=True, check=True)
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "data", "OMP_NUM_THREADS": "1"}
    # Gloo tries an address of the earlier start and gives up, which counts as a restart.
    jobs = [subprocess.Popen(net.on(host, python, "-m", "torch.distributed.run", "--nnodes", 2, "--nproc-per-node", 1,
                                    "--max-restarts", 9, "--rdzv-backend", "c10d", "--rdzv-endpoint",
                                    f"{net.address(0)}:{port}", "--rdzv-conf", f"is_host={host == 0}", "--local-addr",
                                    net.address(host), ROOT / "bench/ddp_restart.py", folder), env=environment,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
            for host in range(2)]
    steps = folder / "steps.1"
    await_true(lambda: (folder / "latest.pt").exists() and steps.exists())
    victim = int(lines_of(steps)[-1].split()[0])
    os.kill(victim, signal.SIGKILL)
    begin = time.monotonic()
    await_true(lambda: int(lines_of(steps)[-1].split()[0]) != victim)
    seconds = time.monotonic() - begin
    for job in jobs:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    subprocess.run(["pkill", "-9", "-f", "ddp_restart.py"], check=False)
    return seconds


def main():
    parser = comparison(__doc__, rounds=3)
    args = parser.parse_args()
    build = args.build.resolve()
    os.environ.update(DTC_BIN=str(build / "bin"), DTC_SOURCE=str(ROOT))
    from hosts import Hosts
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_tokens(folder / "tokens.bin")
        program = folder / "gpt2"
        subprocess.run([build / "bin/dtc", "compile", ROOT / "examples/gpt2", "--mesh", "dp=2", "--set", "global_batch=8",
                        "--set", "sequence_length=64", "--set", "dropout=0", "-o", program], check=True,
                       stdout=subprocess.DEVNULL)
        net = Hosts(2, folder)
        ours, theirs = [], []
        try:
            for number in range(args.rounds):
                ours.append(time_dtc(net, build, folder, program))
                theirs.append(time_torch(net, args.torch_python, folder, 29700 + number))
                print(f"round {number + 1}: dtc {ours[-1]:.2f} s, torchrun {theirs[-1]:.2f} s", flush=True)
        finally:
            net.remove()
        a, b = statistics.median(ours), statistics.median(theirs)
        print(f"median: dtc {a:.2f} s, torchrun {b:.2f} s, ratio {a / b:.2f}")


if __name__ == "__main__":
    main()
