#!/usr/bin/env python3
"""Random choices: with any order, buckets, gathers, parts and recomputation, losses keep their bits.

12 of them; with DTC_LONG_TESTS=1 there are 200, more than CI tries.
"""

import json
import os
import random
import re
import shutil
import subprocess

from driver import DTC, DriverTest, main, write_tokens

SETTINGS = {"learning_rate": 1e-3, "clip_norm": 0.25, "validation_fraction": 0, "seed": 11, "steps": 4, "global_batch": 8,
            "sequence_length": 16, "dropout": 0.1}
MODELS = {
    "gpt": {"model_type": "gpt2", "vocab_size": 96, "n_positions": 16, "n_embd": 32, "n_layer": 4, "n_head": 4},
    "llama": {"model_type": "llama", "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
              "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16, "tie_word_embeddings": True},
}
DATA_PARALLEL = [("dp=2", "ddp", 1), ("dp=2", "zero1", 2), ("dp=2", "zero2", 1), ("dp=2", "zero3", 1)]
OTHERS = [("tp=2", "megatron", 1), ("dp=2,tp=2", "megatron-sp", 2), ("dp=2,tp=2", "megatron-sp+zero3", 1), ("dp=2,pp=2", "zero1", 4)]
COUNT = 200 if os.environ.get("DTC_LONG_TESTS") else 12
SEED = 20261126


class RandomChoices(DriverTest):
    def setUp(self):
        super().setUp()
        self.data = write_tokens(self.directory / "tokens", 4000, 96)
        self.references = {}
        for name, config in MODELS.items():
            (self.directory / name).mkdir()
            (self.directory / name / "config.json").write_text(json.dumps(config))

    def words(self, model, layout, compute):
        mesh, strategy, accumulation = layout
        settings = {**SETTINGS, "accumulation": accumulation, "compute": compute}
        return [self.directory / model, "--mesh", mesh, "--strategy", strategy,
                *[word for key, value in settings.items() for word in ("--set", f"{key}={value}")]]

    def compiled(self, words, text):
        """A program with these choices; none where they are impossible."""
        (self.directory / "choices.toml").write_text(text)
        program = self.directory / "program"
        done = subprocess.run([DTC, "compile", *map(str, words), "--choices", str(self.directory / "choices.toml"), "-o", str(program)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode == 3:
            self.assertRegex(done.stdout, "cannot come before|no command|different orders|more than all gradients", done.stdout)
            return None
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{words}\n{text}")
        return program

    def losses_of(self, program):
        shutil.rmtree(self.directory / "out", ignore_errors=True)
        return self.train(program, self.data, "out")

    def reference(self, case, words):
        if case not in self.references:
            names = self.dtc("compile", *words, "--compile-to", "choices")
            parameters = re.findall(r"all_gather (\S+\.weight)", names)
            lists = [block.split("\n#   ") for block in re.split(r"^# (?=\S+$)", names, flags=re.MULTILINE)[1:]]
            self.references[case] = ([each for each in lists if each[0].startswith("micro")], sorted(set(parameters)),
                                     self.losses_of(self.compiled(words, "")))
        return self.references[case]

    def draw(self, chance, parameters, mesh):
        text = f"gather_ahead = {chance.randrange(7)}\n"
        text += 'recompute = "{}"\n'.format(chance.choice(["none", "cheap", "selective", "full", "every:2", "1 full, 3 cheap",
                                                           "2 selective, 1 none, 1 every:2", "regather", "2 regather, 2 full",
                                                           *([] if "pp" in mesh else ["offload", "3 offload, 1 full"])]))
        text += 'bucket_bytes = "{}"\n'.format(chance.choice(["none", "auto", "2KB", "9KB", "30KB"]))
        text += '[split]\n"*" = {}\n'.format(chance.choice([1, 2, 2, 4]))
        if parameters:
            text += "[gathers]\n" + "".join(f'"{name}" = "{chance.choice(["shared", "again", "1 again, 3 shared"])}"\n' for name in
                                            chance.sample(parameters, min(3, len(parameters))))
        return text

    @staticmethod
    def rule(chance, lists):
        """Moves a command by a few places; most moves would put it before what it needs."""
        name, *commands = chance.choice(lists)
        move = chance.randrange(len(commands))
        anchor = min(len(commands) - 1, max(0, move + chance.choice([-6, -4, -3, -2, 2, 3, 4, 6, 9])))
        layer = f"layer = {chance.choice([-1, 1])}\n" if chance.random() < 0.2 else ""
        where = "before" if anchor < move else "after"
        return f"[[order]]\nlist = '{name}'\nmove = '{commands[move].strip()}'\n{where} = '{commands[anchor].strip()}'\n{layer}"

    def no_choice_changes_a_bit(self, layouts):
        """A random half of all."""
        chance, moved = random.Random(SEED), 0
        for number in range(COUNT // 2):
            model, layout = chance.choice(sorted(MODELS)), layouts[number % len(layouts)]
            compute = chance.choice(["f32", "f32", "bf16"])
            words = self.words(model, layout, compute)
            lists, parameters, expected = self.reference((model, layout, compute), words)
            text = self.draw(chance, parameters, layout[0])
            while not self.compiled(words, text):  # the bucket is larger than all gradients
                text = self.draw(chance, parameters, layout[0])
            for _ in range(6):
                more = text + self.rule(chance, lists)
                if self.compiled(words, more):
                    text, moved = more, moved + 1
            program = self.compiled(words, text)
            with self.subTest(number=number, model=model, layout=layout, compute=compute, choices=text):
                self.assertEqual(self.losses_of(program), expected)
        self.assertGreater(moved, COUNT // 2)

    def test_among_data_parallel_ranks(self):
        self.no_choice_changes_a_bit(DATA_PARALLEL)

    def test_with_other_axes(self):
        self.no_choice_changes_a_bit(OTHERS)


if __name__ == "__main__":
    main(at_once=2)
