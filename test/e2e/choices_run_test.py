#!/usr/bin/env python3
"""Choices are data: given, stored, printed and replayed. Another order changes the program and no bit of its losses."""

import json
import tomllib

from driver import SOURCE, DriverTest, main, write_tokens

SETTINGS = {"learning_rate": 1e-3, "clip_norm": 0.25, "validation_fraction": 0.1, "seed": 7, "steps": 5,
            "global_batch": 8, "sequence_length": 16, "dropout": 0.1, "eval_batches": 1}

# Gradients of the feed-forward block are reduced after the backward pass of the layer before.
LATER = """
[[order]]
list = "micro_last*"
move = "update all_reduce h.*.mlp.c_fc.weight"
after = "weight_gradient contract contract_backward h.*.attn.c_attn"
"""
# The first product's weights are gathered before the attention begins.
EARLIER = """
[[order]]
list = "micro_last"
move = "forward all_gather h.*.mlp.c_proj.weight"
before = "forward attention h.*.attn"
"""


class ChoicesTest(DriverTest):
    def setUp(self):
        super().setUp()
        self.data = write_tokens(self.directory / "tokens", 3000, 128)

    def write(self, text, name="choices.toml"):
        path = self.directory / name
        path.write_text(text)
        return path

    def model(self, layers, **sizes):
        folder = self.directory / f"layers{layers}"
        folder.mkdir(exist_ok=True)
        config = json.loads((SOURCE / "examples/gpt-small/config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "n_layer": layers, "n_embd": 64, **sizes}))
        return folder

    def starts(self, program):
        return [(each["list"], each["kind"], each["location"])
                for each in json.loads(self.dtc("explain", program, "--json"))["collectives"]]


class Order(ChoicesTest):
    def check(self, mesh, strategy, text, moved, both="", **settings):
        """`both`: also what the program that it is compared with has chosen."""
        layout = ["--mesh", mesh, "--strategy", strategy]
        settings = {**SETTINGS, **settings}
        own = self.compile("own", self.model(3), *layout, "--choices", self.write(both, "both.toml"), **settings)
        other = self.compile("other", self.model(3), *layout, "--choices", self.write(both + text), **settings)
        # The same collectives, in another order.
        before, after = self.starts(own), self.starts(other)
        self.assertNotEqual(before, after)
        self.assertEqual(sorted(before), sorted(after))
        places = [[i for i, (name, _, place) in enumerate(starts) if name.startswith("micro_last") and place.endswith(moved)]
                  for starts in (before, after)]
        self.assertNotEqual(*places)
        # The same bits.
        self.assertEqual(self.train(own, self.data, "own.out"), self.train(other, self.data, "other.out"))
        # The program states what was chosen, and is verified as it is.
        stored = self.dtc("inspect", other, "--choices")
        self.assertIn("[[order]]", stored)
        self.assertEqual(json.loads(self.dtc("inspect", other, "--json"))["choices"], stored)
        self.assertNotIn("[[order]]", self.dtc("inspect", own, "--choices"))
        self.assertIn("all agree", self.dtc("verify", other, "--no-code"))
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        self.assertIn("all agree", self.dtc("verify", self.model(3), *layout, "--choices", self.directory / "choices.toml",
                                            *words))
        # Compiling what it stores gives it again.
        stored_file = self.write(stored, "stored.toml")
        again = self.compile("again", self.model(3), *layout, "--choices", stored_file, **settings)
        self.assertEqual(self.starts(again), after)
        self.assertEqual(self.dtc("inspect", again, "--choices"), stored)

    def test_a_reduction_starts_later(self):
        self.check("dp=2", "ddp", LATER, "mlp.c_fc.weight")

    def test_a_gather_starts_earlier(self):
        self.check("dp=2", "zero3", EARLIER, "mlp.c_proj.weight")

    def test_in_a_pipeline(self):
        self.check("dp=2,pp=2", "ddp", LATER, "mlp.c_fc.weight", both='timetable = "gpipe"\nlayers = [1, 2]\n',
                   accumulation=2)

    def test_more_and_fewer_layers_replay_it(self):
        choices = self.write(LATER)
        for layers in (1, 2, 6):
            program = self.compile(f"of{layers}", self.model(layers), "--mesh", "dp=2", "--strategy", "ddp",
                                   "--choices", choices, **SETTINGS, bucket_bytes="none")
            self.assertIn("all agree", self.dtc("verify", program, "--no-code"))
            starts = [name for name, _, name in self.starts(program)]
            for layer in range(layers):
                self.assertGreater(starts.index(f"h.{layer}.mlp.c_fc.weight"), starts.index(f"h.{layer}.ln_2.weight"))

    def test_fewer_layers_of_a_pipeline_are_shared_out(self):
        choices = self.write("layers = [6, 3]\n")
        command = ["verify", self.model(9), "--mesh", "pp=2", "--set", "accumulation=2", "--set", "global_batch=4",
                   "--choices", choices]
        for size, layers in ([], 6), (["--size", "layers=8"], 8):
            self.assertRegex(self.dtc(*command, *size), rf" layers {layers} .*\n(.*\n)*.*all agree")
        self.assertIn("stage 0: the shrunk program has 1 classes of layers, the full one 3",
                      self.dtc(*command, "--size", "layers=2", code=1))


class Searched(ChoicesTest):
    """The result of a search on a slow cluster changes no bit, is stored, and is verified."""

    CLUSTER = """
name: "slow"
devices { name: "a" peaks { type: "f32" flops: 1e11 } peaks { type: "bf16" flops: 2e11 } memory_bandwidth: 1e10
          memory_bytes: 1000000000 }
nodes { device: "a" devices: 1 count: 4 }
levels { name: "network" latency: 5e-6 bandwidth: 2e9 }
"""

    def check(self, mesh, strategy, kind, **settings):
        layout = ["--mesh", mesh, "--strategy", strategy]
        settings = {**SETTINGS, **settings}
        cluster = self.write(self.CLUSTER, "slow.textproto")
        simple = self.compile("simple", self.model(3), *layout, **settings)
        found = self.directory / "found"
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        said = self.dtc("compile", self.model(3), *layout, "--cluster", cluster, *words, "-o", found)
        self.assertRegex(said, r"found: \d+ plans tried.*: a step takes .* instead of the simple order's .* less")
        stored = self.dtc("inspect", found, "--choices")
        self.assertIn(kind, stored)
        self.assertEqual(self.train(simple, self.data, "simple.out"), self.train(found, self.data, "found.out"))
        self.assertIn("all agree", self.dtc("verify", found, "--no-code"))
        # Without the cluster, its choices give the same program.
        again = self.compile("again", self.model(3), *layout, "--choices", self.write(stored, "stored.toml"), **settings)
        self.assertEqual(self.starts(again), self.starts(found))
        # One plan is the simple order. (Which collectives start together also depends on the cluster.)
        alone = {**settings, "bucket_bytes": "none"}
        one = self.compile("one", self.model(3), *layout, "--cluster", cluster, "--schedule-effort", "1", **alone)
        simple = self.compile("simple", self.model(3), *layout, **alone)
        self.assertEqual(self.dtc("inspect", one, "--choices"), self.dtc("inspect", simple, "--choices"))

    def test_an_order(self):
        self.check("tp=2", "megatron", "[[order]]")

    def test_an_order_beside_others(self):
        self.check("dp=2,tp=2", "megatron-sp", "[[order]]", accumulation=2)

    def test_gathers(self):
        self.check("dp=2", "zero3", "[gathers]", compute="bf16")

    # There the latency is negligible next to communication and compute, however small these are.
    SLOWER = """
name: "slower"
devices { name: "a" peaks { type: "f32" flops: 1e9 } memory_bandwidth: 1e10 memory_bytes: 1000000000 }
nodes { device: "a" devices: 1 count: 2 }
levels { name: "network" latency: 1e-6 bandwidth: 2e7 }
"""
    WHOLE = '[split]\n"*" = 1\n[split_gradients]\n"*" = 1\n'

    def check_parts(self, model, mesh, strategy, table, pattern):
        """The search runs in parts what it says it does, and gains by that: without parts it finds nothing as good."""
        layout = ["--mesh", mesh, "--strategy", strategy, "--cluster", self.write(self.SLOWER, "slower.textproto")]
        found = self.compile("found", model, *layout, **SETTINGS)
        whole = self.compile("whole", model, *layout, "--choices", self.write(self.WHOLE), **SETTINGS)
        chosen = tomllib.loads(self.dtc("inspect", found, "--choices"))
        self.assertGreater(chosen[table][pattern], 1)
        steps = [json.loads(self.dtc("simulate", each, *layout[-2:], "--json"))["seconds"] for each in (found, whole)]
        self.assertLess(steps[0], 0.95 * steps[1])
        self.assertEqual(self.train(found, self.data, "found.out"), self.train(whole, self.data, "whole.out"))

    def test_layers_that_wait_are_done_in_parts(self):
        self.check_parts(self.model(3), "tp=2", "megatron-sp", "split", "h.*")

    def test_the_gradient_of_a_large_head_is_made_in_parts(self):
        self.check_parts(self.model(2, vocab_size=10001), "dp=2", "ddp", "split_gradients", "wte.weight")

    def test_effort_needs_a_cluster_and_is_at_least_one(self):
        words = ["compile", self.model(2), "--set", "sequence_length=16", "-o", self.directory / "program"]
        cluster = self.write(self.CLUSTER, "slow.textproto")
        self.assertIn("--schedule-effort", self.dtc(*words, "--schedule-effort", "8", code=2))
        self.assertIn("--schedule-effort: 0", self.dtc(*words, "--cluster", cluster, "--schedule-effort", "0", code=2))


class Rows(ChoicesTest):
    """Rows of embeddings are gathered where that moves much less: 64 tokens of a rank, of 10001."""

    ALONE = {**SETTINGS, "bucket_bytes": "none"}

    def test_what_was_decided_is_stored_and_replayed(self):
        model, layout = self.model(2, vocab_size=10001), ["--mesh", "dp=2", "--strategy", "zero1"]
        words = [word for key, value in self.ALONE.items() for word in ("--set", f"{key}={value}")]
        own = self.compile("own", model, *layout, **self.ALONE)
        stored = self.dtc("inspect", own, "--choices")
        self.assertTrue(stored.endswith("\n[rows]\n'wpe.weight' = 'reduced'\n'wte.weight' = 'gathered'\n"), stored)
        early = self.starts(own).index(("micro_last", "reduce_scatter", "wte.weight"))
        rows = self.starts(own).index(("micro_last", "all_to_all", "wte"))
        layer = self.starts(own).index(("micro_last", "reduce_scatter", "h.1.ln_1.weight"))
        self.assertLess(early, layer)
        self.assertLess(layer, rows)
        # The reason for each.
        self.assertIn("all_to_all over dp at wte (micro_last)", self.dtc("explain", own))
        self.assertIn("rows of dt.scatter_add for the gradient of wte.weight: fewer bytes than all of it",
                      self.dtc("explain", own))
        # A shrunk model, whose vocabulary is small, does the same, and so does one that is told to.
        self.assertIn("all agree", self.dtc("verify", model, *layout, *words))
        again = self.compile("again", model, *layout, "--choices", self.write(stored), **self.ALONE)
        self.assertEqual(self.starts(again), self.starts(own))
        made = self.dtc("compile", model, *layout, *words, "--compile-to", "choices")
        self.assertTrue(made.startswith(stored), made[:400])
        # Or not to gather.
        reduced = self.compile("reduced", model, *layout, "--choices", self.write('[rows]\n"*" = "reduced"\n'), **self.ALONE)
        self.assertNotIn(("micro_last", "all_to_all", "wte"), self.starts(reduced))
        self.assertGreater(self.starts(reduced).index(("micro_last", "reduce_scatter", "wte.weight")),
                           self.starts(reduced).index(("micro_last", "reduce_scatter", "h.0.ln_1.weight")))
        self.assert_close(self.train(own, self.data, "own.out"), self.train(reduced, self.data, "reduced.out"), 1e-5)


class WhatThereIsToChoose(ChoicesTest):
    def test_it_is_written_down_as_it_is_read(self):
        layout = ["--mesh", "dp=2", "--strategy", "zero3", "--set", "sequence_length=16"]
        choices = self.directory / "made.toml"
        self.dtc("compile", self.model(2), *layout, "--compile-to", "choices", "-o", choices)
        self.assertIn("#   forward all_gather h.*.mlp.c_proj.weight\n", choices.read_text())
        own = self.compile("own", self.model(2), *layout)
        again = self.compile("again", self.model(2), *layout, "--choices", choices)
        self.assertEqual(self.starts(own), self.starts(again))
        self.assertIn(self.dtc("inspect", own, "--choices"), choices.read_text())

    def test_gathers_are_made_again_or_shared(self):
        layout = ["--mesh", "dp=2", "--strategy", "zero3", "--set", "sequence_length=16"]
        shared = self.compile("shared", self.model(2), *layout, "--choices",
                              self.write('[gathers]\n"h.*" = "shared"\n"*.c_fc.weight" = "again"\n'))
        starts = self.starts(shared)
        self.assertEqual(starts.count(("micro_last", "all_gather", "h.1.mlp.c_proj.weight")), 1)
        self.assertEqual(starts.count(("micro_last", "all_gather", "h.1.mlp.c_fc.weight")), 2)
        self.assertIn("all agree", self.dtc("verify", shared, "--no-code"))

    def test_the_settings_say_what_was_chosen(self):
        program = self.compile("program", self.model(2), "--mesh", "dp=2", "--strategy", "zero3", "--choices",
                               self.write('bucket_bytes = "100KB"\n'), sequence_length=16)
        settings = json.loads(self.dtc("inspect", program, "--json"))["settings"]
        self.assertEqual(settings["communication"]["bucket_bytes"], "100KB")


class Refused(ChoicesTest):
    def refusal(self, text, *layout):
        return self.dtc("compile", self.model(2), *(layout or ("--mesh", "dp=2", "--strategy", "ddp")), "--set",
                        "sequence_length=16", "--set", "bucket_bytes=none", "--choices", self.write(text), "-o", self.directory / "program", code=3)

    def test_what_there_is_not(self):
        self.assertIn("choices.toml:1: unknown key 'gather'; did you mean 'gathers'?", self.refusal("gather = 2"))
        self.assertIn("choices.toml:1: timetable: there is no '2f2b'", self.refusal('timetable = "2f2b"'))
        self.assertIn("choices.toml:2: no parameter is called 'h.*.mlp.c_fx.weight'",
                      self.refusal('[gathers]\n"h.*.mlp.c_fx.weight" = "shared"'))
        self.assertIn("choices.toml:2: no parameter is called 'wt.weight'; did you mean 'wte.weight'?",
                      self.refusal('[rows]\n"wt.weight" = "gathered"'))
        self.assertIn("no command is called 'update all_reduce g.*.mlp.c_fc.weight' in list 'micro_last*'; did you "
                      "mean 'update all_reduce h.*.mlp.c_fc.weight'?", self.refusal(LATER.replace("reduce h.", "reduce g.")))
        self.assertIn("choices.toml:2: no list is called 'micro_list'; did you mean 'micro_last'?",
                      self.refusal(LATER.replace("micro_last*", "micro_list")))
        self.assertIn("layers says how many layers each of 2 stages has, and the mesh has 1",
                      self.refusal("layers = [1, 1]"))
        self.assertIn("2 layers cannot be cut",
                      self.refusal("layers = [2, 1]", "--mesh", "pp=2", "--set", "accumulation=2"))
        self.assertIn("no/such/file", self.dtc("compile", self.model(2), "--choices", "no/such/file", "-o",
                                               self.directory / "program", code=3))

    def test_an_order_that_breaks_a_dependency_names_the_two(self):
        self.assertIn("order: list 'micro_last': 'update wait all_reduce h.*.mlp.c_fc.weight' of h.0 cannot come before "
                      "'update all_reduce h.*.mlp.c_fc.weight' of h.0, which must be done first",
                      self.refusal(LATER.replace("weight_gradient contract contract_backward h.*.attn.c_attn",
                                                 "update wait all_reduce h.*.mlp.c_fc.weight")))


if __name__ == "__main__":
    main(at_once=2)
