#!/usr/bin/env python3
"""What dtc exports computes in dtc what transformers computed from it (test/e2e/oracle/check_export.py)."""

import json
import math
import struct
import unittest

from driver import SOURCE, DriverTest, read_safetensors, write_token_file, write_tokens

ORACLE = SOURCE / "test/e2e/oracle"
LENGTH, VOCABULARY = 16, 61
EXPORTED = sorted(folder.name.removeprefix("exported_") for folder in ORACLE.glob("exported_*"))


def recorded_windows(model):
    """The recorded rows of tokens, each with the mean loss that follows from its recorded logits."""
    header, data = read_safetensors(ORACLE / f"exported_{model}" / "expected.safetensors")

    def values(name, code):
        begin, end = header[name]["data_offsets"]
        return [value for value, in struct.iter_unpack("<" + code, data[begin:end])]

    tokens, logits = values("tokens", "i"), values("logits", "d")
    for row in range(header["tokens"]["shape"][0]):
        window, loss = tokens[row * (LENGTH + 1):][:LENGTH + 1], 0
        for position, target in enumerate(window[1:]):
            at = logits[(row * LENGTH + position) * VOCABULARY:][:VOCABULARY]
            loss += math.log(sum(map(math.exp, at))) - at[target]
        yield window, loss / LENGTH


class Export(DriverTest):
    def compile_recorded(self, model, name, *arguments, **settings):
        return self.compile(name, ORACLE / model, *arguments, global_batch=4, sequence_length=LENGTH,
                            learning_rate=1e-3, **settings)

    def held_out_loss(self, program, weights, window):
        """A file of two windows: the first is there to train on, the second is evaluated."""
        data = write_token_file(self.directory / "window", [*window, *window])
        out = self.directory / "evaluation"
        self.dtc("run", program, "--data", data, "--out", out, "--weights", weights, "--eval-only")
        return json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])["validation_metrics/loss"]

    def check_losses(self, model, weights, tolerance):
        program = self.compile_recorded(model, "evaluate", "--mesh", "tp=2", validation_fraction=0.5)
        for window, loss in recorded_windows(model):
            actual = self.held_out_loss(program, weights, window)
            self.assertLessEqual(abs(actual - loss), tolerance * loss, f"{model}: {actual}, transformers {loss}")

    def test_transformers_and_dtc_agree_on_recorded_exports(self):
        for model in EXPORTED:
            self.check_losses(model, ORACLE / f"exported_{model}", 1e-5)

    # So transformers loads it too.
    def test_an_export_of_today_is_like_the_recorded_one(self):
        data = write_tokens(self.directory / "tokens", 2000, VOCABULARY)
        for model in EXPORTED:
            recorded = ORACLE / f"exported_{model}"
            program = self.compile_recorded(model, model, "--mesh", "dp=2,tp=2", steps=2, validation_fraction=0)
            self.train(program, data, model + ".out")
            checkpoint = self.directory / (model + ".out") / "checkpoints/step-000002"
            self.assertEqual(read_safetensors(checkpoint / "model.safetensors")[0],
                             read_safetensors(recorded / "model.safetensors")[0], "names, types, shapes, order")
            self.assertEqual((checkpoint / "config.json").read_text(), (recorded / "config.json").read_text())

    def test_weights_come_back_bit_for_bit(self):
        data = write_tokens(self.directory / "tokens", 2000, VOCABULARY)
        for model in EXPORTED:
            weights = ORACLE / f"exported_{model}"
            for mesh, strategy in [("dp=1", "ddp"), ("tp=4", "megatron-sp")]:
                program = self.compile_recorded(model, f"{model}-{mesh}", "--mesh", mesh, "--strategy", strategy,
                                                validation_fraction=0)
                out = f"{model}-{mesh}.out"
                self.train(program, data, out, "--weights", weights, "--steps", 0)
                written = self.directory / out / "checkpoints/step-000000/model.safetensors"
                self.assertEqual(written.read_bytes(), (weights / "model.safetensors").read_bytes())


if __name__ == "__main__":
    unittest.main()
