#!/usr/bin/env python3
"""Packed documents: the loss of rows that hold several equals that of the documents one by one, under every layout.

The expected losses are from transformers, of each document alone (oracle/make_documents.py)."""

import json
import struct
import unittest

from driver import SOURCE, DriverTest, read_safetensors, write_token_file

ORACLE = SOURCE / "test/e2e/oracle"
LENGTH = 16
MODELS = ["gpt2", "llama", "gemma2", "gpt_neox"]


def write_megatron(path, documents):
    """Documents of 16-bit tokens, one sequence each, as Megatron-LM writes them."""
    path.with_suffix(".bin").write_bytes(b"".join(struct.pack(f"<{len(each)}H", *each) for each in documents))
    lengths = [len(each) for each in documents]
    pointers = [2 * sum(lengths[:i]) for i in range(len(lengths))]
    path.with_suffix(".idx").write_bytes(
        b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(documents), len(documents) + 1)
        + struct.pack(f"<{len(documents)}i", *lengths) + struct.pack(f"<{len(documents)}q", *pointers)
        + struct.pack(f"<{len(documents) + 1}q", *range(len(documents) + 1)))
    return path.with_suffix(".bin")


def recorded(model):
    """(documents, mean loss) of the two recorded rows."""
    header, data = read_safetensors(ORACLE / f"documents_{model}" / "expected.safetensors")

    def values(name, code):
        begin, end = header[name]["data_offsets"]
        return [value for value, in struct.iter_unpack("<" + code, data[begin:end])]

    documents = []
    for token, (place, start) in zip(values("tokens", "i"), enumerate(values("document_starts", "i"))):
        if place % LENGTH == start:
            documents.append([])
        documents[-1].append(token)
    return documents, values("loss_sum", "d")[0] / values("token_count", "i")[0]


class Documents(DriverTest):
    def program(self, model, mesh, name, **settings):
        return self.compile(name, ORACLE / model, "--mesh", mesh, global_batch=2, sequence_length=LENGTH,
                            validation_fraction=0, eval_batches=0, **settings)

    def held_out_loss(self, program, data):
        out = self.directory / "out"
        self.dtc("run", program, "--data", data, "--validation-data", data, "--out", out, "--eval-only")
        return json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])["validation_metrics/loss"]

    def data(self, documents):
        # The last row's last target is the first token of a document, too.
        return write_megatron(self.directory / "packed", documents + [[1]])

    def test_the_loss_is_that_of_the_documents_one_by_one(self):
        for model in MODELS:
            documents, expected = recorded(model)
            data = self.data(documents)
            for mesh in ["dp=1", "dp=2,tp=2", "cp=2", "pp=2"]:
                strategy = {"cp=2": ["--strategy", "cp"]}.get(mesh, [])
                with self.subTest(model=model, mesh=mesh):
                    program = self.compile("program", ORACLE / model, "--mesh", mesh, *strategy, global_batch=2,
                                           sequence_length=LENGTH, validation_fraction=0, eval_batches=0,
                                           accumulation=1, separate_documents="true")
                    self.assertLess(abs(self.held_out_loss(program, data) / expected - 1), 1e-5)
            mixed = self.held_out_loss(self.program(model, "dp=1", "mixed"), data)
            self.assertGreater(abs(mixed / expected - 1), 1e-3, "documents that are not separated see each other")

    def test_verify_draws_documents(self):
        for model, mesh in [("gpt2", "dp=2,tp=2"), ("gemma2", "pp=2"), ("llama", "cp=2")]:
            strategy = ["--strategy", "cp"] if mesh == "cp=2" else []
            self.dtc("verify", ORACLE / model, "--mesh", mesh, *strategy, "--set", f"sequence_length={LENGTH}", "--set",
                     "global_batch=4", "--set", "accumulation=2", "--set", "separate_documents=true", "--full-size")

    def test_data_must_tell_where_documents_begin(self):
        program = self.program("gpt2", "dp=1", "program", separate_documents="true")
        data = write_token_file(self.directory / "tokens", [1, 2, 3] * 50)
        message = self.refused("run", program, "--data", data, "--out", self.directory / "refused")
        self.assertIn("does not say where documents begin, which separate_documents needs", message)


if __name__ == "__main__":
    unittest.main()
