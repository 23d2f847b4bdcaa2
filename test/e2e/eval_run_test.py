#!/usr/bin/env python3
"""dtc eval: each target counts once, whatever the layout and the size of a batch, and documents are reported one by
one.

The expected losses are from transformers (oracle/make_eval.py)."""

import json
import math
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import time
import unittest

from documents_run_test import write_megatron
from driver import DTC, SOURCE, DriverTest, write_token_file, write_tokens

ORACLE = SOURCE / "test/e2e/oracle"
RECORD = json.loads((ORACLE / "eval.json").read_text())
DOCUMENTS, LENGTH = RECORD["documents"], RECORD["sequence_length"]
ALL = sum(DOCUMENTS, [])
LAYOUTS = [["--mesh", "dp=1"], ["--mesh", "dp=2,tp=2"], ["--mesh", "pp=2"], ["--mesh", "cp=2", "--strategy", "cp"]]


class Eval(DriverTest):
    def setUp(self):
        super().setUp()
        self.data = write_megatron(self.directory / "packed", DOCUMENTS)

    def eval(self, model, *arguments, data=None):
        return json.loads(self.dtc("eval", model, "--data", data or self.data, "--threads", 1, "--json", *arguments))

    def settings(self, **settings):
        return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]

    def hold(self, expected, actual):
        self.assertEqual(expected["tokens"], actual["tokens"])
        if expected["loss"] is None:
            self.assertEqual((actual["loss"], actual["perplexity"]), (None, None))
            return
        self.assertLess(abs(actual["loss"] / expected["loss"] - 1), 1e-5)
        self.assertLess(abs(actual["perplexity"] / math.exp(expected["loss"]) - 1), 1e-4)

    def test_all_tokens_in_every_layout(self):
        for model in ["gpt2", "llama"]:
            for layout in LAYOUTS:
                with self.subTest(model=model, layout=layout):
                    # 7 windows, the last with one target: the last batch, of 4 rows or with pp of 2, is one row short.
                    answer = self.eval(ORACLE / model, *layout, *self.settings(sequence_length=LENGTH, global_batch=4))
                    self.hold(RECORD[model]["all"], answer)
                    self.assertEqual(answer["windows"], 7)
                    self.assertNotIn("documents", answer)

    def test_by_document_in_every_layout(self):
        for model in ["gpt2", "llama"]:
            for layout in LAYOUTS:
                with self.subTest(model=model, layout=layout):
                    answer = self.eval(ORACLE / model, *layout, "--by-document", *self.settings(sequence_length=LENGTH))
                    self.assertEqual(len(answer["documents"]), len(DOCUMENTS))
                    for expected, actual in zip(RECORD[model]["documents"], answer["documents"]):
                        self.hold(expected, actual)
                    tokens = sum(each["tokens"] for each in RECORD[model]["documents"])
                    loss = sum(each["tokens"] * (each["loss"] or 0) for each in RECORD[model]["documents"]) / tokens
                    self.hold({"tokens": tokens, "loss": loss}, answer)

    def test_a_batch_of_any_size(self):
        for rows in [1, 3, 16]:
            for more, expected in [([], RECORD["llama"]["all"]), (["--by-document"], RECORD["llama"]["documents"])]:
                answer = self.eval(ORACLE / "llama", *more, *self.settings(sequence_length=LENGTH, global_batch=rows))
                for a, b in zip(expected, answer["documents"]) if more else [(expected, answer)]:
                    self.hold(a, b)

    def test_a_run_its_checkpoint_and_its_program(self):
        program = self.compile("program", ORACLE / "llama", "--mesh", "dp=2", sequence_length=LENGTH, global_batch=4,
                               validation_fraction=0)
        before = self.eval(program)
        self.hold(RECORD["llama"]["all"], before)
        # It predicts what it has been trained on better afterwards.
        run = self.directory / "run"
        self.train(program, self.data, "run", "--steps", 5, "--set", "checkpoint_every=2")
        newest = run / "checkpoints/step-000005"
        same = self.settings(sequence_length=LENGTH)
        answers = [self.eval(run, *same), self.eval(newest, *same), self.eval(program, "--weights", newest),
                   self.eval(ORACLE / "llama", *same, "--weights", newest)]
        for answer in answers:
            self.assertLess(answer["loss"], before["loss"])
            self.assertLess(abs(answer["loss"] / answers[0]["loss"] - 1), 1e-5)
        # A damaged checkpoint is skipped.
        with open(newest / "model.safetensors", "r+b") as file:
            file.seek(-1, 2)
            file.write(b"\x55")
        self.assertGreater(self.eval_of_older(run, same), answers[0]["loss"])

    def eval_of_older(self, run, same):
        output = self.dtc("eval", run, "--data", self.data, *same)
        self.assertIn("step-000005", output)
        return float(output.split("loss ")[1].split()[0])

    def test_for_people(self):
        output = self.dtc("eval", ORACLE / "gpt2", "--data", self.data, "--by-document", *self.settings(sequence_length=LENGTH))
        lines = output.splitlines()
        self.assertEqual(len(lines), len(DOCUMENTS) + 1, output)
        self.assertEqual(lines[2], "document 2  tokens 0  no token counts")
        expected = RECORD["gpt2"]["documents"][1]["loss"]
        self.assertRegex(lines[1], rf"document 1  tokens 39  loss {expected:.4f}\d+  perplexity {math.exp(expected):.3f}\d+")
        self.assertRegex(lines[-1], r"tokens 92  loss \S+  perplexity \S+  \d+ tokens/s")

    def test_the_length_is_the_models(self):
        self.assertEqual(self.eval(ORACLE / "gpt2")["windows"], math.ceil((len(ALL) - 1) / 24))  # n_positions

    def test_a_mask_leaves_targets_out(self):
        mask = [1] * len(ALL)
        mask[5:45] = [0] * 40  # all of document 1
        (self.directory / "packed.bin.mask").write_bytes(bytes(mask))
        answer = self.eval(ORACLE / "llama", "--by-document", *self.settings(sequence_length=LENGTH))
        self.assertEqual((answer["documents"][1]["tokens"], answer["documents"][1]["loss"]), (0, None))
        self.hold(RECORD["llama"]["documents"][4], answer["documents"][4])

    def test_a_weight_that_is_not_finite_is_named(self):
        model = self.make_folder("model")
        for file in ["config.json", "model.safetensors"]:
            shutil.copy(ORACLE / "llama" / file, model)
        with open(model / "model.safetensors", "r+b") as file:
            file.seek(-4, 2)
            file.write(struct.pack("<f", math.nan))
        output = self.dtc("eval", model, "--data", self.data, "--mesh", "dp=2", *self.settings(sequence_length=LENGTH), code=5)
        self.assertRegex(output, r"the loss of token file '.*' is nan: element \d+ of '.*' is nan")

    def test_interrupted_it_leaves_nothing(self):
        data = write_tokens(self.directory / "long.bin", 3_000_000, 61)
        folder = self.make_folder("temporary")
        job = subprocess.Popen([DTC, "eval", ORACLE / "llama", "--data", data, "--threads", "1", "--mesh", "pp=2"],
                               env={**os.environ, "TMPDIR": str(folder)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not any("--evaluation" in self.words_of(child) for child in self.children(job)):
            self.assertIsNone(job.poll())
            time.sleep(0.05)
        job.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(timeout=30), 130)
        self.assertEqual(list(folder.iterdir()), [])

    def words_of(self, process):
        try:
            return pathlib.Path(f"/proc/{process}/cmdline").read_text().split("\0")
        except OSError:  # it has ended
            return []

    def test_what_cannot_be_evaluated(self):
        model, same = ORACLE / "llama", self.settings(sequence_length=LENGTH)

        def refused(*words, code=3):
            return self.refused("eval", *words, code=code, within=5)

        plain = write_token_file(self.directory / "plain.bin", ALL)
        self.assertIn("does not say where documents begin, which --by-document needs",
                      refused(model, "--data", plain, "--by-document", *same))
        self.assertIn("it has 1 token, and a loss takes two",
                      refused(model, "--data", write_token_file(self.directory / "one.bin", [1]), *same))
        self.assertIn("position 2 is 900",
                      refused(model, "--data", write_token_file(self.directory / "far.bin", [1, 2, 900, 3]), *same))
        self.assertIn("positions", refused(model, "--data", plain, "--set", "sequence_length=25"))
        self.assertIn("no such model or program", refused(self.directory / "missing", "--data", plain))
        bare = self.make_folder("bare")
        (bare / "config.json").write_text((model / "config.json").read_text())
        self.assertIn("has no weights", refused(bare, "--data", plain))
        program = self.compile("program", model, sequence_length=LENGTH)
        self.assertIn("and --mesh was fixed when it was compiled", refused(program, "--data", plain, "--mesh", "dp=2"))
        self.assertIn("files without weights", refused(model, "--data", "0.5", plain, "0.5", plain, *same, code=2))


if __name__ == "__main__":
    unittest.main()
