#!/usr/bin/env python3
"""dtc simulate and dtc calibrate: the predicted cost of a step, and messages about wrong input."""

import json
import re
import subprocess
import unittest

from driver import DTC, SOURCE, DriverTest, write_tokens

CLUSTERS = SOURCE / "examples/clusters"
GPT = SOURCE / "examples/gpt-small"


class Simulate(DriverTest):
    def simulate(self, *arguments, model=GPT, cluster=CLUSTERS / "h100x8.textproto"):
        return json.loads(self.dtc("simulate", model, "--cluster", cluster, "--json", *arguments))

    def cluster(self, text, old, new):
        path = self.directory / "cluster.textproto"
        self.assertIn(old, text)
        path.write_text(text.replace(old, new))
        return path

    def test_times_add_up_on_every_rank(self):
        for layout in [["--mesh", "dp=2,tp=2"], ["--mesh", "dp=2,pp=4", "--set", "accumulation=4", "--set", "global_batch=16"]]:
            answer = self.simulate(*layout)
            self.assertGreater(answer["seconds"], 0)
            for rank in answer["ranks"]:
                total = rank["host"] + rank["kernels"] + rank["slowed_down"] + rank["exposed"] + rank["idle"]
                self.assertAlmostEqual(total / answer["seconds"], 1, places=9)
            self.assertLessEqual(answer["lower_bound"]["seconds"], answer["seconds"] * (1 + 1e-9))
            self.assertAlmostEqual(sum(answer["kernel_classes"].values()) / answer["kernels"], 1, places=9)
            self.assertEqual(sum(rank["ranks"] for rank in answer["ranks"]), 4 if "tp" in layout[1] else 8)

    def test_a_program_costs_what_its_model_does(self):
        program = self.directory / "gpt"
        self.dtc("compile", GPT, "--mesh", "dp=2,tp=2", "--cluster", CLUSTERS / "h100x8.textproto", "-o", program)
        of_program, of_model = self.simulate(model=program), self.simulate("--mesh", "dp=2,tp=2")
        self.assertEqual(of_program["seconds"], of_model["seconds"])
        text = self.dtc("simulate", program, "--cluster", CLUSTERS / "h100x8.textproto")
        for words in ["gpt2 for dp=2, tp=2 on h100x8: a step takes", "kernels", "communication", "at least", "tokens/s",
                      "What ranks wait for", "all_reduce over tp", "why     partial over tp", "NVLink"]:
            self.assertIn(words, text)

    def test_what_if(self):
        changes = ["bandwidth=0.5", "bandwidth.NVLink=0.5", "latency=3", "rank.3=2", "compute=2", "memory=2"]
        answer = self.simulate("--mesh", "dp=2,tp=2", *[word for each in changes for word in ("--what-if", each)])
        seconds = {each["change"]: each["seconds"] for each in answer["what_if"]}
        self.assertEqual(list(seconds), changes)
        self.assertGreater(seconds["bandwidth=0.5"], answer["seconds"])
        self.assertEqual(seconds["bandwidth=0.5"], seconds["bandwidth.NVLink=0.5"])
        self.assertGreater(seconds["latency=3"], answer["seconds"])
        self.assertGreater(seconds["rank.3=2"], 1.2 * answer["seconds"])
        self.assertLess(seconds["compute=2"], answer["seconds"])
        self.assertLess(seconds["memory=2"], answer["seconds"])

    def test_axes_that_lie_further_apart_cost_more(self):
        text = (CLUSTERS / "h100x512.textproto").read_text()
        seconds = {}
        for axis in ["tp", "dp"]:
            cluster = self.cluster(text, 'axis_order: "tp"', f'axis_order: "{axis}"')
            seconds[axis] = self.simulate("--mesh", "dp=4,tp=4", "--set", "global_batch=64", cluster=cluster)["seconds"]
        self.assertLess(seconds["tp"], seconds["dp"])

    def test_a_trace_is_a_runs(self):
        path = self.directory / "trace.json"
        answer = self.simulate("--mesh", "dp=2,tp=2", "--trace", path)
        events = json.loads(path.read_text())["traceEvents"]
        steps = [event for event in events if event.get("cat") == "step"]
        self.assertEqual(len(steps), len(answer["ranks"]))
        self.assertAlmostEqual(steps[0]["dur"] / 1e6 / answer["seconds"], 1, places=3)
        kernels = sum(event["dur"] for event in events if event.get("cat") == "kernel") / 1e6
        self.assertAlmostEqual(kernels / answer["kernels"], 1, delta=0.05)  # times are whole nanoseconds
        for category in ["start", "collective", "wait"]:
            self.assertTrue([event for event in events if event.get("cat") == category], category)

    def test_memory_peaks_at_the_plan(self):
        for layout in [["--mesh", "dp=2,tp=2"], ["--mesh", "pp=4", "--set", "accumulation=4", "--set", "global_batch=16"]]:
            program = self.directory / "gpt"
            self.dtc("compile", GPT, *layout, "-o", program)
            roles = {role["name"]: role for role in json.loads(self.dtc("inspect", program, "--json"))["roles"]}
            answer = self.simulate(model=program)
            self.assertTrue(answer["fits"])
            for memory in answer["memory"]:
                role = roles[memory["role"]]
                self.assertEqual((memory["peak_bytes"], memory["categories"]), (role["arena_bytes"], role["memory"]))
                seconds = memory["over_time"]["seconds"]
                self.assertEqual(seconds, sorted(seconds))
                self.assertLessEqual(seconds[-1], answer["seconds"])
                live = [sum(each) for each in zip(*memory["over_time"]["bytes"].values())]
                self.assertEqual(max(live), memory["peak"]["live_bytes"])
                self.assertLessEqual(seconds[0], memory["peak"]["seconds"])
        self.assertIn("Memory of a rank", self.dtc("simulate", program, "--cluster", CLUSTERS / "h100x8.textproto"))

    def test_a_device_with_too_little_memory(self):
        text = (CLUSTERS / "h100x8.textproto").read_text()
        old = re.search(r"memory_bytes: \d+", text).group()
        cluster = self.cluster(text, old, "memory_bytes: 2000000000")
        words = [DTC, "simulate", SOURCE / "examples/gpt2", "--cluster", cluster, "--json"]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True, timeout=60)
        answer = json.loads(done.stdout)
        self.assertFalse(answer["fits"])
        [room] = answer["room"]
        self.assertGreaterEqual(room["needed_bytes"], answer["memory"][0]["arena_bytes"])
        self.assertIn("does not fit on the cluster 'h100x8': rank 0 (all) needs", done.stderr)
        self.assertIn(f"{room['needed_bytes']:.0f} bytes of 2000000000", done.stderr)

    def test_a_profile_of_another_program_is_refused(self):
        program, other, out = self.directory / "gpt", self.directory / "other", self.directory / "out"
        self.dtc("compile", GPT, "--set", "steps=3", "-o", program)
        self.dtc("compile", GPT, "--set", "steps=3", "--set", "compute=bf16", "-o", other)
        data = write_tokens(self.directory / "tokens.bin", 5000, 128)
        self.dtc("run", program, "--data", data, "--out", out, "--trace", "2-3")
        cluster = CLUSTERS / "h100x8.textproto"
        self.assertGreater(self.simulate("--profile", out, model=program)["seconds"], 0)
        error = self.refused("simulate", other, "--cluster", cluster, "--profile", out, within=60)
        self.assertIn("another program ran there", error)
        (out / "manifest.pb").unlink()
        self.assertIn("manifest.pb is not there", self.refused("simulate", program, "--cluster", cluster, "--profile", out,
                                                              within=60))

    def test_what_calibrate_cannot_measure(self):
        for words, code, arguments in [
            ("--compile-only: for which GPUs", 2, ["--target", "cuda", "--programs", self.directory, "--compile-only"]),
            ("links between processors", 2, ["--target", "cuda", "--hosts", "one,two"]),
            ("--links is for GPUs", 2, ["--links", CLUSTERS / "h100x8.textproto"]),
            ("two_cores.textproto: it is a cluster of processors", 3,
             ["--target", "cuda", "--links", CLUSTERS / "two_cores.textproto"]),
        ]:
            with self.subTest(words):
                self.assertIn(words, self.refused("calibrate", "-o", self.directory / "none", *arguments, code=code))

    def test_fail_over(self):
        cluster = CLUSTERS / "h100x8.textproto"
        self.dtc("simulate", GPT, "--cluster", cluster, "--fail-over", 10)
        error = self.refused("simulate", GPT, "--cluster", cluster, "--fail-over", 1e-6, code=9, within=60)
        self.assertRegex(error, r"a step takes [\d.]+ [mu]s, which is over --fail-over 1 us")

    def test_wrong_input_is_named(self):
        good = CLUSTERS / "h100x8.textproto"
        text = good.read_text()
        program = self.directory / "gpt"
        self.dtc("compile", GPT, "-o", program)
        for arguments, words in [
            ([GPT, "--cluster", "no.textproto"], "no.textproto"),
            ([GPT, "--cluster", good, "--mesh", "dp=16", "--set", "global_batch=16"], "has 8 devices"),
            (["nothing", "--cluster", good], "nothing: no such model or program"),
            ([program, "--cluster", good, "--mesh", "dp=2"], "and --mesh was fixed when it was compiled"),
            ([GPT, "--cluster", good, "--what-if", "bandwith=2"], "did you mean 'bandwidth'?"),
            ([GPT, "--cluster", good, "--what-if", "bandwidth.NVlink=2"], "did you mean 'NVLink'?"),
            ([GPT, "--cluster", good, "--what-if", "bandwidth=-1"], "'-1' is not a factor; write a number above 0"),
            ([GPT, "--cluster", good, "--what-if", "rank.1=2"], "there is no rank '1'; ranks are 0 to 0"),
            ([GPT, "--cluster", good, "--what-if", "accumulation=2"], "Settings of a model change with --set"),
            ([GPT, "--cluster", self.cluster(text, "bandwidth: 450e9", "bandwidth: 0")], "levels[0].bandwidth is 0"),
        ]:
            with self.subTest(words=words):
                self.assertIn(words, self.refused("simulate", *arguments, within=60))


if __name__ == "__main__":
    unittest.main(verbosity=2)
