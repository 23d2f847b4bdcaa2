#!/usr/bin/env python3
"""The certificate against deadlock: a compiled program has one, and a program without it, or one that was changed
since, does not run unless it is told to."""

import json
import os
import subprocess
import unittest

from driver import TIMEOUT, DriverTest, write_tokens

PROGRAM_JSON = os.environ["DTC_PROGRAM_JSON"]
GPT2 = {"model_type": "gpt2", "n_embd": 4, "n_head": 2, "n_layer": 2, "n_positions": 6, "vocab_size": 13}


class Certificate(DriverTest):
    def setUp(self):
        super().setUp()
        model = self.make_folder("model")
        (model / "config.json").write_text(json.dumps(GPT2))
        self.program = self.compile("program", model, "--mesh", "pp=2", global_batch=4, accumulation=2,
                                    sequence_length=6, steps=2)
        self.data = write_tokens(self.directory / "data.bin", 200, GPT2["vocab_size"])

    def changed(self, name, change):
        text, changed = self.directory / (name + ".json"), self.directory / name
        manifest = json.loads(subprocess.run([PROGRAM_JSON, "read", self.program], check=True, capture_output=True).stdout)
        change(manifest)
        text.write_text(json.dumps(manifest))
        subprocess.run([PROGRAM_JSON, "write", self.program, text, changed], check=True, timeout=TIMEOUT)
        return changed

    def test_a_program_says_what_was_proven(self):
        self.assertRegex(self.dtc("inspect", self.program),
                         r"\nCertificate no deadlock: 2 ranks in 2 classes that meet in \d+ groups; evaluation: 1 step, "
                         r"\d+ commands; step: 1 step, \d+ commands \([0-9a-f]+\)\n")
        answer = json.loads(self.dtc("inspect", self.program, "--json"))["certificate"]
        self.assertEqual((answer["ranks"], answer["classes"]), (2, 2))
        self.assertEqual(answer["timetables"]["step"]["steps"], 1)

    def test_a_program_without_one_runs_only_when_told(self):
        bare = self.changed("bare", lambda manifest: manifest.pop("certificate"))
        self.assertIn("\nCertificate none\n", self.dtc("inspect", bare))
        run = ["run", bare, "--data", self.data, "--out", self.directory / "out"]
        message = self.dtc(*run, code=3)
        self.assertIn("rank 0: this program has no certificate against deadlock; compile it again, or run it as it is with "
                      "--without-certificate, and it may hang", message)
        self.dtc(*run, "--without-certificate")
        self.assertIn("its certificate against deadlock is of 0 ranks", self.dtc("verify", bare, code=1))

    def test_a_changed_program_is_noticed(self):
        def hold_up(manifest):
            """Puts all messages on one channel: the receives of one pass come before the sends that others wait for."""
            for group in manifest["groups"]:
                group["channel"] = 0

        changed = self.changed("changed", hold_up)
        message = self.dtc("run", changed, "--data", self.data, "--out", self.directory / "out", code=3)
        self.assertIn("this program was changed after it got its certificate against deadlock", message)

        def claim(manifest):
            manifest["certificate"]["ranks"] = "3"

        message = self.dtc("verify", self.changed("claim", claim), code=1)
        self.assertRegex(message, "Differs     its certificate against deadlock is of 3 ranks in .*, and it has 2 ranks in")


if __name__ == "__main__":
    unittest.main()
