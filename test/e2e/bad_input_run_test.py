#!/usr/bin/env python3
"""Bad input gets its exit code and a message that names what and where, within a second, and nothing is lost."""

import json
import os
import resource
import shutil
import signal
import struct
import time
import unittest

from driver import SOURCE, DriverTest, read_safetensors, write_safetensors, write_token_file, write_tokens

RECORDED = SOURCE / "test/e2e/oracle/gpt2"
SMALL = {"sequence_length": 16, "global_batch": 4}


def entry(begin, end, *shape):
    return {"dtype": "F32", "shape": list(shape), "data_offsets": [begin, end]}


class BadModels(DriverTest):
    def setUp(self):
        super().setUp()
        self.model = self.make_folder("model")
        shutil.copy(RECORDED / "config.json", self.model)
        self.weights = self.model / "model.safetensors"

    def compile_refused(self, *arguments):
        message = self.refused("compile", self.model, "--set", "sequence_length=16", *arguments, "-o",
                               self.directory / "program")
        self.assertFalse((self.directory / "program").exists())
        return message

    def test_hostile_weights(self):
        twice = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}'
        for header, data, message in [
                ({"a": entry(0, 8, 2), "b": entry(4, 12, 2)}, 12, "tensor 'b' overlaps the one before it"),
                (twice, 8, "tensor 'a' appears twice"),
                ({"a": entry(0, 800, 200)}, 8, "tensor 'a' lies at bytes [0, 800) of 8"),
                ({"a": entry(0, 4, 2**63)}, 4, "tensor 'a' has a dimension of 9223372036854775808"),
                ({"a": entry(0, 4, 2**62, 2**62)}, 4, "tensor 'a' of shape")]:
            with self.subTest(message=message):
                write_safetensors(self.weights, header, bytes(data))
                refusal = self.compile_refused()
                self.assertIn(str(self.weights), refusal)
                self.assertIn(message, refusal)

    def test_a_header_of_more_than_100_megabytes(self):
        with open(self.weights, "wb") as file:
            file.write(struct.pack("<Q", 101_000_000))
            file.truncate(102_000_000)
        self.assertIn("its header claims 101000000 bytes", self.compile_refused())

    def test_truncated_weights(self):
        whole = (RECORDED / "model.safetensors").read_bytes()
        for size, message in [(5, "fewer than the 8"), (1000, "is the file truncated?"),
                              (len(whole) - 4, "is the file truncated?")]:
            with self.subTest(size=size):
                self.weights.write_bytes(whole[:size])
                self.assertIn(message, self.compile_refused())

    def test_weights_with_more_at_the_end(self):
        self.weights.write_bytes((RECORDED / "model.safetensors").read_bytes() + bytes(12))
        self.assertIn("at the end belong to no tensor", self.compile_refused())

    def test_config(self):
        config = self.model / "config.json"
        config.write_text('{"model_type": "gpt2", "n_em')
        self.assertIn(f"{config}: is not valid JSON", self.compile_refused())
        config.write_text(json.dumps({**json.loads((RECORDED / "config.json").read_text()), "n_lagers": 3}))
        self.assertIn("did you mean 'n_layer'?", self.compile_refused())
        config.unlink()
        self.assertIn(str(config), self.compile_refused())

    def test_batches_meshes_and_strategies(self):
        self.assertIn("batch of size 8 does not divide over 3 ranks", self.compile_refused("--mesh", "dp=3"))
        strategy = self.directory / "strategy.toml"
        strategy.write_text('[inputs]\ntokens = { batch = ["dq"] }\n')
        self.assertIn(f"{strategy}:2: the mesh has no axis 'dq' (did you mean 'dp'?)",
                      self.compile_refused("--mesh", "dp=2", "--strategy", strategy))
        strategy.write_text('[parameters]\n"h.1.mlp.c_fd.weight" = { mlp = ["dp"] }\n')
        self.assertIn(f"{strategy}:2: no parameter is named 'h.1.mlp.c_fd.weight' (did you mean 'h.1.mlp.c_fc.weight'?)",
                      self.compile_refused("--mesh", "dp=2", "--strategy", strategy))

        message = self.compile_refused("--mesh", "fsdp=2")
        self.assertIn("axis 'fsdp' of the mesh splits nothing under strategy 'megatron'", message)
        self.assertIn("(did you mean 'dp'?)", message)
        message = self.compile_refused("--mesh", "dp=2,ep=2")
        self.assertIn("axis 'ep' of the mesh splits nothing", message)
        self.assertIn("; expert parallelism is not supported yet. Leave the axis out", message)
        self.assertNotIn("did you mean", message)

    # gpt-small has 4 heads. Its vocabulary and hidden units give all ranks work; heads alone do not.
    def test_ranks_with_nothing_to_do(self):
        output = self.dtc("compile", SOURCE / "examples/gpt-small", "--mesh", "tp=16", "--compile-to", "where", "-o",
                          self.directory / "where")
        self.assertEqual(output, "dtc: warning: dimension 'heads' of size 4 is split over 16 ranks: 12 of them (75 %) hold no "
                         "part of it and are idle wherever it is used\n")
        strategy = self.directory / "strategy.toml"
        strategy.write_text('[parameters]\n"*attn*" = { heads = ["tp"] }\n')
        self.assertEqual(self.dtc("compile", SOURCE / "examples/gpt-small", "--mesh", "tp=4", "--strategy", strategy,
                                  "--compile-to", "where", "-o", self.directory / "where"), "")
        self.assertIn("axis 'tp' of the mesh has 5 ranks, and the last of them would hold no part of anything that it "
                      "splits; make it shorter", self.compile_refused("--mesh", "tp=5", "--strategy", strategy))

    def test_settings(self):
        config = self.directory / "train.toml"
        config.write_text("[training]\nstepps = 3\n")
        message = self.compile_refused("--config", config)
        self.assertIn(f"{config}:2: unknown key 'stepps'", message)
        self.assertIn("did you mean 'training.steps'?", message)

    def test_a_memory_limit_names_what_is_live(self):
        message = self.compile_refused("--memory-limit", "20000")
        self.assertIn("the limit is 20000", message)
        self.assertIn("optimizer state: ", message)
        self.assertIn("h.0.mlp.c_fc: alive at the peak: ", message)

    def test_a_memory_limit_names_entries_of_the_timetable(self):
        """The first rank of 1f1b runs F0 F1 B0 F2 B1 F3 B2 B3 and holds two stashes from F1 to B2."""
        words = ["--memory-limit", "20000", "--mesh", "pp=2", "--set", "accumulation=4", "--set", "global_batch=4"]
        message = self.compile_refused(*words)
        self.assertIn("a rank of stage 0 of the pipeline needs ", message)
        self.assertIn("it holds the most stashes, 2, at 0F1 (stage 0, micro-batch 1), 0B0 (stage 0, micro-batch 0), 0F2 "
                      "(stage 0, micro-batch 2), 0B1 (stage 0, micro-batch 1) and 2 more entries of its timetable", message)
        message = self.compile_refused(*words, "--timetable", "naive")
        self.assertIn("it holds the most stashes, 1, at 0F0 (stage 0, micro-batch 0), 0B0 (stage 0, micro-batch 0), 0F1 "
                      "(stage 0, micro-batch 1), 0B1 (stage 0, micro-batch 1) and 4 more entries of its timetable", message)

    def test_a_memory_limit_counts_stashes_from_before_a_step(self):
        """Where steps overlap: zb-h2 holds 2 p - 1 stashes on its first rank, one of them begun in the step before; PipeDream
        holds p there."""
        config = json.loads((self.model / "config.json").read_text())
        (self.model / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
        words = ["--memory-limit", "20000", "--mesh", "pp=2", "--set"]
        message = self.compile_refused(*words, "accumulation=4", "--set", "global_batch=4", "--timetable", "zb-h2", "--overlap-steps")
        self.assertIn("it holds the most stashes, 3, at 0F2 (stage 0, micro-batch 2), 0I0 (stage 0, micro-batch 0), 0W0 "
                      "(stage 0, micro-batch 0), 0F3 (stage 0, micro-batch 3) and 2 more entries of its timetable", message)
        message = self.compile_refused(*words, "accumulation=1", "--set", "global_batch=1", "--set", "clip_norm=0",
                                       "--timetable", "pipedream")
        self.assertIn("it holds the most stashes, 2, at 0F0 (stage 0, micro-batch 0), 0B0 (stage 0, micro-batch 0) of its "
                      "timetable", message)


class BadRuns(DriverTest):
    def setUp(self):
        super().setUp()
        self.data = write_tokens(self.directory / "tokens", 2000, 61)
        self.out = self.directory / "out"

    def compile_small(self, name, model=RECORDED, **settings):
        return self.compile(name, model, "--mesh", "dp=2", **{**SMALL, "validation_fraction": 0, **settings})

    def run_refused(self, program, *arguments, **options):
        return self.refused("run", program, "--out", self.out, *arguments, **options)

    def test_ranks_that_do_not_match_the_mesh(self):
        message = self.refused("run", "-n", 4, self.compile_small("program"), "--data", self.data)
        self.assertIn("compiled for 2 ranks (mesh dp=2), but 4 started", message)

    def test_a_gpu_of_long_ago(self):
        self.assertIn("--target: cuda:sm_70 not in", self.refused(
            "compile", RECORDED, "--target", "cuda:sm_70", "-o", self.directory / "program", code=2))

    def test_data(self):
        program = self.compile_small("program")
        short = write_tokens(self.directory / "short", 10, 61)
        self.assertIn(f"'{short}' is too short: its training part has 10", self.run_refused(program, "--data", short))
        outside = write_token_file(self.directory / "outside", [1] * 500 + [61] + [1] * 499)
        self.assertIn("the token at position 500 is 61, but the model's vocabulary has 61",
                      self.run_refused(program, "--data", outside))
        missing = self.directory / "missing"
        self.assertIn(str(missing), self.run_refused(program, "--data", missing))

    def test_a_checkpoint_of_another_model(self):
        self.train(self.compile_small("gpt", steps=1), self.data, "gpt.out")
        llama = self.compile_small("llama", model=SOURCE / "test/e2e/oracle/llama")
        message = self.run_refused(llama, "--data", self.data, "--resume", self.directory / "gpt.out")
        self.assertIn("gpt.out/checkpoints/step-000001/config.json: key 'model_type' is \"gpt2\"", message)

    # Peers stop and name it; `dtc run` exits as if it had lost a peer.
    def test_a_rank_killed_within_a_step(self):
        program = self.compile("gpt", "gpt-small", "--mesh", "dp=2,tp=2", steps=100000, global_batch=8,
                               sequence_length=32, validation_fraction=0)
        job = self.start("run", program, "--data", self.data, "--out", self.out, "--threads", 1)
        self.await_output("step 1/")
        begin = time.monotonic()
        os.kill(self.children(job)[2], signal.SIGKILL)
        self.assertEqual(job.wait(20), 4)
        self.assertLess(time.monotonic() - begin, 10)
        self.assertIn("rank 2 was ended by signal 9", self.output())
        self.assertIn("rank 2 was lost", self.output())

    def checkpoint_of_two_steps(self, **settings):
        program = self.compile_small("program", steps=2, schedule="constant", **settings)
        self.train(program, self.data, "out")
        return program, self.out / "checkpoints/step-000002"

    @staticmethod
    def contents(folder):
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    # One element of one layer's weights is infinite: it is found in that layer, before the update.
    def test_weights_that_are_not_finite(self):
        header, data = read_safetensors(RECORDED / "model.safetensors")
        begin = header["h.1.mlp.c_fc.weight"]["data_offsets"][0]
        model = self.make_folder("model")
        shutil.copy(RECORDED / "config.json", model)
        for value in ["inf", "nan"]:
            write_safetensors(model / "model.safetensors", header,
                              data[:begin] + struct.pack("<f", float(value)) + data[begin + 4:])
            message = self.run_refused(self.compile_small(value, model=model), "--data", self.data, code=5)
            self.assertRegex(message, r"step 1: -?(inf|nan) appears in layer 'h\.1\.mlp\S*' on rank [01]")
            self.assertIn("stopped before the update", message)
            self.assertFalse((self.out / "checkpoints").exists())

    def test_a_learning_rate_that_explodes(self):
        program, checkpoint = self.checkpoint_of_two_steps()
        before = self.contents(checkpoint)
        message = self.run_refused(program, "--data", self.data, "--resume", self.out, "--steps", 9, "--set",
                                   "learning_rate=1e30", code=5)
        self.assertRegex(message, r"step 4: -?(inf|nan) appears in layer 'h\.0\.\S+' on rank")
        self.assertEqual([path.name for path in checkpoint.parent.iterdir()], [checkpoint.name])
        self.assertEqual(self.contents(checkpoint), before)

    # A file size limit stands for a full disk: the unfinished checkpoint leaves nothing behind.
    def test_a_disk_that_is_full(self):
        program = self.compile("gpt", "gpt-small", "--mesh", "dp=2", validation_fraction=0, schedule="constant", **SMALL)
        self.train(program, self.data, "out", "--steps", 2)
        checkpoint = self.out / "checkpoints/step-000002"
        before = self.contents(checkpoint)
        job = self.start("run", program, "--data", self.data, "--out", self.out, "--threads", 1, "--resume", self.out,
                         "--steps", 100000)
        self.await_output("step 3/")
        limit = len(before["model.safetensors"]) // 2
        for rank in self.children(job):
            resource.prlimit(rank, resource.RLIMIT_FSIZE, (limit, limit))
        job.send_signal(signal.SIGINT)  # asks for a checkpoint
        self.assertEqual(job.wait(20), 1)
        self.assertRegex(self.output(), r"model\.safetensors.*File too large")
        self.assertEqual([path.name for path in checkpoint.parent.iterdir()], [checkpoint.name])
        self.assertEqual(self.contents(checkpoint), before)
        self.train(program, self.data, "out", "--resume", self.out, "--steps", 3)


if __name__ == "__main__":
    unittest.main()
