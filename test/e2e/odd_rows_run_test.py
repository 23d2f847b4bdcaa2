#!/usr/bin/env python3
"""bf16 on rows of 16k + 1 elements, with logits around -30, 0 and 30: losses and gradient norms differ from f64 at most
twice as much as under PyTorch's autocast (oracle/make_odd_rows.py)."""

import json
import pathlib
import struct
import sys
import unittest

from driver import DriverTest, write_safetensors, write_token_file

sys.path.insert(0, str(pathlib.Path(__file__).parent / "oracle"))
import odd_rows

RECORD = json.loads((pathlib.Path(__file__).parent / "oracle" / "odd_rows.json").read_text())
LAYOUTS = {"one": ["--mesh", "dp=1"], "zero3": ["--mesh", "dp=2", "--strategy", "zero3"]}


class OddRows(DriverTest):
    def model(self, name, centre):
        """A directory with these weights."""
        folder = self.directory / f"{name}{centre}"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(odd_rows.config(name)))
        header, data = {}, b""
        for tensor, (shape, values) in odd_rows.weights(name, centre).items():
            begin = len(data)
            data += struct.pack(f"<{len(values)}f", *values)
            header[tensor] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
        write_safetensors(folder / "model.safetensors", header, data)
        return folder

    def step(self, program, model, name, batch):
        """Loss and gradient norm of one step on a file that holds only this step's samples."""
        data = write_token_file(self.directory / "tokens", odd_rows.tokens(name, batch), bits=32)
        out = f"{program.name}-{model.name}-{batch}"
        self.dtc("run", program, "--data", data, "--weights", model, "--out", self.directory / out, "--threads", 1)
        metrics = self.metrics(out)[0]
        return metrics["loss_metrics/global_avg_loss"], metrics["grad_norm"]

    def test_rows_with_a_tail_of_one(self):
        for name in odd_rows.MODELS:
            models = {centre: self.model(name, centre) for centre in odd_rows.CENTRES}
            for layout, arguments in LAYOUTS.items():
                program = self.compile(f"{name}-{layout}", models[0], *arguments, compute="bf16", gradients="bf16",
                                       steps=1, global_batch=odd_rows.SAMPLES, sequence_length=odd_rows.SEQUENCE,
                                       validation_fraction=0, clip_norm=0)
                for centre, model in models.items():
                    record = RECORD[name][str(centre)]
                    steps = [self.step(program, model, name, batch) for batch in range(odd_rows.BATCHES)]
                    for what, actual in zip(("loss", "grad_norm"), zip(*steps)):
                        errors = [(a - b) / b for a, b in zip(actual, record[what])]
                        deviation = (sum(error ** 2 for error in errors) / len(errors)) ** 0.5
                        with self.subTest(name, layout=layout, centre=centre, what=what):
                            self.assertLessEqual(deviation, 2 * record[what + "_deviation"], actual)


if __name__ == "__main__":
    unittest.main()
