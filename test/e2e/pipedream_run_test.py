#!/usr/bin/env python3
"""Native runs of PipeDream against an oracle, and what is refused.

test/e2e/oracle/make_pipedream.py simulated PipeDream with PyTorch in f64, without and with drains; this file trains the
same models in 2 and 4 stages, drains where evaluations and checkpoints are, and compares with the records
  every learning rate                exactly, except for the last bits of f64
  every loss and held-out loss       to 1e-5 (wrong delays change some loss by 1e-3)
  every tensor of the last weights   ‖a−b‖ ≤ 1e-3 ‖b‖, where a and b are the changes since the first step
The demo's model learns a text in it as well as in steps that all stages end together, if it has 1.3 times as many.
"""

import array
import json
import unittest

from driver import SANITIZED, SOURCE, DriverTest, main, read_safetensors, write_tokens
from oracle_run_test import norm, without_key_bias

ORACLE, TOKENS = SOURCE / "test/e2e/oracle/pipedream", SOURCE / "test/e2e/oracle/runs/tokens.bin"
STEPS, DRAIN = 12, 5
SETTINGS = {"learning_rate": 1e-3, "clip_norm": 0, "schedule": "constant", "validation_fraction": 0.1, "seed": 7, "steps": 10,
            "global_batch": 4, "sequence_length": 16, "accumulation": 1, "eval_batches": 2}


def read_weights(path):
    header, data = read_safetensors(path)
    codes = {"F32": "f", "F64": "d"}
    return {name: array.array(codes[entry["dtype"]], data[slice(*entry["data_offsets"])]) for name, entry in header.items()}


class AgainstTheOracle(DriverTest):
    def check_model(self, model, stages, mesh=None):
        self.folder = ORACLE / model
        program = self.compile("program", self.folder, "--mesh", mesh or f"pp={stages}", "--timetable", "pipedream",
                               "--config", self.folder / "train.toml")
        self.train(program, TOKENS, "whole")
        self.check_run(f"p{stages}", "whole", 0)
        self.train(program, TOKENS, "drained", "--set", f"eval_every={DRAIN}", "--set", f"checkpoint_every={DRAIN}")
        self.check_run(f"p{stages}_drain5_drain10", "drained", 0)
        self.train(program, TOKENS, "resumed", "--resume", self.checkpoint("drained", DRAIN))
        self.check_run(f"p{stages}_drain5", "resumed", DRAIN)

    def checkpoint(self, out, step):
        return self.directory / out / f"checkpoints/step-{step:06}"

    def check_run(self, record, out, begin):
        expected = json.loads((self.folder / f"{record}.json").read_text())
        steps = self.metrics(out)
        self.assertEqual([step["step"] for step in steps], list(range(begin + 1, STEPS + 1)), record)
        for step in steps:
            number = step["step"]
            self.hold(f"{record}, step {number}: rate", step["lr"], expected["lr"][number - 1], 1e-12)
            self.hold(f"{record}, step {number}: loss", step["loss_metrics/global_avg_loss"], expected["loss"][number - 1],
                      1e-5)
        lines = [json.loads(line) for line in (self.directory / out / "metrics.jsonl").read_text().splitlines()]
        held_out = [line["validation_metrics/loss"] for line in lines if "validation_metrics/loss" in line]
        self.assertTrue(held_out)
        for ours, theirs in zip(reversed(held_out), reversed(expected["held_out_loss"])): # a resumed run has the last
            self.hold(f"{record}: held-out loss", ours, theirs, 1e-5)
        self.check_weights(record, read_weights(self.checkpoint(out, STEPS) / "model.safetensors"), expected)

    def hold(self, what, actual, expected, tolerance):
        self.assertLessEqual(abs(actual - expected), tolerance * abs(expected), f"{what}: {actual} and {expected}")

    def check_weights(self, record, weights, expected):
        if "norms" in expected:
            self.assertEqual(set(weights), set(expected["norms"]))
            for name, theirs in expected["norms"].items():
                if not name.endswith("attn.c_attn.bias"):
                    self.hold(f"{record}: {name}", norm(weights[name]), theirs, 1e-4)
            return
        initial, final = read_weights(self.folder / "model.safetensors"), read_weights(self.folder / f"{record}.safetensors")
        self.assertEqual(set(weights), set(final))
        for name in final:
            change = norm(without_key_bias(name, [b - x for b, x in zip(final[name], initial[name])]))
            difference = norm(without_key_bias(name, [a - b for a, b in zip(weights[name], final[name])]))
            self.assertGreater(change, 0, name)
            self.assertLessEqual(difference, 1e-3 * change, f"{record}: {name}")

    def test_gpt2_in_two_stages(self):
        self.check_model("gpt2", 2)

    def test_gpt2_in_four_stages(self):
        self.check_model("gpt2", 4)

    def test_llama_in_two_stages(self):
        self.check_model("llama", 2)

    def test_llama_in_four_stages(self):
        self.check_model("llama", 4)

    # By the norm of each layer's gradient, whichever stage it is in.
    def test_clipped_in_two_stages(self):
        self.check_model("clipped", 2)

    def test_clipped_in_four_stages(self):
        self.check_model("clipped", 4)

    # The norm of a layer has parts on all tensor-parallel ranks.
    def test_clipped_with_tensor_parallelism(self):
        self.check_model("clipped", 2, mesh="tp=2,pp=2")

    # Replicas are compared only where steps end for another reason: otherwise the results would depend on time.
    def test_with_data_parallelism(self):
        self.check_model("gpt2", 2, mesh="dp=2,pp=2")


class Learning(DriverTest):
    """The demo's model and settings, but narrower and with smaller batches, so that the test takes less than half a
    minute on two cores. The head and the embedding are two parameters, as PipeDream needs it. Clipping by layer and
    Nesterov's momentum make up for the delay (bench/pipedream.md)."""

    STEPS, MORE = 400, 1.3

    def held_out(self, out, *arguments, **settings):
        program = self.compile(f"{out}.program", self.model, "--mesh", "pp=2", *arguments, "--config",
                               SOURCE / "examples/gpt-small/train.toml", global_batch=8, sequence_length=64,
                               eval_every=0, **settings)
        self.train(program, self.directory / "text", out)
        lines = [json.loads(line) for line in (self.directory / out / "metrics.jsonl").read_text().splitlines()]
        found = [line["validation_metrics/loss"] for line in lines if "validation_metrics/loss" in line]
        self.assertEqual(len(found), 1, "an evaluation before the end would drain the pipeline")
        return found[0]

    @unittest.skipIf(SANITIZED, "a thousand steps, of which each takes long")
    def test_it_needs_at_most_1_3_times_the_steps(self):
        self.model = self.make_folder("model")
        config = json.loads((SOURCE / "test/e2e/pipedream/gpt-untied/config.json").read_text())
        (self.model / "config.json").write_text(json.dumps({**config, "n_embd": 64}))
        self.dtc("data", "pack", SOURCE / "LICENSE", *sorted((SOURCE / "docs").rglob("*.md")), "-o", self.directory / "text")
        together = self.held_out("together", steps=self.STEPS, accumulation=2)
        delayed = self.held_out("delayed", "--timetable", "pipedream", steps=round(self.MORE * self.STEPS), clip_norm=0.2,
                                nesterov=1)
        letters = json.loads(self.dtc("data", "show", self.directory / "text", "--json"))["unigram_entropy_nats"]
        self.assertLess(together, letters - 0.2, "both have learned more than how frequent letters are")
        self.assertLessEqual(delayed, together)


class Messages(DriverTest):
    def setUp(self):
        super().setUp()
        self.data = write_tokens(self.directory / "tokens", 4000, 256)

    def refusal(self, model, mesh, *arguments, **settings):
        words = [word for key, value in {**SETTINGS, **settings}.items() for word in ("--set", f"{key}={value}")]
        return self.dtc("compile", SOURCE / "examples" / model, "--mesh", mesh, "--timetable", "pipedream", *arguments,
                        *words, "-o", self.directory / "refused", code=3)

    def test_what_would_make_stages_wait_is_refused(self):
        self.assertIn("a step has 2 of them: set accumulation = 1", self.refusal("llama-small", "pp=2", accumulation=2))
        self.assertIn("stages 0 and 1 both read the parameter", self.refusal("gpt-small", "pp=2"))
        self.assertIn("a loss scale, which f16 needs", self.refusal("llama-small", "pp=2", compute="f16"))
        self.assertIn("give the mesh an axis pp", self.refusal("llama-small", "dp=2"))
        self.assertIn("cannot be kept in versions yet", self.refusal("llama-small", "dp=2,pp=2", "--strategy", "zero3"))

    def test_no_step_is_drawn_or_simulated_by_itself(self):
        self.assertIn("its steps overlap, so that it has no step to draw by itself",
                      self.dtc("schedule", "--timetable", "pipedream", "--stages", 4, "--microbatches", 4, code=3))
        program = self.compile("program", "llama-small", "--mesh", "pp=2", "--timetable", "pipedream", **SETTINGS)
        cluster = SOURCE / "examples/clusters/two_cores.textproto"
        self.assertIn("the program's steps overlap", self.dtc("simulate", program, "--cluster", cluster, code=3))
        self.assertIn("no order is looked for where steps overlap",
                      self.dtc("tune", program, "--data", TOKENS, "--cluster", cluster, "-o", self.directory / "choices.toml", code=3))

    def test_the_period_is_shown(self):
        program = self.compile("program", "llama-small", "--mesh", "pp=4", "--timetable", "pipedream", **SETTINGS)
        said = self.dtc("inspect", program)
        self.assertIn("by how many steps they are ahead (pipedream)", said)
        for passes in ("F+3 B+0", "B+0 F+3", "F+2 B+1", "B+1 F+2"):
            self.assertIn(f"\n  {passes}\n", said)
        self.dtc("verify", program)

    def test_a_choice_of_how_cuts_are_crossed_is_replayed(self):
        choices = self.directory / "choices.toml"
        choices.write_text('crossing = "sliced"\n')
        program = self.compile("program", "llama-small", "--mesh", "pp=2,tp=2", "--timetable", "pipedream", "--choices", choices,
                               **SETTINGS)
        self.assertIn("crossing = 'sliced'\n", self.dtc("inspect", program, "--choices"))
        self.assertIn("all agree", self.dtc("verify", program, "--no-code"))

    def test_a_loss_that_is_not_finite_ends_the_run(self):
        program = self.compile("program", "llama-small", "--mesh", "pp=2", "--timetable", "pipedream", **SETTINGS)
        said = self.dtc("run", program, "--data", self.data, "--out", self.directory / "out", "--threads", 1, "--set",
                        "learning_rate=1e30", code=5)
        self.assertIn("later ones may have changed the state by now, so that it is lost. Resume from the last checkpoint",
                      said)


if __name__ == "__main__":
    main(at_once=2)
