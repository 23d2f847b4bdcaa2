#!/usr/bin/env python3
"""What a rank takes of memory is its arena, which `dtc inspect` tells, and little more, also while it reads and writes
checkpoints."""

import json
import os
import subprocess
import unittest

from driver import DriverTest, write_tokens

BESIDE = 30_000_000  # bytes beside the arena: the program and its largest tensor (8 MB)


class Memory(DriverTest):
    def peak(self, program, data, *arguments):
        """The most bytes that a run on one rank held."""
        words = [program, "--data", data, "--out", self.directory / "out", "--threads", 1, *arguments]
        job = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(job.pid, 0)
        job.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(job.returncode, 0)
        return usage.ru_maxrss * 1024

    def test_checkpoints_take_no_memory_of_their_own(self):
        model = self.directory / "model"
        model.mkdir()
        (model / "config.json").write_text(json.dumps({
            "model_type": "gpt2", "n_embd": 256, "n_layer": 8, "n_head": 4, "n_positions": 16, "vocab_size": 8000}))
        program = self.compile("program", model, global_batch=1, steps=1, validation_fraction=0)
        arena = json.loads(self.dtc("inspect", program, "--json"))["roles"][0]["arena_bytes"]
        self.assertGreater(arena, 3 * BESIDE)
        data = write_tokens(self.directory / "tokens.bin", 100, 8000)
        self.assertLess(self.peak(program, data), arena + BESIDE)  # writes one
        checkpoint = self.directory / "out/checkpoints/step-000001"
        moments = (checkpoint / "optimizer.safetensors").stat().st_size
        self.assertGreater(moments, 2 * BESIDE)  # would show
        self.assertLess(self.peak(program, data, "--resume", checkpoint, "--steps", 2), arena + BESIDE)  # and reads one


if __name__ == "__main__":
    unittest.main()
