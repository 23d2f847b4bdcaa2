#!/usr/bin/env python3
"""Random strategies: dtc refuses one, or verify agrees and the native program trains as one rank does.

    random_strategies_run_test.py [--count N] [--seed S] [--only CASE]

Meshes have two or three axes, used whole or in parts; dimensions are odd; inputs are placed alike or differently; state
is stored as it is used or differently. Each case is drawn from the seed and its own number, so that --only repeats one.
The suite runs a sample.
"""

import argparse
import collections
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

from driver import DTC, DriverTest, read_metrics, write_tokens

OPTIONS = argparse.Namespace(count=24, seed=5, only=None)
SECONDS = 60  # that no command may exceed

DIMENSIONS = {"gpt2": ["embed", "heads", "head_dim", "mlp", "vocab", "positions"],
              "llama": ["embed", "kv_heads", "group", "head_dim", "mlp", "vocab"]}
PATTERNS = {"gpt2": ["*"] * 12 + ["h.*", "h.0.*", "*mlp*", "*attn*", "wte.*", "wpe.*", "*.bias"],
            "llama": ["*"] * 12 + ["model.layers.*", "*mlp*", "*self_attn*", "*embed_tokens*", "*norm*", "*q_proj*"]}


class Case:
    def __init__(self, seed, number, ones=False):
        """With `ones`, heads, their size and the hidden units are usually 1."""
        self.source = random.Random(f"{seed}/{number}/ones" if ones else f"{seed}/{number}")
        self.ones = ones
        self.family = self.source.choice(["gpt2", "llama"])
        self.config = self.make_config()
        self.axes = self.make_mesh()
        self.mesh = ",".join(f"{name}={size}" for name, size in self.axes.items())
        self.strategy = self.make_strategy()
        self.settings = self.make_settings()

    def make_config(self):
        draw = self.source
        self.vocabulary = draw.choice([7, 11, 13, 16, 24, 29])
        self.sequence = draw.choice([5, 7, 8, 12, 12, 12])
        layers, tied = draw.choice([1, 1, 2]), draw.random() < 0.5
        few = (lambda *sizes: draw.choice([1, 1, *sizes])) if self.ones else (lambda *sizes: draw.choice(sizes))
        if self.family == "gpt2":
            heads, size = few(1, 2, 3, 4, 5, 6), few(1, 2, 3, 4)
            return {"model_type": "gpt2", "n_embd": heads * size, "n_head": heads, "n_layer": layers,
                    "n_positions": draw.choice([12, 13]), "n_inner": few(None, 7, 12, 15),
                    "vocab_size": self.vocabulary}
        keys, group, size = few(1, 2, 3, 4), few(1, 2, 3), draw.choice([2, 4])
        heads = keys * group
        return {"model_type": "llama", "hidden_size": heads * few(1, 2, 3), "num_attention_heads": heads,
                "num_key_value_heads": keys, "head_dim": size, "intermediate_size": few(7, 12, 15),
                "num_hidden_layers": layers, "max_position_embeddings": 12, "vocab_size": self.vocabulary,
                "rms_norm_eps": 1e-5, "tie_word_embeddings": tied}

    def make_mesh(self):
        names = self.source.sample(["dp", "tp", "sp"], self.source.choice([2, 2, 3]))
        while True:
            sizes = [self.source.choice([2, 2, 2, 3, 4, 6]) for _ in names]
            ranks = 1
            for size in sizes:
                ranks *= size
            if ranks <= 12:
                return dict(zip(names, sizes))

    def parts(self, axis):
        """The axis whole, or in parts that may be used separately."""
        size = self.axes[axis]
        if size in (4, 6) and self.source.random() < 0.4:
            return [f"{axis}:(1)2", f"{axis}:(2){size // 2}"]
        return [axis]

    def make_strategy(self):
        """Every axis has an initial use; more annotations are added."""
        draw = self.source
        sections = {"parameters": [], "tags": [], "inputs": []}
        entries = [part for axis in self.axes for part in self.parts(axis)]
        for _ in range(draw.choice([0, 1, 2])):
            entries.append(draw.choice(self.parts(draw.choice(list(self.axes)))))
        alike = draw.random() < 0.5
        for part in entries:
            section = draw.choice(["parameters", "parameters", "tags", "inputs", "inputs"])
            if section == "parameters":
                pattern, dimension = draw.choice(PATTERNS[self.family]), draw.choice(DIMENSIONS[self.family])
            elif section == "tags":
                pattern = draw.choice(["*residual*", "*residual_mlp", "logits"])
                dimension = draw.choice(["batch", "sequence", "vocab" if pattern == "logits" else "embed"])
            else:
                pattern = "*" if alike else draw.choice(["tokens", "targets"])
                dimension = draw.choice(["batch", "batch", "sequence"])
            sections[section].append((pattern, dimension, part))
        # Where the state of parameters is stored, for half of the strategies: mostly over axes that the batch may have
        # too.
        for section in ["storage", "slots", "gradients"] if draw.random() < 0.5 else []:
            for _ in range(draw.choice([0, 1, 1, 2])):
                dimension = draw.choice(["any", "any", draw.choice(DIMENSIONS[self.family])])
                part = draw.choice(self.parts(draw.choice(list(self.axes))))
                sections.setdefault(section, []).append((draw.choice(PATTERNS[self.family]), dimension, part))
        return self.write_sections(sections)

    @staticmethod
    def write_sections(sections):
        lines = []
        for section, entries in sections.items():
            merged = collections.defaultdict(dict)
            for pattern, dimension, part in entries:
                axes = merged[pattern].setdefault(dimension, [])
                if part not in axes:
                    axes.append(part)
            lines.append(f"[{section}]")
            for pattern, dimensions in merged.items():
                inner = ", ".join(f"{name} = {json.dumps(axes)}" for name, axes in dimensions.items())
                lines.append(f'"{pattern}" = {{ {inner} }}')
        return "\n".join(lines) + "\n"

    def make_settings(self):
        draw = self.source
        accumulation, rows = draw.choice([1, 1, 2]), draw.choice([6, 8, 12, 12, 12])
        return {"steps": 3, "global_batch": accumulation * rows, "accumulation": accumulation,
                "sequence_length": self.sequence, "dropout": draw.choice([0, 0.1]), "learning_rate": 1e-3,
                "clip_norm": draw.choice([0, 0.25]), "schedule": "constant", "warmup_steps": 0,
                "optimizer": draw.choice(["adamw", "adamw", "sgd"]), "validation_fraction": 0.2, "eval_batches": 1,
                "seed": draw.randrange(1000)}

    def __str__(self):
        return f"--mesh {self.mesh}\n{self.config}\n{self.settings}\n{self.strategy}"


class RandomStrategies(DriverTest):
    def command(self, *arguments):
        done = subprocess.run([DTC, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=SECONDS)
        return done.returncode, done.stdout

    def native(self, name, model, case, *layout):
        """What one native run reports: losses and gradient norms of the steps, and the held-out loss."""
        program = self.compile(name, model, *layout, **case.settings)
        out = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        self.dtc("run", program, "--data", self.data, "--out", out, "--threads", 1)
        path = out / "metrics.jsonl"
        values = [step[key] for step in read_metrics(path) for key in ("loss_metrics/global_avg_loss", "grad_norm")
                  if key in step]
        held_out = [json.loads(line).get("validation_metrics/loss") for line in path.read_text().splitlines()]
        return values + [loss for loss in held_out if loss is not None]

    def check(self, number, ones):
        case = Case(OPTIONS.seed, number, ones)
        model = self.directory / f"model{number}"
        model.mkdir()
        (model / "config.json").write_text(json.dumps(case.config))
        strategy = self.directory / f"strategy{number}.toml"
        strategy.write_text(case.strategy)
        self.data = write_tokens(self.directory / f"tokens{number}", 2000, case.vocabulary, number)
        layout = ["--mesh", case.mesh, "--strategy", strategy]
        settings = [word for key, value in case.settings.items() for word in ("--set", f"{key}={value}")]
        code, output = self.command("compile", model, *layout, *settings, "-o", self.directory / "program")
        if code != 0:
            self.assertEqual(code, 3, f"case {number}: {case}\n{output}")
            self.assertIn("error: ", output)
            return "refused: " + re.sub(r"['\"][^'\"]*['\"]|\d+|\S*/\S*", "_", output.split("error: ")[-1]).strip()[:90]
        code, output = self.command("verify", model, *layout, *settings, "--full-size")
        self.assertEqual(code, 0, f"case {number}: {case}\n{output}")
        one, many = self.native("one", model, case, "--mesh", "dp=1"), self.native("many", model, case, *layout)
        self.assertEqual(len(one), len(many), f"case {number}: {case}")
        self.assertGreater(len(one), case.settings["steps"])
        for a, b in zip(one, many):
            self.assertLessEqual(abs(a - b), 2e-5 * abs(a), f"case {number}: {one} and {many}\n{case}")
        return "agrees"

    def test_refused_or_right(self):
        self.check_all()

    def test_dimensions_of_size_1(self):
        self.check_all(ones=True)

    def check_all(self, ones=False):
        outcomes = collections.Counter()
        for number in range(OPTIONS.count) if OPTIONS.only is None else [OPTIONS.only]:
            with self.subTest(case=number):
                outcomes["failed"] += 1
                outcome = self.check(number, ones)
                outcomes["failed"] -= 1
                outcomes[outcome] += 1
        print(*(f"{count:5} {outcome}" for outcome, count in outcomes.most_common()), sep="\n", file=sys.stderr)
        if OPTIONS.only is None:
            self.assertGreater(outcomes["agrees"], OPTIONS.count // 6, "most are refused: nothing is tested")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=OPTIONS.count)
    parser.add_argument("--seed", type=int, default=OPTIONS.seed)
    parser.add_argument("--only", type=int)
    _, rest = parser.parse_known_args(namespace=OPTIONS)
    unittest.main(argv=sys.argv[:1] + rest)
