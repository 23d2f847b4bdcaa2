#!/usr/bin/env python3
"""Pipelines train as one rank does. All timetables give the same bits as each other; without tied embeddings and without
another axis, also the same as one rank.

The models have dropout 0.1, and clipping takes effect in every step. With DTC_LONG_TESTS there are more timetables.
"""

import hashlib
import json
import os
import pathlib
import re
import signal

from driver import SOURCE, DriverTest, interleaved_zero_bubble, main, read_safetensors, write_tokens
from hosts import HostsTest

SETTINGS = {"learning_rate": 1e-3, "clip_norm": 0.25, "schedule": "constant", "validation_fraction": 0.1, "seed": 7,
            "steps": 10, "global_batch": 8, "sequence_length": 16, "accumulation": 4, "eval_batches": 2}
TIMETABLES = ("naive", "gpipe", "1f1b")
LONG = bool(os.environ.get("DTC_LONG_TESTS"))


class PipelineTest(DriverTest):
    def setUp(self):
        super().setUp()
        self.data = write_tokens(self.directory / "tokens", 4000, 256)
        # The example's model with a head of its own.
        self.untied = self.make_folder("untied")
        config = json.loads((SOURCE / "examples/gpt-small/config.json").read_text())
        (self.untied / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))

    def tiny(self, layers, **config):
        """A narrow model with a head of its own, unless `config` says otherwise."""
        folder = self.make_folder("-".join(["tiny", str(layers), *map(str, config.values())]))
        (folder / "config.json").write_text(json.dumps({
            "model_type": "gpt2", "vocab_size": 256, "n_positions": 16, "n_embd": 32, "n_layer": layers, "n_head": 4,
            "tie_word_embeddings": False, **config}))
        return folder

    def words(self, mesh="pp=2", **settings):
        """Of `dtc compile`."""
        assignments = (f"{key}={value}" for key, value in {**SETTINGS, **settings}.items())
        return ["--mesh", mesh, *(word for each in assignments for word in ("--set", each))]

    def run_under(self, model, mesh, timetable="1f1b", *arguments, **settings):
        """Losses; and of the end the held-out loss and a hash of each weight and optimizer slot: which file has it depends
        on the ranks."""
        name = "-".join([pathlib.Path(model).name, mesh, pathlib.Path(timetable).name,
                         *(pathlib.Path(word).name for word in arguments), *(f"{k}{v}" for k, v in settings.items())])
        program = self.compile(name, model, "--mesh", mesh, "--timetable", timetable, *arguments,
                               **{**SETTINGS, **settings})
        losses = self.train(program, self.data, name + ".out")
        for step in self.metrics(name + ".out"):
            self.assertGreater(step["grad_norm"], SETTINGS["clip_norm"], "clipping is active")
        folder = self.directory / (name + ".out") / "checkpoints/step-000010"
        tensors = {}
        for file in folder.glob("*.safetensors"):
            header, data = read_safetensors(file)
            for tensor, entry in header.items():
                begin, end = entry["data_offsets"]
                tensors[tensor] = hashlib.sha256(data[begin:end]).hexdigest()
        self.assertTrue(tensors)
        held_out = json.loads((self.directory / (name + ".out") / "metrics.jsonl").read_text().splitlines()[-1])
        return losses, {"held-out loss": held_out["validation_metrics/loss"], **tensors}

    def layers(self, program):
        return re.search(r"^layers = (\[.*\])$", self.dtc("inspect", program, "--choices"), re.M)[1]

    def under_all(self, model, mesh, *arguments, **settings):
        """The three timetables give the same bits."""
        runs = [self.run_under(model, mesh, timetable, *arguments, **settings) for timetable in TIMETABLES]
        for timetable, run in zip(TIMETABLES, runs):
            self.assertEqual(run, runs[0], f"{mesh} {timetable}")
        return runs[0]


class Bits(PipelineTest):
    def test_untied_pipelines_have_the_bits_of_one_rank(self):
        one, _ = self.run_under(self.untied, "dp=1")
        for mesh in ("pp=2", "pp=4"):
            self.assertEqual(self.under_all(self.untied, mesh)[0], one, mesh)
        llama, _ = self.run_under("llama-small", "dp=1", dropout=0.1)
        self.assertEqual(self.under_all("llama-small", "pp=2", dropout=0.1)[0], llama)

    def test_weights_and_slots_have_the_bits_of_one_rank(self):
        self.assertEqual(self.run_under(self.untied, "pp=4"), self.run_under(self.untied, "dp=1"))

    # Ranks with several stages, and backward passes in two.
    def test_later_timetables(self):
        later = ("interleaved", "zb-h1", "zbv", "v-half", "dualpipev")
        one = self.run_under(self.untied, "dp=1")
        for timetable in later:
            self.assertEqual(self.run_under(self.untied, "pp=2", timetable), one, timetable)
        tied = self.run_under("gpt-small", "pp=2")
        for timetable in later:
            self.assertEqual(self.run_under("gpt-small", "pp=2", timetable), tied, timetable)
        sharded = self.run_under("gpt-small", "dp=2,pp=2", "1f1b", "--strategy", "zero3")
        for timetable in ("interleaved", "zbv"):
            self.assertEqual(self.run_under("gpt-small", "dp=2,pp=2", timetable, "--strategy", "zero3"), sharded, timetable)

    def test_later_timetables_of_four_ranks(self):
        model, settings = self.tiny(8), {"accumulation": 8, "dropout": 0.1}
        one = self.run_under(model, "dp=1", **settings)
        for timetable in ("interleaved", "zb-h1", "zbv", "dualpipev") if LONG else ("interleaved", "zbv"):
            self.assertEqual(self.run_under(model, "pp=4", timetable, **settings), one, timetable)

    # These pipelines never fill, and do not block either.
    def test_fewer_micro_batches_than_ranks(self):
        model, settings = self.tiny(8), {"accumulation": 2, "global_batch": 4, "dropout": 0.1}
        one, _ = self.run_under(model, "dp=1", **settings)
        cases = ("interleaved", "zb-h1", "zbv", "v-half", "v-min")
        for timetable in cases if LONG else cases[:3]:
            with self.subTest(timetable=timetable):
                program = self.directory / timetable
                said = self.dtc("compile", model, *self.words("pp=4", **settings), "--timetable", timetable, "-o", program)
                self.assertIn(f"with 2 micro-batches a step, {timetable} over 4 ranks is idle for ", said)
                self.assertEqual(self.train(program, self.data, f"{timetable}.out"), one)

    # PyTorch's interleaved zero bubble adds in order: the same bits, and no warning.
    def test_a_published_timetable(self):
        model, settings = self.tiny(4), {"accumulation": 8, "dropout": 0.1}
        file, out = self.directory / "zb1p.csv", self.directory / "zb1p"
        words = [model, *self.words(**settings), "--timetable", file, "-o", out]
        file.write_text(interleaved_zero_bubble())
        self.assertNotIn("warning", self.dtc("compile", *words))
        self.assertEqual(self.run_under(model, "pp=2", file, **settings), self.run_under(model, "dp=1", **settings))
        file.write_text(file.read_text().replace("I", "B"))  # its older form
        self.assertIn("rank 0: the backward pass 2W0 (stage 2, micro-batch 0) is there whole (B) and in parts (I, W)",
                      self.dtc("compile", *words, code=3))

    def test_a_timetable_of_a_file(self):
        file = self.directory / "mine.csv"
        self.dtc("schedule", "--timetable", "zb-h1", "--stages", "2", "--microbatches", "4", "--csv", file)
        named = self.run_under("gpt-small", "pp=2", "zb-h1")
        self.assertEqual(self.run_under("gpt-small", "pp=2", file), named)
        swapped = self.directory / "swapped.csv" # two weight gradients of rank 0: within bounds, and a warning
        swapped.write_text("0F0,0F1,0I0,0I1,0W1,0F2,0W0,0F3,0I2,0W2,0I3,0W3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n")
        said = self.dtc("compile", SOURCE / "examples/gpt-small", "--mesh", "pp=2", "--timetable", swapped, "--set",
                        "accumulation=4", "-o", self.directory / "swapped")
        self.assertIn("rank 0: 0W0 (stage 0, micro-batch 0) adds its weight gradients after 0W1, not in ascending order of "
                      "micro-batches; results agree with those of other timetables within bounds, not to the bit", said)
        self.assert_close(self.run_under("gpt-small", "pp=2", swapped)[0], named[0], 1e-5)
        file.write_text(file.read_text().replace("1F3", "1F2", 1))
        said = self.dtc("compile", SOURCE / "examples/gpt-small", "--mesh", "pp=2", "--timetable", file, "--set",
                        "accumulation=4", "-o", self.directory / "mine", code=3)
        self.assertIn("1F2 (stage 1, micro-batch 2)", said)

    # The embedding's gradient is the sum of two stages' gradients.
    def test_tied_embeddings(self):
        one, _ = self.run_under("gpt-small", "dp=1")
        for mesh in ("pp=2", "pp=4"):
            self.assert_close(one, self.under_all("gpt-small", mesh)[0], 1e-5)

    def test_with_other_axes(self):
        one, _ = self.run_under("gpt-small", "dp=1")
        for mesh, strategy in (("pp=2,tp=2", "megatron"), ("pp=2,tp=2", "megatron-sp"), ("dp=2,pp=2", "ddp"),
                               ("dp=2,pp=2", "zero1"), ("pp=2,cp=2", "cp")):
            with self.subTest(mesh=mesh, strategy=strategy):
                self.assert_close(one, self.under_all("gpt-small", mesh, "--strategy", strategy)[0], 1e-5)

    # Of so many rows that a step without a pipeline would move those of its tokens instead.
    def test_large_vocabularies(self):
        for is_tied in (False, True):
            model = self.tiny(2, vocab_size=32768, tie_word_embeddings=is_tied)
            one, _ = self.run_under(model, "dp=1")
            for strategy in ("ddp", "zero1"):
                with self.subTest(tied=is_tied, strategy=strategy):
                    self.assert_close(one, self.under_all(model, "dp=2,pp=2", "--strategy", strategy)[0], 1e-5)

    def test_sliced_crossings_have_the_bits_of_whole_ones(self):
        model, choices = self.tiny(4, tie_word_embeddings=True), self.directory / "sliced.toml"
        choices.write_text('crossing = "sliced"\n')
        for timetable, compute in (("1f1b", "f32"), ("1f1b", "bf16"), ("zbv", "f32")):
            with self.subTest(timetable=timetable, compute=compute):
                words, settings = [model, "pp=2,tp=2", timetable, "--strategy", "megatron"], {"compute": compute, "dropout": 0.1}
                whole = self.run_under(*words, **settings)
                self.assertEqual(self.run_under(*words, "--choices", str(choices), **settings), whole)

    def test_three_axes(self):
        one, _ = self.run_under("gpt-small", "dp=1")
        eight, _ = self.run_under("gpt-small", "dp=2,tp=2,pp=2")
        self.assert_close(one, eight, 1e-5)
        self.assertEqual(self.run_under("gpt-small", "dp=2,tp=2,pp=2", "gpipe")[0], eight)

    # Nothing is rounded at a cut.
    def test_narrow_types(self):
        for compute in ("bf16", "f16"):
            with self.subTest(compute=compute):
                one = self.run_under(self.untied, "dp=1", compute=compute)
                self.assertEqual(self.under_all(self.untied, "pp=2", compute=compute), one)

    def test_other_numbers_of_micro_batches(self):
        for accumulation in (1, 2, 8):
            with self.subTest(accumulation=accumulation):
                one, _ = self.run_under(self.untied, "dp=1", accumulation=accumulation)
                self.assertEqual(self.under_all(self.untied, "pp=4", accumulation=accumulation)[0], one)

    # The cut that a strategy file states is used, and changes no bit.
    def test_stages_as_a_strategy_says(self):
        strategy = self.directory / "cut.toml"
        strategy.write_text('preset = "megatron"\n[stages]\nlayers = [3, 1]\n')
        one, _ = self.run_under(self.untied, "dp=1")
        program = self.compile("cut", self.untied, "--mesh", "pp=2", "--strategy", strategy, **SETTINGS)
        self.assertEqual(self.train(program, self.data, "cut.out"), one)
        roles = json.loads(self.dtc("inspect", program, "--json"))["roles"]
        self.assertGreater(roles[0]["memory"]["parameters"], 2 * roles[1]["memory"]["parameters"])


class Checkpoints(PipelineTest):
    """These have no stages."""

    def program(self, name, mesh):
        return self.compile(name, "gpt-small", "--mesh", mesh, **{**SETTINGS, "checkpoint_every": 5})

    def test_go_on_under_another_layout(self):
        programs = {mesh: self.program(mesh, mesh) for mesh in ("pp=4", "tp=2", "dp=2,pp=2")}
        whole = {mesh: self.train(program, self.data, mesh + ".out") for mesh, program in programs.items()}
        for first, second in (("pp=4", "tp=2"), ("tp=2", "pp=4"), ("dp=2,pp=2", "pp=4")):
            with self.subTest(first=first, second=second):
                out = f"{first}-{second}"
                self.train(programs[second], self.data, out, "--resume",
                           self.directory / (first + ".out") / "checkpoints/step-000005")
                self.assert_close(whole[second][5:], self.losses(out), 1e-5)
        # The same layout resumes to the same bits.
        self.train(programs["pp=4"], self.data, "again", "--resume",
                   self.directory / "pp=4.out/checkpoints/step-000005")
        self.assertEqual(self.losses("again"), whole["pp=4"][5:])

    # Stages of two ranks become one of another, and the other way round.
    def test_go_on_with_other_stages_a_rank(self):
        model, settings = self.tiny(8, tie_word_embeddings=True), {**SETTINGS, "checkpoint_every": 5, "dropout": 0.1}
        layouts = {"loop": ["--mesh", "pp=4", "--timetable", "interleaved"],
                   "both": ["--mesh", "tp=2,pp=2", "--strategy", "megatron"]}
        programs = {name: self.compile(name, model, *words, **settings) for name, words in layouts.items()}
        whole = {name: self.train(program, self.data, name + ".out") for name, program in programs.items()}
        for first, second in (("loop", "both"), ("both", "loop")):
            with self.subTest(first=first, second=second):
                out = f"{first}-{second}"
                self.train(programs[second], self.data, out, "--resume",
                           self.directory / (first + ".out") / "checkpoints/step-000005")
                self.assert_close(whole[second][5:], self.losses(out), 1e-5)


class Wide(PipelineTest):
    """More stages than a word has bits."""

    def test_seventy_stages(self):
        ranks, width, layers = 35, 8, 70
        model = self.make_folder("wide")
        config = json.loads((self.untied / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "n_embd": width, "n_head": 2, "n_layer": layers}))
        program = self.compile("wide.train", model, "--mesh", f"pp={ranks}", "--timetable", "interleaved",
                               **{**SETTINGS, "global_batch": ranks, "accumulation": ranks})
        said = json.loads(self.dtc("inspect", program, "--json"))
        self.assertEqual([role["name"] for role in said["roles"]],
                         [f"stages {rank} and {rank + ranks}" for rank in range(ranks)])
        self.assertEqual(said["certificate"]["ranks"], ranks)
        # Each rank has the parameters of two layers, between embeddings and head. Each begins on a line of 64 bytes.
        parameters = [role["memory"]["parameters"] for role in said["roles"]]
        least, padding = 2 * 4 * (12 * width**2 + 13 * width), 2 * 12 * 64
        self.assertEqual(set(parameters[1:-1]), {parameters[1]})
        self.assertGreaterEqual(parameters[1], least)
        self.assertLess(parameters[1], least + padding)
        self.assertGreater(parameters[0], parameters[1])
        self.assertGreater(parameters[-1], parameters[1])
        self.assertEqual(re.search(r"^layers = \[(.*)\]$", self.dtc("inspect", program, "--choices"), re.M)[1],
                         ", ".join(["1"] * layers))


class Faults(PipelineTest):
    def killed_rank_is_named(self, timetable, mesh, victim, stages, *other):
        """Kills a rank after a checkpoint. All end within 10 s, and another layout goes on from what there is."""
        settings = {**SETTINGS, "steps": 60, "checkpoint_every": 5}
        program = self.compile(timetable, "gpt-small", "--mesh", mesh, "--timetable", timetable, **settings)
        whole = self.train(program, self.data, f"{timetable}-whole")
        out = self.directory / f"{timetable}-killed"
        job = self.start("run", program, "--data", self.data, "--out", out, "--threads", 1)
        self.await_output(f"checkpoint: {out}/checkpoints/step-000010")
        os.kill(self.children(job)[victim], signal.SIGKILL)
        self.assertIn(job.wait(10), [4, 137], self.output())
        self.assertRegex(self.output(), rf"rank {victim} (was ended by signal 9 \(Killed\)|failed first: .*); it had {stages} of "
                                        r"the pipeline")
        done = max(int(folder.name.removeprefix("step-")) for folder in (out / "checkpoints").glob("step-*[0-9]"))
        self.assertLess(done, settings["steps"])
        resumed = self.train(self.compile(f"{timetable}-other", "gpt-small", *other, **settings), self.data,
                             f"{timetable}-resumed", "--resume", out)
        self.assert_close(whole[done:], resumed, 1e-4)

    def test_a_killed_stage_is_named_and_all_end(self):
        self.killed_rank_is_named("1f1b", "pp=4", 2, "stage 2", "--mesh", "dp=2", "--strategy", "zero3")

    def test_a_killed_rank_of_several_stages_is_named_with_them(self):
        self.killed_rank_is_named("interleaved", "pp=2", 1, "stages 1 and 3", "--mesh", "tp=2")
        self.killed_rank_is_named("zbv", "pp=2", 0, "stages 0 and 3", "--mesh", "pp=4")

    def test_a_killed_rank_costs_a_restart(self):
        program = self.compile("again", self.tiny(4), "--mesh", "pp=2", "--timetable", "zbv",
                               **{**SETTINGS, "steps": 600, "checkpoint_every": 20, "keep": 2, "dropout": 0.1})
        whole = self.train(program, self.data, "whole")
        job = self.start("run", "--max-restarts", 2, program, "--data", self.data, "--out", self.directory / "out",
                         "--log-losses", self.directory / "out.losses", "--threads", 1)
        self.await_output(f"checkpoint: {self.directory}/out/checkpoints/step-000060")
        os.kill(self.children(job)[1], signal.SIGKILL)
        self.await_output("starting again (1 of 2) from the checkpoint after step")
        self.assertEqual(job.wait(60), 0, self.output())
        self.assertEqual(self.losses("out"), whole)

    # All weights are too large for f32; the output of the first stage is closest to the cause.
    def test_a_loss_that_is_not_finite_is_traced_to_its_stage(self):
        program = self.compile("wild", "gpt-small", "--mesh", "pp=4", **{**SETTINGS, "learning_rate": 1e38,
                                                                         "clip_norm": 0})
        output = self.dtc("run", program, "--data", self.data, "--out", self.directory / "out", "--threads", 1, code=5)
        self.assertRegex(output, r"appears in layer '[^']+' on rank 0 \(kernel .*, micro-batch 0,")


class BadInput(PipelineTest):
    def test_too_few_micro_batches_are_told(self):
        told = self.dtc("compile", "--mesh", "pp=4", SOURCE / "examples/gpt-small", "-o", self.directory / "program",
                        "--set", "accumulation=2", "--set", "global_batch=4")
        self.assertIn("with 2 micro-batches a step, 1f1b over 4 ranks is idle for 1.5 of its work, over 0.25, and 60% of a step",
                      told)

    def test_fewer_micro_batches_than_a_timetable_takes(self):
        model = self.tiny(8)
        for timetable, accumulation, words in (
            ("dualpipev", 2, "dualpipev takes at least as many micro-batches as there are stages, 8, and there are 2: take more, "
                             "or zbv"),
            ("interleaved", 9, "interleaved takes 9 micro-batches on 4 ranks in 2 rounds, which must be equally long: take 8 or "
                               "12 micro-batches")):
            self.assertIn(words, self.refused("compile", model, *self.words("pp=4", accumulation=accumulation, global_batch=18),
                                              "--timetable", timetable, "-o", self.directory / "program"))

    # Some stages then have a layer more, and ranks as many as each other, in a loop and in a V. A remark says where they
    # have not.
    def test_stages_that_do_not_divide_the_layers(self):
        model, program = self.tiny(6, n_embd=64), self.directory / "program"
        for timetable in "interleaved", "zbv":
            said = self.dtc("compile", model, *self.words(), "--timetable", timetable, "--remarks", "-o", program)
            self.assertEqual(self.layers(program), "[2, 2, 1, 1]")
            self.assertNotIn("times the mean", said)
        uneven = self.directory / "uneven.toml"
        uneven.write_text("layers = [2, 1, 2, 1]\n")
        said = self.dtc("compile", model, *self.words(), "--timetable", "interleaved", "--choices", uneven, "--remarks", "-o", program)
        self.assertRegex(said, r"stages 0 and 2 take 1\.\d+ times the mean; \[stages\] layers = \[\d, \d, \d, \d\] would take 1\.\d+\n")
        self.assertIn("a pipeline of 8 stages (mesh axis 'pp') needs as many layers, and the model has 6; make the axis shorter, "
                      "or take fewer stages a rank",
                      self.refused("compile", model, *self.words("pp=4"), "--timetable", "interleaved", "-o", program))

    def test_cuts_that_cannot_be_made(self):
        out = self.directory / "program"
        self.assertIn("a pipeline of 8 stages (mesh axis 'pp') needs as many layers, and the model has 4",
                      self.refused("compile", "--mesh", "pp=8", SOURCE / "examples/gpt-small", "-o", out))
        strategy = self.directory / "cut.toml"
        for text, words in (("layers = [3, 2]", "4 layers cannot be cut as [stages] says, into 2 stages with 5 layers"),
                            ("layers = [1, 1, 2]", "3 stages on 2 ranks: each rank takes equally many stages"),
                            ("layers = [1, 1, 1, 1]", "1f1b takes 1 stage a rank, and there are 2"),
                            ("layers = [4, 0]", "cut.toml:1: 'stages' must say how many layers each stage has"),
                            ("layer = [2, 2]", "'stages' must say how many layers each stage has")):
            strategy.write_text("[stages]\n" + text + "\n")
            self.assertIn(words, self.refused("compile", "--mesh", "pp=2", SOURCE / "examples/gpt-small", "--strategy",
                                              strategy, "-o", out))
        self.assertIn("the axis of a pipeline is called 'pp'", self.refused("compile", "--mesh", "pipe=2", SOURCE / "examples/gpt-small",
                                                       "-o", out))
        self.assertIn("--timetable", self.refused("compile", "--mesh", "pp=2", "--timetable", "1f2b", "-o", out,
                                                  SOURCE / "examples/gpt-small", code=2))


class Shown(PipelineTest):
    """What inspect, explain and verify say about a pipeline."""

    def test_inspect_and_explain(self):
        program = self.compile("program", "gpt-small", "--mesh", "pp=4", **SETTINGS)
        shown = self.dtc("inspect", program)
        self.assertIn("F0 F1 F2 F3 B0 B1 B2 B3", shown)
        self.assertIn("F0 B0 F1 B1 F2 B2 F3 B3", shown)
        stash = [int(number) for number in re.findall(r"stash of micro-batches under way +(\d+)", shown)]
        self.assertEqual(len(stash), 4)
        self.assertEqual(len(re.findall(r"receive buffers +\d+", shown)), 4)
        roles = json.loads(self.dtc("inspect", program, "--json"))["roles"]
        self.assertEqual([role["memory"]["stash of micro-batches under way"] for role in roles], stash)
        gpipe = self.compile("gpipe", "gpt-small", "--mesh", "pp=4", "--timetable", "gpipe", **SETTINGS)
        whole = [role["memory"]["stash of micro-batches under way"]
                 for role in json.loads(self.dtc("inspect", gpipe, "--json"))["roles"]]
        self.assertEqual([4 * few // (4 - stage) for stage, few in enumerate(stash)], whole)
        explained = self.dtc("explain", program)
        self.assertIn("In one step a rank of role 'stage 1' takes part in", explained)
        self.assertRegex(explained, r"4 send forward over pp: forward of \S+ +sending 131 kB")
        self.assertRegex(explained, r"4 receive backward over pp: input gradient of")
        self.assertIn("partial over stages 0, 3 of the pipeline", explained)

    def test_crossings_are_explained(self):
        """The residual stream is f32 in any type of compute, and its readers are: so it crosses in f32, forward and back.
        Micro-batches have two samples."""
        model, width = self.tiny(4), 32
        size = 2 * SETTINGS["sequence_length"] * width * 4
        for way, parts in (("whole", 1), ("sliced", 2)):
            for compute in ("f32", "bf16"):
                with self.subTest(way=way, compute=compute):
                    choices = self.directory / f"{way}.toml"
                    choices.write_text(f'crossing = "{way}"\n')
                    program = self.compile(f"{way}-{compute}", model, "--mesh", "pp=2,tp=2", "--strategy", "megatron",
                                           "--choices", choices, **{**SETTINGS, "compute": compute})
                    self.assertIn(f"crossing = '{way}'\n", self.dtc("inspect", program, "--choices"))
                    answer = json.loads(self.dtc("explain", program, "--json"))
                    sent = [each for each in answer["transfers"] if each["kind"] == "send" and each["times_per_step"] > 0]
                    self.assertEqual({(each["bytes"], each["type"], each["axes"]) for each in sent}, {(size // parts, "f32", "pp")})
                    self.assertEqual({each["direction"] for each in sent}, {"forward", "input gradient"})
                    gathers = [each for each in answer["collectives"] if "sent one part over the cut" in each["reason"]
                               and each["times_per_step"] > 0]
                    self.assertEqual({(each["kind"], each["axes"], each["bytes"]) for each in gathers},
                                     {("all_gather", "tp", size)} if parts > 1 else set())
                    self.assertEqual({each["direction"] for each in gathers},
                                     {"forward", "input gradient"} if parts > 1 else set())
                    self.assertIn("Verified    all agree", self.dtc("verify", program))

    def test_verify(self):
        program = self.compile("program", "gpt-small", "--mesh", "pp=2,tp=2", **SETTINGS)
        self.assertIn("Verified    all agree", self.dtc("verify", program))
        self.assertIn("Verified    all agree", self.dtc("verify", SOURCE / "examples/gpt-small", "--mesh", "pp=2,tp=2",
                                                        "--timetable", "gpipe", "--set", "accumulation=4", "--set",
                                                        "global_batch=8"))


class SeveralHosts(HostsTest):
    """Over TCP between two namespaces."""

    hosts = 2

    def test_stages_on_two_hosts_have_the_bits_of_one(self):
        for name, mesh, ranks, later in (("two", "pp=2", 1, ("interleaved", "zbv")), ("four", "pp=4", 2, ())):
            for timetable in (*TIMETABLES, *later):
                with self.subTest(mesh=mesh, timetable=timetable):
                    program = self.compile(f"{name}-{timetable}", "gpt-small", "--mesh", mesh, "--timetable", timetable,
                                           **{**SETTINGS, "validation_fraction": 0})
                    self.dtc("run", *self.words(program, f"{name}-{timetable}-one", 10))
                    self.finish(self.on_hosts(ranks, program, f"{name}-{timetable}-two", 10))
                    self.assertEqual(self.losses(f"{name}-{timetable}-two"), self.losses(f"{name}-{timetable}-one"))


if __name__ == "__main__":
    main(at_once=2)
