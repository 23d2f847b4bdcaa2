#!/usr/bin/env python3
"""Plans that papers published, as `dtc plan` sees them: one step and one row of memory. bench/published_plans.py has
the rest, for docs/published-plans.md."""

import json
import unittest

import goldens_run_test as goldens
from driver import SANITIZED, DriverTest, main

RANKS = 64
COUNT = 12 * 36 * 4096**2 + 13 * 36 * 4096 + 4096 * (goldens.VOCABULARY + goldens.SEQUENCE)  # parameters of 7.5B


@unittest.skipIf(SANITIZED, "models of that size take minutes to plan there")
class PublishedPlans(DriverTest):
    model, folder, fitted = goldens.Goldens.model, goldens.Goldens.folder, goldens.Goldens.fitted

    def words(self, model, cluster, devices, *fixed, **settings):
        """Everything is fixed that a test does not ask for, so few candidates remain."""
        assignments = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        return ["plan", model, "--cluster", cluster, "--devices", devices, *assignments, "--set", "compute=bf16",
                "--effort", 1, "--refine", 1, *[word for each in fixed for word in ("--fix", each)]]

    def plan(self, *words, **settings):
        """The proposed plan."""
        text = self.dtc(*self.words(*words, **settings), "--json")
        said = json.loads(text[text.index("{"):])
        return (said.get("plans") or said["numbers"][0]["plans"])[0]

    def test_step_of_22b(self):
        """arXiv 2205.05198, table 5, with full recomputation: 1.42 s. Attention's figure is fitted for the table."""
        cluster = self.fitted("Steps with selective and full recomputation")
        fixed = ["tp=8", "sp=off", "micro-batches=1", "recompute=full"]
        plan = self.plan(self.model("22B"), cluster, 8, *fixed, global_batch=4)
        self.assertEqual(plan["mesh"], "tp=8")
        self.assertLess(abs(plan["seconds"] / 1.42 - 1), 0.1, plan)

    def test_memory_of_zero(self):
        """arXiv 1910.02054, figure 1: stage 0 takes 120 GB, stage 3 fits. dtc keeps 18 bytes of a parameter, not 16."""
        model, fixed = self.model("7.5B"), [f"dp={RANKS}", "micro-batches=1", "recompute=cheap"]
        plan = self.plan(model, goldens.CLUSTER, RANKS, *fixed, "zero3", global_batch=RANKS)
        self.assertGreater(plan["bytes"], 18 * COUNT / RANKS)
        self.assertLess(plan["bytes"], 80e9)
        words = self.words(model, goldens.CLUSTER, RANKS, *fixed, "state=ddp", global_batch=RANKS)
        self.assertIn("GB", self.refused(*words, within=20))


if __name__ == "__main__":
    main(at_once=1)
