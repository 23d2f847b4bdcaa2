#!/usr/bin/env python3
"""A rank's memory is its arena and what it touches of its peers' arenas, both of which `dtc inspect` reports, plus the
program itself and little more, also while it reads and writes checkpoints; checkpoints that are written during training
take a copy."""

import json
import os
import shutil
import subprocess
import unittest

from driver import SANITIZED, DriverTest, write_tokens

BESIDE = 24_000_000  # bytes besides the arena and the program: a part of a file that is written or read, and libraries


@unittest.skipIf(SANITIZED, "sanitizers keep memory of their own")
class Memory(DriverTest):
    def peak(self, program, data, *arguments):
        """The most bytes that a run on one rank held."""
        words = [program, "--data", data, "--out", self.directory / "out", "--threads", 1, *arguments]
        job = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(job.pid, 0)
        job.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(job.returncode, 0)
        return usage.ru_maxrss * 1024

    def large_model(self):
        """One beside whose parameters what a program needs otherwise is little."""
        model = self.make_folder("model")
        (model / "config.json").write_text(json.dumps({
            "model_type": "gpt2", "n_embd": 256, "n_layer": 8, "n_head": 4, "n_positions": 16, "vocab_size": 40000}))
        return model

    def test_checkpoints_take_no_memory_of_their_own(self):
        program = self.compile("program", self.large_model(), global_batch=1, steps=1, validation_fraction=0)
        arena = json.loads(self.dtc("inspect", program, "--json"))["roles"][0]["arena_bytes"]
        most = arena + program.stat().st_size + BESIDE
        self.assertGreater(arena, 3 * BESIDE)
        self.assertGreater(arena + 40000 * 256 * 4, most)  # nor does one tensor
        data = write_tokens(self.directory / "tokens.bin", 100, 40000)
        self.assertLess(self.peak(program, data), most)  # writes one
        checkpoint = self.directory / "out/checkpoints/step-000001"
        moments = (checkpoint / "optimizer.safetensors").stat().st_size
        self.assertGreater(moments, 2 * BESIDE)  # would show
        self.assertLess(self.peak(program, data, "--resume", checkpoint, "--steps", 2), most)  # and reads one

    # As docs/running.md says: four bytes for each element that a rank writes.
    def test_checkpoints_beside_training_take_their_copy(self):
        program = self.compile("program", self.large_model(), global_batch=1, steps=4, validation_fraction=0)
        arena = json.loads(self.dtc("inspect", program, "--json"))["roles"][0]["arena_bytes"]
        data = write_tokens(self.directory / "tokens.bin", 100, 40000)
        peak = self.peak(program, data, "--set", "checkpoint_every=1")
        checkpoint = self.directory / "out/checkpoints/step-000004"
        copy = sum(path.stat().st_size for path in checkpoint.glob("*.safetensors"))
        self.assertGreater(copy, 5 * BESIDE)
        self.assertLess(peak, arena + copy + program.stat().st_size + 2 * BESIDE)  # each thread keeps some
        self.assertGreater(peak, arena + copy)

    def peaks_of_two(self, program, data):
        """The most bytes that each of two ranks held, as the system counts them."""
        out, jobs, peaks = self.directory / "out", [], []
        for rank in range(2):
            variables = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": str(os.getpid())}
            jobs.append(subprocess.Popen([program, "--data", data, "--out", out, "--threads", "1"],
                                         env={**os.environ, **variables}, stdout=subprocess.DEVNULL))
        for job in jobs:
            _, status, usage = os.wait4(job.pid, 0)
            job.returncode = os.waitstatus_to_exitcode(status)
            peaks.append(usage.ru_maxrss * 1024)
        self.assertEqual([job.returncode for job in jobs], [0, 0])
        shutil.rmtree(out)
        return peaks

    def test_what_inspect_tells_is_what_ranks_take(self):
        model = self.make_folder("model")
        (model / "config.json").write_text(json.dumps({
            "model_type": "gpt2", "n_embd": 512, "n_layer": 8, "n_head": 4, "n_positions": 16, "vocab_size": 4000}))
        data = write_tokens(self.directory / "tokens.bin", 1000, 4000)
        for strategy, mesh, precision in (("ddp", "dp=2", "f32"), ("zero1", "dp=2", "f32"), ("zero3", "dp=2", "f32"),
                                          ("zero3", "dp=2", "bf16"), ("megatron-sp", "tp=2", "f32")):
            with self.subTest(strategy=strategy, precision=precision):
                program = self.compile("program", model, "--mesh", mesh, "--strategy", strategy, compute=precision,
                                       global_batch=2, steps=2, eval_batches=1)
                role = json.loads(self.dtc("inspect", program, "--json"))["roles"][0]
                self.assertGreater(role["arena_bytes"], 200_000_000)
                self.assertGreater(role["peer_bytes"], 0)
                predicted = role["arena_bytes"] + role["peer_bytes"]
                taken = predicted + program.stat().st_size
                for rank, peak in enumerate(self.peaks_of_two(program, data)):
                    print(f"{strategy} {precision} rank {rank}: {peak / 1e6:.1f} MB, predicted {predicted / 1e6:.1f} MB")
                    self.assertAlmostEqual(peak, taken, delta=0.03 * predicted + BESIDE)


if __name__ == "__main__":
    unittest.main()
