#!/usr/bin/env python3
"""Training data: formats, several files, data to evaluate on, loss masks; and files that are none."""

import gzip
import json
import os
import resource
import struct
import subprocess
import unittest

from driver import SANITIZED, SOURCE, DriverTest, write_token_file, write_tokens

MODEL = SOURCE / "test/e2e/oracle/gpt2"
VOCABULARY = 61


def tokens_of(path):
    return list(struct.unpack(f"<{(path.stat().st_size - 1024) // 2}H", path.read_bytes()[1024:]))


def write_megatron(stem, documents, bits=16):
    """NAME.bin and NAME.idx in Megatron-LM's layout, one sequence per document. Returns the first."""
    width, code, kind = {16: (2, 8, "H"), 32: (4, 4, "i")}[bits]
    lengths = [len(document) for document in documents]
    pointers = [width * sum(lengths[:index]) for index in range(len(lengths))]
    header = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(lengths), len(lengths) + 1)
    count = len(lengths)
    numbers = struct.pack(f"<{count}i{count}q{count + 1}q", *lengths, *pointers, *range(count + 1))
    stem.with_suffix(".idx").write_bytes(header + numbers)
    stem.with_suffix(".bin").write_bytes(b"".join(struct.pack(f"<{len(d)}{kind}", *d) for d in documents))
    return stem.with_suffix(".bin")


class Data(DriverTest):
    def setUp(self):
        super().setUp()
        self.program = self.compile("program", MODEL, "--mesh", "dp=2", steps=3, global_batch=4, sequence_length=16,
                                    eval_batches=0, validation_fraction=0.25)
        self.data = write_tokens(self.directory / "tokens", 600, VOCABULARY)
        self.tokens = tokens_of(self.data)

    def run_on(self, out, *arguments):
        """Losses of the steps and of the evaluation."""
        out += ".out"
        losses = self.train(self.program, arguments[0], out, *arguments[1:])
        last = json.loads((self.directory / out / "metrics.jsonl").read_text().splitlines()[-1])
        return losses, last["validation_metrics/loss"]

    def refused_ranks(self, *of_each):
        """The output of two ranks that are started with these arguments besides the common ones."""
        jobs = []
        for rank, arguments in enumerate(of_each):
            variables = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": str(os.getpid())}
            words = [self.program, "--out", self.directory / "out", "--threads", 1, *arguments]
            jobs.append(subprocess.Popen([str(word) for word in words], env={**os.environ, **variables}, text=True,
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        outputs = [job.communicate(timeout=60)[0] for job in jobs]
        self.assertEqual([job.returncode for job in jobs], [3, 3], outputs)
        self.assertFalse((self.directory / "out").exists(), "a run that is refused leaves nothing")
        return outputs[0]

    # As on two hosts.
    def test_ranks_train_on_the_same_data(self):
        other = write_token_file(self.directory / "other", [*self.tokens[:-1], (self.tokens[-1] + 1) % VOCABULARY])
        self.assertRegex(self.refused_ranks(["--data", self.data], ["--data", other]),
                         r"error: rank 0: --data: rank 1 has 1200 bytes with the checksum \w{16}, rank 0 has 1200 bytes ")
        self.assertIn("--validation-data: rank 1 has 1200 bytes",
                      self.refused_ranks(["--data", self.data, "--validation-data", self.data],
                                         ["--data", self.data, "--validation-data", other]))

    def test_ranks_are_started_alike(self):
        for option, said in [(["--set", "learning_rate=0.5"], "rank 1 was started with learning_rate = 0.5, rank 0 with "),
                             (["--steps", 2], "rank 1 was started with steps = 2, rank 0 with 3"),
                             (["--eval-only"], "rank 1 was started with --eval-only = given, rank 0 with not given")]:
            self.assertIn(said, self.refused_ranks(["--data", self.data], ["--data", self.data, *option]))

    def test_every_format_and_any_number_of_files_train_alike(self):
        expected = self.run_on("one", self.data)
        wide = write_token_file(self.directory / "wide", self.tokens, bits=32)
        self.assertEqual(self.run_on("wide", wide), expected)
        bare = self.directory / "bare"
        bare.write_bytes(self.data.read_bytes()[1024:])
        self.assertEqual(self.run_on("bare", bare, "--data-format", "nanogpt"), expected)
        for bits in 16, 32:
            indexed = write_megatron(self.directory / f"megatron{bits}", [self.tokens[:200], self.tokens[200:]], bits)
            self.assertEqual(self.run_on(indexed.stem, indexed), expected)
        first = write_token_file(self.directory / "first", self.tokens[:123])
        second = write_token_file(self.directory / "second", self.tokens[123:400], bits=32)
        third = write_token_file(self.directory / "third", self.tokens[400:])
        self.assertEqual(self.run_on("three", first, "--data", second, third), expected)

    def test_a_file_that_becomes_shorter_is_named(self):
        job = self.start("run", self.program, "--data", self.data, "--out", self.directory / "out", "--threads", 1,
                         "--steps", 1_000_000)
        self.await_output("step 1/")
        os.truncate(self.data, 0)
        self.assertEqual(job.wait(30), 3, self.output())
        self.assertRegex(self.output(), rf"error: rank [01]: cannot read '{self.data}': it became shorter")

    # With the front for training and the end for evaluation, two files equal one that validation_fraction splits.
    def test_validation_data(self):
        front = write_token_file(self.directory / "front", self.tokens[:450])
        end = write_token_file(self.directory / "end", self.tokens[450:])
        self.assertEqual(self.run_on("two", front, "--validation-data", end), self.run_on("one", self.data))

    def test_masked_targets_count_nowhere(self):
        _, whole = self.run_on("whole", self.data, "--steps", 0)
        mask = self.directory / "tokens.mask"
        # Held out is [450, 600): windows at 450, 466, ...; all but the first window's targets, 451 to 466, are masked.
        mask.write_bytes(bytes(1 if index <= 466 else 0 for index in range(600)))
        _, masked = self.run_on("masked", self.data, "--steps", 0)
        one = write_token_file(self.directory / "one", self.tokens[450:467])
        _, first = self.run_on("first", self.data, "--steps", 0, "--validation-data", one)
        self.assertNotAlmostEqual(whole, masked, places=4)
        self.assertAlmostEqual(masked, first, delta=1e-6 * first)
        mask.write_bytes(bytes(1 if index < 450 else 0 for index in range(600)))
        self.assertIn("no token that counts",
                      self.refused("run", self.program, "--data", self.data, "--out", self.directory / "none", "--steps", 0))

    # The gate leaves the weights as they were, and the run reports why it ends.
    def test_a_batch_without_a_token_that_counts(self):
        mask = self.directory / "tokens.mask"
        mask.write_bytes(bytes(1 if index > 450 else 0 for index in range(600)))
        self.assertIn("step 1: its batch has 0 tokens that count",
                      self.refused("run", self.program, "--data", self.data, "--out", self.directory / "none"))
        self.assertFalse((self.directory / "none/checkpoints").exists())

    def test_a_mixture_is_the_same_under_every_layout_and_goes_on_where_it_stopped(self):
        first = write_token_file(self.directory / "first", self.tokens[:200])
        second = write_token_file(self.directory / "second", self.tokens[200:])
        train = lambda program, out, *more: self.train(program, "0.7", out, "--data", first, "0.3", second, *more)
        losses = train(self.program, "whole", "--set", "checkpoint_every=2")
        self.assertNotEqual(losses, self.train(self.program, "0.3", "other", "--data", first, "0.7", second))
        self.assertNotEqual(losses, self.train(self.program, first, "end", "--data", second))
        for name, mesh, settings in [("alone", "dp=1", {}), ("parts", "dp=1", {"accumulation": 2}), ("tp", "tp=2", {})]:
            program = self.compile(name, MODEL, "--mesh", mesh, steps=3, global_batch=4, sequence_length=16, eval_batches=0,
                                   validation_fraction=0.25, **settings)
            self.assert_close(losses, train(program, name + ".out"), 1e-5)
        second_step = self.directory / "whole/checkpoints/step-000002"
        self.assertEqual(train(self.program, "resumed", "--resume", second_step), losses[2:])
        self.assertIn("the data were",
                      self.refused("run", self.program, "--data", "0.6", first, "0.4", second, "--out", self.directory / "no",
                                   "--resume", second_step))

    def test_a_mixture_is_announced_and_its_mistakes_are_named(self):
        first = write_token_file(self.directory / "first", self.tokens[:200])
        second = write_token_file(self.directory / "second", self.tokens[200:])
        # Of 150 and 300 tokens for training: 9 and 18 windows, so 27 samples.
        said = self.dtc("run", self.program, "--data", "2", first, "1", second, "--out", self.directory / "tried", "--steps", 0)
        self.assertIn("27 training and 9 held-out samples", said)
        self.assertIn("first': weight 2, 18 of an epoch's samples; they go 2.00 times through its 9", said)
        self.assertIn("second': weight 1, 9 of an epoch's samples; they go 0.50 times through its 18", said)
        empty = write_token_file(self.directory / "empty", [])
        for data, code, message in [
                (["1", first, "1", empty], 3, "empty' is too short: its training part has 0 of 0 tokens"),
                (["1", first, "1"], 2, "no token file follows the weight 1 of source 2"),
                (["1", first, "-1", second], 2, "the weight of source 2 is -1"),
                ([first, "1", second], 2, "stands before the first weight, 1"),
                (["1", first, "1e-9", second], 3, "gives it none of an epoch's 27 samples")]:
            self.assertIn(message, self.refused("run", self.program, "--out", self.directory / "no", "--data", *data, code=code))
        self.assertIn("rank 1 was started with the weights of --data = 2, 1, rank 0 with 1, 1",
                      self.refused_ranks(["--data", "1", first, "1", second], ["--data", "2", first, "1", second]))

    # 600 letters and spaces would be 300 tokens in nanoGPT's format.
    def test_a_text_of_even_size_is_no_token_file(self):
        text = self.directory / "text"
        text.write_text("even " * 120)
        for arguments in [("run", self.program, "--data", text, "--out", self.directory / "out"), ("data", "show", text)]:
            message = self.refused(*arguments)
            self.assertIn(str(text), message)
            self.assertIn("dtc data pack", message)


class Pack(DriverTest):
    # 128 MB of zeros in a small file: a process that held them would not fit the limit.
    @unittest.skipIf(SANITIZED, "sanitizers do not fit the limit either")
    def test_a_small_file_that_unpacks_to_a_large_one_takes_no_memory(self):
        bomb, block = self.directory / "bomb.gz", bytes(1 << 20)
        with gzip.open(bomb, "wb", compresslevel=1) as file:
            for _ in range(128):
                file.write(block)
        limit = lambda: resource.setrlimit(resource.RLIMIT_DATA, (100 << 20, 100 << 20))
        message = self.dtc("data", "pack", bomb, "-o", self.directory / "packed", preexec_fn=limit)
        self.assertIn(f"{128 << 20} tokens", message)


if __name__ == "__main__":
    unittest.main()
