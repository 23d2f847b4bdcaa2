#!/usr/bin/env python3
"""Steps that are computed twice are equal to the bit, under any layout, and change nothing.

The models have dropout 0.1. training_test shows a difference, in a model whose kernel makes one.
"""

import unittest

from driver import SOURCE, DriverTest, write_tokens

SETTINGS = {"steps": 3, "learning_rate": 1e-3, "validation_fraction": 0, "seed": 7, "sequence_length": 16, "dropout": 0.1}
LAYOUTS = [("dp=2", "ddp", 1, "f32"), ("dp=2", "ddp", 2, "bf16"), ("dp=2,tp=2", "megatron-sp", 2, "f32"),
           ("dp=2,tp=2", "zero2", 2, "f32"), ("dp=2", "zero3", 1, "bf16"), ("dp=2,tp=2", "megatron-sp+zero3", 2, "f32")]


class Replay(DriverTest):
    def check(self, model, mesh, strategy, accumulation, compute="f32", vocabulary=256, threads=1, **settings):
        data = write_tokens(self.directory / "tokens", 2000, vocabulary)
        program = self.compile("program", model, "--mesh", mesh, "--strategy", strategy, accumulation=accumulation,
                               compute=compute, **SETTINGS, **settings)
        said = {}
        for out, more in (("once", []), ("twice", ["--replay-check", 1])):
            said[out] = self.dtc("run", program, "--data", data, "--out", self.directory / out, "--threads", threads,
                                 "--log-losses", self.directory / (out + ".losses"), *more)
        self.assertRegex(said["twice"], r"replay check: .* takes \d+ bytes for the hashes of what \d+ commands write")
        self.assertEqual(self.losses("once"), self.losses("twice"))
        self.assertEqual(len(self.losses("twice")), SETTINGS["steps"])
        once, twice = ({path.name: path.read_bytes() for path in (self.directory / out).glob("checkpoints/*/*.safetensors")}
                       for out in said)
        self.assertTrue(once and once == twice, "the state differs")

    def test_every_layout(self):
        for layout in LAYOUTS:
            with self.subTest(layout=layout):
                self.setUp() # a folder for each
                self.check("gpt-small", *layout, global_batch=8)

    def test_threads_that_share_the_work(self):
        self.check("gpt-small", "dp=1", "ddp", 1, threads=4, global_batch=4)

    # 61 tokens and three ranks: padding holds whatever was there before.
    def test_padding(self):
        self.check(SOURCE / "test/e2e/oracle/gpt2", "dp=3", "zero3", 1, vocabulary=61, global_batch=6)


if __name__ == "__main__":
    unittest.main()
