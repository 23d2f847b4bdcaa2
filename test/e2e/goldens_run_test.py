#!/usr/bin/env python3
"""Figures that papers published, predicted: models of the papers' sizes, compiled and simulated on a shipped cluster
file.

Each table may change one figure of the file, for what its runs achieved and a data sheet does not state. No row has one
of its own. docs/goldens.md shows what is tested here, and states the assumptions: the test compares the two.
"""

import json
import re
import subprocess
import unittest

from driver import DTC, SANITIZED, SOURCE, TIMEOUT, DriverTest, main

CLUSTER = SOURCE / "examples/clusters/dgx_a100_superpod.textproto"
PAGE = SOURCE / "docs/goldens.md"
GIB = 2**30

# layers, hidden, heads; sequences of 2048 tokens and 51200 words, as all of these papers have
SIZES = {"7.5B": (36, 4096, 32), "22B": (48, 6144, 64), "175B": (96, 12288, 96), "530B": (105, 20480, 128),
         "1T": (128, 25600, 160)}
SEQUENCE, VOCABULARY = 2048, 51200

# arXiv 2205.05198: ranks of the pipeline, stages of each, sequences of a step and of a micro-batch; all with 8 ways of
# tensor parallelism
KORTHIKANTI = {"22B": (1, 1, 4, 4), "175B": (8, 3, 64, 1), "530B": (35, 3, 280, 1), "1T": (64, 1, 512, 1)}
WAYS = 8

# the line of the cluster file that a table may change
FITTED = {"Steps with selective and full recomputation": 'kernel_class: "attention" points {{ share: {} }}',
          "Steps of MT-NLG 530B": 'kernel_class: "product" points {{ share: {} }}',
          "Data-parallel speed-up": "bandwidth: {}"}


def table(heading):
    """Rows of the first table under a heading of the page: maps the first cell to the others."""
    part = PAGE.read_text().split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in rows[2:]}


def number(cell):
    return float(re.match(r"[\d.]+", cell).group())


def state(role):
    """Bytes of parameters, their copies, gradients and the optimizer's state, as dtc keeps them."""
    return sum(role["memory"].get(key, 0) for key in ["parameters", "copies in 16 bits", "optimizer state", "gradients"])


def as_published(role):
    """The same elements with the bytes of arXiv 1910.02054: 2 of a parameter and a gradient, 12 of the optimizer."""
    memory = role["memory"]
    return 2 * memory["parameters"] / 4 + 2 * memory["gradients"] / 4 + 12 * memory["optimizer state"] / 8


@unittest.skipIf(SANITIZED, "models of that size take minutes to compile there")
class Goldens(DriverTest):
    def model(self, name):
        layers, hidden, heads = SIZES[name]
        return self.folder(name, {
            "model_type": "gpt2", "vocab_size": VOCABULARY, "n_positions": SEQUENCE, "n_embd": hidden, "n_layer": layers,
            "n_head": heads, "activation_function": "gelu_new", "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0,
            "tie_word_embeddings": True})

    def folder(self, name, config):
        folder = self.make_folder(name)
        (folder / "config.json").write_text(json.dumps(config))
        return folder

    def program(self, model, mesh, strategy, *words, **settings):
        return self.compile("program", model, "--mesh", mesh, "--strategy", strategy, "--target", "cuda:sm_80", *words,
                            compute="bf16", **settings)

    def korthikanti(self, name, strategy, **settings):
        """Where ranks have several stages, they are interleaved."""
        ranks, chunks, batch, micro = KORTHIKANTI[name]
        words = []
        if chunks > 1:
            layers = [SIZES[name][0] // (ranks * chunks)] * (ranks * chunks)
            file = self.directory / f"{name}.toml"
            file.write_text(f'preset = "{strategy}"\n[stages]\nlayers = {layers}\n')
            strategy, words = file, ["--timetable", "interleaved"]
        mesh = f"pp={ranks},tp={WAYS}" if ranks > 1 else f"tp={WAYS}"
        return self.program(self.model(name), mesh, strategy, *words, global_batch=batch, accumulation=batch // micro,
                            **settings)

    def fitted(self, heading):
        """The shipped cluster file with the one figure that the page says is fitted for the table."""
        _, shipped, other = table("What was fitted")[heading]
        old, new = (FITTED[heading].format(figure) for figure in (shipped, other))
        text = CLUSTER.read_text()
        self.assertEqual(text.count(old), 1, old)
        path = self.directory / "cluster.textproto"
        path.write_text(text.replace(old, new))
        return path

    def simulate(self, program, cluster=CLUSTER):
        """Some do not fit the devices, which a warning reports, and the page too."""
        done = subprocess.run([DTC, "simulate", program, "--cluster", cluster, "--json"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=True, timeout=TIMEOUT)
        return json.loads(done.stdout)

    def inspect(self, program):
        return json.loads(self.dtc("inspect", program, "--json"))

    def hold(self, row, cells, published, foretold, within=0.1):
        """Checks that `published` is met, and that the page shows both in the cells of its row."""
        print(f"{row}: published {published}, foretold {foretold:.4g} ({foretold / published - 1:+.1%})")
        self.assertEqual(number(cells[0]), published, row)
        self.assertAlmostEqual(number(cells[1]) / foretold, 1, delta=0.02, msg=f"{PAGE.name} has another figure of {row}")
        self.assertLess(abs(foretold / published - 1), within, row)

    def test_steps_with_selective_recomputation(self):
        """With sequence parallelism."""
        heading = "Steps with selective and full recomputation"
        rows, fitted = table(heading), self.fitted(heading)
        for name, seconds in [("22B", 1.10), ("175B", 13.75), ("530B", 37.83), ("1T", 71.49)]:
            with self.subTest(name):
                program = self.korthikanti(name, "megatron-sp")
                self.hold(name, rows[name], seconds, self.simulate(program, fitted)["seconds"], 0.05)
                self.hold_memory(name, self.inspect(program)["roles"])

    def test_steps_with_full_recomputation(self):
        """Without sequence parallelism."""
        heading = "Steps with selective and full recomputation"
        rows, fitted, arenas = table(heading), self.fitted(heading), table("Activations of the first stage")
        for name, seconds in [("22B", 1.42), ("175B", 18.13), ("530B", 49.05), ("1T", 94.42)]:
            with self.subTest(name):
                program = self.korthikanti(name, "megatron", recompute="full")
                self.hold(name, rows[name][2:], seconds, self.simulate(program, fitted)["seconds"], 0.05)
                arena = self.inspect(program)["roles"][0]["arena_bytes"]
                self.assertAlmostEqual(number(arenas[name][3]), arena / 1e9, delta=0.1)

    def hold_memory(self, name, roles):
        """For all ranks the memory of the model's state; for the first rank of the pipeline its whole memory, and what
        its stages keep of micro-batches for their backward passes."""
        ranks, chunks, _, micro = KORTHIKANTI[name]
        layers, hidden, heads = SIZES[name]
        cells = table("State of a device")[name]
        published = {"22B": 45.56, "175B": 45.56, "530B": 31.64, "1T": 32.96}[name]
        self.assertAlmostEqual(18 * 12 * layers * hidden**2 / (WAYS * ranks) / GIB, published, delta=0.01)
        self.hold(name, cells, published, sum(state(role) for role in roles) / len(roles) / GIB, 0.05)
        self.assertAlmostEqual(number(cells[2]), state(roles[0]) / GIB, delta=0.02)

        kept = SEQUENCE * micro * hidden / WAYS * layers  # s b h / t, of all layers that the first rank keeps at a time
        if chunks > 1:
            kept *= 1 + (ranks - 1) / (ranks * chunks)
        published = {"22B": 9.56, "175B": 12.35, "530B": 23.08, "1T": 26.56}[name]
        self.assertAlmostEqual(34 * kept / GIB, published, delta=0.01)
        cells = table("Activations of the first stage")[name]
        self.assertEqual(number(cells[0]), published)
        memory = roles[0]["memory"]
        own = memory.get("stash of micro-batches under way",
                         memory["activations and workspace"] + memory["communication buffers"])
        self.assertAlmostEqual(number(cells[1]), own / GIB, delta=0.01)
        self.assertAlmostEqual(number(cells[2]), roles[0]["arena_bytes"] / 1e9, delta=0.1)
        if ranks > 1:  # to the byte: the terms of the page, and what norms and softmax keep of each row
            self.assertAlmostEqual(own, kept * (4 * WAYS + 24 + 4 * heads / hidden + 16 / hidden), delta=1)
        else:  # the rest is what only one layer needs
            self.assertAlmostEqual(own / (kept * (4 * WAYS + 24)), 1, delta=0.03)

    def test_terms_of_a_layer(self):
        rows = table("Activations of a layer")
        of = lambda cell: eval(cell.replace("t", f"*{WAYS}"), {}) if cell != "-" else 0
        *terms, total = rows.values()
        for column, expected in [(0, 34), (1, 4 * WAYS + 24)]:
            self.assertEqual(sum(of(cells[column]) for cells in terms), expected)
            self.assertEqual(of(total[column]), expected)

    def test_shares_of_activations(self):
        """Figure 7 follows from the paper's formulas, within 0.15 per cent of what would be kept without it."""
        published = {"22B": (66.84, 49.42, 16.18, 7.64), "175B": (62.04, 56.53, 18.49, 8.71),
                     "530B": (58.31, 62.04, 20.27, 9.42), "1T": (58.31, 62.04, 20.27, 9.42)}
        rows = table("Activations as a share")
        for name, shares in published.items():
            _, hidden, heads = SIZES[name]
            scores = 5 * heads * SEQUENCE / hidden
            none = 10 * WAYS + 24 + scores
            for share, kept in zip(shares, [34 + scores, 10 * WAYS + 24, 34, 2 * WAYS]):
                self.assertAlmostEqual(100 * kept / none, share, delta=0.15)
            self.assertEqual(tuple(number(cell) for cell in rows[name][:4]), shares)
            self.assertAlmostEqual(number(rows[name][4]), 100 * (4 * WAYS + 24) / none, delta=0.1)

    def test_steps_of_megatron_turing(self):
        heading = "Steps of MT-NLG 530B"
        rows, fitted, model = table(heading), self.fitted(heading), self.model("530B")
        for dp, seconds in [(8, 60.1), (10, 50.2), (12, 44.4)]:
            with self.subTest(dp=dp):
                program = self.program(model, f"dp={dp},pp=35,tp={WAYS}", "megatron", global_batch=1920,
                                       accumulation=1920 // dp)
                self.hold(f"dp={dp}", rows[f"dp={dp}"], seconds, self.simulate(program, fitted)["seconds"], 0.05)

    def test_data_parallel_speedup(self):
        heading, seconds = "Data-parallel speed-up", {}
        rows, fitted = table(heading), self.fitted(heading)
        choices = self.directory / "choices.toml"
        choices.write_text('[rows]\n"*" = "reduced"\n')  # the embedding's gradient whole, as in other frameworks
        for dp in [1, 2, 4, 8]:
            program = self.program(SOURCE / "examples/gpt2", f"dp={dp}", "ddp", "--choices", choices, global_batch=8 * dp)
            seconds[dp] = self.simulate(program, fitted)["seconds"]
        for dp, speedup in [(2, 1.9), (4, 3.7), (8, 7.2)]:
            self.hold(f"{dp}", rows[f"{dp}"], speedup, dp * seconds[1] / seconds[dp], 0.02)

    def test_gpt3_on_4096_devices(self):
        """The plan of the course notes: its memory, the idle time of the pipeline, and the time that gradients add to a
        step."""
        rows, stages, micros, answers = table("GPT-3 on 64 x 8 x 8"), 8, 64, {}
        for dp in [1, 64]:
            program = self.program(SOURCE / "examples/gpt3-175b", f"dp={dp},pp={stages},tp={WAYS}", "megatron-sp",
                                   global_batch=dp * micros, accumulation=micros)
            answers[dp] = self.simulate(program)
        role = self.inspect(program)["roles"][0]
        self.assertEqual(sum(rank["ranks"] for rank in answers[64]["ranks"]), 4096)
        self.hold("parameters", rows["parameters"], 2.73, role["memory"]["parameters"] / 4 / 1e9)
        self.assertAlmostEqual(number(rows["arena"][1]), role["arena_bytes"] / 1e9, delta=0.1)
        self.assertLess(role["arena_bytes"], 80e9)
        busiest = max(rank["kernels"] + rank["exposed"] for rank in answers[1]["ranks"])
        self.hold("bubble", rows["bubble"], 10.9, 100 * (answers[1]["seconds"] / busiest - 1))
        self.hold("gradients", rows["gradients"], 0.89, answers[64]["seconds"] - answers[1]["seconds"], 0.15)

    def test_state_with_zero(self):
        rows, model = table("State with ZeRO"), self.model("7.5B")
        for stage, strategy, gigabytes in [(0, "ddp", 120), (1, "zero1", 31.4), (2, "zero2", 16.6), (3, "zero3", 1.9)]:
            with self.subTest(stage):
                program = self.program(model, "dp=64", strategy, global_batch=128, accumulation=2)
                role = self.inspect(program)["roles"][0]
                self.hold(f"{stage}", rows[f"{stage}"], gigabytes, as_published(role) / 1e9, 0.03)
                self.assertAlmostEqual(number(rows[f"{stage}"][2]), state(role) / 1e9, delta=0.05)

    def test_state_of_70b_on_64_devices(self):
        rows = table("State with ZeRO")
        model = self.folder("70B", {
            "model_type": "llama", "vocab_size": 32000, "hidden_size": 8192, "intermediate_size": 28672,
            "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "max_position_embeddings": 4096,
            "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": False})
        role = self.inspect(self.program(model, "dp=64", "zero3", global_batch=64, sequence_length=SEQUENCE))["roles"][0]
        self.hold("70B", rows["70B"], 17.5, as_published(role) / 1e9, 0.03)
        self.assertAlmostEqual(number(rows["70B"][2]), state(role) / 1e9, delta=0.05)


if __name__ == "__main__":
    main(at_once=2)
