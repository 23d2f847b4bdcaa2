#!/usr/bin/env python3
"""`dtc sample` continues prompts as transformers does (oracle/make_generation.py), with caches and without, on one rank
and on several. And its messages for input that it cannot use.
"""

import json
import unittest

from config_cases import write_longer
from driver import SOURCE, DriverTest, main, write_tokens

ORACLE = SOURCE / "test/e2e/oracle"
POSITIONS = 48  # of the recorded models: make_generation.py
RECORDED = json.loads((ORACLE / "generation.json").read_text())


def ids(tokens):
    return ",".join(map(str, tokens))


class SampleTest(DriverTest):
    def longer(self, model):
        """Its directory, as it was recorded."""
        write_longer(self.directory / model, ORACLE / model, POSITIONS)
        return self.directory / model

    def compile_to_generate(self, model, *arguments):
        """A program with as many positions as the recorded continuations have."""
        positions = max(len(case["prompt"]) + len(case["tokens"]) for case in RECORDED[model])
        return self.compile("program", self.longer(model), "--generate", positions, *arguments)

    def sample(self, model, prompts, most, *arguments):
        """The new tokens of each prompt, and the last line."""
        words = [word for prompt in prompts for word in ("--prompt-ids", ids(prompt))]
        output = self.dtc("sample", model, *words, "--max-tokens", most, "--threads", 1, "--json", *arguments)
        *lines, last = [json.loads(line) for line in output.splitlines()]
        tokens = [[] for _ in prompts]
        for line in lines:
            self.assertEqual(line["index"], len(tokens[line["row"]]))
            tokens[line["row"]].append(line["token"])
        return tokens, last


class Families(SampleTest):
    def check_models(self, *arguments):
        """The first prompt to its end, and all three, of different lengths, as far as all fit."""
        for model, cases in RECORDED.items():
            program = self.compile_to_generate(model, *arguments)
            shortest = min(len(case["tokens"]) for case in cases)
            for chosen, most in ([cases[0]], len(cases[0]["tokens"])), (cases, shortest):
                tokens, _ = self.sample(program, [case["prompt"] for case in chosen], most)
                self.assertEqual(tokens, [case["tokens"][:most] for case in chosen], model)

    def test_all_families_go_on_as_transformers(self):
        self.check_models("--prompt-positions", 6)

    def test_without_caches(self):
        self.check_models("--no-cache")

    def test_over_four_ranks(self):
        self.check_models("--prompt-positions", 6, "--mesh", "dp=2,tp=2", "--rows", 2)

    # Where the likeliest token is far ahead, rounded weights choose the same one.
    def test_16_bits_halve_weights_and_caches(self):
        case = RECORDED["llama"][0]
        used = []
        for precision in "f32", "bf16":
            program = self.compile_to_generate("llama", "--set", f"compute={precision}")
            self.assertEqual(self.sample(program, [case["prompt"]], 12)[0], [case["tokens"][:12]])
            used.append(json.loads(self.dtc("inspect", program, "--json"))["roles"][0]["memory"])
        wide, narrow = used
        for category in "keys and values", "parameters":  # tensors begin at multiples of 64 bytes
            self.assertLess(narrow[category], 0.6 * wide[category], category)

    # What each rank reads and keeps for a prompt and for a token after it equals what the model does on whole tensors,
    # in f64.
    def test_verify_compares_logits_and_caches(self):
        for model, *arguments in [("qwen3", "--mesh", "dp=2,tp=2", "--rows", 4, "--prompt-positions", 6),
                                  ("gpt_neox", "--mesh", "tp=2", "--set", "compute=bf16"), ("gemma2", "--no-cache")]:
            output = self.dtc("verify", self.compile_to_generate(model, *arguments), "--no-limit")
            self.assertIn("Compared    prompt 2 tensors" if model == "gemma2" else "generate 10 prompt 10 tensors", output)
            self.assertIn("Verified    all agree", output)


class Directories(SampleTest):
    def test_prompts_of_a_length_go_on_side_by_side(self):
        prompts = [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11]]
        alone = [self.sample(ORACLE / "llama", [prompt], 8)[0][0] for prompt in prompts]
        tokens, last = self.sample(ORACLE / "llama", prompts, 8, "--mesh", "dp=3")
        self.assertEqual(tokens, alone)
        self.assertEqual((last["prompts"], last["prompt_tokens"], last["tokens"]), (4, 11, 32))

    def test_nothing_follows_a_stop_token(self):
        case = RECORDED["phi3"][0]
        stop = case["tokens"][3]
        expected = case["tokens"][:case["tokens"].index(stop) + 1]
        self.assertEqual(self.sample(self.longer("phi3"), [case["prompt"]], 20, "--stop-ids", ids([stop]))[0], [expected])

    # A token is drawn by its position: the same in every layout, and independent of other rows.
    def test_a_seed_draws_the_same_tokens_everywhere(self):
        drawn = ["--temperature", 1.5, "--top-k", 20, "--top-p", 0.9, "--seed", 7]
        tokens = self.sample(ORACLE / "qwen3", [[1, 2, 3]], 30, *drawn)[0]
        self.assertEqual(self.sample(ORACLE / "qwen3", [[1, 2, 3], [3, 2, 1]], 30, "--mesh", "dp=2,tp=2", *drawn)[0][:1],
                         tokens)
        drawn[-1] = 8
        self.assertNotEqual(self.sample(ORACLE / "qwen3", [[1, 2, 3]], 30, *drawn)[0], tokens)

    def test_ids_are_printed_one_behind_the_other(self):
        case = RECORDED["gpt2"][0]
        output = self.dtc("sample", self.longer("gpt2"), "--prompt-ids", ids(case["prompt"]), "--max-tokens", 4)
        self.assertIn(" ".join(map(str, case["tokens"][:4])) + "\n", output)
        self.assertIn("4 new tokens", output)

    # The folder of a run stands for its newest checkpoint.
    def test_a_run_is_sampled_from_its_newest_checkpoint(self):
        data = write_tokens(self.directory / "tokens", 2000, 61)
        trainer = self.compile("trainer", ORACLE / "gpt2", steps=4, checkpoint_every=2, global_batch=4,
                               sequence_length=16, learning_rate=0.3)
        run = self.directory / "run"
        self.dtc("run", trainer, "--data", data, "--out", run)
        newest = self.sample(run / "checkpoints/step-000004", [[1, 2, 3]], 12)[0]
        self.assertEqual(self.sample(run, [[1, 2, 3]], 12)[0], newest)
        self.assertNotEqual(self.sample(run / "checkpoints/step-000002", [[1, 2, 3]], 12)[0], newest)
        self.assertIn("this program trains", self.refused("sample", trainer, "--prompt-ids", "1", within=5))


class Messages(SampleTest):
    def test_prompts_that_are_none(self):
        for prompt, words in {",": "there is no token", "1,x": "'x' is not a token id",
                              "-3": "'-3' is not a token id"}.items():
            self.assertIn(words, self.refused("sample", ORACLE / "gpt2", f"--prompt-ids={prompt}", code=2))
        message = self.refused("sample", ORACLE / "gpt2", "--prompt-ids", "1,61", "--max-tokens", 2, within=5)
        self.assertIn("--prompt-ids 1,61: 61 is not a token of the model; its vocabulary has the ids 0 to 60", message)

    def test_sizes_that_do_not_fit(self):
        message = self.refused("sample", ORACLE / "gpt2", "--prompt-ids", "1,2", "--max-tokens", 23, within=5)
        self.assertIn("25 positions, of a prompt and the new tokens, do not fit the model's 24", message)
        program = self.compile_to_generate("gpt2")
        message = self.refused("sample", program, "--prompt-ids", "1,2", "--max-tokens", 45, within=5)
        self.assertIn("a prompt of 2 tokens and 45 new ones (--max-tokens) do not fit the program's 46 positions", message)
        for number in "0", "-1":
            self.assertIn("is less than 1", self.refused("compile", ORACLE / "gpt2", f"--generate={number}", "-o",
                                                         self.directory / "none", code=2))

    def test_what_is_not_there_yet(self):
        message = self.refused("sample", ORACLE / "gpt2", "--prompt-ids", "1", "--max-tokens", 2, "--mesh", "pp=2",
                               within=5)
        self.assertIn("a program that generates (--generate) has no stages of a pipeline", message)
        message = self.refused("compile", ORACLE / "gpt2", "--generate", 8, "--target", "cuda:sm_90", "-o",
                               self.directory / "none", within=5)
        self.assertIn("--target cuda:sm_90: programs that generate (--generate) run on processors so far", message)

    def test_a_program_is_of_one_kind(self):
        generator = self.compile_to_generate("gpt2")
        message = self.refused("run", generator, "--data", write_tokens(self.directory / "tokens", 100, 61), code=2)
        self.assertIn("this program generates text", message)
        trainer = self.compile("trainer", ORACLE / "gpt2", global_batch=4, sequence_length=16)
        (self.directory / "request.json").write_text('{"prompts": [[1]], "max_tokens": 1}')
        message = self.refused("run", trainer, "--sample", self.directory / "request.json", code=2)
        self.assertIn("--sample: this program trains", message)

    def test_requests_that_are_none(self):
        program, request = self.compile_to_generate("gpt2"), self.directory / "request.json"
        for text, words in {
                "[]": "is not a JSON object",
                '{"max_tokens": 1}': "'prompts' is missing or empty",
                '{"prompts": [[]], "max_tokens": 1}': "prompt 0 is empty",
                '{"prompts": [[1], [2, 61]], "max_tokens": 1}': "prompt 1: 61 at place 1 is not a token of the model",
                '{"prompts": [["a"]], "max_tokens": 1}': 'prompt 0: "a" at place 0 is not a token',
                '{"prompts": [[1]]}': "'max_tokens' is missing",
                '{"prompts": [[1]], "max_tokens": 0}': "'max_tokens' is 0; it must be a whole number, at least 1",
                '{"prompts": [[1]], "max_tokens": 46}': "does not fit the program's 46 positions",
                '{"prompts": [[1]], "max_tokens": 1, "top_p": 2}': "'top_p' is 2; it must be a number from 0 to 1",
                '{"prompts": [[1]], "max_tokens": 1, "seed": -1}': "'seed' is -1",
                '{"prompts": [[1]], "max_tokens": 1, "tempreature": 1}': "unknown key 'tempreature'"}.items():
            request.write_text(text)
            self.assertIn(words, self.refused("run", program, "--sample", request, within=5))


if __name__ == "__main__":
    main(at_once=2)
