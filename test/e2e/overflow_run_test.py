#!/usr/bin/env python3
"""Overflows of f16: all ranks give one verdict on a step, and a skipped step leaves no trace in any state.

    overflow_run_test.py [--count N] [--steps S] [--seed S] [--only CASE]

In each case gradients overflow repeatedly: where they are stored in 16 bits, in the sum of their squares, on one rank
only or in one micro-batch only. Every step is checkpointed, so the whole state of all ranks is seen. The suite runs a
sample; DTC_LONG_TESTS makes it 100 runs of 200 steps.
"""

import argparse
import array
import json
import math
import os
import random
import re
import sys
import unittest

from driver import DriverTest, read_safetensors, write_token_file, write_tokens

LONG = bool(os.environ.get("DTC_LONG_TESTS"))
OPTIONS = argparse.Namespace(count=100 if LONG else 8, steps=200 if LONG else 24, seed=1, only=None)

PLACES = ["store", "norm", "rank", "micro-batch"]
VOCABULARY, RARE = 16, 7

# loss = the sum of WIDE exp(b) + (STEEP + RARELY [token = RARE]) exp(wte[token] w): w is multiplied in 16 bits, all
# computation with b is f32.
STEEP = """
module attributes {dt.model = "steep", dt.symbols = {batch = $B, embed = 4, sequence = 4, vocab = 16}, dt.parameters = [
  #dt.param<"wte", file = [16, 4], factored = [16, 4], permutation = [0, 1], dims = ["vocab", "embed"], init = "normal", stddev = 2.0e-01 : f64, decays = true>,
  #dt.param<"w", layer = <"h"[0]>, file = [4, 8], factored = [4, 8], permutation = [0, 1], dims = ["embed", "mlp"], init = "normal", stddev = 2.0e-01 : f64, decays = true>,
  #dt.param<"b", layer = <"h"[0]>, file = [8], factored = [8], permutation = [0], dims = ["mlp"], init = "zeros", stddev = 0.0 : f64, decays = false>]} {
  func.func @loss(%wte: tensor<16x4xf32> {dt.port = #dt.port<parameter "wte">}, %w: tensor<4x8xf32> {dt.port = #dt.port<parameter "w">},
                  %b: tensor<8xf32> {dt.port = #dt.port<parameter "b">},
                  %tokens: tensor<$Bx4xi32> {dt.dims = ["batch", "sequence"], dt.port = #dt.port<input "tokens" from tokens>},
                  %targets: tensor<$Bx4xi32> {dt.dims = ["batch", "sequence"], dt.port = #dt.port<input "targets" from next_tokens>},
                  %key: tensor<4xi32> {dt.dims = ["key"], dt.port = #dt.port<input "key" from key>})
      -> (tensor<f32> {dt.port = #dt.port<output "loss_sum">}, tensor<f32> {dt.port = #dt.port<output "token_count">}) {
    %x = dt.gather %wte, %tokens : tensor<16x4xf32>, tensor<$Bx4xi32> -> tensor<$Bx4x4xf32>
    %h = dt.contract "bsd,df->bsf" %x, %w {dt.layer = #dt.layer<"h"[0]>} : tensor<$Bx4x4xf32>, tensor<4x8xf32> -> tensor<$Bx4x8xf32>
    %bias = dt.broadcast %b dims [2] : tensor<8xf32> -> tensor<$Bx4x8xf32>
    %wide = dt.exp %bias {dt.layer = #dt.layer<"h"[0]>} : tensor<$Bx4x8xf32>
    %narrow = dt.exp %h {dt.layer = #dt.layer<"h"[0]>} : tensor<$Bx4x8xf32>
    %widely = dt.constant dense<$WIDE> : tensor<$Bx4x8xf32>
    %first = dt.mul %wide, %widely : tensor<$Bx4x8xf32>
    %rare = dt.constant dense<7> : tensor<$Bx4xi32>
    %is = dt.compare eq %tokens, %rare : tensor<$Bx4xi32> -> tensor<$Bx4xi1>
    %isRare = dt.convert %is : tensor<$Bx4xi1> -> tensor<$Bx4xf32>
    %much = dt.constant dense<$RARELY> : tensor<$Bx4xf32>
    %more = dt.mul %isRare, %much : tensor<$Bx4xf32>
    %one = dt.constant dense<$STEEP> : tensor<$Bx4xf32>
    %all = dt.add %more, %one : tensor<$Bx4xf32>
    %slope = dt.broadcast %all dims [0, 1] : tensor<$Bx4xf32> -> tensor<$Bx4x8xf32>
    %second = dt.mul %narrow, %slope : tensor<$Bx4x8xf32>
    %y = dt.add %first, %second : tensor<$Bx4x8xf32>
    %loss = dt.reduce sum %y over [0, 1, 2] : tensor<$Bx4x8xf32> -> tensor<f32>
    %none = dt.constant dense<-100> : tensor<$Bx4xi32>
    %valid = dt.compare ne %targets, %none : tensor<$Bx4xi32> -> tensor<$Bx4xi1>
    %ones = dt.convert %valid : tensor<$Bx4xi1> -> tensor<$Bx4xf32>
    %count = dt.reduce sum %ones over [0, 1] : tensor<$Bx4xf32> -> tensor<f32>
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}
"""
SPLIT_MLP = '[inputs]\n"*" = { batch = ["dp"] }\n[parameters]\n"w" = { mlp = ["tp"] }\n"b" = { mlp = ["tp"] }\n'
CONFIG = {"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 1, "n_positions": 8, "vocab_size": VOCABULARY}


class Case:
    def __init__(self, number):
        draw = random.Random(f"{OPTIONS.seed}/{number}")
        self.place = PLACES[number % len(PLACES)]
        self.is_text = self.place != "store"
        layouts = [("dp=2", "ddp"), ("dp=2", "zero1"), ("dp=2", "zero3"), ("dp=4", "zero2"), ("dp=4", "fsdp"),
                   ("dp=2,tp=2", "tp")]
        if self.place in ("store", "micro-batch"):
            layouts.append(("dp=1", "ddp"))
        self.mesh, self.strategy = draw.choice(layouts)
        accumulation = draw.choice([2, 3]) if self.place == "micro-batch" else draw.choice([1, 1, 2])
        self.rows = 4
        gradients, compute = draw.choice([("f16", "f32"), ("f16", "f16"), ("f32", "f16")])
        if self.place == "store":
            gradients = "f16"
        if self.place == "norm":  # of squares of f32
            gradients, compute = "f32", "f16"
        # As powers of 2. The square of a gradient of b overflows f32 under a scale of about 2^16.
        self.powers = {"$WIDE": 48 if self.place == "norm" else -10, "$STEEP": -12,
                       "$RARELY": -100 if self.place == "norm" else 0}
        self.settings = {"steps": OPTIONS.steps, "global_batch": self.rows * accumulation, "accumulation": accumulation,
                         "sequence_length": 4 if self.is_text else 8, "compute": compute, "gradients": gradients,
                         "loss_scale": 2.0 ** draw.choice([18, 24]), "loss_scale_window": draw.choice([2, 3, 5]),
                         "optimizer": draw.choice(["adamw", "adamw", "sgd"]) if self.place == "store" else "adamw",
                         "learning_rate": 1e-3, "schedule": "constant", "clip_norm": draw.choice([0, 1]), "checkpoint_every": 1,
                         "validation_fraction": 0.2, "eval_batches": 1, "seed": draw.randrange(1000)}
        self.draw = draw

    def write_model(self, folder):
        if not self.is_text:
            folder.mkdir()
            (folder / "config.json").write_text(json.dumps(CONFIG))
            return folder
        text = STEEP.replace("$B", str(self.rows))
        for name, power in self.powers.items():
            text = text.replace(name, f"{2.0 ** power:.9e}")
        path = folder.with_suffix(".mlir")
        path.write_text(text)
        return path

    def write_data(self, path):
        """Where only one rank or micro-batch is to overflow, few samples have the rare token."""
        if self.place not in ("rank", "micro-batch"):
            return write_tokens(path, 3000, VOCABULARY, self.settings["seed"])
        common = [token for token in range(VOCABULARY) if token != RARE]
        tokens = [RARE if self.draw.random() < 0.03 else self.draw.choice(common) for _ in range(3000)]
        return write_token_file(path, tokens)

    def __str__(self):
        return f"{self.place}: --mesh {self.mesh} --strategy {self.strategy} {self.settings}"


class Overflow(DriverTest):
    def states(self, out):
        """Parameters and optimizer slots after each step: {tensor: bytes}."""
        for step in range(1, OPTIONS.steps + 1):
            state = {}
            for name in ("model", "optimizer"):
                path = out / f"checkpoints/step-{step:06}/{name}.safetensors"
                header, content = read_safetensors(path) if path.exists() else ({}, b"")
                for tensor, entry in header.items():
                    begin, end = entry["data_offsets"]
                    state[name, tensor] = content[begin:end]
            yield step, state

    def check(self, number):
        case = Case(number)
        model, data = case.write_model(self.directory / f"model{number}"), case.write_data(self.directory / f"tokens{number}")
        strategy = case.strategy
        if strategy == "tp":
            strategy = self.directory / "tp.toml" if case.is_text else "megatron"
        (self.directory / "tp.toml").write_text(SPLIT_MLP)
        if not case.is_text:
            case.settings["dropout"] = 0
        program = self.compile("program", model, "--mesh", case.mesh, "--strategy", strategy, **case.settings)
        out = self.directory / f"out{number}"
        output = self.dtc("run", program, "--data", data, "--out", out, "--threads", 1)
        skipped = {int(step) for step in re.findall(r"step (\d+): gradients overflowed", output)}
        self.assertGreater(len(skipped), 2, f"{case}: nothing overflows\n{output}")
        self.assertLess(len(skipped), OPTIONS.steps, f"{case}: nothing is applied")
        before = None
        for step, state in self.states(out):
            for name, content in state.items():
                # One sum is finite only if all are.
                self.assertTrue(math.isfinite(sum(array.array("f", content))), f"case {number}, {case}: {name} after step {step}")
            if before is not None:
                self.compare(case, before, state, step in skipped, f"case {number}, {case}: step {step}")
            before = state
        trainer = json.loads((out / f"checkpoints/step-{OPTIONS.steps:06}/trainer_state.json").read_text())
        self.assertEqual(trainer["loss_scale"]["skipped_steps"], len(skipped), f"{case}")
        return f"{case.place}: {len(skipped)} skipped"

    def compare(self, case, before, after, is_skipped, where):
        """A step changes nothing, or each element of every parameter or of its slots: each rank holds a quarter or
        more."""
        if is_skipped:
            for name, content in after.items():
                self.assertEqual(before[name], content, f"{where} was skipped, but {name} changed")
            return
        for parameter in [name for kind, name in after if kind == "model"]:
            if case.is_text and parameter == "wte":
                continue  # rows of tokens that have not occurred yet stay as they are
            own = [name for name in after if name[1] == parameter or name[1].startswith(parameter + ".")]
            changes = [[a != b for a, b in zip(array.array("f", before[name]), array.array("f", after[name]))] for name in own]
            unchanged = sum(not any(element) for element in zip(*changes))
            self.assertLess(unchanged, max(2, len(changes[0]) / 4), f"{where} was applied, but much of {parameter} is as before")

    def test_one_verdict_and_no_trace(self):
        outcomes = []
        for number in range(OPTIONS.count) if OPTIONS.only is None else [OPTIONS.only]:
            with self.subTest(case=number):
                outcomes.append(self.check(number))
        print(f"{len(outcomes)} runs of {OPTIONS.steps} steps", *outcomes, sep="\n", file=sys.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=OPTIONS.count)
    parser.add_argument("--steps", type=int, default=OPTIONS.steps)
    parser.add_argument("--seed", type=int, default=OPTIONS.seed)
    parser.add_argument("--only", type=int)
    _, rest = parser.parse_known_args(namespace=OPTIONS)
    unittest.main(argv=sys.argv[:1] + rest)
