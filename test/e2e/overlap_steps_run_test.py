#!/usr/bin/env python3
"""Steps that overlap behind an early update have the bits of steps that all ranks end together: also where clipping
strikes in some steps, and where gradients overflow in some; behind drains, a resume and a crash. With DTC_LONG_TESTS in
more layouts."""

import hashlib
import json
import os
import re
import signal
import statistics
import time

from driver import SOURCE, DriverTest, main, read_safetensors, write_tokens

STEPS = 12
SETTINGS = {"learning_rate": 1e-2, "clip_norm": 0, "schedule": "constant", "validation_fraction": 0.1, "seed": 7, "steps": STEPS,
            "global_batch": 8, "sequence_length": 16, "accumulation": 4, "eval_batches": 2, "dropout": 0.1}
UNTIED = SOURCE / "test/e2e/pipedream/gpt-untied"
KEPT = "state before an early update"
LONG = bool(os.environ.get("DTC_LONG_TESTS"))


class OverlapTest(DriverTest):
    def setUp(self):
        super().setUp()
        self.data = write_tokens(self.directory / "tokens", 4000, 256)

    def build(self, name, overlaps, *arguments, model="llama-small", **settings):
        return self.compile(name, model, *arguments, *(["--overlap-steps"] if overlaps else []),
                            **{**SETTINGS, **settings})

    def tensors(self, out, step=STEPS):
        """A hash of each weight and optimizer slot, wherever it is stored."""
        tensors = {}
        for file in (self.directory / out / f"checkpoints/step-{step:06}").glob("*.safetensors"):
            header, data = read_safetensors(file)
            for tensor, entry in header.items():
                tensors.setdefault(tensor, []).append(hashlib.sha256(data[slice(*entry["data_offsets"])]).hexdigest())
        self.assertTrue(tensors)
        return {tensor: sorted(pieces) for tensor, pieces in tensors.items()}

    def norms(self, out):
        return [step.get("grad_norm") for step in self.metrics(out)]

    def check_bits(self, *arguments, **settings):
        """Trains with and without; returns the folder of the run whose steps overlap."""
        name = re.sub(r"\W+", "-", "-".join([*map(str, arguments), *(f"{k}{v}" for k, v in settings.items())]))
        for overlaps in (False, True):
            self.train(self.build(f"{name}.{overlaps}", overlaps, *arguments, **settings), self.data, f"{name}.{overlaps}.out")
        together, overlapping = f"{name}.False.out", f"{name}.True.out"
        self.assertEqual(len(self.losses(together)), STEPS)
        self.assertEqual(self.losses(overlapping), self.losses(together), name)
        self.assertEqual(self.norms(overlapping), self.norms(together), name)
        self.assertEqual(self.tensors(overlapping), self.tensors(together), name)
        return overlapping


class Bits(OverlapTest):
    LAYOUTS = (("pp=2", "zbv", 4), ("pp=4", "zb-h2", 8), ("pp=2", "zb-h2", 4))
    AXES = (("dp=2,pp=2", "zero1"), ("pp=2,tp=2", "megatron"), ("dp=2,pp=2", "ddp"), ("dp=2,pp=2", "zero3"))

    def test_where_clipping_strikes_in_some_steps(self):
        for mesh, timetable, accumulation in self.LAYOUTS if LONG else self.LAYOUTS[:2]:
            layout = ["--mesh", mesh, "--timetable", timetable]
            batch = {"accumulation": accumulation, "global_batch": 2 * accumulation, "model": UNTIED}
            norms = self.norms(self.check_bits(*layout, **batch))
            for clip in (min(norms) / 2, statistics.median(norms)):
                found = self.norms(self.check_bits(*layout, clip_norm=f"{clip:.6g}", **batch))
                if clip > min(norms):
                    self.assertLess(min(found), clip, "clipping strikes not in all steps")
                    self.assertGreater(max(found), clip, "but in some")
                else:
                    self.assertGreater(min(found), clip, "clipping strikes in all steps")

    def test_with_other_axes(self):
        for mesh, strategy in self.AXES if LONG else self.AXES[:2]:
            norms = self.norms(self.check_bits("--mesh", mesh, "--strategy", strategy, "--timetable", "zbv"))
            self.check_bits("--mesh", mesh, "--strategy", strategy, "--timetable", "zbv",
                            clip_norm=f"{statistics.median(norms):.6g}")

    def test_where_gradients_overflow_in_some_steps(self):
        for timetable in ("zb-h2", "zbv"):
            out = self.check_bits("--mesh", "pp=2", "--timetable", timetable, compute="f16", loss_scale=2.0**24,
                                  loss_scale_window=2)
            state = json.loads((self.directory / out / f"checkpoints/step-{STEPS:06}/trainer_state.json").read_text())
            self.assertGreater(state["loss_scale"]["skipped_steps"], 0)
            self.assertLess(state["loss_scale"]["skipped_steps"], STEPS)

    def test_with_copies_in_16_bits(self):
        self.check_bits("--mesh", "pp=2", "--timetable", "zbv", compute="bf16", clip_norm=0.5)

    # Steps end before evaluations and checkpoints, which changes nothing.
    def test_behind_drains_and_a_resume(self):
        layout = ["--mesh", "pp=2", "--timetable", "zbv"]
        whole = self.check_bits(*layout, clip_norm=0.5)
        program = self.build("drained", True, *layout, clip_norm=0.5, eval_every=3, checkpoint_every=5)
        self.train(program, self.data, "drained.out")
        self.assertEqual(self.losses("drained.out"), self.losses(whole))
        self.assertEqual(self.tensors("drained.out"), self.tensors(whole))
        self.train(program, self.data, "resumed.out", "--resume", self.directory / "drained.out/checkpoints/step-000005")
        self.assertEqual(self.losses("resumed.out"), self.losses(whole)[5:])
        self.assertEqual(self.tensors("resumed.out"), self.tensors(whole))

    def test_behind_a_crash(self):
        program = self.build("program", True, "--mesh", "pp=2", "--timetable", "zbv", clip_norm=0.5, steps=120,
                             checkpoint_every=20)
        self.train(program, self.data, "whole", "--set", "checkpoint_every=0")
        job = self.start("run", program, "--data", self.data, "--out", self.directory / "killed", "--threads", 1)
        checkpoints = self.directory / "killed/checkpoints"
        while job.poll() is None and not (checkpoints.exists() and any(checkpoints.glob("step-??????"))):
            time.sleep(0.002)
        ranks = self.children(job)
        self.assertTrue(ranks, self.output())
        os.kill(ranks[-1], signal.SIGKILL)
        self.assertNotEqual(job.wait(30), 0)
        self.train(program, self.data, "killed", "--resume", self.directory / "killed")
        resumed = self.losses("killed")
        self.assertLess(len(resumed), 120)
        self.assertEqual(resumed, self.losses("whole")[-len(resumed):])
        self.assertEqual(self.tensors("killed", 120), self.tensors("whole", 120))


class WhatIsSaid(OverlapTest):
    def memory(self, program):
        roles = json.loads(self.dtc("inspect", program, "--json"))["roles"]
        return [{use: role["memory"][use] for use in role["memory"]} for role in roles]

    def test_the_state_is_there_twice(self):
        for compute in ("f32", "bf16"):
            programs = [self.build(f"{compute}.{overlaps}", overlaps, "--mesh", "pp=2", "--timetable", "zbv", compute=compute)
                        for overlaps in (False, True)]
            for before, after in zip(*map(self.memory, programs)):
                state = sum(before.get(use, 0) for use in ("parameters", "copies in 16 bits", "optimizer state"))
                self.assertNotIn(KEPT, before)
                self.assertEqual(after[KEPT], state)

    def test_the_period_is_shown_and_verified(self):
        program = self.build("program", True, "--mesh", "pp=2", "--timetable", "zb-h2", clip_norm=0.5)
        said = self.dtc("inspect", program)
        self.assertIn("by micro-batch, and how many steps they are ahead (zb-h2)", said)
        self.assertIn("W3 F0+1\n", said)
        self.dtc("verify", program)

    def test_a_step_is_predicted(self):
        cluster, seconds = SOURCE / "examples/clusters/two_cores.textproto", []
        for overlaps in (False, True):
            program = self.build(f"{overlaps}", overlaps, "--timetable", "zbv", "--mesh", "pp=2", model=UNTIED,
                                 sequence_length=64, accumulation=8, global_batch=32)
            seconds.append(json.loads(self.dtc("inspect", program, "--cluster", cluster, "--json"))["cluster"]["seconds"])
        self.assertLess(seconds[1], 1.05 * seconds[0], "copies of the state are little beside the passes")
        self.assertGreater(seconds[1], 0.8 * seconds[0], "all passes are counted, once")
        self.assertIn("A step takes", self.dtc("explain", program, "--cluster", cluster))
        tune = ["tune", program, "--data", self.data, "--cluster", cluster, "-o", self.directory / "choices"]
        self.assertIn("no order is looked for where steps overlap", self.dtc(*tune, code=3))

    def refusal(self, *arguments, model="llama-small", **settings):
        words = [word for key, value in {**SETTINGS, **settings}.items() for word in ("--set", f"{key}={value}")]
        return self.dtc("compile", SOURCE / "examples" / model, "--overlap-steps", *arguments, *words, "-o",
                        self.directory / "refused", code=3)

    def test_what_cannot_overlap_is_refused(self):
        zbv = ["--mesh", "pp=2", "--timetable", "zbv"]
        self.assertIn("1f1b computes backward passes whole, and its first rank ends a step last",
                      self.refusal("--mesh", "pp=2"))
        self.assertIn("with this timetable and 4 micro-batches all ranks end a step at the same time",
                      self.refusal("--mesh", "pp=2", "--timetable", "zb-h1"))
        self.assertIn("with 3 micro-batches or more", self.refusal(*zbv, accumulation=2))
        self.assertIn("a step has one micro-batch", self.refusal(*zbv, accumulation=1))
        self.assertIn("give the mesh an axis pp", self.refusal("--mesh", "dp=2"))
        self.assertIn("pipedream overlaps steps in its own way", self.refusal("--mesh", "pp=2", "--timetable", "pipedream",
                                                                              accumulation=1))
        self.assertIn("is complete only behind all passes", self.refusal(*zbv, model="gpt-small"))
        mine = self.directory / "mine.csv" # whose losses are added in another order than its gradients
        mine.write_text("0F0,0F1,0F3,0F2,0I0,0W0,0I1,0W1,0I2,0W2,0I3,0W3\n"
                        "1F0,1I0,1F1,1I1,1F3,1F2,1I2,1I3,1W0,1W1,1W2,1W3\n")
        self.assertIn("micro-batch 2 ends some and 3 others; add all in the same order",
                      self.refusal("--mesh", "pp=2", "--timetable", mine))

    def test_what_is_not_finite_ends_the_run(self):
        program = self.build("program", True, "--mesh", "pp=2", "--timetable", "zbv")
        said = self.dtc("run", program, "--data", self.data, "--out", self.directory / "out", "--threads", 1, "--set",
                        "learning_rate=1e30", code=5)
        self.assertIn("stopped without its update. Where steps overlap, it is not looked for where this arose", said)


if __name__ == "__main__":
    main(at_once=2)
