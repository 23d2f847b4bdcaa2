#!/usr/bin/env python3
"""Every pair of settings of a pipeline meets in some program: timetable, mesh, sharding, recomputation, precision,
micro-batches, transport and embeddings. With dropout and clipping.

The losses and the final weights of each have the bits of 1F1B's under the same other settings; with embeddings that are
not tied and no other axis, also those of one rank. All losses are within the bounds of docs/trust.md of one rank's.

By default 6 programs take 5 steps; with DTC_LONG_TESTS all take 30.
"""

import hashlib
import itertools
import json
import os
import random
import subprocess
import unittest

from driver import DTC, TIMEOUT, DriverTest, main, read_safetensors, write_tokens
from hosts import Hosts

LONG = bool(os.environ.get("DTC_LONG_TESTS"))
SEED, STEPS, SHORT = 26, 30 if LONG else 5, 6  # the first six have each mesh and each type

STRATEGIES = {  # of a mesh, by what is sharded
    "pp=2": ("ddp",) * 4,
    "pp=4": ("ddp",) * 4,
    "dp=2,pp=2": ("ddp", "zero1", "zero2", "zero3"),
    "pp=2,tp=2": ("megatron", "megatron-sp") * 2,
    "dp=2,tp=2,pp=2": ("megatron", "zero1", "megatron-sp", "zero3"),
}
FACTORS = {
    "timetable": ("naive", "gpipe", "1f1b", "zb-h1", "zb-h2", "interleaved", "zbv", "v-half", "v-min", "dualpipev"),
    "mesh": tuple(STRATEGIES),
    "sharding": (0, 1, 2, 3),
    "recompute": ("none", "selective", "full"),
    "compute": ("f32", "bf16", "f16"),
    "accumulation": (4, 6, 8),
    "transport": ("shared memory", "TCP"),
    "tied": (True, False),
}
SETTINGS = {"learning_rate": 1e-3, "clip_norm": 0.05, "schedule": "constant", "validation_fraction": 0, "seed": 7,
            "steps": STEPS, "sequence_length": 16, "dropout": 0.1}
# Relative, of losses: of the first ten steps, and of all.
BOUNDS = {"f32": (1e-5, 1e-4), "bf16": (2e-3, 1e-2), "f16": (2e-3, 1e-2)}


def layers_of(mesh):
    """Enough for two stages a rank."""
    return 8 if mesh == "pp=4" else 4


def pairs_of(case):
    return set(itertools.combinations(case.items(), 2))


def works(case):
    """dualpipev takes as many micro-batches as there are stages."""
    return case["timetable"] != "dualpipev" or case["mesh"] != "pp=4" or case["accumulation"] >= 8


def covering():
    """Cases in which each two values of two factors meet: always the one, of some, that has most pairs that are left."""
    chance = random.Random(SEED)
    left = {((a, x), (b, y)) for a, b in itertools.combinations(FACTORS, 2) for x in FACTORS[a] for y in FACTORS[b]}
    cases = []
    while left:
        pair = dict(min(left, key=repr))
        some = [{name: pair.get(name, chance.choice(values)) for name, values in FACTORS.items()} for _ in range(40)]
        cases.append(max(filter(works, some), key=lambda case: len(pairs_of(case) & left)))
        left -= pairs_of(cases[-1])
    return cases


def own_cases(half):
    """Those of one of two tests; what is compared with the same reference comes together."""
    cases = covering()[:None if LONG else SHORT]
    cases.sort(key=lambda case: repr({**case, "timetable": ""}))
    middle = len(cases) // 2
    return cases[:middle] if half == 0 else cases[middle:]


class Pairs(DriverTest):
    def setUp(self):
        super().setUp()
        self.data = write_tokens(self.directory / "tokens", 4000, 96)
        for tied, layers in itertools.product((True, False), (4, 8)):
            config = {"model_type": "gpt2", "vocab_size": 96, "n_positions": 16, "n_embd": 32, "n_layer": layers, "n_head": 4,
                      "tie_word_embeddings": tied}
            (self.make_folder(f"tied-{tied}-{layers}") / "config.json").write_text(json.dumps(config))
        self.known = {}
        try:
            self.net = Hosts(2, self.directory)
            self.addCleanup(self.net.remove)
        except unittest.SkipTest:
            self.net = None  # all use shared memory then

    def launch(self, program, out, ranks, transport):
        words = [program, "--data", self.data, "--out", self.directory / out, "--log-losses",
                 self.directory / f"{out}.losses", "--threads", 1]
        if transport == "shared memory" or self.net is None:
            self.dtc("run", *words)
            return
        places = ",".join(f"{self.net.address(host)}:{ranks // 2}" for host in range(2))
        command = self.net.on(0, DTC, "run", "--hosts", places, "--remote-shell", self.net.remote_shell, *words)
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stdout)

    def tensors_at_the_end(self, out):
        """Hashes of each weight and optimizer slot; which file has it depends on the ranks."""
        tensors = {}
        for file in (self.directory / out / f"checkpoints/step-{STEPS:06}").glob("*.safetensors"):
            header, data = read_safetensors(file)
            for tensor, entry in header.items():
                begin, end = entry["data_offsets"]
                tensors.setdefault(tensor, []).append(hashlib.sha256(data[begin:end]).hexdigest())
        self.assertTrue(tensors)
        return {tensor: sorted(pieces) for tensor, pieces in tensors.items()}

    def run_case(self, mesh, strategy, timetable, layers, case):
        """Losses, and tensors at the end."""
        key = repr((mesh, strategy, timetable, layers, sorted(case.items())))
        if key in self.known:
            return self.known[key]
        name = f"program{len(self.known)}"
        program = self.compile(name, self.directory / f"tied-{case['tied']}-{layers}", "--mesh", mesh, "--strategy", strategy,
                               "--timetable", timetable, **SETTINGS, accumulation=case["accumulation"],
                               global_batch=2 * case["accumulation"], compute=case["compute"],
                               recompute=case["recompute"])
        ranks = 1
        for axis in mesh.split(","):
            ranks *= int(axis.split("=")[1])
        self.launch(program, f"{name}.out", ranks, case["transport"])
        steps = self.metrics(f"{name}.out")
        self.assertGreater(steps[0]["grad_norm"], SETTINGS["clip_norm"], "clipping is active")
        self.known[key] = self.losses(f"{name}.out"), self.tensors_at_the_end(f"{name}.out")
        return self.known[key]

    def agrees(self, case):
        mesh = case["mesh"]
        strategy, layers = STRATEGIES[mesh][case["sharding"]], layers_of(mesh)
        others = {name: value for name, value in case.items() if name not in ("timetable", "mesh", "sharding")}
        found = self.run_case(mesh, strategy, case["timetable"], layers, others)
        self.assertEqual(found, self.run_case(mesh, strategy, "1f1b", layers, others))
        one = self.run_case("dp=1", "ddp", "1f1b", layers, {**others, "recompute": "none", "transport": "shared memory"})
        if mesh in ("pp=2", "pp=4") and not case["tied"]:
            self.assertEqual(found, one)
        first, all_steps = BOUNDS[case["compute"]]
        self.assert_close(one[0][:10], found[0][:10], first)
        self.assert_close(one[0], found[0], all_steps)

    def half_agrees(self, half):
        for case in own_cases(half):
            with self.subTest(**case):
                self.agrees(case)

    def test_one_half(self):
        self.half_agrees(0)

    def test_other_half(self):
        self.half_agrees(1)


class Covering(unittest.TestCase):
    def test_every_pair_meets(self):
        cases = covering()
        met = set().union(*map(pairs_of, cases))
        for a, b in itertools.combinations(FACTORS, 2):
            for x, y in itertools.product(FACTORS[a], FACTORS[b]):
                self.assertIn(((a, x), (b, y)), met)
        self.assertGreaterEqual(len(cases), 24)
        self.assertLess(len(cases), 60)
        for factor in ("mesh", "sharding", "compute"):
            self.assertEqual({case[factor] for case in cases[:SHORT]}, set(FACTORS[factor]))


if __name__ == "__main__":
    main(at_once=2)
