#!/usr/bin/env python3
"""A run that was killed or interrupted continues as if nothing had happened, and all its ranks from the same
checkpoint."""

import json
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

    # Three epochs long, so that the position in the data matters too.
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

    # A loss scale that overflows and grows, three epochs, a schedule, sharded slots: all the state that a run resumes.
    def test_whole_states(self):
        """After each step a resumed run writes what the uninterrupted one does, file by file and bit for bit."""
        settings = {**SETTINGS, "steps": 14, "checkpoint_every": 1, "sequence_length": 16, "compute": "f16",
                    "gradients": "f16", "loss_scale": 2.0**24, "loss_scale_window": 3, "dropout": 0.1}
        model = self.make_folder("model")
        (model / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 1,
                                                       "n_positions": 16, "vocab_size": 256}))
        program = self.compile("f16", model, "--mesh", "dp=2", "--strategy", "zero1", **settings)
        self.train(program, self.data, "whole")
        whole = self.states("whole")
        self.assertEqual(sorted(whole), list(range(1, 15)))
        scales = [json.loads(files["trainer_state.json"])["loss_scale"] for _, files in sorted(whole.items())]
        # Each field differs from its initial value, and the counts matter later.
        self.assertEqual({scale["good_steps"] for scale in scales}, {0, 1, 2})
        self.assertGreater(scales[-1]["skipped_steps"], 2)
        self.assertTrue(any(b["value"] > a["value"] for a, b in zip(scales, scales[1:])))
        begin = next(step for step, scale in enumerate(scales, 1) if scale["good_steps"] == 1)
        for step in (begin, begin + 1, begin + 2):
            name = f"checkpoints/step-{step:06}"
            shutil.copytree(self.directory / "whole" / name, self.directory / f"stopped{step}" / name)
            self.train(program, self.data, f"rest{step}", "--resume", self.directory / f"stopped{step}")
            rest = self.states(f"rest{step}")
            self.assertEqual(sorted(rest), list(range(step + 1, 15)))
            for later, files in rest.items():
                for name in files:
                    self.assertEqual(files[name], whole[later][name], f"{name} after step {later}, resumed at {step}")
                self.assertEqual(sorted(files), sorted(whole[later]))

    def states(self, out):
        """The files of each checkpoint: {step: {name: content}}."""
        return {int(folder.name.removeprefix("step-")): {path.name: path.read_bytes() for path in folder.iterdir()}
                for folder in (self.directory / out / "checkpoints").glob("step-*[0-9]")}

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
        """Starts a rank for each list of options, as launchers do on different hosts, and returns rank 0's output."""
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
