#!/usr/bin/env python3
"""dtc plan: its plans, its reasons, its messages, and the two commands that it prints."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from driver import DTC, SOURCE, TIMEOUT, DriverTest, write_tokens

MODEL = SOURCE / "test/e2e/oracle/gpt2"
TWO_CORES = SOURCE / "examples/clusters/two_cores.textproto"
BATCH, SEQUENCE = 4, 16
SMALL = ["--set", f"sequence_length={SEQUENCE}", "--set", f"global_batch={BATCH}", "--set", "validation_fraction=0"]

# Two nodes of two GPUs, links on which transfers take much longer than this model's work.
GPUS = """
name: "gpus"
devices {{ name: "G" peaks {{ type: "f32" flops: {flops} }} memory_bytes: {memory} memory_bandwidth: 1e12 launch_seconds: 1e-6 }}
nodes {{ count: {nodes} device: "G" devices: 2 memory_bytes: 100000000000 }}
levels {{ name: "within" units: 2 latency: 1e-6 bandwidth: 1e9 }}
levels {{ name: "between" latency: 1e-5 bandwidth: 2e7 }}
"""


def quick(words):
    """Few candidates and no search for orders, unless the words say otherwise."""
    return [word for option in (("--effort", 40), ("--refine", 1)) if option[0] not in words for word in option]


class Plan(DriverTest):
    def cluster(self, memory=10**9, nodes=2, flops="1e12"):
        path = self.directory / f"gpus-{memory}-{nodes}-{flops}.textproto"
        path.write_text(GPUS.format(memory=memory, nodes=nodes, flops=flops))
        return path

    def plan(self, *words, cluster=None, model=MODEL):
        """The answer for a program."""
        return json.loads(self.dtc("plan", model, *SMALL, "--cluster", cluster or self.cluster(), *quick(words), "--advice", "none",
                                   "--json", *words))

    def larger(self):
        """A model whose arenas differ: they are multiples of 2 MiB."""
        model = self.make_folder("larger")
        config = json.loads((MODEL / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "n_embd": 128, "vocab_size": 2000}))
        return model

    def refusal(self, *words, cluster=None, code=3, model=MODEL):
        return self.dtc("plan", model, *SMALL, "--cluster", cluster or self.cluster(), *quick(words), *words, code=code)

    def plans(self, answer):
        number, = [each for each in answer["numbers"] if each["devices"] == answer["devices"]]
        return number["plans"]

    # A newcomer has a model's directory, a cluster file and a corpus, and copies two commands.
    def test_the_two_commands_lead_to_a_running_job(self):
        shutil.copytree(MODEL, self.directory / "tiny")
        shutil.copy(TWO_CORES, self.directory / "cluster.textproto")
        write_tokens(self.directory / "corpus.bin", 2000, 61)
        shell = {**os.environ, "PATH": f"{pathlib.Path(DTC).parent}:{os.environ['PATH']}"}
        for output in ([], ["-o", "choices.toml"]):
            with self.subTest(output=output):
                text = self.dtc("plan", "tiny", *SMALL, "--set", "steps=3", "--cluster", "cluster.textproto", "--data", "corpus.bin",
                                "--effort", 60, "--refine", 4, *output, cwd=self.directory)
                commands = re.search(r"^Commands\n  (dtc compile .*)\n  (dtc run .*)$", text, re.MULTILINE).groups()
                for command in commands:
                    done = subprocess.run(["bash", "-c", command], cwd=self.directory, env=shell, stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT)
                    self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}")
                self.assertEqual([line["step"] for line in self.metrics("dtc-out")], [1, 2, 3])
                shutil.rmtree(self.directory / "dtc-out")
                self.assertEqual("--choices choices.toml" in commands[0], bool(output))

    # With the choices that it writes, the program's step is the one that was promised.
    def test_the_program_is_the_plan(self):
        choices, cluster = self.directory / "choices.toml", self.cluster()
        answer = self.plan("-o", choices, "--refine", 8, cluster=cluster)
        words = answer["commands"][0].split()
        self.assertEqual(words[:2], ["dtc", "compile"])
        self.dtc(*words[1:], cwd=self.directory)
        program = self.directory / words[words.index("-o") + 1]
        simulated = json.loads(self.dtc("simulate", program, "--cluster", cluster, "--json"))
        self.assertAlmostEqual(simulated["seconds"], answer["proposed"]["seconds"], delta=1e-6 * simulated["seconds"])
        inspected = json.loads(self.dtc("inspect", program, "--json"))
        self.assertEqual(inspected["strategy"], answer["proposed"]["strategy"])
        self.assertEqual(inspected["ranks"], 4)
        self.assertTrue(answer["certified"])
        self.assertAlmostEqual(answer["whole_seconds"], answer["proposed"]["seconds"], delta=1e-6 * simulated["seconds"])

    def test_plans_are_counted_and_sorted(self):
        answer = self.plan("--effort", 100_000, "--devices", 2)
        number, = answer["numbers"]
        self.assertTrue(number["complete"])
        self.assertEqual(number["considered"], number["simulated"] + sum(pruned["plans"] for pruned in number["pruned"]))
        plans = self.plans(answer)
        self.assertEqual(len(plans), 10)
        self.assertEqual(number["refined"], 10)
        self.assertEqual(len({plan["plan"] for plan in plans}), 10)
        rest = [plan["seconds"] for plan in plans[1:]]
        self.assertEqual(rest, sorted(rest))
        self.assertLessEqual(plans[0]["seconds"], 1.03 * min(rest))  # the simple first, within 3%
        for plan in plans:
            self.assertTrue(plan["fits"])
            parts = plan["compute"] + plan["exposed"] + plan["bubble"] + plan["host"]
            self.assertAlmostEqual(parts, plan["seconds"], delta=1e-6 * plan["seconds"])
        self.assertEqual(answer["why"]["runner_up"], plans[1]["plan"])

    def test_popular_layouts_have_their_verdicts(self):
        answer = self.plan("--devices", 4)
        verdicts = {each["name"]: each for each in answer["popular"]}
        self.assertEqual(len(verdicts), 5)
        # Two layers are not enough for four stages.
        self.assertEqual(verdicts["a pipeline alone"]["verdict"], "not possible: 2 layers are not enough for 4 stages")
        # Four samples, one a rank: over a link of 20 MB/s, it is exposed.
        plain = verdicts["plain data parallelism"]
        self.assertRegex(plain["plan"], "^dp=4")
        self.assertRegex(plain["verdict"], "longer|times as long|it is the plan that is proposed|the one proposed")

    def test_constraints_hold_for_every_plan(self):
        for words, holds in [
                (["--fix", "tp=2"], lambda plan: "tp=2" in plan["mesh"]),
                (["--forbid", "ddp", "--fix", "pp=1"], lambda plan: "pp" not in plan["mesh"]),
                (["--set", "accumulation=2"], lambda plan: plan["micro_batches"] == 2),
                (["--set", "memory.recompute=full"], lambda plan: plan["recompute"] == "full")]:
            with self.subTest(words=words):
                answer = self.plan(*words)
                self.assertTrue(self.plans(answer))
                self.assertTrue(all(map(holds, self.plans(answer))), self.plans(answer))
                self.assertEqual(len(answer["constraints"]), len(words) // 2)
        self.assertEqual(self.plan("--set", "accumulation=2")["constraints"], ["--set accumulation=2"])

    # Time and cost of a training follow from the step, and the fewest devices that keep a date are proposed.
    def test_tokens_days_and_dollars(self):
        tokens, day = 1e9, 86400
        slow = self.cluster(flops="1e9")  # so slow that two devices are faster than one
        answer = self.plan("--devices", "1,2", "--tokens", tokens, "--price", 2.5, cluster=slow)
        self.assertEqual(answer["devices"], 2)
        for number in answer["numbers"]:
            for plan in number["plans"]:
                seconds = plan["seconds"] * tokens / (BATCH * SEQUENCE)
                self.assertAlmostEqual(plan["training_seconds"], seconds, delta=1e-6 * seconds)
                cost = seconds / 3600 * number["devices"] * 2.5
                self.assertAlmostEqual(plan["training_cost"], cost, delta=1e-6 * cost)
        one = answer["numbers"][0]["plans"][0]["training_seconds"] / day
        self.assertEqual(self.plan("--devices", "1,2", "--tokens", tokens, "--days", 1.1 * one, cluster=slow)["devices"], 1)
        text = self.dtc("plan", MODEL, *SMALL, "--cluster", slow, *quick([]), "--devices", "1,2", "--tokens", tokens, "--days", one / 1000)
        self.assertRegex(text, r"within .* days?: with none of these; a step may take ")
        target = self.plan("--devices", 2, "--tokens", tokens, "--days", 1e6, "--price", 2.5, cluster=slow)["target"]
        self.assertEqual(target, {"tokens": tokens, "days": 1e6, "kept": True, "price": 2.5})

    # The cluster states no uncertainty: a band of nothing would be a promise. One device in seven has no plan.
    def test_the_answer_says_what_it_does_not_know(self):
        text = self.dtc("plan", MODEL, *SMALL, "--cluster", self.cluster(nodes=4), "--devices", "1,7", "--effort", 1, "--refine", 0,
                        "--advice", "none")
        self.assertIn("the cluster file states no uncertainty", text)
        self.assertNotIn("±", text)
        self.assertIn("not refined, as --refine 0 says", text)
        self.assertIn("plans neither simulated nor excluded: there may be better ones", text)
        self.assertRegex(text, r"\n  7 +none\n")
        self.assertIn("--devices 7: no mesh of 7 devices divides ", text)
        self.assertIn("FILE: a token file", text)
        certain = self.cluster()
        certain.write_text(certain.read_text() + "uncertainty: 0.07\n")
        text = self.dtc("plan", MODEL, *SMALL, "--cluster", certain, "--devices", 1, "--effort", 5, "--refine", 0, "--advice", "none")
        self.assertIn("±7%", text)
        self.assertNotIn("states no uncertainty", text)

    def test_the_front_has_no_worse_plan(self):
        page = self.directory / "plan.html"
        answer = self.plan("--devices", 4, "--report", page, cluster=self.cluster(flops="1e10"), model=self.larger())
        front = answer["front"]
        self.assertEqual({plan["devices"] for plan in front}, {4, 2, 1}) # a step takes longer than what moves for it
        figures = [(plan["bytes"], plan["seconds"], plan["devices"]) for plan in front]
        for one in figures:
            for other in figures:
                self.assertFalse(one != other and all(a <= b for a, b in zip(one, other)), (one, other))
        shown = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL).group(1))
        self.assertEqual(shown["front"], front)
        self.assertNotIn("http://", page.read_text().split("</style>")[0])

    # The least number is the least: one less is refused, with that number.
    def test_the_fewest_devices(self):
        model = self.larger()
        exact = ["--margin", 0, "--effort", 2000]
        one = self.plan("--devices", 1, "--front", *exact, model=model)
        memory = int(0.8 * min(plan["bytes"] for plan in one["front"]))
        little = self.cluster(memory, nodes=4)
        answer = self.plan("--devices", "least", *exact, cluster=little, model=model)
        least = answer["devices"]
        self.assertGreater(least, 1)
        self.assertTrue(answer["least_devices"])
        for plan in self.plans(answer):
            self.assertLessEqual(plan["bytes"], memory)
        message = self.refusal("--devices", least - 1, *exact, cluster=little, model=model)
        self.assertRegex(message, rf"larger: no plan fits on {least - 1} devices? of the cluster 'gpus'; the closest, .*, lacks .* "
                                  rf"\(\d+ bytes\) of memory; {least} devices like these would do")
        # On one device the shortage is known: what the leanest plan takes and the device lacks.
        lack = min(plan["bytes"] for plan in one["front"]) - memory
        self.assertIn(f"({lack:.0f} bytes) of memory", self.refusal("--devices", 1, *exact, cluster=little, model=model))

    def test_a_constraint_that_takes_too_much_memory_is_named(self):
        model = self.larger()
        only = ["--devices", 4, "--margin", 0, "--fix", "dp=4"]
        whole, sharded = (min(plan["bytes"] for plan in self.plan("--fix", state, *only, "--front", model=model)["front"])
                          for state in ("ddp", "zero3"))
        self.assertLess(sharded, whole)
        message = self.refusal("--fix", "ddp", *only, cluster=self.cluster(int((whole + sharded) / 2)), model=model)
        self.assertIn("; without --fix ddp there is a plan that fits", message)

    def test_devices_that_no_mesh_divides(self):
        # Of 7 nothing divides: two layers, four heads, four samples of 16 tokens.
        self.assertRegex(self.refusal("--devices", 7, cluster=self.cluster(nodes=4)),
                         r"--devices 7: no mesh of 7 devices divides .*, which has 2 layers, 4 heads, sequences of 16 tokens and a global "
                         r"batch of 4 samples; try --devices \d or 8")

    def test_more_devices_than_there_are(self):
        self.assertIn("--devices 64: the cluster 'gpus' has 4: write a number up to that, or raise nodes[0].count",
                      self.refusal("--devices", 64))

    def test_constraints_that_contradict_each_other(self):
        self.assertIn("--fix tp=4 and --fix dp=4: no plan for 4 devices meets both; leave out --fix tp=4, or take tp 1",
                      self.refusal("--fix", "tp=4", "--fix", "recompute=full", "--fix", "dp=4"))
        self.assertRegex(self.refusal("--fix", "tp=3"), r"--fix tp=3: no plan for 4 devices meets that, .*; leave it out, or take tp 1, 2 or 4")
        self.assertIn("--set accumulation=3: no plan for 4 devices meets that, ", self.refusal("--set", "accumulation=3"))
        self.assertRegex(self.refusal("--set", "accumulation=x", code=2), "--set accumulation=x: 'x' is no value of ")
        self.assertIn("--set recompute=auto: a plan decides what is recomputed; leave it out", self.refusal("--set", "recompute=auto", code=2))
        self.assertIn("--fix zero4: ", self.refusal("--fix", "zero4", code=2))

    def test_a_single_candidate_is_said_to_be_one(self):
        text = self.dtc("plan", MODEL, *SMALL[:2], "--set", "global_batch=1", "--cluster", self.cluster(), "--devices", 1,
                        "--fix", "recompute=none")
        self.assertIn("considered 1 plan; simulated 1 plan", text)
        self.assertIn("leave one plan for 1 device: there was nothing to choose", text)
        self.assertIn("no other plan that fits was found", text)

    def test_words_of_other_verbs_lead_to_constraints(self):
        for words, answer in [(["--mesh", "dp=2"], "--fix tp=8"), (["--strategy", "zero3"], "--fix zero3"),
                              (["--timetable", "zbv"], "--fix 1f1b"), (["-n", "4"], "is an option of 'dtc run'")]:
            self.assertIn(answer, self.refusal(*words, code=2))
        self.assertIn("'--fix' is an option of 'dtc plan'", self.dtc("compile", MODEL, "--fix", "tp=2", code=2))

    # (p-1)/m of the work is bubble: 1/2 of it, for which no cluster need be known. Of 1/4 nothing is said.
    def test_advice_without_a_cluster(self):
        words = ["compile", MODEL, *SMALL, "--mesh", "pp=2", "-o", self.directory / "program"]
        advice = "advice: few-micro-batches: "
        self.assertIn(advice, self.dtc(*words, "--set", "accumulation=2"))
        self.assertNotIn(advice, self.dtc(*words, "--set", "accumulation=2", "--silence", "few-micro-batches"))
        self.assertNotIn(advice, self.dtc(*words, "--set", "accumulation=4"))

    # Exposed communication over a slow link: something is said of it, and can be silenced.
    def test_advice_is_given_and_silenced(self):
        words = ["compile", MODEL, *SMALL, "--mesh", "dp=4", "--strategy", "ddp", "--cluster", self.cluster(), "-o",
                 self.directory / "program"]

        def names(text):
            return re.findall(r"advice: ([a-z0-9-]+): ", text)
        every = names(self.dtc(*words, "--advice", "all"))
        self.assertTrue(every)
        shown = names(self.dtc(*words))
        self.assertEqual(shown, every[:3])
        self.assertNotIn(every[0], names(self.dtc(*words, "--advice", "all", "--silence", every[0])))
        self.assertEqual(names(self.dtc(*words, "--advice", "none")), [])
        answer = json.loads(self.dtc("plan", MODEL, *SMALL, "--cluster", self.cluster(), *quick([]), "--json", "--fix", "dp=4",
                                     "--fix", "ddp"))
        self.assertTrue(answer["advice"])


if __name__ == "__main__":
    unittest.main()
