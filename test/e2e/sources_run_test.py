#!/usr/bin/env python3
"""A model may name its inputs freely and have several from one source: it trains and verifies to the same numbers."""

import re
import unittest

from driver import SOURCE, DriverTest, read_safetensors, write_tokens

SETTINGS = {"steps": 4, "global_batch": 4, "accumulation": 2, "validation_fraction": 0.1, "eval_batches": 2, "seed": 7,
            "learning_rate": 1e-3}


class Sources(DriverTest):
    def setUp(self):
        super().setUp()
        self.data = write_tokens(self.directory / "tokens", 4000, 61)

    def text_of(self, name, change):
        """The recorded gpt2 with dropout as a text, changed."""
        text = self.directory / (name + ".mlir")
        self.dtc("compile", SOURCE / "test/e2e/oracle/gpt2", "--compile-to", "model", "-o", text, "--set", "dropout=0.1", "--set",
                 "global_batch=2", "--set", "sequence_length=16")
        before = text.read_text()
        after = change(before)
        text.write_text(after)
        return text, before != after

    def result(self, name, model, *arguments, **settings):
        """Losses, and the weights at the end."""
        program = self.compile(name, model, *arguments, **SETTINGS, **settings)
        losses = self.train(program, self.data, name + ".out")
        self.assertEqual(len(losses), SETTINGS["steps"])
        return losses, read_safetensors(self.directory / (name + ".out") / "checkpoints/step-000004/model.safetensors"), program

    def check(self, change, *arguments, **settings):
        """Returns the changed model's program, its text and that of the original model."""
        model, _ = self.text_of("model", lambda text: text)
        other, is_changed = self.text_of("other", change)
        self.assertTrue(is_changed)
        expected, actual = self.result("a", model, *arguments, **settings), self.result("b", other, *arguments, **settings)
        self.assertEqual(expected[:2], actual[:2])
        return actual[2], other, model

    def verify(self, program, text):
        self.assertIn("Verified", self.dtc("verify", program, "--model", text, "--no-code"))

    @staticmethod
    def renamed(text):
        for name, new in [("tokens", "words"), ("targets", "tokens"), ("key", "targets")]: # with another meaning
            text = re.sub(rf'input "{name}" from (\w+)>', rf'input "new {new}" from \1>', text)
        return text.replace("new ", "")

    def test_names_mean_nothing(self):
        program, text, model = self.check(self.renamed, "--mesh", "dp=2")
        self.verify(program, text)
        # To the model with other names it is another program: verify knows tensors by their names.
        self.assertIn("is from", self.dtc("verify", program, "--model", model, "--no-code", code=1))

    def test_names_mean_nothing_beside_a_loss_scale(self):
        program, text, _ = self.check(self.renamed, "--mesh", "dp=2", compute="f16", optimizer="sgd")
        self.verify(program, text)

    def test_names_mean_nothing_to_a_pipeline(self):
        self.check(self.renamed, "--mesh", "pp=2")

    def test_two_inputs_of_one_source(self):
        def change(text):
            targets, attributes = re.search(r'(%\w+: tensor<2x16xi32> )(\{[^{}]*input "targets" from next_tokens>\})', text).groups()
            value = targets.split(":")[0]
            text = text.replace(targets + attributes, targets + attributes + ", " + targets.replace(value, "%again") +
                                attributes.replace('"targets"', '"again"'))
            return re.sub(rf"dt\.compare ne {value},", "dt.compare ne %again,", text)

        program, text, _ = self.check(change, "--mesh", "dp=2", "--strategy", "zero1")
        self.assertIn(b"again", program.read_bytes())
        self.verify(program, text)


if __name__ == "__main__":
    unittest.main()
