#!/usr/bin/env python3
"""Input files: only regular files are read, nothing else is waited for, and names cannot control a terminal.

The first table has a row for every input of every verb and of programs; each is replaced by a pipe, a folder, a socket
and a device.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import time
import unittest

from driver import DTC, SOURCE, DriverTest, read_safetensors, write_safetensors, write_tokens

MODEL = SOURCE / "test/e2e/oracle/gpt2"
SMALL = ["--set", "sequence_length=16", "--set", "global_batch=4", "--set", "validation_fraction=0", "--set", "steps=1"]
SECONDS = 5  # that no refusal may exceed

COMPILE = ["compile", "model", *SMALL, "-o", "made"]
RUN = ["run", "program", "--data", "tokens.bin", "--out", "new", "--threads", "1"]
RESUME = [*RUN, "--resume", "out/checkpoints/step-000001", "--steps", "2"]
NO_CHECK = [*RESUME, "--no-verify-checkpoint"]

# The file that is replaced, and a command that reads it.
INPUTS = [
    ("model/config.json", COMPILE),
    ("model/model.safetensors", COMPILE),
    ("model/tokenizer.json", COMPILE),
    ("model/merges.txt", COMPILE),
    ("sharded/model.safetensors.index.json", ["compile", "sharded", *SMALL, "-o", "made"]),
    ("sharded/model-00001-of-00001.safetensors", ["compile", "sharded", *SMALL, "-o", "made"]),
    ("train.toml", [*COMPILE, "--config", "train.toml"]),
    ("strategy.toml", [*COMPILE, "--mesh", "dp=2", "--strategy", "strategy.toml"]),
    ("text.mlir", ["compile", "text.mlir", *SMALL, "-o", "made"]),
    ("text.mlir", ["verify", "text.mlir", *SMALL]),
    ("program", ["run", "program", "--data", "tokens.bin", "--out", "new"]),
    ("program", ["inspect", "program"]),
    ("program", ["explain", "program"]),
    ("tokens.bin", RUN),
    ("tokens.bin", ["data", "show", "tokens.bin"]),
    ("tokens.bin", ["data", "check", "tokens.bin"]),
    ("tokens.bin.mask", RUN),
    ("validation.bin", [*RUN, "--validation-data", "validation.bin"]),
    ("book.txt", ["data", "pack", "book.txt", "-o", "made"]),
    ("model/config.json", [*RUN, "--weights", "model"]),
    ("model/model.safetensors", [*RUN, "--weights", "model"]),
    ("out/checkpoints/step-000001/trainer_state.json", RESUME),
    ("out/checkpoints/step-000001/trainer_state.json", NO_CHECK),
    ("out/checkpoints/step-000001/checksums.txt", RESUME),
    ("out/checkpoints/step-000001/config.json", RESUME),
    ("out/checkpoints/step-000001/config.json", NO_CHECK),
    ("out/checkpoints/step-000001/model.safetensors", RESUME),
    ("out/checkpoints/step-000001/model.safetensors", NO_CHECK),
    ("out/checkpoints/step-000001/optimizer.safetensors", RESUME),
    ("out/checkpoints/step-000001/optimizer.safetensors", NO_CHECK),
]


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as end:
        here = os.open(".", os.O_RDONLY)
        os.chdir(path.parent)  # names of sockets are short
        end.bind(path.name)
        os.fchdir(here)
        os.close(here)


KINDS = {"pipe": os.mkfifo, "folder": os.mkdir, "socket": make_socket,
         "device": lambda path: os.symlink("/dev/zero", path)}


class Inputs(DriverTest):
    def setUp(self):
        super().setUp()
        here = self.directory
        shutil.copytree(MODEL, here / "model")
        (here / "model/tokenizer.json").write_text("{}")
        (here / "model/merges.txt").write_text("a b\n")
        (here / "sharded").mkdir()
        shutil.copy(MODEL / "config.json", here / "sharded")
        shutil.copy(MODEL / "model.safetensors", here / "sharded/model-00001-of-00001.safetensors")
        names = read_safetensors(MODEL / "model.safetensors")[0]
        (here / "sharded/model.safetensors.index.json").write_text(
            json.dumps({"weight_map": {name: "model-00001-of-00001.safetensors" for name in names}}))
        (here / "train.toml").write_text("[training]\nsteps = 1\n")
        (here / "strategy.toml").write_text('preset = "ddp"\n')
        (here / "book.txt").write_text("some text")
        self.dtc("compile", "model", *SMALL, "--compile-to", "model", "-o", "text.mlir", cwd=here)
        self.dtc("compile", "model", *SMALL, "-o", "program", cwd=here)
        write_tokens(here / "tokens.bin", 500, 61)
        (here / "tokens.bin.mask").write_bytes(b"\1" * 500)
        write_tokens(here / "validation.bin", 500, 61)
        self.dtc("run", "program", "--data", "tokens.bin", "--out", "out", "--threads", 1, cwd=here)

    def test_only_regular_files_are_read(self):
        for name, words in INPUTS:
            path, kept = self.directory / name, self.directory / "kept"
            with self.subTest(words=words, input="as it is"):
                self.dtc(*words, code=0, cwd=self.directory)
            for made in ["made", "new"]:
                shutil.rmtree(self.directory / made, ignore_errors=True)
                (self.directory / made).unlink(missing_ok=True)
            for kind, make in KINDS.items():
                path.rename(kept)
                make(path)
                with self.subTest(words=words, input=name, kind=kind):
                    begin = time.monotonic()
                    done = subprocess.run([DTC, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                          timeout=SECONDS, cwd=self.directory)
                    self.assertEqual(done.returncode, 3, done.stdout)
                    self.assertLess(time.monotonic() - begin, SECONDS)
                    self.assertIn(path.name, done.stdout)
                    # A folder may be a model, so the message says what it lacks.
                    is_model = kind == "folder" and name == "text.mlir"
                    self.assertIn("config.json" if is_model else "not a regular file", done.stdout)
                shutil.rmtree(path) if kind == "folder" else path.unlink()
                kept.rename(path)

    def test_a_link_to_what_others_may_not_read_is_not_carried(self):
        secret, link = self.directory / "secret", self.directory / "model/tokenizer.json"
        secret.write_text("{}")
        link.unlink()
        link.symlink_to("../secret")
        words = ["compile", "model", *SMALL, "-o", "made"]
        for mode, code in [(0o644, 0), (0o600, 3)]:
            secret.chmod(mode)
            output = self.dtc(*words, cwd=self.directory, code=code)
        self.assertIn(f"model/tokenizer.json: it is a link to '{secret}', which fewer may read than", output)
        (self.directory / "model/config.json").chmod(0o600)  # the whole model belongs to this user
        self.dtc(*words, cwd=self.directory)

    def test_an_index_that_nests_deep_or_is_large(self):
        index = self.directory / "sharded/model.safetensors.index.json"
        for text, message in [('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "nests objects and arrays more than 100"),
                              (" " * 10_000_001, "10000001 bytes; at most 10000000 are accepted")]:
            index.write_text(text)
            output = self.dtc("compile", "sharded", *SMALL, "-o", "made", cwd=self.directory, code=3)
            self.assertIn(message, output)
            self.assertIn(index.name, output)


ESCAPE = "\x1b[2J\x07\x7f\x9bm"
# What could control a terminal: all control characters except newline and tab.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class HostileNames(DriverTest):
    def answer(self, *words, code):
        done = subprocess.run([DTC, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=60, cwd=self.directory)
        text = done.stdout.decode()
        self.assertEqual(done.returncode, code, ascii(text))
        self.assertIsNone(CONTROL.search(text), ascii(text))
        return text

    def shown(self, *words, code=3, name="\\x1b[2J"):
        self.assertIn(name, self.answer(*words, code=code))

    def model(self, **config):
        folder = self.directory / "model"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(MODEL, folder)
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
        return folder

    def test_file_names(self):
        name = "a" + ESCAPE
        for words in [["compile", name, "-o", "x"], ["compile", MODEL, "--config", name, "-o", "x"],
                      ["compile", MODEL, "--strategy", name, "-o", "x"], ["verify", name], ["run", name],
                      ["inspect", name], ["explain", name], ["data", "show", name], ["data", "check", name],
                      ["data", "pack", name, "-o", "x"]]:
            with self.subTest(words=words):
                self.shown(*words)
        self.shown("data", "pack", MODEL / "config.json", "-o", name, code=0)
        self.shown("data", "show", name, code=0)
        self.shown("data", "show", name, "--json", code=0, name="\\u001b[2J\\u0007\\u007f\\u009bm")
        self.answer(name, code=2)
        self.answer("data", name, code=2)
        for words in [["compile", MODEL, "--" + name], ["compile", MODEL, "--set", name, "-o", "x"],
                      ["compile", MODEL, "--mesh", name], ["compile", MODEL, "--target", name], ["run", "--" + name]]:
            with self.subTest(words=words):
                self.shown(*words, code=2)

    def test_what_models_say(self):
        self.shown("compile", self.model(**{"n" + ESCAPE: 1}), "-o", "x")
        self.shown("compile", self.model(model_type=ESCAPE), "-o", "x")
        self.shown("compile", self.model(activation_function=ESCAPE), "-o", "x")
        model = self.model()
        header, data = read_safetensors(MODEL / "model.safetensors")
        first = next(iter(header))
        header[ESCAPE] = header.pop(first)
        write_safetensors(model / "model.safetensors", header, data)
        self.answer("compile", model, "-o", "x", code=3)
        header[first] = header.pop(ESCAPE)
        header[ESCAPE] = {"dtype": "F32", "shape": [1], "data_offsets": [len(data), len(data) + 4]}
        write_safetensors(model / "model.safetensors", header, data + bytes(4))
        self.shown("compile", model, "-o", "x")
        (model / "model.safetensors").unlink()
        (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {ESCAPE: "../x"}}))
        self.shown("compile", model, "-o", "x")

    def test_what_settings_and_strategies_say(self):
        train, strategy = self.directory / "train.toml", self.directory / "strategy.toml"
        name = '"a\\u001b[2J\\u009b"'
        for text in [f"[{name}]\n", f"[training]\n{name} = 1\n", f"[optimizer]\noptimizer = {name}\n"]:
            train.write_text(text)
            self.answer("compile", MODEL, "--config", train, "-o", "x", code=3)
        for text in [f"preset = {name}\n", f"{name} = 1\n", f"[inputs]\ntokens = {{ batch = [{name}] }}\n",
                     f"[parameters]\n{name} = {{ mlp = ['dp'] }}\n"]:
            strategy.write_text(text)
            self.answer("compile", MODEL, "--mesh", "dp=2", "--strategy", strategy, "-o", "x", code=3)

    # Names from dialect text are in the program: of the model, its sizes, parameters and layers.
    def test_what_programs_say(self):
        text = self.directory / "text.mlir"
        small = ["--set", "sequence_length=16", "--set", "global_batch=2"]
        self.dtc("compile", MODEL, *small, "--locations", "--compile-to", "model", "-o", text)
        hostile = text.read_text()
        for before, after in [('dt.model = "gpt2"', 'dt.model = "gpt2\\1B[2J"'), ('"h.0.', '"h\\1B[2J\\C2\\9B.0.'),
                              ('"h.1.', '"h\\1B[2J\\C2\\9B.1.')]:
            self.assertIn(before, hostile)
            hostile = hostile.replace(before, after)
        text.write_text(hostile)
        program = self.directory / ("program" + ESCAPE)
        self.shown("compile", text, "--mesh", "tp=2", *small, "--set", "steps=1", "-o", program, code=0)
        self.shown("inspect", program, code=0)
        self.shown("explain", program, code=0)
        self.shown("inspect", program, "--json", code=0, name="\\u001b[2J")
        self.shown("explain", program, "--json", code=0, name="\\u001b[2J")
        self.shown("run", program, "--help", code=0)
        data = write_tokens(self.directory / ("tokens" + ESCAPE), 500, 61)
        out = self.directory / ("out" + ESCAPE)
        program = self.directory / "program"
        self.answer("compile", text, "--mesh", "tp=2", *small, "--set", "validation_fraction=0", "--set", "steps=1", "-o",
                    program, code=0)
        self.shown("run", program, "--data", data, "--out", out, code=0)
        self.shown("run", program, "--data", data, "--out", out)
        checkpoint = out / "checkpoints/step-000001"
        weights = checkpoint / "model.safetensors"
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(content)
        self.shown("run", program, "--data", data, "--out", out, "--resume", out)
        self.shown("run", program, "--data", self.directory / ESCAPE, "--out", self.directory / "new")


if __name__ == "__main__":
    unittest.main()
