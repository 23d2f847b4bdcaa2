#!/usr/bin/env python3
"""Where a pipeline is cut: by costs on a cluster, or by what a run measured. Bits: see pipelines_run_test."""

import json
import re

from driver import SOURCE, main
from pipelines_run_test import SETTINGS, PipelineTest


class Cuts(PipelineTest):
    """With a cluster file the stages are cut by costs; without one a remark says where they are uneven."""

    CLUSTER = """
name: "two"
devices { name: "a" peaks { type: "f32" flops: 1e11 } memory_bandwidth: 1e10 memory_bytes: 1000000000 }
devices { name: "b" peaks { type: "f32" flops: 1e10 } memory_bandwidth: 1e9 memory_bytes: 1000000000 }
nodes { device: "a" devices: 1 count: 1 }
nodes { device: "b" devices: 1 count: 1 }
levels { name: "network" latency: 5e-6 bandwidth: 2e9 }
"""
    FOUR = """
name: "four"
devices { name: "a" peaks { type: "f32" flops: 1e11 } memory_bandwidth: 1e10 memory_bytes: 16000000000 }
nodes { device: "a" devices: 4 count: 1 }
levels { name: "network" latency: 5e-6 bandwidth: 2e9 }
"""

    def test_a_slow_device_gets_fewer_layers(self):
        cluster, program = self.directory / "two.textproto", self.directory / "cut"
        cluster.write_text(self.CLUSTER)
        said = self.dtc("compile", self.untied, *self.words(), "--cluster", cluster, "-o", program)
        self.assertRegex(said, r"layers of the stages: \[3, 1\]: the slowest rank takes .* a micro-batch instead of .* with \[2, 2\], "
                               r"[\d.]+% less\n")
        self.assertEqual(self.layers(program), "[3, 1]")
        one, _ = self.run_under(self.untied, "dp=1")
        self.assertEqual(self.train(program, self.data, "cut.out"), one)
        # The choice is replayed, and a user's own stays.
        choices, again = self.directory / "choices.toml", self.directory / "again"
        choices.write_text(self.dtc("inspect", program, "--choices"))
        self.dtc("compile", self.untied, *self.words(), "--choices", choices, "-o", again)
        self.assertEqual(self.layers(again), "[3, 1]")
        choices.write_text("layers = [1, 3]\n")
        said = self.dtc("compile", self.untied, *self.words(), "--choices", choices, "--cluster", cluster, "--remarks", "-o", again)
        self.assertEqual(self.layers(again), "[1, 3]")
        self.assertRegex(said, r"stage 1 takes 1\.\d+ times the mean.*; \[stages\] layers = \[3, 1\] would take 1\.\d+\n")

    # Its products are 31% of the model's: as many as those of 5 layers.
    def test_the_head_of_gpt2_moves_the_cut(self):
        cluster, program = self.directory / "four.textproto", self.directory / "gpt2"
        cluster.write_text(self.FOUR)
        said = self.dtc("compile", SOURCE / "examples/gpt2", *self.words("pp=4"), "--cluster", cluster, "-o", program)
        layers = json.loads(self.layers(program))
        self.assertEqual((len(layers), sum(layers)), (4, 12))
        self.assertLess(layers[3], min(3, *layers[:3]))
        self.assertIn(f"layers of the stages: {layers}: the slowest rank takes ", said)

    # The search compares named timetables by figures of stages, and simulates the best of them as programs.
    def test_the_fastest_timetable(self):
        cluster, program = self.directory / "equal.textproto", self.directory / "auto"
        cluster.write_text(self.CLUSTER.replace("flops: 1e10", "flops: 1e11").replace("memory_bandwidth: 1e9", "memory_bandwidth: 1e10"))
        words = [self.untied, *self.words(), "--cluster", cluster, "--schedule-effort", 1]
        seconds = lambda each: json.loads(self.dtc("simulate", each, "--cluster", cluster, "--json"))["seconds"]
        said = self.dtc("compile", *words, "--timetable", "auto", "-o", program)
        self.assertRegex(said, r"timetable: .+, the fastest of \d+ that were simulated: a step takes ")
        for name in ("1f1b", "interleaved", "zb-h1", "zb-h2", "zbv", "v-half", "dualpipev"):
            named = self.directory / name
            self.dtc("compile", *words, "--timetable", name, "-o", named)
            self.assertLessEqual(seconds(program), 1.01 * seconds(named), name)
        one, _ = self.run_under(self.untied, "dp=1")
        self.assertEqual(self.train(program, self.data, "auto.out"), one)
        # It is replayed as a user's own is.
        choices, again = self.directory / "auto.toml", self.directory / "again"
        choices.write_text(self.dtc("inspect", program, "--choices"))
        self.dtc("compile", self.untied, *self.words(), "--choices", choices, "-o", again)
        self.assertEqual(seconds(again), seconds(program))
        self.assertIn("all agree", self.dtc("verify", program, "--no-code"))

    def test_no_search_without_a_cluster(self):
        said = self.dtc("compile", self.untied, *self.words(), "--timetable", "auto", "-o", self.directory / "none", code=3)
        self.assertIn("--timetable auto compares what a step takes with each timetable: say dtc compile --cluster FILE", said)

    def test_a_remark_without_a_cluster(self):
        head = self.make_folder("head")  # it multiplies 36 n_embd^2 numbers, a layer 12 n_embd^2
        config = json.loads((self.untied / "config.json").read_text())
        (head / "config.json").write_text(json.dumps({**config, "vocab_size": 36 * config["n_embd"]}))
        program = self.directory / "head.train"
        said = self.dtc("compile", head, *self.words(), "--remarks", "-o", program)
        self.assertRegex(said, r"stage 1 takes 1\.\d+ times the mean: its head counts as \d+ layers?; \[stages\] layers = \[3, 1\] "
                               r"would take 1\.\d+\n")
        self.assertEqual(self.layers(program), "[2, 2]")
        self.assertNotIn("times the mean", self.dtc("compile", head, *self.words(), "-o", program))


class Balance(PipelineTest):
    """A run is cut again by what its stages took, and goes on."""

    def setUp(self):
        super().setUp()
        self.model = self.folder_of("six", 6)

    def folder_of(self, name, layers):
        folder = self.make_folder(name)
        config = json.loads((self.untied / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "n_layer": layers}))
        return folder

    def traced(self, name, layers, *arguments):
        """A program with this cut, and the folder of its first 5 steps, of which 4 are traced."""
        strategy = self.directory / (name + ".toml")
        strategy.write_text(f'preset = "megatron"\n[stages]\nlayers = {layers}\n')
        program = self.compile(name, self.model, "--mesh", "pp=2", "--strategy", strategy, **SETTINGS)
        self.train(program, self.data, name + ".out", "--steps", 5, "--trace", "2-5", *arguments)
        return program, self.directory / (name + ".out")

    def pretend(self, out, seconds):
        """Rewrites a trace: each command of a layer takes so long on each rank, all else no time."""
        trace = json.loads((out / "trace.json").read_text())
        for event in trace["traceEvents"]:
            if event["ph"] == "X" and event["cat"] != "step":
                event["dur"] = seconds[event["pid"]] if event["cat"] == "kernel" and "layer" in event["args"] else 0
        (out / "trace.json").write_text(json.dumps(trace))

    def test_goes_on_with_another_cut(self):
        uneven, out = self.traced("uneven", [5, 1])
        whole = self.train(uneven, self.data, "whole.out")
        even = self.directory / "even"
        said = self.dtc("balance", "-o", even, uneven, "--data", self.data, "--out", out, "--threads", 1, "--log-losses",
                        self.directory / "uneven.out.losses")
        self.assertRegex(said, r"uneven: measured: stage 0 took .+s, stage 1 took .+s a micro-batch\n")
        self.assertRegex(said, r"uneven: stage 0 takes 1\.\d+ times the mean.*; \[stages\] layers = \[\d, \d\] would take 1\.\d+\n")
        self.assertRegex(said, r"uneven: layers of the stages: \[\d, \d\]: the slowest rank takes .* a micro-batch instead of .* with "
                               r"\[5, 1\], [\d.]+% less\n")
        self.assertIn(self.layers(even), ("[2, 4]", "[3, 3]", "[4, 2]"))
        self.assertEqual(self.losses("uneven.out"), whole[5:])
        self.assertTrue((out / "checkpoints/step-000010").is_dir())
        self.assertIn("all agree", self.dtc("verify", even, "--no-code"))
        # The trace is still that of the first program.
        said = self.dtc("balance", "-o", self.directory / "third", even, "--data", self.data, "--out", out, code=3)
        self.assertIn("its trace is of a program with another cut", said)

    def test_a_straggler_gets_fewer_layers(self):
        program, out = self.traced("program", [3, 3])
        self.pretend(out, [10, 20])
        slow = self.directory / "slow"
        said = self.dtc("compile", self.model, "--mesh", "pp=2", "--set", "accumulation=4", "--profile", out, "-o", slow)
        self.assertEqual(self.layers(slow), "[4, 2]")
        self.assertRegex(said, r"slow: stage 1 takes 1\.[23]\d times the mean.*; \[stages\] layers = \[4, 2\] would take 1\.0\d\n")
        # Once all ranks are equally fast there is nothing to do.
        self.pretend(out, [10, 10])
        said = self.dtc("balance", "--run", out, program, "--data", self.data)
        self.assertIn("program: [3, 3] is within 5% of the best cut: nothing is changed\n", said)
        self.assertFalse((self.directory / "program.balanced").exists())
        self.assertFalse((out / "checkpoints/step-000010").exists())

    def test_what_cannot_be_balanced(self):
        program, out = self.traced("program", [3, 3])
        compile_by = lambda model, *mesh: self.dtc("compile", model, "--mesh", *mesh, "--set", "accumulation=4", "--profile", out, "-o",
                                                   self.directory / "other", code=3)
        self.assertIn("it has 6 layers, and this one 4", compile_by(self.untied, "pp=2"))
        self.assertIn("a pipeline of 2 ranks, and this one has 3", compile_by(self.model, "pp=3"))
        self.assertIn("--mesh dp=2 has no axis pp", compile_by(self.model, "dp=2"))
        self.assertIn("no cut is chosen by a profile where steps overlap",
                      compile_by(self.model, "pp=2", "--timetable", "pipedream"))
        other = self.compile("of-four", self.untied, "--mesh", "pp=2", **SETTINGS)
        self.assertIn("another program ran there", self.dtc("balance", "--run", out, other, "--data", self.data, code=3))
        self.assertIn("--data", self.dtc("balance", "--run", out, program, code=2))
        self.assertIn("-o: goes before the program: dtc balance OPTIONS PROGRAM ARGUMENTS",
                      self.dtc("balance", "--run", out, program, "--data", self.data, "-o", self.directory / "other", code=2))
        (out / "trace.json").unlink()
        self.assertIn("the run has no trace.json", self.dtc("balance", "--run", out, program, "--data", self.data, code=3))


if __name__ == "__main__":
    main(at_once=2)
