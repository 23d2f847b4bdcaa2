#!/usr/bin/env python3
"""dtc tune measures orders of a program's step, and what it keeps is a file of choices."""

import json
import re
import unittest

from driver import SOURCE, DriverTest, write_tokens

SETTINGS = {"global_batch": 4, "sequence_length": 16, "seed": 7, "steps": 6, "dropout": 0.1, "validation_fraction": 0,
            "learning_rate": 1e-3}
CLUSTER = """
name: "slow"
devices { name: "a" peaks { type: "f32" flops: 1e11 } memory_bandwidth: 1e10 memory_bytes: 1000000000 }
nodes { device: "a" devices: 1 count: 2 }
levels { name: "network" latency: 5e-6 bandwidth: 2e9 }
"""


class Tune(DriverTest):
    def setUp(self):
        super().setUp()
        self.data = write_tokens(self.directory / "tokens", 3000, 128)
        self.cluster = self.directory / "slow.textproto"
        self.cluster.write_text(CLUSTER)

    def model(self):
        folder = self.directory / "model"
        folder.mkdir(exist_ok=True)
        config = json.loads((SOURCE / "examples/gpt-small/config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "n_layer": 2, "n_embd": 64}))
        return folder

    def tune(self, program, *arguments, **options):
        return self.dtc("tune", program, "--data", self.data, "--cluster", self.cluster, "-o", self.directory / "choices.toml",
                        "--steps", 2, "--rounds", 1, *arguments, **options)

    def test_the_fastest_is_kept(self):
        layout = ["--mesh", "tp=2", "--strategy", "megatron"]
        program = self.compile("program", self.model(), *layout, **SETTINGS)
        answer = json.loads(self.tune(program, "--candidates", 4, "--json"))
        candidates = answer["candidates"]
        self.assertEqual(len(candidates), 4)
        self.assertEqual(len({each["choices"] for each in candidates}), 4)
        self.assertEqual(candidates[0]["choices"], self.dtc("inspect", program, "--choices"))
        fastest = [each for each in candidates if each["fastest"]]
        self.assertEqual(fastest, [min(candidates, key=lambda each: each["measured"])])
        self.assertTrue(all(each["uncertainty"] > 0 for each in candidates))
        foretold = min(candidates, key=lambda each: each["predicted"])
        self.assertLess(foretold["predicted"], candidates[0]["predicted"])
        self.assertAlmostEqual(answer["regret"], foretold["measured"] / fastest[0]["measured"] - 1)
        # The file holds the fastest choices, and no bit depends on it.
        written = (self.directory / "choices.toml").read_text()
        self.assertEqual(written.split("\n", 1)[1], fastest[0]["choices"])
        self.assertRegex(written, "^# The fastest of 4 orders that dtc tune has measured: ")
        tuned = self.compile("tuned", self.model(), *layout, "--choices", self.directory / "choices.toml", **SETTINGS)
        self.assertEqual(self.train(program, self.data, "a"), self.train(tuned, self.data, "b"))

    def test_buckets_are_candidates_where_orders_are_few(self):
        self.cluster.write_text(CLUSTER.replace("bandwidth: 2e9", "bandwidth: 2e12").replace("5e-6", "1e-9"))  # nobody waits
        program = self.compile("program", self.model(), "--mesh", "dp=2", **{**SETTINGS, "bucket_bytes": "auto"})
        candidates = json.loads(self.tune(program, "--candidates", 6, "--json"))["candidates"]
        buckets = [re.findall(r"^\[\[bucket\]\]|^starts.*", each["choices"], re.MULTILINE) for each in candidates]
        self.assertGreaterEqual(len({str(each) for each in buckets}), 2)
        self.assertEqual(len({each["choices"] for each in candidates}), len(candidates))

    def test_it_tells_people(self):
        program = self.compile("program", self.model(), "--mesh", "dp=2", "--strategy", "zero3", **SETTINGS)
        text = self.tune(program, "--candidates", 3)
        self.assertRegex(text, r"^ +foretold +measured +\+-\n( +[\d.]+ [mu]?s +[\d.]+ [mu]?s +[\d.]+ [mu]?s  gather_ahead \d+, .*\n){3}")
        self.assertIn("<- the fastest", text)
        self.assertRegex(text, r"choices\.toml: .* a step, .*% less than the program as it is; compile with --choices ")

    def test_what_cannot_be_tuned(self):
        text = self.directory / "model.mlir"
        self.dtc("compile", self.model(), "--set", "global_batch=4", "--set", "sequence_length=16", "--compile-to", "model", "-o", text)
        program = self.compile("of-text", text, "--mesh", "dp=2", global_batch=4)
        self.assertIn("was compiled from a model in text", self.tune(program, code=3))
        self.assertIn("takes a program", self.tune(self.model(), code=3))
        program = self.compile("program", self.model(), "--mesh", "dp=2", **SETTINGS)
        self.assertIn("missing.bin", self.dtc("tune", program, "--data", "missing.bin", "--cluster", self.cluster, "-o",
                                              self.directory / "choices.toml", code=3))
        self.assertFalse((self.directory / "choices.toml").exists())


if __name__ == "__main__":
    unittest.main()
