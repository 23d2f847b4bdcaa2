#!/usr/bin/env python3
"""Advice on real programs: each remedy is applied as it is printed, and the lint no longer fires."""

import json
import re
import unittest

from driver import SOURCE, DriverTest

MODEL = SOURCE / "test/e2e/oracle/gpt2"
SMALL = ["--set", "sequence_length=16", "--set", "global_batch=4", "--set", "validation_fraction=0"]

# Slow devices, and a link on which gradients take several times as long as the work on 4 samples.
SLOW = """
name: "slow"
devices {{ name: "G" peaks {{ type: "f32" flops: 1e9 }} memory_bandwidth: 1e10 memory_bytes: {memory} }}
nodes {{ device: "G" devices: 1 count: 4 }}
levels {{ name: "network" latency: 1e-6 bandwidth: 2e6 }}
failure_seconds: {failure}
"""
# Two nodes of two devices.
PAIRS = """
name: "pairs"
devices { name: "G" peaks { type: "f32" flops: 1e12 } memory_bandwidth: 1e12 memory_bytes: 1000000000 launch_seconds: 1e-6 }
nodes { device: "G" devices: 2 count: 2 }
levels { name: "within" units: 2 latency: 1e-6 bandwidth: 1e9 }
levels { name: "between" latency: 1e-5 bandwidth: 2e7 }
"""


def advice(text):
    """What is said, by the lints' names."""
    return dict(re.findall(r"^dtc: advice: ([a-z0-9-]+): (.*)$", text, re.MULTILINE))


class Advice(DriverTest):
    def slow(self, memory=10**9, failure=0):
        path = self.directory / f"slow-{memory}-{failure}.textproto"
        path.write_text(SLOW.format(memory=memory, failure=failure))
        return path

    def pairs(self):
        path = self.directory / "pairs.textproto"
        path.write_text(PAIRS)
        return path

    def told(self, cluster, *words, model=MODEL, code=0):
        return self.dtc("compile", model, *SMALL, *words, "--cluster", cluster, "--schedule-effort", 1, "-o",
                        self.directory / "program", code=code)

    def found(self, name, cluster, *words, **options):
        """What the lint says, which says nothing when it is silenced."""
        found = advice(self.told(cluster, *words, "--advice", "all", **options))
        self.assertIn(name, found)
        self.assertNotIn(name, advice(self.told(cluster, *words, "--advice", "all", "--silence", name, **options)))
        return found[name]

    def assert_gone(self, name, cluster, *words, **options):
        self.assertNotIn(name, advice(self.told(cluster, *words, "--advice", "all", **options)))

    def assert_remedied(self, name, cluster, words, option, value):
        """The remedy is this option, with a value of this form."""
        text = self.found(name, cluster, *words)
        remedy = re.search(rf"; .*{option} ({value})", text)
        self.assertIsNotNone(remedy, text)
        self.assert_gone(name, cluster, *words, option, remedy[1])
        return remedy[1]

    def test_few_micro_batches(self):
        words = ["--mesh", "pp=2"]
        remedy = self.assert_remedied("few-micro-batches", self.slow(), words, "--set", r"accumulation=\d+")
        self.assertEqual(remedy, "accumulation=4")  # (p-1) / m = 1 / 4

    # The compiler warns only where nobody advises: of a phase's text.
    def test_a_bubble_is_said_once(self):
        idle = "its stages stand idle for"
        words = ["--mesh", "pp=2"]
        told = self.told(self.slow(), *words)
        self.assertIn("few-micro-batches", advice(told))
        self.assertNotIn(idle, told)
        self.assertNotIn(idle, self.told(self.slow(), *words, "--silence", "few-micro-batches"))
        alone = self.dtc("compile", MODEL, *SMALL, *words, "-o", self.directory / "program")
        self.assertNotIn(idle, alone)
        self.assertEqual(list(advice(alone)), ["few-micro-batches"])
        self.assertIn(idle, self.dtc("compile", MODEL, *SMALL, *words, "--compile-to", "when", "-o", self.directory / "text"))

    def test_needless_accumulation(self):
        words = ["--set", "accumulation=4"]
        remedy = self.assert_remedied("needless-accumulation", self.slow(), words, "--set", r"accumulation=\d+")
        self.assertEqual(remedy, "accumulation=1")

    # What is cheap may also take over 3% of the step; then nothing is left to recompute.
    def test_needless_recomputation(self):
        name, tried = "needless-recomputation", ["full"]
        text = self.found(name, self.slow(), "--set", "recompute=full")
        while text and len(tried) < 3:
            tried.append(re.search(r"; --set recompute=(\w+),", text)[1])
            text = advice(self.told(self.slow(), "--set", f"recompute={tried[-1]}", "--advice", "all")).get(name)
        self.assertIsNone(text, tried)
        self.assertEqual(tried, ["full", "cheap", "none"][:len(tried)])

    def test_exposed_communication(self):
        words = ["--mesh", "dp=2", "--strategy", "ddp"]
        text = self.found("exposed-communication", self.slow(), *words)
        self.assertIn("it is most of the step", text)
        self.assertIn("; compute more samples a step", text)
        self.assert_gone("exposed-communication", self.slow(), *words, "--set", "global_batch=1024")

    # tp is the outer axis. What its collectives cost is said by one lint alone.
    def test_tensor_parallel_over_slow_link(self):
        words = ["--mesh", "tp=2,dp=2"]
        found = advice(self.told(self.pairs(), *words, "--advice", "all"))
        self.assertIn("tensor-parallel-over-slow-link", found)
        self.assertNotIn("groups-against-topology", found)
        self.assertNotIn("small-messages", found)
        mesh = re.search(r"; put ranks of tp next to each other: --mesh (\S+)", found["tensor-parallel-over-slow-link"])[1]
        self.assertEqual(mesh, "dp=2,tp=2")
        self.assert_gone("tensor-parallel-over-slow-link", self.pairs(), "--mesh", mesh)

    # The error comes last, since nothing is compiled.
    def test_data_parallel_does_not_fit(self):
        name, model = "data-parallel-does-not-fit", self.make_folder("larger")
        config = json.loads((MODEL / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "n_embd": 128, "vocab_size": 2000}))
        words = ["--mesh", "dp=4"]
        self.told(self.slow(), *words, "--strategy", "ddp", model=model)
        role, = json.loads(self.dtc("inspect", self.directory / "program", "--json"))["roles"]
        little = self.slow(memory=int(0.97 * (role["arena_bytes"] + role.get("scratch_bytes", 0))))
        said = self.told(little, *words, "--strategy", "ddp", model=model, code=3)
        self.assertEqual(list(advice(said)), [name])
        self.assertLess(said.index(name), said.index("does not fit on the cluster"))
        for silent in (["--silence", name], ["--advice", "none"]):
            self.assertEqual(advice(self.told(little, *words, "--strategy", "ddp", *silent, model=model, code=3)), {})
        strategy = re.search(r"; --strategy (zero[123])$", advice(said)[name])
        self.assertIsNotNone(strategy, said)
        self.assert_gone(name, little, *words, "--strategy", strategy[1], model=model)

    def test_learning_rate_not_scaled(self):
        reference = ["--reference-batch", 1, "--reference-rate", 0.25]
        remedy = self.assert_remedied("learning-rate-not-scaled", self.slow(), reference, "--set", r"learning_rate=[\d.]+")
        self.assertEqual(remedy, "learning_rate=0.5")  # four times the batch: twice the rate
        for words in [reference[:2], reference[2:]]:
            self.assertIn("--reference", self.dtc("compile", MODEL, *SMALL, *words, "--cluster", self.slow(), "-o",
                                                  self.directory / "program", code=2))
        without = self.dtc("compile", MODEL, *SMALL, *reference, "-o", self.directory / "program") # it needs no cluster
        self.assertIn("learning-rate-not-scaled", advice(without))

    # 100,000,000 steps of some milliseconds are many times the mean time between failures.
    def test_checkpoint_interval(self):
        cluster, words = self.slow(failure=100000), ["--mesh", "dp=2", "--set", "steps=100000000"]
        self.assert_remedied("checkpoint-interval", cluster, words, "--set", r"checkpoint_every=\d+")
        self.assert_gone("checkpoint-interval", self.slow(), *words)  # which says nothing about failures

    def test_three_findings_are_shown(self):
        cluster = self.slow(failure=100000)
        words = ["--mesh", "dp=2", "--strategy", "ddp", "--set", "accumulation=2", "--set", "steps=100000000",
                 "--reference-batch", 1, "--reference-rate", 1]
        every = advice(self.told(cluster, *words, "--advice", "all"))
        self.assertLessEqual({"exposed-communication", "needless-accumulation", "learning-rate-not-scaled",
                              "checkpoint-interval"}, set(every))
        told = self.told(cluster, *words)
        self.assertEqual(list(advice(told)), list(every)[:3])
        self.assertIn(f"dtc: advice: {len(every) - 3} more: --advice all shows all, and --silence NAME leaves one out\n", told)
        self.assertEqual(advice(self.told(cluster, *words, "--advice", "none")), {})


if __name__ == "__main__":
    unittest.main()
