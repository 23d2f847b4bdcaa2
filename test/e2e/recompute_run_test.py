#!/usr/bin/env python3
"""Recomputation is a setting or a choice: stored, printed, replayed, and chosen so that a limit is met."""

import json

from driver import SOURCE, DriverTest, main, write_tokens

SETTINGS = {"learning_rate": 1e-3, "clip_norm": 0.25, "validation_fraction": 0.1, "seed": 7, "steps": 3,
            "global_batch": 8, "sequence_length": 64, "dropout": 0.1, "eval_batches": 1}


class RecomputeTest(DriverTest):
    def model(self, layers=6):
        folder = self.directory / f"layers{layers}"
        folder.mkdir(exist_ok=True)
        config = json.loads((SOURCE / "examples/gpt-small/config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "n_layer": layers, "n_embd": 64}))
        return folder

    def words(self, **settings):
        return [word for key, value in {**SETTINGS, **settings}.items() for word in ("--set", f"{key}={value}")]

    def inspected(self, program):
        return json.loads(self.dtc("inspect", program, "--json"))

    def arena(self, program):
        return max(role["arena_bytes"] for role in self.inspected(program)["roles"])


class Chosen(RecomputeTest):
    def test_the_setting_is_stored_and_verified(self):
        data = write_tokens(self.directory / "tokens", 3000, 128)
        own = self.compile("own", self.model(), **SETTINGS)
        full = self.compile("full", self.model(), **SETTINGS, recompute="full")
        self.assertLess(self.arena(full), self.arena(own))
        self.assertIn("recompute = 'full'\n", self.dtc("inspect", full, "--choices"))
        self.assertEqual(self.inspected(full)["settings"]["memory"]["recompute"], "full")
        self.assertEqual(self.train(own, data, "own.out"), self.train(full, data, "full.out"))
        self.assertIn("all agree", self.dtc("verify", full, "--no-code"))

    def test_shares_of_layers_are_replayed(self):
        choices = self.directory / "choices.toml"
        layout = ["--mesh", "dp=2", "--strategy", "zero3", "--choices", choices]
        choices.write_text('[recompute]\n"h.*" = "4 full, 2 cheap"\n[gathers]\n"h.*" = "3 again, 3 shared"\n')
        mixed = self.compile("mixed", self.model(), *layout, **SETTINGS)
        stored = self.dtc("inspect", mixed, "--choices")
        self.assertIn("[recompute]\n'h.*' = '4 full, 2 cheap'\n\n[gathers]\n'h.*' = '3 again, 3 shared'\n", stored)
        self.assertIn("all agree", self.dtc("verify", mixed, "--no-code"))
        for layers, recompute in (6, "every:2"), (6, "full"), (8, "4 full, 2 cheap"):
            choices.write_text(f'[recompute]\n"h.*" = "{recompute}"\n')
            self.assertIn("all agree", self.dtc("verify", self.model(layers), *layout, *self.words()))

    def test_a_pipeline(self):
        layout = ["--mesh", "pp=2"]
        own, full = (self.compile(how, self.model(), *layout, **{**SETTINGS, "accumulation": 4, "recompute": how})
                     for how in ("cheap", "full"))
        stash = [sum(bytes for role in self.inspected(program)["roles"] for name, bytes in role["memory"].items()
                     if "stash" in name or "between" in name or "micro-batch" in name) for program in (own, full)]
        self.assertLess(stash[1], stash[0])
        self.assertIn("all agree", self.dtc("verify", full, "--no-code"))


class Offloaded(RecomputeTest):
    def test_what_layers_keep_waits_in_the_hosts_memory(self):
        data = write_tokens(self.directory / "tokens", 3000, 128)
        own = self.compile("own", self.model(), **SETTINGS)
        said = self.dtc("compile", self.model(), *self.words(recompute="offload"), "-o", self.directory / "away")
        self.assertIn("warning: recompute: offload saves nothing on cpu:native, whose memory is the host's", said)
        away = self.directory / "away"
        self.assertLess(self.arena(away), self.arena(own))
        self.assertGreater(self.inspected(away)["roles"][0]["host_bytes"], 0)
        self.assertIn("in memory of the host, which copies move there and back", self.dtc("inspect", away))
        self.assertIn("recompute = 'offload'\n", self.dtc("inspect", away, "--choices"))
        self.assertEqual(self.train(own, data, "own.out"), self.train(away, data, "away.out"))
        self.assertIn("all agree", self.dtc("verify", away, "--no-code"))

    def test_of_some_layers_between_ranks(self):
        choices = self.directory / "choices.toml"
        choices.write_text('[recompute]\n"h.*" = "4 offload, 2 full"\n')
        layout = ["--mesh", "dp=2", "--strategy", "zero3", "--choices", choices]
        mixed = self.compile("mixed", self.model(), *layout, **SETTINGS, accumulation=2)
        self.assertIn("'h.*' = '4 offload, 2 full'\n", self.dtc("inspect", mixed, "--choices"))
        self.assertIn("all agree", self.dtc("verify", mixed, "--no-code"))

    def test_a_pipeline_has_none(self):
        self.assertIn("recompute: offload is not supported in a pipeline of 2 stages",
                      self.dtc("compile", self.model(), "--mesh", "pp=2", *self.words(recompute="offload", accumulation=4),
                               "-o", self.directory / "program", code=3))


class Told(RecomputeTest):
    def test_what_is_made_again_and_what_that_costs(self):
        none, full = (self.compile(how, self.model(), **SETTINGS, recompute=how) for how in ("none", "full"))
        roles = [self.inspected(program)["roles"][0] for program in (none, full)]
        flops = [sum(part["flops"] for part in role["work"].values()) for role in roles]
        self.assertEqual(roles[0]["made_again"], [])
        rows = {row["what"]: row for row in roles[1]["made_again"]}
        product = rows["product at h.*.mlp.c_fc"]
        self.assertEqual((product["layers"], product["count"], product["launches"]), ("h.*", 6, 6))
        self.assertEqual(product["flops"], 6 * 2 * 8 * 64 * 64 * 256)
        self.assertNotIn("seconds", product)
        self.assertAlmostEqual(sum(row["flops"] for row in rows.values()) / (flops[1] - flops[0]), 1, delta=0.02)
        self.assertIn("Made again for the backward pass: nothing\n", self.dtc("inspect", none, "--memory"))
        told = self.dtc("inspect", full, "--memory", "--cluster", SOURCE / "examples/clusters/h100x8.textproto")
        self.assertRegex(told, r"\n  h\.\* +\d+\.\d+ .* 6 .*s\n    \S.*\n")
        self.assertRegex(told, r"\n    product at h\.\*\.mlp\.c_fc +\d+\.\d+ .* 6 .*s\n")

    def test_megatron_sp_gathers_again(self):
        layout = ["--mesh", "tp=2", "--strategy", "megatron-sp"]
        cheap, regather = (self.compile(how, self.model(), *layout, **SETTINGS, recompute=how) for how in ("cheap", "regather"))
        self.assertLess(self.arena(regather), self.arena(cheap))
        rows = {row["what"]: row for row in self.inspected(regather)["roles"][0]["made_again"]}
        gathered = rows["all_gather at h.*.ln_2"]
        self.assertEqual((gathered["layers"], gathered["count"]), ("h.*", 6))
        self.assertEqual(gathered["bytes_sent"], 6 * 8 * 64 * 64 * 4 / 2)
        self.assertFalse([what for what in rows if what.startswith("product")])


class Auto(RecomputeTest):
    def auto(self, limit, *layout, code=0, **settings):
        settings = {**SETTINGS, "recompute": "auto", **settings}
        return self.dtc("compile", self.model(), *layout, *self.words(**settings), "--memory-limit", limit, "-o",
                        self.directory / "auto", code=code)

    def check(self, *layout, **settings):
        def uniform(how):
            return self.arena(self.compile(how.replace(":", ""), self.model(), *layout,
                                           **{**SETTINGS, **settings, "recompute": how}))
        most, least = uniform("none"), uniform("full")
        self.assertLess(least, most)
        for limit in (most, (most + least) // 2, least):
            said = self.auto(limit, *layout, **settings)
            program = self.directory / "auto"
            self.assertRegex(said, r"recompute: \d of 6 layers .*: peak .* of .*, \+\d+\.\d% flops\n")
            self.assertLessEqual(self.arena(program), limit)
            self.assertIn("recompute", self.dtc("inspect", program, "--choices"))
            self.assertIn("all agree", self.dtc("verify", program, "--no-code"))
        self.assertIn("6 of 6 layers none: ", self.auto(most, *layout, **settings))

    def test_it_fits(self):
        self.check()

    def test_it_fits_a_pipeline(self):
        self.check("--mesh", "pp=2", accumulation=4, global_batch=32)

    def test_what_cannot_be_met(self):
        said = self.auto(1000, code=3)
        self.assertRegex(said, r"a rank needs at least \d+ bytes, with .*, \d+ more than the limit of 1000; more accum")
        self.assertIn("say --memory-limit", self.dtc("compile", self.model(), *self.words(recompute="auto"), "-o",
                                                     self.directory / "auto", code=3))

    def test_a_file_of_choices_goes_before_it(self):
        choices = self.directory / "choices.toml"
        choices.write_text('recompute = "full"\n')
        program = self.compile("said", self.model(), "--choices", choices, **SETTINGS, recompute="auto")
        self.assertIn("recompute = 'full'\n", self.dtc("inspect", program, "--choices"))


class AutoOfGathers(RecomputeTest):
    """With ZeRO-3 dtc also decides which layers keep their gathered parameters for the backward pass."""
    LAYOUT = ["--mesh", "dp=2", "--strategy", "zero3"]
    CLUSTER = """
name: "slow"
devices { name: "core" peaks { type: "f32" flops: 260e9 } memory_bandwidth: 38e9 memory_bytes: 8000000000 }
nodes { count: 2 device: "core" devices: 1 }
levels { name: "network" units: 2 latency: 20e-6 bandwidth: 140e6 }
"""

    def sent(self, program):
        return sum(part.get("bytes_sent", 0) for part in self.inspected(program)["roles"][0]["work"].values())

    def test_they_fit_and_change_no_bit(self):
        cluster = self.directory / "slow.textproto"
        cluster.write_text(self.CLUSTER)
        data = write_tokens(self.directory / "tokens", 3000, 128)
        none, full = (self.compile(how, self.model(), *self.LAYOUT, **SETTINGS, recompute=how) for how in ("none", "full"))
        losses = self.train(none, data, "none.out")
        shared = []
        for limit in (self.arena(full), (self.arena(none) + self.arena(full)) // 2, self.arena(none), 2 * self.arena(none)):
            said = self.dtc("compile", self.model(), *self.LAYOUT, *self.words(recompute="auto"), "--memory-limit", limit,
                            "--cluster", cluster, "--schedule-effort", 1, "-o", self.directory / "auto")
            program = self.directory / "auto"
            self.assertLessEqual(self.arena(program), limit)
            self.assertIn("all agree", self.dtc("verify", program, "--no-code"))
            self.assertEqual(self.train(program, data, f"{limit}.out"), losses)
            shared.append("gathered once" in said)
        self.assertEqual((shared[0], shared[-1]), (False, True))
        self.assertIn("6 of 6 layers none; parameters of 6 gathered once: peak", said)
        self.assertIn("[gathers]\n'h.*' = 'shared'\n", self.dtc("inspect", program, "--choices"))
        self.assertAlmostEqual(self.sent(program) / self.sent(none), 2 / 3, delta=0.03)


class Refused(RecomputeTest):
    def test_what_there_is_not(self):
        self.assertIn('memory.recompute must be auto, or none, cheap, regather, selective, full, every:K, offload or keep VALUE + VALUE',
                      self.dtc("compile", self.model(), *self.words(recompute="all"), "-o", self.directory / "program",
                               code=2))
        choices = self.directory / "choices.toml"
        choices.write_text('[recompute]\n"g.*" = "full"\n')
        self.assertIn("choices.toml:2: recompute: no layers are called 'g.*'; did you mean 'h.*'?",
                      self.dtc("compile", self.model(), "--choices", choices, *self.words(), "-o",
                               self.directory / "program", code=3))


if __name__ == "__main__":
    main(at_once=2)
