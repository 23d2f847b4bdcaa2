#!/usr/bin/env python3
"""Training in 16 bits: bf16 learns as f32 does, and f16 skips the steps that overflow, and no others."""

import json
import os
import re
import struct
import unittest

from driver import SANITIZED, SOURCE, DriverTest, read_safetensors, write_token_file, write_tokens

SETTINGS = {"global_batch": 4, "sequence_length": 32, "learning_rate": 1e-3, "dropout": 0, "eval_batches": 8}


STEEP = """
module attributes {dt.model = "steep", dt.symbols = {batch = 2, embed = 4, sequence = 3, vocab = 256}, dt.parameters = [
  #dt.param<"wte", file = [256, 4], factored = [256, 4], permutation = [0, 1], dims = ["vocab", "embed"], init = "normal", stddev = 2.0e-02 : f64, decays = true>,
  #dt.param<"w", layer = <"h"[0]>, file = [4, 4], factored = [4, 4], permutation = [0, 1], dims = ["embed", "embed2"], init = "normal", stddev = 2.0e-02 : f64, decays = true>]} {
  func.func @loss(%wte: tensor<256x4xf32> {dt.port = #dt.port<parameter "wte">}, %w: tensor<4x4xf32> {dt.port = #dt.port<parameter "w">},
                  %tokens: tensor<2x3xi32> {dt.dims = ["batch", "sequence"], dt.port = #dt.port<input "tokens" from tokens>},
                  %targets: tensor<2x3xi32> {dt.dims = ["batch", "sequence"], dt.port = #dt.port<input "targets" from next_tokens>},
                  %key: tensor<4xi32> {dt.dims = ["key"], dt.port = #dt.port<input "key" from key>})
      -> (tensor<f32> {dt.port = #dt.port<output "loss_sum">}, tensor<f32> {dt.port = #dt.port<output "token_count">}) {
    %x = dt.gather %wte, %tokens : tensor<256x4xf32>, tensor<2x3xi32> -> tensor<2x3x4xf32>
    %h = dt.contract "bsd,df->bsf" %x, %w {dt.layer = #dt.layer<"h"[0]>} : tensor<2x3x4xf32>, tensor<4x4xf32> -> tensor<2x3x4xf32>
    %e = dt.exp %h {dt.layer = #dt.layer<"h"[0]>} : tensor<2x3x4xf32>
    %steep = dt.constant dense<1.0e6> : tensor<2x3x4xf32>
    %y = dt.mul %e, %steep {dt.layer = #dt.layer<"h"[0]>} : tensor<2x3x4xf32>
    %loss = dt.reduce sum %y over [0, 1, 2] : tensor<2x3x4xf32> -> tensor<f32>
    %none = dt.constant dense<-100> : tensor<2x3xi32>
    %valid = dt.compare ne %targets, %none : tensor<2x3xi32> -> tensor<2x3xi1>
    %ones = dt.convert %valid : tensor<2x3xi1> -> tensor<2x3xf32>
    %count = dt.reduce sum %ones over [0, 1] : tensor<2x3xf32> -> tensor<f32>
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}
"""
LAYOUTS = {"f32": [], "bf16": ["--set", "compute=bf16"],
           "zero3": ["--mesh", "dp=2,tp=2", "--strategy", "zero3", "--set", "compute=bf16", "--set", "gradients=bf16"]}


class Precision(DriverTest):
    def setUp(self):
        super().setUp()
        self.data = write_tokens(self.directory / "tokens", 4000, 256)

    def held_out(self, out):
        lines = [json.loads(line) for line in (self.directory / out / "metrics.jsonl").read_text().splitlines()]
        return [line["validation_metrics/loss"] for line in lines
                if "validation_metrics/loss" in line][-1]

    def compare(self, model, layouts, *arguments, **settings):
        """The held-out losses of bf16, under each layout, agree with that of f32 on one rank to a hundredth."""
        losses = {}
        for name, layout in layouts.items():
            program = self.compile(name, model, *arguments, *layout, **settings)
            self.train(program, self.data, name + ".out")
            losses[name] = self.held_out(name + ".out")
        for name in layouts:
            self.assertLessEqual(abs(losses[name] - losses["f32"]), 0.01 * losses["f32"], losses)
        self.assertNotEqual(losses["bf16"], losses["f32"])

    def test_bf16_learns_gpt_as_f32_does(self):
        self.compare("gpt-small", LAYOUTS, steps=30, **SETTINGS)

    def test_bf16_learns_llama_as_f32_does(self):
        self.compare("llama-small", LAYOUTS, steps=30, **SETTINGS)

    @unittest.skipUnless(os.environ.get("DTC_LONG_TESTS"), "minutes: scripts/test --all runs it")
    def test_bf16_learns_the_demo_as_f32_does(self):
        text = self.directory / "text"
        self.dtc("data", "pack", SOURCE / "LICENSE", *sorted((SOURCE / "docs").rglob("*.md")), "-o", text)
        self.data = text
        one_rank = {name: LAYOUTS[name] for name in ("f32", "bf16")}
        steps = 20 if SANITIZED else 100  # a step takes seconds if sanitized, else up to one on a slow machine
        self.compare("gpt-small", one_rank, "--config", SOURCE / "examples/gpt-small/train.toml", steps=steps)

    def run_f16(self, out, *arguments):
        """Trains the program `f16` and returns what it reported of skipped steps: [(step, scale, scale afterwards)]."""
        output = self.dtc("run", self.directory / "f16", "--data", self.data, "--out", self.directory / out,
                          "--log-losses", self.directory / (out + ".losses"), "--threads", 1, *arguments)
        pattern = r"step (\d+): gradients overflowed at a loss scale of (\S+); the step was skipped, the scale is (\S+) now"
        return [(int(step), float(was), float(now)) for step, was, now in re.findall(pattern, output)]

    def weights(self, out, step):
        return read_safetensors(self.directory / out / f"checkpoints/step-{step:06}/model.safetensors")

    def trainer_state(self, out, step):
        return json.loads((self.directory / out / f"checkpoints/step-{step:06}/trainer_state.json").read_text())

    def test_f16_skips_the_steps_that_overflow(self):
        self.compile("f16", "gpt-small", compute="f16", loss_scale=2.0**37, loss_scale_window=8, steps=40, **SETTINGS)
        skipped = self.run_f16("run")
        # The scale was far too large: every step halves it until gradients fit.
        first = next(i for i in range(len(skipped) + 1) if i == len(skipped) or skipped[i][0] != i + 1)
        self.assertGreater(first, 5)
        self.assertLess(first, 20)
        # Each is reported with its scale, which doubles after every eight steps without one.
        scale, good, told = 2.0**37, 0, iter(skipped)
        following = next(told)
        for step in range(1, 41):
            if following and following[0] == step:
                self.assertEqual(following[1:], (scale, scale / 2))
                scale, good, following = scale / 2, 0, next(told, None)
            else:
                good += 1
                if good == 8:
                    scale, good = 2 * scale, 0
        self.assertIsNone(following)
        self.assertEqual(self.trainer_state("run", 40)["loss_scale"],
                         {"value": scale, "good_steps": good, "skipped_steps": len(skipped)})
        # A skipped step changes nothing; any other does.
        self.run_f16("before", "--steps", 0)
        self.run_f16("skipped", "--steps", first)
        self.run_f16("one", "--steps", first + 1)
        self.assertEqual(self.weights("skipped", first), self.weights("before", 0))
        self.assertNotEqual(self.weights("one", first + 1), self.weights("before", 0))
        # Adam's first update equals the learning rate, whatever the gradient: skipped steps are not counted.
        header, content = self.weights("one", first + 1)
        begin, end = next(entry for name, entry in header.items() if name.endswith("ln_f.bias"))["data_offsets"]
        largest = max(abs(x) for x in struct.unpack(f"<{(end - begin) // 4}f", content[begin:end]))
        self.assertAlmostEqual(largest / self.metrics("one")[-1]["lr"], 1, delta=0.01)
        # And it learns: as f32 does with as many updates.
        program = self.compile("f32", "gpt-small", steps=40 - len(skipped), **SETTINGS)
        self.train(program, self.data, "f32.out")
        self.assertLessEqual(abs(self.held_out("run") - self.held_out("f32.out")), 0.05 * self.held_out("f32.out"))

    def test_the_scale_multiplies_the_mean(self):
        """With sixteen times as many samples, all equal, gradients overflow at the same scale."""
        self.data = write_token_file(self.directory / "same", [3] * 4000)
        skipped = []
        for batch in (2, 32):
            settings = {**SETTINGS, "global_batch": batch}
            self.compile("f16", "gpt-small", gradients="f16", loss_scale=2.0**37, loss_scale_window=100, steps=30, **settings)
            skipped.append(self.run_f16(f"batch-{batch}"))
        self.assertEqual(*skipped)
        self.assertGreater(len(skipped[0]), 5)

    def test_an_overflow_at_the_floor_stops_and_names_it(self):
        """The loss is finite; its gradient, 1e6 a token, is beyond f16 at any scale."""
        text = self.directory / "steep.mlir"
        text.write_text(STEEP)
        self.dtc("compile", text, "-o", self.directory / "f16", "--set", "compute=f16", "--set", "loss_scale=4", "--set",
                 "global_batch=2", "--set", "sequence_length=3", "--set", "steps=9")
        output = self.dtc("run", self.directory / "f16", "--data", self.data, "--out", self.directory / "out", "--threads", 1,
                          code=5)
        self.assertEqual(re.findall(r"step (\d+): gradients overflowed at a loss scale of (\d+)", output),
                         [("1", "4"), ("2", "2")])
        self.assertRegex(output, r"step 3, at the smallest loss scale, 1: inf appears in layer '.*steep\.mlir:\d+' on rank 0")

    def test_the_scale_is_part_of_a_checkpoint(self):
        self.compile("f16", "gpt-small", compute="f16", gradients="f16", loss_scale=2.0**27, loss_scale_window=4, steps=16,
                     checkpoint_every=1, **SETTINGS)
        self.assertTrue(self.run_f16("whole"))
        whole = self.losses("whole")
        for step in (3, 10):
            self.run_f16(f"first-{step}", "--steps", step)
            self.run_f16(f"rest-{step}", "--resume", self.directory / f"first-{step}", "--steps", 16)
            self.assertEqual(self.losses(f"first-{step}") + self.losses(f"rest-{step}"), whole, "bit for bit")
            self.assertEqual(self.trainer_state(f"rest-{step}", 16)["loss_scale"], self.trainer_state("whole", 16)["loss_scale"])


if __name__ == "__main__":
    unittest.main()
