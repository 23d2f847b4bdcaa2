#!/usr/bin/env python3
"""Initial weights have the same distribution as in transformers: each tensor of each family, by oracle/initial.json."""

import array
import json
import math
import unittest

from driver import SOURCE, DriverTest, read_safetensors, write_tokens

# Sampling error: of dtc's single seed, and of the record's seeds. If seeds changed, 160 tensors would stray this far
# once in 3,000 runs.
SIGMAS = 5


class Initial(DriverTest):
    def weights(self, number, config):
        """What a run writes that runs no step: {name: (shape, numbers)}."""
        folder = self.directory / f"model{number}"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        program = self.compile(f"program{number}", folder, sequence_length=8, global_batch=2, eval_batches=1)
        data = write_tokens(self.directory / "tokens", 1000, config["vocab_size"])
        out = self.directory / f"out{number}"
        self.dtc("run", program, "--data", data, "--out", out, "--threads", 1, "--steps", 0)
        header, content = read_safetensors(out / "checkpoints/step-000000/model.safetensors")
        tensors = {}
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            tensors[name] = entry["shape"], array.array("f", content[begin:end])
        return tensors

    def check(self, where, numbers, expected, seeds):
        count = len(numbers)
        mean = sum(numbers) / count
        deviation = math.sqrt(sum((x - mean) ** 2 for x in numbers) / count)
        if expected["deviation"] == 0:
            return self.assertEqual((set(numbers), deviation), ({expected["mean"]}, 0), where)
        kurtosis = sum(((x - mean) / deviation) ** 4 for x in numbers) / count
        # The standard errors of normal numbers' moments.
        error = SIGMAS * math.sqrt((1 + 1 / seeds) / count)
        self.assertAlmostEqual(mean, expected["mean"], delta=error * expected["deviation"], msg=f"mean of {where}")
        self.assertAlmostEqual(deviation / expected["deviation"], 1, delta=error / math.sqrt(2), msg=f"deviation of {where}")
        self.assertAlmostEqual(kurtosis, expected["kurtosis"], delta=error * math.sqrt(24), msg=f"kurtosis of {where}")

    def test_each_tensor_of_each_family(self):
        record = json.loads((SOURCE / "test/e2e/oracle/initial.json").read_text())
        for number, model in enumerate(record["models"]):
            tensors = self.weights(number, model["config"])
            self.assertEqual(sorted(tensors), sorted(model["tensors"]), model["config"])
            for name, expected in model["tensors"].items():
                shape, numbers = tensors[name]
                where = f"{name} of {model['config']}"
                self.assertEqual(shape, expected["shape"], where)
                self.check(where, numbers, expected, record["seeds"])


if __name__ == "__main__":
    unittest.main()
