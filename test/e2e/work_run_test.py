#!/usr/bin/env python3
"""What commands state about themselves: the part of the step, the layer and the work, compared with the field's
formulas."""

import collections
import json
import os
import subprocess
import unittest

from driver import DriverTest

PROGRAM_JSON = os.environ["DTC_PROGRAM_JSON"]
EMBED, HEADS, LAYERS, VOCAB, SEQUENCE, BATCH = 32, 4, 3, 64, 16, 4
GPT2 = {"model_type": "gpt2", "n_embd": EMBED, "n_head": HEADS, "n_layer": LAYERS, "n_positions": SEQUENCE,
        "vocab_size": VOCAB}
TOKENS = SEQUENCE * BATCH
# A multiply-add counts as two: a layer's four matrices have 12 E² numbers, the tied head V E.
PRODUCTS = 2 * TOKENS * (LAYERS * 12 * EMBED * EMBED + VOCAB * EMBED)
# Scores and weighted sum of all pairs; the backward pass has five products instead of two.
ATTENTION = 4 * TOKENS * SEQUENCE * EMBED * LAYERS


class Work(DriverTest):
    def lists(self, name, *layout, **settings):
        """Each list's commands except waits, with the layer's name instead of its number."""
        model = self.directory / "model"
        model.mkdir(exist_ok=True)
        (model / "config.json").write_text(json.dumps(GPT2))
        settings = {"global_batch": BATCH, "sequence_length": SEQUENCE, "weight_decay": 0, **settings}
        self.program = self.compile(name, model, *layout, **settings)
        text = subprocess.run([PROGRAM_JSON, "read", self.program], check=True, stdout=subprocess.PIPE, text=True).stdout
        self.manifest = json.loads(text)
        names = [f"{layer['list']}.{layer.get('number', 0)}" for layer in self.manifest["layers"]]
        layers = [names[layer] for layer in self.manifest["stages"][0]["layers"]]
        lists = {}
        for each in self.manifest["lists"]:
            lists[each["name"]] = [command for command in each["commands"] if "wait" not in command]
            for command in lists[each["name"]]:
                command["layer"] = layers[command["layer"]] if "layer" in command else None
        return lists

    def flops(self, commands, kind):
        sums = collections.Counter()
        for command in commands:
            if command["work"].get("kind", "ELEMENTWISE") == kind:
                sums[command["direction"]] += float(command["work"].get("flops", 0))
        return dict(sums)

    def test_products_take_as_much_forward_as_for_either_gradient(self):
        lists = self.lists("one", "--mesh", "dp=1")
        self.assertEqual(self.flops(lists["micro_last"], "PRODUCT"),
                         {part: PRODUCTS for part in ("FORWARD", "INPUT_GRADIENT", "WEIGHT_GRADIENT")})
        self.assertEqual(self.flops(lists["micro_last"], "ATTENTION"),
                         {"FORWARD": ATTENTION, "INPUT_GRADIENT": ATTENTION * 5 / 2})
        self.assertEqual(self.flops(lists["eval"], "PRODUCT"), {"FORWARD": PRODUCTS})

    def test_a_part_is_a_part(self):
        lists = self.lists("parts", "--mesh", "dp=2,tp=2")
        self.assertEqual(self.flops(lists["micro_last"], "PRODUCT"),
                         {part: PRODUCTS / 4 for part in ("FORWARD", "INPUT_GRADIENT", "WEIGHT_GRADIENT")})

    def test_adamw_reads_four_numbers_of_a_parameter_and_writes_three(self):
        update = self.lists("adamw", "--mesh", "dp=1")["update"]
        numbers = sum(int(size) for parameter in self.manifest["parameters"]
                      for size in [self.product(parameter["logical_shape"])])
        read = sum(int(command["work"].get("bytes_read", 0)) for command in update)
        written = sum(int(command["work"].get("bytes_written", 0)) for command in update)
        scalars = 32 * (len(update) + len(self.manifest["parameters"]))  # that each parameter's formula reads
        self.assertTrue(16 * numbers <= read <= 16 * numbers + scalars, (read, numbers))
        self.assertTrue(12 * numbers <= written <= 12 * numbers + scalars, (written, numbers))
        self.assertEqual({command["direction"] for command in update}, {"UPDATE"})

    def product(self, shape):
        result = 1
        for size in shape:
            result *= int(size)
        return result

    def test_every_command_says_to_which_part_and_layer_it_belongs(self):
        for name, layout, settings in [("zero3", ("--mesh", "dp=4", "--strategy", "zero3"), {"compute": '"bf16"'}),
                                       ("sp", ("--mesh", "dp=2,tp=2", "--strategy", "megatron-sp"),
                                        {"accumulation": 2, "dropout": 0.1})]:
            lists = self.lists(name, *layout, **settings)
            for list_name, commands in lists.items():
                found = {command["direction"] for command in commands}
                expected = {"eval": {"FORWARD"}, "update": {"UPDATE"}}.get(
                    list_name, {"FORWARD", "INPUT_GRADIENT", "WEIGHT_GRADIENT"})
                self.assertEqual(found - {"UPDATE"} if list_name == "micro_last" else found, expected, list_name)
            # The layers of the forward pass come one after the other, those of the backward pass in reverse.
            passes = {"FORWARD": [], "INPUT_GRADIENT": []}
            for command in lists["micro_last"]:
                order = passes.get(command["direction"])
                if order is not None and command["layer"] and command["layer"] not in order and "start" not in command:
                    order.append(command["layer"])
            names = [f"h.{layer}" for layer in range(LAYERS)]
            self.assertEqual(passes, {"FORWARD": names, "INPUT_GRADIENT": names[::-1]})

    def test_inspect_sums_it_up(self):
        self.lists("inspected", "--mesh", "dp=1", accumulation=2)
        work = json.loads(self.dtc("inspect", self.program, "--json"))["roles"][0]["work"]
        self.assertEqual(set(work), {"forward", "input gradient", "weight gradient", "update"})
        self.assertGreaterEqual(work["forward"]["flops"], PRODUCTS + ATTENTION)
        self.assertLess(work["forward"]["flops"], 1.3 * (PRODUCTS + ATTENTION))
        self.assertRegex(self.dtc("inspect", self.program), r"(?m)^  weight gradient +\d+ +\S+ +\S+ [kM]B ")


if __name__ == "__main__":
    unittest.main()
