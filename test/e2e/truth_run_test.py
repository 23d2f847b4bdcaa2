#!/usr/bin/env python3
"""The page of truth: dtc trains a small GPT-2 as PyTorch does, under every layout.

Read it from top to bottom. test/e2e/truth/make_truth.py recorded with PyTorch, in f64: a model with random weights,
four samples of 16 tokens, the gradient of the first step, and the losses of ten steps of AdamW. Here dtc compiles that
model for each layout below, trains it with native programs in f32, and must print the same numbers. Nothing that dtc
computed is in the record.
"""

import array
import json
import math
import unittest

from driver import SOURCE, DriverTest, read_safetensors

TRUTH = SOURCE / "test/e2e/truth"

LAYOUTS = {
    "one rank": ["--mesh", "dp=1"],
    "two replicas of two shards of each layer": ["--mesh", "dp=2,tp=2"],
    "two stages": ["--mesh", "pp=2", "--set", "accumulation=2"],
    "parameters, gradients and optimizer state in two shards": ["--mesh", "dp=2", "--strategy", "zero3"],
}

RUN = ["--set", "global_batch=4", "--set", "sequence_length=16", "--set", "clip_norm=0", "--set", "weight_decay=0",
       "--set", "schedule=constant", "--set", "warmup_steps=0", "--set", "validation_fraction=0"]

# Ten steps of AdamW, as the record has them.
ADAMW = ["--set", "steps=10", "--set", "optimizer=adamw", "--set", "learning_rate=1e-3", "--set", "beta1=0.9",
         "--set", "beta2=0.95", "--set", "epsilon=1e-8"]

# One step w - rate * g of plain SGD. With a rate so large that nothing of w remains in the sum, the checkpoint has
# -rate * g, and so the gradient to the precision of f32. A power of two adds no rounding of its own.
RATE = 2.0 ** 40
SGD = ["--set", "steps=1", "--set", "optimizer=sgd", "--set", "momentum=0", "--set", f"learning_rate={RATE}",
       "--set", "checkpoint_every=1"]


def tensors(path):
    """The f32 tensors of a file, as lists by name."""
    header, data = read_safetensors(path)
    return {name: list(array.array("f", data[slice(*entry["data_offsets"])])) for name, entry in header.items()}


def norm(values):
    return math.sqrt(math.fsum(value * value for value in values))


class Truth(DriverTest):
    def train_as(self, name, layout, settings):
        program = self.compile(f"{name}.program", TRUTH, *layout, *RUN, *settings)
        return self.train(program, TRUTH / "tokens.bin", name)

    def test_ten_losses(self):
        expected = json.loads((TRUTH / "losses.json").read_text())
        self.assertEqual(len(expected), 10)
        for number, (layout, words) in enumerate(LAYOUTS.items()):
            with self.subTest(layout):
                losses = self.train_as(f"adamw-{number}", words, ADAMW)
                self.assertEqual([step for step, loss in losses], [str(step) for step in range(1, 11)])
                for (step, loss), theirs in zip(losses, expected):
                    self.assertLess(abs(float(loss) - theirs) / theirs, 5e-7, f"step {step}: {loss}, PyTorch: {theirs}")

    def test_every_gradient(self):
        expected = tensors(TRUTH / "gradients.safetensors")
        self.assertEqual(len(expected), 28)
        # Gradients that are zero except for rounding, like that of a key's bias, are compared with the size of a
        # typical tensor's.
        typical = math.sqrt(sum(norm(gradient) ** 2 for gradient in expected.values()) / len(expected))
        for number, (layout, words) in enumerate(LAYOUTS.items()):
            with self.subTest(layout):
                self.train_as(f"sgd-{number}", words, SGD)
                weights = tensors(self.directory / f"sgd-{number}/checkpoints/step-000001/model.safetensors")
                self.assertEqual(set(weights), set(expected))
                for name, theirs in expected.items():
                    difference = norm([-weight / RATE - value for weight, value in zip(weights[name], theirs)])
                    self.assertLess(difference / max(norm(theirs), 1e-3 * typical), 5e-6, name)  # seen: 8e-7


if __name__ == "__main__":
    unittest.main()
