#!/usr/bin/env python3
"""Configurations and weights: dtc computes what transformers computes from a directory, or refuses it."""

import json
import os
import random
import subprocess
import unittest

from config_cases import Interpreter, compiled_loss, write_model, write_windows
from driver import DTC, SOURCE, TIMEOUT, DriverTest, read_safetensors

ORACLE = SOURCE / "test/e2e/oracle"
TOLERANCE = 1e-5


def run(*words):
    done = subprocess.run([DTC, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=TIMEOUT)
    return done.returncode, done.stdout


class RecordedConfigs(DriverTest):
    # Recorded by oracle/fuzz_config.py; the losses are transformers'.
    cases = json.loads((ORACLE / "config_cases.json").read_text())

    def check(self, case, actual):
        if "refused" in case:
            self.assertIsInstance(actual, str, "refused when it was recorded")
        else:
            self.assertIsInstance(actual, float, actual)
            self.assertLessEqual(abs(actual - case["loss"]), TOLERANCE * case["loss"])

    def test_the_loss_is_that_of_transformers_or_the_model_is_refused(self):
        self.assertGreater(sum("loss" in case for case in self.cases), 200)
        self.assertGreater(sum("refused" in case for case in self.cases), 100)
        with Interpreter(os.environ["DTC_CONFIG_LOSS"]) as interpreter:
            for case in self.cases:
                with self.subTest(**case):
                    write_model(self.directory / "model", case)
                    self.check(case, interpreter.loss(self.directory / "model", case))

    def test_so_does_the_program_or_the_driver_refuses_the_model(self):
        families = {case["family"] for case in self.cases}
        for family in sorted(families):
            own = [case for case in self.cases if case["family"] == family]
            for case in random.Random(22).sample(own, 4):
                with self.subTest(**case):
                    write_model(self.directory / "model", case)
                    actual = compiled_loss(run, self.directory, case)
                    self.check(case, actual)
                    if "refused" in case:
                        self.assertIn("dtc: error: ", actual)


class Weights(DriverTest):
    def model(self, name, family="llama", weights="plain", **changes):
        write_model(self.directory / name, {"family": family, "changes": changes, "weights": weights})
        return self.directory / name

    def setUp(self):
        super().setUp()
        self.data = self.directory / "tokens"
        write_windows(self.data, [5, 7] * 50)

    def compile_small(self, name, model):
        return self.compile(name, model, global_batch=1, sequence_length=16, steps=1, validation_fraction=0)

    def start_from(self, program, weights, code=0):
        return self.dtc("run", program, "--data", self.data, "--out", self.directory / f"out-{weights.name}",
                        "--weights", weights, "--threads", 1, code=code)

    def test_seeded_initialisation_is_said_at_compile_and_at_run(self):
        model = self.model("model")
        (model / "model.safetensors").unlink()
        compiled = self.dtc("compile", model, "--set", "sequence_length=16", "--set", "global_batch=1", "--set",
                            "validation_fraction=0", "-o", self.directory / "seeded")
        self.assertIn(f"{model}: it has no weights: training starts from seeded initialisation", compiled)
        output = self.dtc("run", self.directory / "seeded", "--data", self.data, "--out", self.directory / "out",
                          "--steps", 1, "--set", "seed=3")
        self.assertIn("start: seeded initialisation (seed 3); no weights are read", output)
        other = self.model("with")
        compiled = self.dtc("compile", other, "--set", "sequence_length=16", "--set", "global_batch=1", "-o",
                            self.directory / "read")
        self.assertNotIn("seeded", compiled)
        self.assertIn(f"start: weights of {other}", self.start_from(self.directory / "seeded", other))

    def test_weights_of_another_kind_are_refused_at_compile_and_at_run(self):
        program = self.compile_small("program", self.model("model"))
        for name in ["pytorch_model.bin", "model-00001-of-00001.safetensors"]:
            other = self.model(name + ".d")
            (other / "model.safetensors").rename(other / name)
            for message in [self.start_from(program, other, code=3),
                            self.dtc("compile", other, "-o", self.directory / "none", code=3)]:
                self.assertIn(f"{other / name}: these weights would be ignored", message)
        self.assertIn("model.safetensors.index.json lists", message)

    def test_weights_of_a_model_that_computes_something_else(self):
        program = self.compile_small("program", self.model("model", tie_word_embeddings=True))
        for key, value, weights in [("rope_theta", 500000.0, "plain"), ("hidden_act", "gelu", "plain"),
                                    ("rms_norm_eps", 1e-6, "plain"), ("tie_word_embeddings", False, "plain")]:
            other = self.model(key, weights=weights, **{"tie_word_embeddings": True, key: value})
            message = self.start_from(program, other, code=3)
            self.assertIn(f"{other / 'config.json'}: key '{key}' is ", message)
        for weights, problem in [("extra", "a tensor 'h.0.extra.weight' that the model lacks"),
                                 ("other_head", "'lm_head.weight' is not equal to 'model.embed_tokens.weight'")]:
            other = self.model(weights, weights=weights, tie_word_embeddings=True)
            self.assertIn(problem, self.start_from(program, other, code=3))
        for weights in ["equal_head", "f16"]:
            self.start_from(program, self.model(weights, weights=weights, tie_word_embeddings=True, attention_dropout=0.1))
        (other / "config.json").unlink()
        self.assertIn(f"{other / 'config.json'}: cannot be read", self.start_from(program, other, code=3))

    def test_a_checkpoint_of_a_model_that_computes_something_else(self):
        self.train(self.compile_small("program", self.model("model")), self.data, "trained")
        other = self.compile_small("other", self.model("faster", rope_theta=500.0))
        message = self.dtc("run", other, "--data", self.data, "--out", self.directory / "again", "--resume",
                           self.directory / "trained", code=3)
        self.assertIn("key 'rope_theta' is 10000, but the program was compiled with 500.0", message)

    # The row of the padding token gets no gradient from lookups, under any layout.
    def test_the_padding_token_of_llama_stays(self):
        recorded = ORACLE / "llama_padding"
        for mesh in ["dp=1", "dp=2,tp=2"]:
            self.dtc("verify", recorded, "--mesh", mesh, "--set", "sequence_length=16", "--set", "global_batch=4",
                     "--full-size")
        model = self.model("model", pad_token_id=5)
        for name, padding in [("padded", 5), ("free", None)]:
            program = self.compile(name, self.model(name + ".model", pad_token_id=padding), "--mesh", "tp=2",
                                   global_batch=1, sequence_length=16, steps=2, validation_fraction=0, weight_decay=0)
            self.train(program, self.data, name + ".out")
        before = self.row(model / "model.safetensors", 5)
        self.assertEqual(self.row(self.directory / "padded.out/checkpoints/step-000002/model.safetensors", 5), before)
        self.assertNotEqual(self.row(self.directory / "free.out/checkpoints/step-000002/model.safetensors", 5), before)
        other = self.row(model / "model.safetensors", 7)
        self.assertNotEqual(self.row(self.directory / "padded.out/checkpoints/step-000002/model.safetensors", 7), other)

    @staticmethod
    def row(path, token):
        header, data = read_safetensors(path)
        entry = header["model.embed_tokens.weight"]
        width = 4 * entry["shape"][1]
        begin = entry["data_offsets"][0] + token * width
        return data[begin:begin + width]


class Layouts(DriverTest):
    def test_families_compute_the_same_under_every_layout(self):
        for name in sorted(folder.name for folder in ORACLE.iterdir() if not folder.name.startswith("exported_")
                           and (folder / "config.json").exists() and (folder / "expected.safetensors").exists()):
            config = json.loads((ORACLE / name / "config.json").read_text())
            several = config.get("num_hidden_layers", config.get("n_layer")) > 1
            for mesh in ["dp=2,tp=2", "tp=4"] + ["pp=2"] * several:  # tp=4: more than key/value heads
                with self.subTest(name=name, mesh=mesh):
                    self.dtc("verify", ORACLE / name, "--mesh", mesh, "--set", "sequence_length=16", "--set",
                             "global_batch=4", "--set", "accumulation=2", "--full-size")


if __name__ == "__main__":
    unittest.main()
