#!/usr/bin/env python3
"""dtc simulate --scale: tables of strong and weak scaling, compared with single simulations and the laws' own
formulas."""

import json
import unittest

from driver import SOURCE, DriverTest

CLUSTERS = SOURCE / "examples/clusters"
H100 = CLUSTERS / "h100x8.textproto"
MODEL = SOURCE / "test/e2e/oracle/gpt2"
SMALL = ["--set", "sequence_length=16", "--set", "validation_fraction=0"]
BATCH = ["--set", "global_batch=8"]


class Scaling(DriverTest):
    def scale(self, sizes, *words, cluster=H100):
        return json.loads(self.dtc("simulate", MODEL, *SMALL, *BATCH, "--scale", sizes, "--cluster", cluster, "--json", *words))

    def simulate(self, *words):
        return json.loads(self.dtc("simulate", MODEL, *SMALL, "--cluster", H100, "--json", *words))

    def links(self, latency, bandwidth):
        """Eight GPUs with other links."""
        text = H100.read_text()
        level = text[text.index("levels {"):]
        self.assertEqual(text.count("levels {"), 1)
        path = self.directory / "cluster.textproto"
        path.write_text(text.replace(
            level, f'levels {{ name: "links" units: 8 latency: {latency} bandwidth: {bandwidth} }}\n'))
        return path

    def test_sizes_are_single_simulations(self):
        answer = self.scale("1,4")
        for kind, batches in [("strong", [8, 8]), ("weak", [8, 32])]:
            for row, devices, batch in zip(answer[kind]["sizes"], [1, 4], batches):
                self.assertEqual((row["devices"], row["global_batch"], row["fits"]), (devices, batch, True))
                alone = self.simulate("--mesh", f"dp={devices}", "--set", f"global_batch={batch}")
                self.assertEqual(row["seconds"], alone["seconds"])
                self.assertEqual(row["tokens_per_second"], alone["tokens_per_second"])
                self.assertAlmostEqual(row["communication"], (alone["exposed"] + alone["slowed_down"]) / alone["seconds"])

    # With one unknown each, the laws are solved by hand: Karp and Flatt's share, and Gustafson's.
    def test_serial_shares(self):
        answer = self.scale("1,2")
        one, two = [row["seconds"] for row in answer["strong"]["sizes"]]
        self.assertAlmostEqual(answer["strong"]["serial_share"], 2 * two / one - 1)
        self.assertAlmostEqual(answer["strong"]["sizes"][1]["efficiency"], one / (2 * two))
        one, two = [row["seconds"] for row in answer["weak"]["sizes"]]
        self.assertAlmostEqual(answer["weak"]["serial_share"], 2 - 2 * one / two)
        self.assertAlmostEqual(answer["weak"]["sizes"][1]["speedup"], 2 * one / two)
        self.assertAlmostEqual(answer["weak"]["sizes"][1]["efficiency"], one / two)

    def test_where_moving_is_free_weak_scaling_is_perfect(self):
        answer = self.scale("1,2,8", cluster=self.links(0, 1e16))
        for row in answer["weak"]["sizes"]:
            self.assertAlmostEqual(row["efficiency"], 1, delta=0.02)  # kernels of the loss and norms add a little
            self.assertLess(row["communication"], 1e-3)
        self.assertLess(abs(answer["weak"]["serial_share"]), 0.03)

    def test_communication_is_remarked_on(self):
        for bandwidth, least, most, remark in [(1e16, 0, 0.2, None), (1.5e8, 0.2, 0.5, "over 20% communication"),
                                               (1e7, 0.5, 1, "most of it is communication")]:
            cluster = self.links(0, bandwidth)
            row = self.scale("8", cluster=cluster)["strong"]["sizes"][0]
            self.assertTrue(least <= row["communication"] < most, row)
            text = self.dtc("simulate", MODEL, *SMALL, *BATCH, "--scale", "8", "--cluster", cluster)
            for each in ["over 20% communication", "most of it is communication"]:
                (self.assertIn if each == remark else self.assertNotIn)(each, text)

    # 20 tokens for each parameter, 6 operations for each parameter and token.
    def test_the_target_is_a_compute_optimal_training(self):
        answer = self.scale("2")
        self.assertEqual(answer["target_tokens"], 20 * answer["parameters"])
        self.assertEqual(answer["target_flops"], 6 * answer["parameters"] * answer["target_tokens"])
        row, = answer["weak"]["sizes"]
        self.assertAlmostEqual(row["target_seconds"] * row["tokens_per_second"] / answer["target_tokens"], 1)

    def test_the_axis_dp_takes_what_others_leave(self):
        for mesh, meshes in [("tp=2", ["dp=1,tp=2", "dp=4,tp=2"]), ("tp=2,dp=3", ["tp=2,dp=1", "tp=2,dp=4"])]:
            answer = self.scale("8,2,2", "--mesh", mesh)
            self.assertEqual([row["mesh"] for row in answer["strong"]["sizes"]], meshes)
            self.assertEqual(answer["strong"]["base"]["devices"], 2)  # as tp=2 is impossible on one device
            self.assertEqual(answer["strong"]["sizes"][0]["efficiency"], 1)
        self.assertEqual(self.scale("2")["strong"]["base"]["devices"], 1)

    def test_impossible_sizes_are_named_and_passed_over(self):
        answer = self.scale("2,3,6,16", "--mesh", "tp=2")
        self.assertEqual(["problem" in row and row["problem"] for row in answer["strong"]["sizes"]][0], "")
        problems = {row["devices"]: row["problem"] for row in answer["strong"]["sizes"]}
        self.assertIn("3 devices are not a multiple of the 2 of the mesh tp=2", problems[3])
        self.assertIn("batch of size 8 does not divide over 3 ranks", problems[6])
        self.assertIn("has 8 devices", problems[16])
        self.assertEqual({row["devices"]: row["problem"] for row in answer["weak"]["sizes"]}[6], "")
        text = self.dtc("simulate", MODEL, *SMALL, *BATCH, "--mesh", "tp=2", "--scale", "2,3", "--cluster", H100)
        for words in ["Strong scaling: 8 samples a step at every size; against 2 devices (dp=1,tp=2)",
                      "3  impossible: 3 devices are not a multiple", "Weak scaling: the batch grows", "Efficiency\n"]:
            self.assertIn(words, text)
        self.assertIn("none of the sizes can be simulated; 3 devices: ", self.refused(
            "simulate", MODEL, *SMALL, *BATCH, "--mesh", "tp=2", "--scale", "3", "--cluster", H100, within=60))

    def test_memory_that_is_too_small_is_said(self):
        cluster = self.directory / "small.textproto"
        cluster.write_text(H100.read_text().replace("memory_bytes: 80000000000", "memory_bytes: 1048576"))
        self.assertFalse(self.scale("1", cluster=cluster)["strong"]["sizes"][0]["fits"])
        self.assertIn("does not fit: needs ", self.dtc("simulate", MODEL, *SMALL, *BATCH, "--scale", "1", "--cluster",
                                                                   cluster))

    def test_what_goes_with_it(self):
        program = self.directory / "program"
        self.dtc("compile", MODEL, *SMALL, *BATCH, "-o", program)
        self.assertIn("is a program, compiled for one number of devices",
                      self.refused("simulate", program, "--scale", "2", "--cluster", H100))
        for words in [["--scale", "0"], ["--scale", "2,x"], ["--scale", "2", "--trace", "trace.json"],
                      ["--scale", "2", "--what-if", "latency=2"]]:
            self.refused("simulate", MODEL, "--cluster", H100, *words, code=2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
