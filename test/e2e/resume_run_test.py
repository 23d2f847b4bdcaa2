#!/usr/bin/env python3
"""A run that was killed or interrupted goes on as if nothing had happened."""

import signal
import time
import unittest

from driver import DriverTest, write_tokens

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


if __name__ == "__main__":
    unittest.main()
