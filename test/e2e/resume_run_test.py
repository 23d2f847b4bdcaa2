#!/usr/bin/env python3
"""A run that was killed or interrupted goes on as if nothing had happened, and all its ranks from the same."""

import os
import shutil
import signal
import struct
import subprocess
import time
import unittest

from driver import DriverTest, read_safetensors, write_safetensors, write_tokens

SETTINGS = {"steps": 12, "global_batch": 8, "sequence_length": 32, "learning_rate": 1e-3, "warmup_steps": 3,
            "validation_fraction": 0, "checkpoint_every": 4}


class Resume(DriverTest):
    def setUp(self):
        super().setUp()
        self.data = write_tokens(self.directory / "tokens", 1000, 256)
        self.program = self.compile("program", "gpt-small", "--mesh", "dp=2,tp=2", **SETTINGS)

    def start_training(self, out, *more):
        return self.start("run", self.program, "--data", self.data, "--out", self.directory / out, "--threads", 1,
                          "--log-losses", self.directory / (out + ".losses"), *more)

    # Three epochs long, so that the position in the data counts too.
    def test_after_a_kill(self):
        whole = self.train(self.program, self.data, "whole")
        job = self.start_training("killed")
        self.await_output("checkpoint: ")
        ranks = self.children(job)
        self.assertEqual(len(ranks), 4)
        job.kill()
        self.assertEqual(job.wait(), -signal.SIGKILL)
        self.await_end(ranks)

        checkpoints = sorted(p.name for p in (self.directory / "killed/checkpoints").glob("step-*[0-9]"))
        self.assertEqual(checkpoints[0], "step-000004")
        done = int(checkpoints[-1].removeprefix("step-"))
        self.assertLess(done, 12)
        self.assertEqual(self.train(self.program, self.data, "again", "--resume", self.directory / "killed"),
                         whole[done:], "bit for bit")
        for mesh, strategy, accumulation in [("dp=1", "ddp", 1), ("tp=4", "megatron-sp", 2), ("dp=2,tp=2", "zero3", 2),
                                             ("dp=4", "zero1", 1)]:
            other = self.compile(mesh, "gpt-small", "--mesh", mesh, "--strategy", strategy, accumulation=accumulation,
                                 **SETTINGS)
            resumed = self.train(other, self.data, mesh + ".out", "--resume", self.directory / "killed")
            self.assert_close(whole[done:], resumed, 1e-4)

    def await_end(self, processes):
        """Ranks end with their supervisor."""
        end = time.monotonic() + 10
        while any(self.is_running(process) for process in processes):
            self.assertLess(time.monotonic(), end, "ranks outlive the supervisor")
            time.sleep(0.02)

    @staticmethod
    def is_running(process):
        try:
            with open(f"/proc/{process}/stat") as stat:
                return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
        except FileNotFoundError:
            return False

    def test_after_one_interrupt(self):
        whole = self.train(self.program, self.data, "whole")
        job = self.start_training("stopped", "--set", "checkpoint_every=0")
        self.await_output("step 3/12")
        job.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(20), 130)
        self.assertIn("go on with --resume", self.output())
        first = self.losses("stopped")
        self.assertLess(len(first), 12)
        rest = self.train(self.program, self.data, "rest", "--resume", self.directory / "stopped")
        self.assertEqual(first + rest, whole)

    def test_two_interrupts_stop_at_once(self):
        job = self.start_training("stopped", "--steps", 100000, "--set", "checkpoint_every=0")
        self.await_output("step 1/")
        begin = time.monotonic()
        job.send_signal(signal.SIGINT)
        job.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(20), 130)
        self.assertLess(time.monotonic() - begin, 5)

    #===------------------------------------------------------------------===#
    # Hosts with files of their own
    #===------------------------------------------------------------------===#

    def refused_by(self, program, *options):
        """Starts a rank for each list of options, as launchers do on different hosts, and returns rank 0's words."""
        jobs = []
        for rank, words in enumerate(options):
            variables = {"RANK": str(rank), "WORLD_SIZE": str(len(options)), "LOCAL_WORLD_SIZE": str(len(options)),
                         "MASTER_PORT": str(os.getpid())}
            jobs.append(subprocess.Popen([program, "--data", self.data, "--out", self.directory / "mixed", "--threads",
                                          "1", *words], env={**os.environ, **variables}, stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT, text=True))
        outputs = [job.communicate(timeout=60)[0] for job in jobs]
        self.assertEqual({job.returncode for job in jobs}, {3}, outputs)
        self.assertFalse((self.directory / "mixed").exists(), "a run that is refused leaves nothing")
        return "".join(outputs)

    def test_ranks_that_would_start_from_different_states(self):
        program = self.compile("two", "gpt-small", "--mesh", "dp=2", **SETTINGS)
        self.train(program, self.data, "first")
        four, eight = (self.directory / f"first/checkpoints/step-{step:06}" for step in (4, 8))
        said = self.refused_by(program, ["--resume", four], ["--resume", eight])
        self.assertIn("rank 0 chose the one of step 4, but rank 1's host has '", said)

        # A model directory, without checksums, and one with other weights.
        a, b = self.directory / "a", self.directory / "b"
        for copy in (a, b):
            copy.mkdir()
            shutil.copy(four / "config.json", copy)
            for path in four.glob("model*"):
                shutil.copy(path, copy)
        for path in b.glob("*.safetensors"):
            header, data = read_safetensors(path)
            values = struct.unpack(f"<{len(data) // 4}f", data)
            write_safetensors(path, header, struct.pack(f"<{len(values)}f", *(-value for value in values)))
        said = self.refused_by(program, ["--weights", a], ["--weights", b])
        self.assertRegex(said, rf"tensor '\S+' is not the same on all ranks: rank 1 loads it from \(on \S+\) '{b}/\S+' "
                               rf"with the checksum [0-9a-f]+, rank 0 from \(on \S+\) '{a}/\S+' with")


if __name__ == "__main__":
    unittest.main()
