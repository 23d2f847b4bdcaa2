#!/usr/bin/env python3
"""Checkpoints under everything that happens to a run: ranks that are killed at any moment, disks that are full,
read-only or disappear. The latest checkpoint is complete, and training that resumes from it gives the same bits."""

import json
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

from driver import DTC, DriverTest, read_metrics, read_safetensors, write_tokens

KILLS = 50
SETTINGS = {"global_batch": 4, "sequence_length": 32, "learning_rate": 1e-3, "warmup_steps": 3,
            "validation_fraction": 0, "checkpoint_every": 1}


def can_mount():
    return os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode == 0


class Checkpoints(DriverTest):
    def setUp(self):
        super().setUp()
        self.data = write_tokens(self.directory / "tokens", 1000, 256)

    def checkpoints(self, out):
        """Names of complete checkpoints, the newest last, and of everything else."""
        names = sorted(path.name for path in (self.directory / out / "checkpoints").glob("*"))
        return [name for name in names if name[5:].isdigit()], [name for name in names if not name[5:].isdigit()]

    def step_of(self, out):
        whole, _ = self.checkpoints(out)
        return int(whole[-1].removeprefix("step-")) if whole else 0

    #===------------------------------------------------------------------===#
    # Kills
    #===------------------------------------------------------------------===#

    def run_and_kill(self, program, log, chance, most):
        """Resumes the run and kills a rank at a random moment, at most this many seconds after the first step. Returns
        whether the run ended before."""
        done = self.step_of("killed")
        resume = ["--resume", self.directory / "killed"] if done else []
        job = self.start("run", program, "--data", self.data, "--out", self.directory / "killed", "--threads", 1,
                         "--log-losses", log, *resume)
        while not (log.exists() and log.stat().st_size) and job.poll() is None:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, most))
        ranks = self.children(job) if job.poll() is None else []
        if ranks:
            try:
                os.kill(chance.choice(ranks), signal.SIGKILL)
            except ProcessLookupError:
                pass
        code = job.wait(30)
        self.assertIn(code, [0, 4, 137], self.output())
        if done:
            self.assertIn(f"start: checkpoint {self.directory}/killed/checkpoints/step-{done:06}", self.output())
        self.assertNotIn("damaged", self.output())
        return code == 0

    def check_kills(self, kills, mesh, steps):
        program = self.compile("program", "gpt-small", "--mesh", mesh, steps=steps, keep=3, **SETTINGS)
        begin = time.monotonic()
        whole = dict(self.train(program, self.data, "whole", "--set", "checkpoint_every=0"))
        most = max(0.5, 12 * (time.monotonic() - begin) / steps)  # a slow machine needs longer to write a checkpoint
        self.assertEqual(len(whole), steps)
        chance, resumed = random.Random(7), set()
        for number in range(kills):
            log = self.directory / "losses"
            log.unlink(missing_ok=True)
            before = self.step_of("killed")
            ended = self.run_and_kill(program, log, chance, most)
            for line in log.read_text().splitlines() if log.exists() else []:
                step, loss = line.split()
                self.assertEqual(loss, whole[step], f"kill {number}: step {step} after a resume at {before}")
            steps = [line["step"] for line in self.metrics("killed")] if before else []
            self.assertEqual(steps, list(range(1, len(steps) + 1)), "what is done again is told once")
            resumed.add(before)
            if ended or not self.step_of("killed"): # a run begins in a folder of its own
                shutil.rmtree(self.directory / "killed", ignore_errors=True)
        self.assertGreater(len(resumed), 3, "the run never went on")

    def test_the_latest_loads_after_any_kill(self):
        self.check_kills(KILLS, "dp=2,tp=2", 200)

    #===------------------------------------------------------------------===#
    # Disks
    #===------------------------------------------------------------------===#

    def in_own_mounts(self, script, **names):
        """A shell script that may mount; its mounts disappear when it ends."""
        if not can_mount():
            self.skipTest("mounting needs root")
        variables = {key: str(value) for key, value in names.items()}
        done = subprocess.run(["unshare", "-m", "bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=120, env={**os.environ, "DTC": DTC, **variables})
        return done.stdout

    def test_a_full_disk(self):
        program = self.compile("program", "gpt-small", "--mesh", "dp=2", steps=8, **SETTINGS)
        self.train(program, self.data, "probe", "--steps", 1)
        size = sum(path.stat().st_size for path in (self.directory / "probe").rglob("*"))
        out = self.make_folder("out")
        output = self.in_own_mounts("""
            mount -t tmpfs -o size=$SIZE none $OUT || exit
            $DTC run $PROGRAM --data $DATA --out $OUT --threads 1
            echo exit code $?
            ls $OUT/checkpoints
            $DTC run $PROGRAM --data $DATA --out $OUT.more --resume $OUT --threads 1
            echo exit code $?""", SIZE=int(2.6 * size), OUT=out, PROGRAM=program, DATA=self.data)
        self.assertRegex(output, r"error: rank [01]: the checkpoint after step 3: cannot write '\S*/step-000003\S*/\S+': "
                                 r"No space left on device; free some space")
        self.assertIn("exit code 1\nstep-000001\nstep-000002\n", output.split("dtc: error: rank")[-1])
        self.assertTrue(output.endswith("exit code 0\n"), output)
        self.assertIn(f"start: checkpoint {out}/checkpoints/step-000002", output)

    def test_a_disk_that_can_no_longer_be_written(self):
        program = self.compile("program", "gpt-small", "--mesh", "dp=2", steps=1000, keep=2, **SETTINGS)
        out = self.directory / "out"
        (out / "checkpoints").mkdir(parents=True)
        output = self.in_own_mounts("""
            mount --bind $OUT/checkpoints $OUT/checkpoints || exit
            $DTC run $PROGRAM --data $DATA --out $OUT --threads 1 > $OUT/log 2>&1 &
            until grep -q "checkpoint: " $OUT/log; do sleep 0.05; done
            until mount -o remount,bind,ro $OUT/checkpoints 2>/dev/null; do sleep 0.01; done
            wait $!
            echo exit code $?
            cat $OUT/log""", OUT=out, PROGRAM=program, DATA=self.data)
        self.assertIn("exit code 1\n", output)
        self.assertRegex(output, r"error: rank [01]: the checkpoint after step \d+: cannot write '\S+': Read-only file system")
        last = self.step_of("out")
        self.assertGreater(last, 0)
        self.train(program, self.data, "more", "--resume", out, "--steps", last + 1)

    def test_a_folder_that_vanishes(self):
        program = self.compile("program", "gpt-small", "--mesh", "dp=2", steps=1000, keep=2, **SETTINGS)
        out, moved = self.directory / "out", self.directory / "moved"
        job = self.start("run", program, "--data", self.data, "--out", out, "--threads", 1)
        self.await_output("checkpoint: ")
        (out / "checkpoints").rename(moved)
        self.assertEqual(job.wait(30), 1)
        self.assertRegex(self.output(), r"error: rank [01]: the checkpoint after step \d+: ")
        self.assertIn("No such file or directory", self.output())
        self.assertFalse((out / "checkpoints").exists())
        self.train(program, self.data, "more", "--resume", moved, "--steps",
                   int(max(path.name for path in moved.glob("step-??????")).removeprefix("step-")) + 1)

    # As on hosts that do not share a folder of this name.
    def test_ranks_that_mean_different_folders(self):
        program = self.compile("program", "gpt-small", "--mesh", "dp=2", steps=2, **SETTINGS)
        jobs = []
        for rank in range(2):
            place = self.directory / f"host{rank}"
            place.mkdir()
            variables = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": str(os.getpid())}
            jobs.append(subprocess.Popen([program, "--data", self.data, "--out", "out", "--threads", "1"], cwd=place,
                                         env={**os.environ, **variables}, stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT, text=True))
        outputs = [job.communicate(timeout=60)[0] for job in jobs]
        self.assertEqual([job.returncode for job in jobs], [3, 3], outputs)
        self.assertIn("--out out: it is not the same folder on rank 1's host as on rank 0's", outputs[0])
        self.assertFalse((self.directory / "host0/out").exists(), "a run that is refused leaves nothing")

    #===------------------------------------------------------------------===#
    # Layouts
    #===------------------------------------------------------------------===#

    # Large enough for several files: 41 MB of embeddings, and 13 MB of layers.
    def test_several_files_load_under_other_layouts(self):
        model = self.make_folder("model")
        (model / "config.json").write_text(
            '{"model_type": "gpt2", "n_embd": 256, "n_layer": 4, "n_head": 4, "n_positions": 16, "vocab_size": 40000}')
        data = write_tokens(self.directory / "large", 500, 40000)
        settings = {**SETTINGS, "sequence_length": 16, "steps": 4, "checkpoint_every": 2}
        program = self.compile("program", model, "--mesh", "dp=2,tp=2", **settings)
        whole = self.train(program, data, "whole")
        checkpoint = self.directory / "whole/checkpoints/step-000002"
        for name in ["model", "optimizer"]:
            files = sorted(checkpoint.glob(f"{name}-*.safetensors"))
            self.assertGreater(len(files), 1)
            index = json.loads((checkpoint / f"{name}.safetensors.index.json").read_text())
            held = {tensor: path.name for path in files for tensor in read_safetensors(path)[0]}
            self.assertEqual(index["weight_map"], held)
        for mesh, strategy in [("dp=1", "ddp"), ("tp=2", "megatron-sp"), ("dp=4", "zero3"), ("dp=2", "zero1")]:
            other = self.compile(mesh, model, "--mesh", mesh, "--strategy", strategy, **settings)
            resumed = self.train(other, data, mesh + ".out", "--resume", checkpoint)
            self.assert_close(whole[2:], resumed, 1e-4)
        waits = [line["time_metrics/checkpoint_wait(s)"] for line in read_metrics(self.directory / "whole/metrics.jsonl")
                 if "time_metrics/checkpoint_wait(s)" in line]
        self.assertEqual(len(waits), 1, "begun after step 2, told with step 3")


if __name__ == "__main__":
    unittest.main()
