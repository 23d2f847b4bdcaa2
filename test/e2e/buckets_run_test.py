#!/usr/bin/env python3
"""Buckets of any size change how often ranks start something, but no bit of what they compute."""

import json
import random

from driver import SOURCE, DriverTest, main, write_tokens
from hosts import HostsTest

SETTINGS = {"learning_rate": 1e-3, "clip_norm": 0.25, "validation_fraction": 0.1, "seed": 7, "steps": 4,
            "global_batch": 8, "sequence_length": 16, "dropout": 0.1, "eval_batches": 1}


def model_of(directory, layers):
    folder = directory / f"layers{layers}"
    folder.mkdir(exist_ok=True)
    config = json.loads((SOURCE / "examples/gpt-small/config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "n_layer": layers, "n_embd": 64}))
    return folder


class Buckets:
    """What both kinds of tests require of programs."""

    def collectives(self, program):
        return json.loads(self.dtc("explain", program, "--json"))["collectives"]

    def starts(self, program):
        """For the lists of a training step."""
        return [each for each in self.collectives(program)
                if each["times_per_step"] and each.get("bucket", {}).get("is_first", True)]

    def bucketed(self, program):
        return [each for each in self.collectives(program) if "bucket" in each]

    def build(self, size, *layout, layers=3, **settings):
        return self.compile(f"program-{size}", model_of(self.directory, layers), *layout,
                            **{**SETTINGS, **settings, "bucket_bytes": size})


class EqualBits(Buckets, DriverTest):
    def setUp(self):
        super().setUp()
        self.data = write_tokens(self.directory / "tokens", 3000, 128)

    def check(self, mesh, strategy, **settings):
        layout = ["--mesh", mesh, "--strategy", strategy]
        alone = self.build("none", *layout, **settings)
        self.assertEqual(self.bucketed(alone), [])
        expected = self.train(alone, self.data, "none.out")
        places = sorted((each["list"], each["kind"], each["location"]) for each in self.collectives(alone))
        generator = random.Random(f"{mesh} {strategy}")
        sizes = ["auto", *(f"{2 ** generator.uniform(0, 7.5):.0f}KB" for _ in range(3))]
        for size in dict.fromkeys(sizes):
            with self.subTest(size=size):
                program = self.build(size, *layout, **settings)
                self.assertEqual(sorted((each["list"], each["kind"], each["location"])
                                        for each in self.collectives(program)), places)
                self.assertGreater(len(self.bucketed(program)), 0)
                self.assertLess(len(self.starts(program)), len(self.starts(alone)))
                self.assertEqual(self.train(program, self.data, f"{size}.out"), expected)
                self.assertIn("all agree", self.dtc("verify", program, "--no-code"))

    def test_ddp(self):
        self.check("dp=2", "ddp")

    def test_ddp_in_16_bits(self):
        self.check("dp=2", "ddp", compute="bf16", gradients="bf16", accumulation=2)

    def test_zero1(self):
        self.check("dp=2", "zero1")

    def test_zero2(self):
        self.check("dp=2", "zero2", accumulation=2)

    def test_zero3(self):
        self.check("dp=2", "zero3")

    def test_zero3_in_16_bits(self):
        self.check("dp=4", "zero3", compute="bf16")

    def test_tensor_and_sequence_parallel(self):
        self.check("dp=2,tp=2", "megatron-sp")

    def test_a_pipeline(self):
        self.check("dp=2,pp=2", "zero1", accumulation=2, layers=4)


class OnSeveralHosts(Buckets, HostsTest):
    hosts = 4

    def test_losses_are_those_of_single_starts(self):
        for name, mesh, strategy in (("ddp", "dp=4", "ddp"), ("zero3", "dp=4", "zero3")):
            for size in ("none", "auto", "40KB"):
                program = self.build(size, "--mesh", mesh, "--strategy", strategy)
                for hosts, per_host in ((4, 1), (2, 2)):
                    with self.subTest(strategy=name, size=size, hosts=hosts):
                        self.hosts = hosts
                        self.finish(self.on_hosts(per_host, program, f"{name}-{size}-{hosts}", 4))
                        self.assertEqual(self.losses(f"{name}-{size}-{hosts}"), self.losses(f"{name}-none-{hosts}"))


class Chosen(Buckets, DriverTest):
    def test_a_size_is_kept_as_layers_and_replayed(self):
        layout = ["--mesh", "dp=2", "--strategy", "ddp"]
        program = self.build("900KB", *layout, layers=6)
        stored = self.dtc("inspect", program, "--choices")
        self.assertIn("bucket_bytes = 'none'\n", stored)
        self.assertIn("\nlayers = 4\n", stored)
        choices = self.directory / "stored.toml"
        choices.write_text(stored)
        for layers in (2, 6, 9):
            again = self.compile(f"again{layers}", model_of(self.directory, layers), *layout, "--choices", choices,
                                 **SETTINGS)
            self.assertEqual(self.dtc("inspect", again, "--choices"), stored)
            self.assertIn("all agree", self.dtc("verify", again, "--no-code"))
            buckets = [each["bucket"]["parts"] for each in self.starts(again) if "bucket" in each]
            self.assertEqual(len(buckets), -(-layers // 4))
        self.assertEqual([each["location"] for each in self.starts(program)],
                         [each["location"] for each in self.starts(self.directory / "again6")])

    def test_explain_tells_parts_bytes_and_why(self):
        program = self.build("900KB", "--mesh", "dp=2", "--strategy", "ddp", layers=6)
        said = self.dtc("explain", program)
        self.assertRegex(said, r"micro_last: all_reduce of 50 parts over dp, 800 kB: ln_f.weight, ln_f.bias, "
                               r"h.5.mlp.c_proj.bias, \.\.\., h.2.ln_1.bias")
        self.assertIn("bucket_bytes 900KB: 4 layers of 200 KB, as many as fit", said)
        self.assertRegex(said, r"77 all_reduce over dp  .* in 3 starts")
        said = self.dtc("explain", self.build("auto", "--mesh", "dp=2", "--strategy", "ddp", layers=6))
        self.assertRegex(said, r"\d layers together: the starts' latency is [\d.]+ us a list instead of [\d.]+ [mu]s, and "
                               r"the last bucket, [\d.]+ KB which nothing hides, moves for [\d.]+ us, "
                               r"by links assumed to have 5 us")

    def test_a_cluster_decides_what_is_small(self):
        layout = ["--mesh", "dp=8", "--strategy", "ddp", "--cluster", SOURCE / "examples/clusters/h100x8.textproto"]
        said = self.dtc("explain", self.build("auto", *layout, layers=6))
        self.assertIn("by the links of", said)

    def test_an_order_may_pull_parts_apart(self):
        choices = self.directory / "order.toml"
        choices.write_text("""
            [[bucket]]
            starts = ["update all_reduce h.*.mlp.c_fc.weight", "update all_reduce h.*.mlp.c_fc.bias"]
            [[order]]
            list = "micro_last"
            move = "update all_reduce h.*.mlp.c_fc.bias"
            after = "weight_gradient contract contract_backward h.*.attn.c_attn"
        """)
        data = write_tokens(self.directory / "tokens", 3000, 128)
        layout = ["--mesh", "dp=2", "--strategy", "ddp"]
        apart = self.compile("apart", model_of(self.directory, 3), *layout, "--choices", choices,
                             **{**SETTINGS, "bucket_bytes": "none"})
        self.assertEqual(self.bucketed(apart), [])
        self.assertEqual(self.train(apart, data, "apart.out"),
                         self.train(self.build("none", *layout), data, "none.out"))


class Refused(Buckets, DriverTest):
    def refusal(self, size, code=3):
        return self.dtc("compile", model_of(self.directory, 2), "--mesh", "dp=2", "--strategy", "ddp", "--set",
                        "sequence_length=16", "--set", f"bucket_bytes={size}", "-o", self.directory / "program", code=code)

    def test_sizes_that_are_none(self):
        for size in ("0", "0MB", "-1", "many", "25 parsecs"):
            self.assertIn(f"--set bucket_bytes={size}: communication.bucket_bytes must be a number of bytes above 0, as in "
                          '"25MB", or "auto" or "none"', self.refusal(size, code=2))

    def test_more_than_all_gradients(self):
        self.assertRegex(self.refusal("25MB"), "bucket_bytes 25MB is more than all gradients that a list reduces, "
                                               r"[\d.]+ KB: .* Write fewer bytes, or \"auto\"")


if __name__ == "__main__":
    main(at_once=2)
