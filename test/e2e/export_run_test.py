#!/usr/bin/env python3
"""A checkpoint that dtc writes gives the same results in dtc as in transformers (test/e2e/oracle/check_export.py). And
`dtc export` rounds weights as PyTorch does and splits them into files as Hugging Face's tools do (make_rounding.py).
"""

import json
import math
import shutil
import struct
import unittest

from driver import SOURCE, DriverTest, read_safetensors, write_token_file, write_tokens

ORACLE = SOURCE / "test/e2e/oracle"
LENGTH, VOCABULARY = 16, 61
EXPORTED = sorted(folder.name.removeprefix("exported_") for folder in ORACLE.glob("exported_*"))


def recorded_windows(model):
    """The recorded rows of tokens, each with the mean loss that follows from its recorded logits."""
    header, data = read_safetensors(ORACLE / f"exported_{model}" / "expected.safetensors")

    def values(name, code):
        begin, end = header[name]["data_offsets"]
        return [value for value, in struct.iter_unpack("<" + code, data[begin:end])]

    tokens, logits = values("tokens", "i"), values("logits", "d")
    for row in range(header["tokens"]["shape"][0]):
        window, loss = tokens[row * (LENGTH + 1):][:LENGTH + 1], 0
        for position, target in enumerate(window[1:]):
            at = logits[(row * LENGTH + position) * VOCABULARY:][:VOCABULARY]
            loss += math.log(sum(map(math.exp, at))) - at[target]
        yield window, loss / LENGTH


class Export(DriverTest):
    def compile_recorded(self, model, name, *arguments, **settings):
        return self.compile(name, ORACLE / model, *arguments, global_batch=4, sequence_length=LENGTH,
                            learning_rate=1e-3, **settings)

    def held_out_loss(self, program, weights, window):
        """A file of two windows: the first is the training set, the second is evaluated."""
        data = write_token_file(self.directory / "window", [*window, *window])
        out = self.directory / "evaluation"
        self.dtc("run", program, "--data", data, "--out", out, "--weights", weights, "--eval-only")
        return json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])["validation_metrics/loss"]

    def check_losses(self, model, weights, tolerance):
        program = self.compile_recorded(model, "evaluate", "--mesh", "tp=2", validation_fraction=0.5)
        for window, loss in recorded_windows(model):
            actual = self.held_out_loss(program, weights, window)
            self.assertLessEqual(abs(actual - loss), tolerance * loss, f"{model}: {actual}, transformers {loss}")

    def test_transformers_and_dtc_agree_on_recorded_exports(self):
        for model in EXPORTED:
            self.check_losses(model, ORACLE / f"exported_{model}", 1e-5)

    # So transformers loads today's exports, too.
    def test_an_export_of_today_is_like_the_recorded_one(self):
        data = write_tokens(self.directory / "tokens", 2000, VOCABULARY)
        for model in EXPORTED:
            recorded = ORACLE / f"exported_{model}"
            program = self.compile_recorded(model, model, "--mesh", "dp=2,tp=2", steps=2, validation_fraction=0)
            self.train(program, data, model + ".out")
            checkpoint = self.directory / (model + ".out") / "checkpoints/step-000002"
            self.assertEqual(read_safetensors(checkpoint / "model.safetensors")[0],
                             read_safetensors(recorded / "model.safetensors")[0], "names, types, shapes, order")
            self.assertEqual((checkpoint / "config.json").read_text(), (recorded / "config.json").read_text())

    def test_weights_come_back_bit_for_bit(self):
        data = write_tokens(self.directory / "tokens", 2000, VOCABULARY)
        for model in EXPORTED:
            weights = ORACLE / f"exported_{model}"
            for mesh, strategy in [("dp=1", "ddp"), ("tp=4", "megatron-sp")]:
                program = self.compile_recorded(model, f"{model}-{mesh}", "--mesh", mesh, "--strategy", strategy,
                                                validation_fraction=0)
                out = f"{model}-{mesh}.out"
                self.train(program, data, out, "--weights", weights, "--steps", 0)
                written = self.directory / out / "checkpoints/step-000000/model.safetensors"
                self.assertEqual(written.read_bytes(), (weights / "model.safetensors").read_bytes())


def tensors_of(folder):
    """Type, shape and bytes of each tensor of a model directory, in the order of its files."""
    tensors = {}
    for path in sorted(folder.glob("model*.safetensors")):
        header, data = read_safetensors(path)
        for name, entry in header.items():
            tensors[name] = entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])]
    return tensors


def widened(data):
    """bf16 as f32."""
    return b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))


def write_model(path, tensors):
    """`tensors`: name to type, shape and bytes."""
    header, data = {}, b""
    for name, (kind, shape, values) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class ExportVerb(DriverTest):
    def export(self, source, name, *arguments):
        folder = self.directory / name
        answer = json.loads(self.dtc("export", source, "-o", folder, "--json", *arguments))
        self.assertEqual(answer["bytes"], sum(len(data) for _, _, data in tensors_of(folder).values()))
        self.assertEqual(answer["files"], len(list(folder.glob("model*.safetensors"))))
        return folder

    def trained(self, *arguments, name="run"):
        """The folder of a run of two steps with a checkpoint of each, of a model that has a tokenizer."""
        model = self.directory / "model"
        if not model.exists():
            shutil.copytree(ORACLE / "exported_llama", model)
            (model / "tokenizer.json").write_text('{"a": 1}')
        program = self.compile("program", model, "--mesh", "dp=2,tp=2", global_batch=4, sequence_length=LENGTH,
                               steps=2, checkpoint_every=1, validation_fraction=0)
        self.train(program, write_tokens(self.directory / "tokens", 2000, VOCABULARY), name, *arguments)
        return self.directory / name

    def export_refused(self, source, *arguments, code=3):
        message = self.dtc("export", source, "-o", self.directory / "refused", *arguments, code=code)
        self.assertFalse(list(self.directory.glob("refused*")), "nothing is left")
        return message

    # Ties, subnormal values, zeros of both signs, scalars and tensors without elements.
    def test_rounds_as_pytorch_does(self):
        for kind in ("bf16", "f16"):
            folder = self.export(ORACLE / "rounding", kind, "--dtype", kind)
            theirs, data = read_safetensors(ORACLE / "rounding" / f"{kind}.safetensors")
            ours = tensors_of(folder)
            self.assertEqual(list(ours), list(theirs))
            for name, entry in theirs.items():
                self.assertEqual(ours[name], (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])]), name)

    # And f32 stays the same to the byte.
    def test_f32_is_what_a_checkpoint_has(self):
        run = self.trained()
        checkpoint = run / "checkpoints/step-000002"
        for source in (run, run / "checkpoints", checkpoint):
            folder = self.export(source, "from-" + source.name)
            names = ["config.json", "model.safetensors", "tokenizer.json"]
            self.assertEqual(sorted(path.name for path in folder.iterdir()), names)
            for name in names:
                self.assertEqual((folder / name).read_bytes(), (checkpoint / name).read_bytes())

    def test_cuts_files_as_hugging_face_does(self):
        for size, theirs in json.loads((ORACLE / "rounding/shards.json").read_text()).items():
            folder = self.export(ORACLE / "rounding", size, "--dtype", "bf16", "--shard-size", size)
            if (folder / "model.safetensors.index.json").exists():
                ours = json.loads((folder / "model.safetensors.index.json").read_text())
                self.assertEqual(ours["metadata"], {"total_size": theirs["total_size"]})
                self.assertEqual(ours["weight_map"], theirs["weight_map"])
            else:
                self.assertEqual(set(theirs["weight_map"].values()), {"model.safetensors"})
            for name, file in theirs["weight_map"].items():
                self.assertIn(name, read_safetensors(folder / file)[0])

    def test_config_says_the_type(self):
        source = self.directory / "source"
        shutil.copytree(ORACLE / "rounding", source)
        for before, after in (({"torch_dtype": "float32"}, {"torch_dtype": "bfloat16"}),
                              ({"dtype": "float32"}, {"dtype": "bfloat16"}), ({}, {"dtype": "bfloat16"})):
            with self.subTest(before=before):
                (source / "config.json").write_text(json.dumps({"model_type": "llama", **before}))
                folder = self.export(source, "of-" + "".join(before), "--dtype", "bf16")
                self.assertEqual(json.loads((folder / "config.json").read_text()), {"model_type": "llama", **after})

    # Split into small files, in bf16: as --weights, and as the model of another program; under any layout.
    def test_is_read_again(self):
        export = self.export(self.trained(), "narrow", "--dtype", "bf16", "--shard-size", "3kB")
        self.assertGreater(len(list(export.glob("model-*"))), 2)
        expected = {name: widened(data) for name, (_, _, data) in tensors_of(export).items()}
        other = self.compile("other", export, "--mesh", "tp=2", global_batch=4, sequence_length=LENGTH,
                             validation_fraction=0)
        for name, program, arguments in (("given", self.directory / "program", ["--weights", export]),
                                         ("own", other, [])):
            self.train(program, self.directory / "tokens", name, "--steps", 0, *arguments)
            written = tensors_of(self.directory / name / "checkpoints/step-000000")
            self.assertEqual({tensor: data for tensor, (_, _, data) in written.items()}, expected, name)
        # And exporting what was read gives the same bits.
        again = self.export(self.directory / "own", "again", "--dtype", "bf16")
        self.assertEqual(tensors_of(again), tensors_of(export))

    def test_passes_over_a_damaged_checkpoint(self):
        run = self.trained()
        newest = run / "checkpoints/step-000002"
        data = bytearray((newest / "model.safetensors").read_bytes())
        data[-1] ^= 1
        (newest / "model.safetensors").write_bytes(data)
        answer = json.loads(self.dtc("export", run, "-o", self.directory / "whole", "--json").split("\n", 1)[1])
        self.assertEqual(answer["from"], str(run / "checkpoints/step-000001"))
        self.assertIn("it was damaged or changed since", self.export_refused(newest))
        self.export(newest, "as-it-is", "--no-verify-checkpoint")

    def test_what_cannot_be_exported(self):
        folder = self.make_folder("source")
        (folder / "config.json").write_text("{}")
        wide = struct.pack("<3f", 1, 65520, 2)
        write_model(folder / "model.safetensors", {"a": ("F32", [1, 3], wide)})
        self.assertIn("tensor 'a', element 1, is 65520, which f16 cannot hold; choose bf16 or f32",
                      self.export_refused(folder, "--dtype", "f16"))
        self.export(folder, "wider", "--dtype", "bf16")
        write_model(folder / "model.safetensors", {"b": ("F32", [2], struct.pack("<2f", 0, math.nan))})
        self.assertIn("tensor 'b', element 1, is nan", self.export_refused(folder, "--dtype", "bf16"))
        write_model(folder / "model.safetensors", {"c": ("I64", [1], bytes(8))})
        self.assertIn("tensor 'c' has the type I64; weights are of F32, F16, BF16 or F64", self.export_refused(folder))
        self.assertIn("there is no checkpoint in", self.export_refused(SOURCE / "examples/gpt2"))
        self.assertIn("is not a directory; give a checkpoint", self.export_refused(self.directory / "nowhere"))
        for size in ("0", "-1", "5XB", "1.5GB", "99999999999GB"):
            self.assertIn("--shard-size", self.export_refused(ORACLE / "rounding", "--shard-size", size, code=2))
        self.assertIn("--dtype: bfloat16 not in {f32,bf16,f16}",
                      self.export_refused(ORACLE / "rounding", "--dtype", "bfloat16", code=2))
        self.assertIn("already exists; choose another name",
                      self.dtc("export", ORACLE / "rounding", "-o", folder, code=3))


if __name__ == "__main__":
    unittest.main()
