#!/usr/bin/env python3
"""`dtc sample --prompt` reads and prints text: the text of the tokens that --prompt-ids reads and prints."""

import json
import shutil
import unittest

from driver import SOURCE, DriverTest, main

ORACLE = SOURCE / "test/e2e/oracle"
TOKENIZERS = ORACLE / "tokenizers"
RECORDED = json.loads((TOKENIZERS / "expected.json").read_text())
DRAWN = ["--temperature", 1.5, "--seed", 3, "--threads", 1]


def byte_of():
    """The byte for which each character of a piece stands in GPT-2's tokenizers: printable characters stand for
    themselves, the others are numbered from 256."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + number): byte for number, byte in enumerate(others)}


def text_of(tokens):
    tokenizer = json.loads((TOKENIZERS / "gpt2style/tokenizer.json").read_text())
    special = {token["id"] for token in tokenizer["added_tokens"]}
    pieces, bytes_of = {number: piece for piece, number in tokenizer["model"]["vocab"].items()}, byte_of()
    data = bytes(bytes_of[character] for token in tokens if token not in special for character in pieces[token])
    return data.decode("utf-8", "replace")


class TextTest(DriverTest):
    def model(self, vocabulary=330, tokenizer="gpt2style"):
        """Of seeded weights, with a tokenizer."""
        directory = self.directory / f"model-{tokenizer}-{vocabulary}"
        directory.mkdir()
        config = json.loads((ORACLE / "gpt2/config.json").read_text())
        config |= {"vocab_size": vocabulary, "n_positions": 128, "bos_token_id": 0, "eos_token_id": 0}
        (directory / "config.json").write_text(json.dumps(config))
        if tokenizer:
            for file in (TOKENIZERS / tokenizer).iterdir():
                shutil.copy(file, directory)
        return directory

    def sample(self, *arguments):
        """The lines of each token, and the last one."""
        *lines, last = map(json.loads, self.dtc("sample", *arguments, *DRAWN, "--json").splitlines())
        return lines, last


class SampleText(TextTest):
    def test_text_is_that_of_the_tokens(self):
        model, document = self.model(), RECORDED["documents"][1]
        prompt = RECORDED["gpt2style"][1][:-1]
        rest = ["--max-tokens", 40, "--stop-ids", 329]  # not by default the end of texts
        tokens = [line["token"] for line in self.sample(model, "--prompt-ids", ",".join(map(str, prompt)), *rest)[0]]
        lines, last = self.sample(model, "--prompt", document, *rest)
        self.assertEqual([line["token"] for line in lines], tokens)
        self.assertEqual(last["texts"], [text_of(tokens)])
        self.assertTrue(last["texts"][0].startswith("".join(line["text"] for line in lines)))
        plain = self.dtc("sample", model, "--prompt", document, *rest, *DRAWN)
        self.assertIn(text_of(tokens) + "\n", plain)
        self.assertRegex(plain, r"40 new tokens, [\d.]+ a second")

    def test_prompts_are_told_one_behind_the_other(self):
        model, prompts = self.model(), ["The house", "The house is old", "x"]
        words = [word for prompt in prompts for word in ("--prompt", prompt)]
        rest = ["--max-tokens", 6]
        _, last = self.sample(model, *words, *rest)
        plain = self.dtc("sample", model, *words, *rest, *DRAWN)
        self.assertEqual(len(last["texts"]), 3)
        self.assertIn("".join(text + "\n" for text in last["texts"]), plain)

    def test_nothing_follows_a_stop(self):
        model = self.model()
        words = [model, "--prompt", "The house", "--max-tokens", 60, "--stop-ids", 329]
        text = self.sample(*words)[1]["texts"][0]
        stop = text[20:23]
        lines, last = self.sample(*words, "--stop", "no such text", "--stop", stop)
        self.assertEqual(last["texts"], [text[:text.index(stop)]])
        self.assertEqual("".join(line["text"] for line in lines), last["texts"][0])
        self.assertEqual(last["tokens"], len(lines))
        self.assertLess(len(lines), 60)
        plain = self.dtc("sample", *words, "--stop", stop, *DRAWN)
        self.assertIn(text[:text.index(stop)] + "\n", plain)
        self.assertRegex(plain, rf"{len(lines)} new tokens, [\d.]+ a second")

    def test_a_tokenizer_is_named_or_the_programs(self):
        model = self.model()
        program = self.compile("program", model, "--generate", 40)
        words = ["--prompt", "The house", "--max-tokens", 8]
        expected = self.sample(model, *words)[1]["texts"]
        self.assertEqual(self.sample(program, *words, "--tokenizer", TOKENIZERS / "gpt2style")[1]["texts"], expected)


class Messages(TextTest):
    def refuse(self, *arguments, **options):
        return self.refused("sample", *arguments, within=30, **options)

    def test_without_a_tokenizer(self):
        model = self.model(tokenizer="")
        message = self.refuse(model, "--prompt", "The house")
        self.assertIn(f"--prompt: there is no tokenizer in '{model}'", message)
        self.assertIn("--tokenizer PATH, or give ids of tokens by --prompt-ids", message)
        self.assertIn("there is no such file or folder", self.refuse(model, "--prompt", "x", "--tokenizer", "none"))
        (self.directory / "tokenizer.json").write_text("{}")
        message = self.refuse(model, "--prompt", "x", "--tokenizer", self.directory)
        self.assertIn("is no tokenizer that tokenizers", message)

    def test_a_tokenizer_of_another_model(self):
        message = self.refuse(self.model(vocabulary=61), "--prompt", "The house", "--max-tokens", 4)
        self.assertRegex(message, r"the tokenizer's token \d+ is not one of the model's: it has 330 entries, the model's vocabulary 61")
        self.assertIn("name the model's own by --tokenizer PATH", message)

    def test_prompts_that_do_not_fit(self):
        model = self.model()
        message = self.refuse(model, "--prompt", "The house is small. " * 40, "--max-tokens", 4)
        self.assertIn("do not fit the model's 128", message)
        self.assertIn("the tokenizer makes no token of it", self.refuse(model, "--prompt", " ", "--tokenizer",
                                                                       TOKENIZERS / "llama.model"))

    def test_prompts_of_no_kind_or_two(self):
        model = self.model()
        self.assertIn("there is no prompt; give --prompt TEXT", self.refuse(model, code=2))
        self.assertIn("--prompt", self.refuse(model, "--prompt", "x", "--prompt-ids", "1", code=2))
        self.assertIn("--prompt", self.refuse(model, "--prompt-ids", "1", "--stop", "x", code=2))


if __name__ == "__main__":
    main(at_once=2)
