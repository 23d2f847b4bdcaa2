#!/usr/bin/env python3
"""--cluster of compile, inspect, explain and verify: whether a cluster has room for a program, and what it costs
there."""

import json
import re
import unittest

from driver import SOURCE, DriverTest

CLUSTERS = SOURCE / "examples/clusters"
H100 = CLUSTERS / "h100x8.textproto"
MODEL = SOURCE / "test/e2e/oracle/gpt2"
SMALL = ["--set", "sequence_length=16", "--set", "global_batch=4", "--set", "validation_fraction=0"]
SLOW = """
name: "slow"
devices { name: "a" peaks { type: "f32" flops: 1e9 } memory_bandwidth: 1e10 memory_bytes: 1000000000 }
nodes { device: "a" devices: 1 count: 2 }
levels { name: "network" latency: 1e-6 bandwidth: 2e7 }
"""
# A cluster's figures decide which collectives start together.
ALONE = ["--set", "bucket_bytes=none"]


class Cluster(DriverTest):
    def make(self, *layout):
        program = self.directory / "program"
        self.dtc("compile", MODEL, *SMALL, *layout, "-o", program)
        return program

    def json(self, *words):
        return json.loads(self.dtc(*words, "--json"))

    def needs(self, program, role=0):
        role, = self.json("inspect", program)["roles"][role:role + 1]
        return role["arena_bytes"] + role.get("scratch_bytes", 0)

    def changed(self, name, *changes):
        """A cluster file that is shipped with dtc, with other figures."""
        text = (CLUSTERS / name).read_text()
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new)
        path = self.directory / name
        path.write_text(text)
        return path

    def with_memory(self, size, name="h100x8.textproto", before=80000000000):
        return self.changed(name, (f"memory_bytes: {before}", f"memory_bytes: {size}"))

    def test_a_program_is_compiled_for_a_cluster_on_which_it_fits(self):
        program = self.directory / "gpt"
        text = self.dtc("compile", MODEL, *SMALL, "--mesh", "dp=2", *ALONE, "--cluster", H100, "-o", program)
        self.assertRegex(text, r"gpt: fits on h100x8: rank 0 \(all\) needs [\d.]+ MB of the 80 GB of its H100-SXM-80GB")
        foretold = re.search(r"gpt: a step takes (.*): ranks wait (.*) of it for what moves, and 0 us for each other\n"
                             r".*gpt: no order of what moves takes less than (.*), ([\d.]+)% less: the [a-z]+ ", text)
        self.assertIsNotNone(foretold, text)
        answer, units = self.json("simulate", program, "--cluster", H100), {"us": 1e6, "ms": 1e3, "s": 1}
        bound = answer["lower_bound"]["seconds"]
        for words, seconds in zip(foretold.groups(), [answer["seconds"], answer["ranks"][0]["exposed"], bound]):
            figure, unit = words.split()
            self.assertAlmostEqual(float(figure) / units[unit], seconds, delta=0.01 * seconds)
        self.assertAlmostEqual(float(foretold[4]), 100 * (1 - bound / answer["seconds"]), delta=0.1)
        simple = self.directory / "simple"
        self.dtc("compile", MODEL, *SMALL, "--mesh", "dp=2", "--cluster", H100, *ALONE, "--schedule-effort", 1, "-o", simple)
        self.assertEqual(simple.read_bytes(), self.make("--mesh", "dp=2", *ALONE).read_bytes())

    # No order hides what stages send, so another order is not ruled out for lack of waiting.
    def test_why_no_other_order_is_tried(self):
        cluster, model = self.directory / "slow.textproto", self.directory / "untied"
        cluster.write_text(SLOW)
        model.mkdir()
        config = json.loads((MODEL / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "n_embd": 64, "vocab_size": 1000, "tie_word_embeddings": False}))
        for mesh, why in [("dp=1", "ranks hardly wait for what moves"),
                          ("pp=2", "none was found that might hide some of what ranks wait for")]:
            text = self.dtc("compile", model, *SMALL, "--set", "accumulation=2", "--mesh", mesh, "--cluster", cluster, "-o",
                            self.directory / "program")
            self.assertIn(f"program: no other order was tried: {why}\n", text)

    # What would make ranks wait less has been planned and simulated: a program compiled that way confirms the
    # prediction.
    def test_a_remedy_is_what_it_is_said_to_be(self):
        cluster = self.directory / "slow.textproto"
        cluster.write_text(SLOW)
        layout = ["--mesh", "dp=2", "--strategy", "ddp", "--schedule-effort", 1]
        program = self.directory / "gpt"
        text = self.dtc("compile", MODEL, *SMALL, *layout, "--cluster", cluster, "-o", program)
        told = re.search(r"gpt: remedy: accumulation = (\d+) and global_batch = (\d+), micro-batches as they are: ranks wait .*, "
                         r"(\d+)% less time a token\n.*gpt: remedy: network at .* instead of 20 MB/s: ranks wait ", text)
        self.assertIsNotNone(told, text)
        more, faster = self.json("explain", program, "--cluster", cluster, "--order")["remedies"]
        self.assertEqual([more["accumulation"], more["global_batch"]], [int(told[1]), int(told[2])])
        self.assertEqual(more["global_batch"], 4 * more["accumulation"])
        # With the same choices, which a search for an order of its own would replace.
        choices = self.directory / "choices.toml"
        choices.write_text(self.dtc("inspect", program, "--choices"))
        longer = self.directory / "longer"
        self.dtc("compile", MODEL, *SMALL, *layout, "--cluster", cluster, "--choices", choices, "--set",
                 f"accumulation={more['accumulation']}", "--set", f"global_batch={more['global_batch']}", "-o", longer)
        before, after = (self.json("simulate", each, "--cluster", cluster) for each in (program, longer))
        self.assertGreater(before["exposed"], 0.05 * before["seconds"])
        self.assertLess(after["exposed"], 0.05 * after["seconds"])
        self.assertEqual([after["seconds"], after["exposed"]], [more["seconds"], more["exposed"]])
        self.assertAlmostEqual(more["time_of_a_token"], after["seconds"] / before["seconds"] / more["accumulation"])
        self.assertAlmostEqual(int(told[3]), 100 * (1 - more["time_of_a_token"]), delta=0.51)
        less, = self.json("simulate", program, "--cluster", cluster, "--what-if",
                          f"bandwidth.network={faster['bandwidth_factor']}")["what_if"]
        self.assertAlmostEqual(less["seconds"], faster["seconds"], delta=1e-9)
        self.assertLess(faster["exposed"], 0.05 * faster["seconds"])

    # Exact to the byte, for a device, including the scratch memory of kernels, and for a node that ranks share.
    def test_room_is_counted_to_the_byte(self):
        for name, target, memory, ranks in [("h100x8.textproto", "cuda:sm_90", 80000000000, 1),
                                            ("two_cores.textproto", "cpu", 24000000000, 2)]:
            with self.subTest(name=name):
                program = self.make("--mesh", "dp=2", "--target", target)
                all_need = ranks * self.needs(program)
                self.assertGreater(all_need, 1 << 20)  # the least that a file may say
                enough = self.with_memory(all_need, name, memory)
                answer = self.json("inspect", program, "--cluster", enough)["cluster"]
                self.assertTrue(answer["fits"])
                room, = answer["memory"]
                self.assertEqual(room["needed_bytes"], room["bytes"])
                little = self.with_memory(all_need - 1, name, memory)
                self.assertFalse(self.json("inspect", program, "--cluster", little)["cluster"]["fits"])
                self.assertIn("does not fit: ", self.dtc("inspect", program, "--cluster", little))

    def test_too_little_memory_is_refused(self):
        program = self.make("--mesh", "dp=2")
        needs = self.needs(program)
        little = self.with_memory(needs - 1)
        output = self.directory / "output"
        for words in [["compile", MODEL, *SMALL, "--mesh", "dp=2", "-o", output], ["verify", program],
                      ["verify", MODEL, *SMALL, "--mesh", "dp=2"]]:
            with self.subTest(words=words):
                error = self.refused(*words, "--cluster", little, within=60)
                self.assertRegex(error, f"does not fit on the cluster 'h100x8': rank 0 \\(all\\) needs .*, {needs} bytes of "
                                        f"{needs - 1}; a rank of role 'all' holds .*optimizer state .*Use more ranks")
        self.assertFalse(output.exists())

    def test_a_mesh_with_more_ranks_than_devices_is_refused(self):
        program = self.make("--mesh", "dp=4")
        one = self.changed("h100x8.textproto", ("devices: 8", "devices: 2"), ("units: 8", "units: 2"))
        for words in [["compile", MODEL, *SMALL, "--mesh", "dp=4", "-o", self.directory / "output"],
                      ["inspect", program], ["explain", program], ["verify", program],
                      ["verify", MODEL, *SMALL, "--mesh", "dp=4"]]:
            with self.subTest(words=words):
                self.assertIn("the mesh dp=4 has 4 ranks, and the cluster 'h100x8' has 2 devices: make the mesh smaller "
                              "(dp=2 fits)", self.refused(*words, "--cluster", one, within=60))

    def test_stages_need_what_they_need(self):
        program = self.make("--mesh", "pp=2", "--set", "accumulation=2")
        rooms = self.json("inspect", program, "--cluster", H100)["cluster"]["memory"]
        self.assertEqual([(room["role"], room["needed_bytes"]) for room in rooms],
                         [("stage 0", self.needs(program, 0)), ("stage 1", self.needs(program, 1))])

    def test_inspect_foretells_what_simulate_does(self):
        program = self.make("--mesh", "dp=2")
        simulated = self.json("simulate", program, "--cluster", H100)
        answer = self.json("inspect", program, "--cluster", H100)["cluster"]
        for key in ["seconds", "band", "tokens_per_second", "mfu"]:
            self.assertEqual(answer[key], simulated[key])
        self.assertRegex(self.dtc("inspect", program, "--cluster", H100),
                         r"On the cluster h100x8\n  fits: rank 0 .*\n  a step takes [\d.]+ [mu]s: .* tokens/s, MFU ")
        self.assertNotIn("cluster", self.json("inspect", program))

    # Between two ranks all algorithms take one latency plus the bytes, as does an all-reduce of a few bytes.
    def test_what_collectives_take(self):
        for layout in [["--mesh", "dp=2"], ["--mesh", "dp=2", "--strategy", "zero3"], ["--mesh", "tp=2"]]:
            with self.subTest(layout=layout):
                program = self.make(*layout, *ALONE)
                simulated = self.json("simulate", program, "--cluster", H100)
                exposed = 0
                for each in self.json("explain", program, "--cluster", H100)["collectives"]:
                    time = each["time"]
                    self.assertEqual(time["level"], "NVLink")
                    exposed += time["exposed"]
                    if each["kind"] == "all_reduce":
                        self.assertAlmostEqual(time["seconds"] / (2e-6 + each["bytes"] / 450e9), 1, places=6)
                self.assertAlmostEqual(exposed / simulated["exposed"], 1, places=6)

    def test_what_collectives_of_equal_layers_take_is_added_up(self):
        program = self.make("--mesh", "tp=2")
        text = self.dtc("explain", program, "--cluster", H100)
        self.assertRegex(text, r"^A step takes [\d.]+ [mu]s on h100x8\nIn one step")
        self.assertRegex(text, r" all_reduce over tp +sending \S+ \S+ in \S+ us, \S+ us of it exposed")
        self.assertRegex(text, r"  layers  h\.0, h\.1: 2 collectives like this\n(  .*\n)+"
                               r"  time    \S+ us each \(.* over NVLink\); \S+ us a step, ranks wait \S+ us while they move")
        self.assertNotIn("  time ", self.dtc("explain", program))

    # Two messages, one for each micro-batch: each takes one latency plus its bytes.
    def test_what_stages_send_takes_time(self):
        program = self.make("--mesh", "pp=2", "--set", "accumulation=2")
        sent, unit, seconds, of = re.search(r"send forward over pp: forward of \S+ +sending ([\d.]+) (k?B|bytes) in ([\d.]+) (us)\n",
                                            self.dtc("explain", program, "--cluster", H100)).groups()
        size = float(sent) * {"kB": 1e3}.get(unit, 1)
        self.assertAlmostEqual(float(seconds), 1e6 * (2 * 2e-6 + size / 450e9), delta=0.02)

    # The order of the program that is compiled with it.
    def test_what_a_step_takes_with_a_remedy(self):
        program = self.make("--mesh", "dp=2", "--strategy", "zero3")
        answer = self.json("explain", program, "--cluster", H100)
        self.assertEqual(answer["cost"]["seconds"], self.json("simulate", program, "--cluster", H100)["seconds"])
        gather = next(each for each in answer["collectives"] if each["remedy"])
        strategy = self.directory / "strategy.toml"
        strategy.write_text('preset = "zero3"\n' + gather["remedy"].replace("] ", "]\n", 1) + "\n")
        changed = self.make("--mesh", "dp=2", "--strategy", strategy)
        self.assertEqual(gather["remedy_cost"]["seconds"], self.json("simulate", changed, "--cluster", H100)["seconds"])
        program = self.make("--mesh", "dp=2", "--strategy", "zero3")
        self.assertRegex(self.dtc("explain", program, "--cluster", H100),
                         r"a rank then sends .*; a step takes \S+ us instead of \S+ us\n")
        self.assertNotIn("seconds", self.json("explain", program)["cost"])

    def test_verify_says_that_it_fits(self):
        text = self.dtc("verify", MODEL, *SMALL, "--mesh", "dp=2", "--cluster", H100)
        self.assertRegex(text, r"^Fits        on h100x8: rank 0 \(all\) needs ")
        self.assertTrue(json.loads(self.dtc("verify", MODEL, *SMALL, "--cluster", H100, "--json"))["verified"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
