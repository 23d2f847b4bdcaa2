#!/usr/bin/env python3
"""dtc verify PROGRAM: compiled programs agree with their model, changed ones do not.

A changed program is one whose manifest says something else under a valid checksum.
"""

import concurrent.futures
import copy
import json
import os
import random
import re
import subprocess
import unittest

from driver import DTC, SOURCE, TIMEOUT, DriverTest

PROGRAM_JSON = os.environ["DTC_PROGRAM_JSON"]

# One layer with odd sizes: vocabulary, sequence and the inner dimension do not divide evenly.
GPT2 = {"model_type": "gpt2", "n_embd": 4, "n_head": 2, "n_layer": 1, "n_positions": 6, "n_inner": 7, "vocab_size": 5}
LLAMA = {"model_type": "llama", "hidden_size": 6, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 2,
         "intermediate_size": 5, "num_hidden_layers": 1, "max_position_embeddings": 6, "vocab_size": 7,
         "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
SETTINGS = {"global_batch": 8, "accumulation": 2, "sequence_length": 5, "dropout": 0.1}

# Fields that do not take part in a step. For any other value of each field the step is the same, or the file is
# refused.
FREE = {
    # where the program runs and what people read
    "model_directory", "target", "target_features", "target_features[]", "strategy", "strategy_text", "model_files[]", "locations",
    "locations[]", "roles.name", "roles.spaces.name", "roles.memory[]", "roles.memory.category", "roles.memory.bytes", "roles.spaces.category", "roles.unit",
    "lists.commands.location", "lists.commands.start.value", "lists.commands.start.reason",
    "lists.commands.start.remedy", "lists.commands.start.bucket",
    # what a run gets besides the step
    "training.steps", "training.seed", "training.learning_rate", "training.schedule", "training.warmup_steps",
    "training.minimum_learning_rate", "training.eval_every", "training.eval_batches", "training.checkpoint_every",
    "training.keep", "training.validation_fraction", "training.loss_scale", "training.loss_scale_window",
    "training.bucket_bytes", "training.recompute",
    # room and pace
    "roles.arena_bytes", "lists.commands.launch.buffer_bytes", "lists.commands.launch.grain",
}

BYTES = {"input", "output", "address", "buffers", "base", "stride", "shared_begin"}
OTHER = {"ALL_REDUCE": "ALL_GATHER", "ALL_GATHER": "ALL_REDUCE", "REDUCE_SCATTER": "ALL_REDUCE", "SUM": "MAX",
         "MAX": "SUM", "F32": "I32", "I32": "F32", "NORMAL": "ONES", "ONES": "ZEROS", "ZEROS": "NORMAL",
         "PARAMETER": "SLOT", "SLOT": "GRADIENT", "INPUT": "OUTPUT", "OUTPUT": "INPUT",
         "GRADIENT": "REDUCED_GRADIENT", "REDUCED_GRADIENT": "GRADIENT", "FORWARD": "UPDATE", "UPDATE": "FORWARD",
         "INPUT_GRADIENT": "WEIGHT_GRADIENT", "WEIGHT_GRADIENT": "INPUT_GRADIENT", "ELEMENTWISE": "PRODUCT",
         "REDUCTION": "PRODUCT", "MOVEMENT": "PRODUCT", "INDEXED": "PRODUCT", "PRODUCT": "ATTENTION",
         "ATTENTION": "PRODUCT", "COMMUNICATION": "MOVEMENT", "BOTH_PASSES": "FORWARD_PASS",
         "FORWARD_PASS": "BOTH_PASSES", "REGISTERED": "PRIVATE", "PRIVATE": "REGISTERED",
         "TOKENS": "NEXT_TOKENS", "NEXT_TOKENS": "TOKENS", "KEY": "TOKENS", "LEARNING_RATE": "LOSS_SCALE",
         "BIAS_CORRECTION": "LEARNING_RATE"}


def fields(node, path=()):
    """All fields below a message: (path, value)."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        yield (*path, key), value
        if isinstance(value, (dict, list)):
            yield from fields(value, (*path, key))


def name_of(path, value):
    """The field without indices, with [] where it is the list itself."""
    return ".".join(key for key in path if isinstance(key, str)) + ("[]" if isinstance(value, list) else "")


def at(node, path):
    for key in path:
        node = node[key]
    return node


def other_value(key, value):
    if isinstance(value, list):
        return value[:-1]
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return value * 0.75 if value else 0.5
    if isinstance(value, int):
        return value + 1
    if value in OTHER:
        return OTHER[value]
    if re.fullmatch(r"-?\d+", value):  # 64-bit numbers are text in JSON
        # An extent that grows may only cover padding.
        return str(int(value) + (64 if key in BYTES else -1 if key in ("outer", "chunk") else 1))
    return value + "x"


def commands_of(manifest, kind):
    """(command, the list that it is in) of all launches, starts or waits."""
    return [(command[kind], entry["commands"]) for entry in manifest["lists"]
            for command in entry["commands"] if kind in command]


class VerifyTest(DriverTest):
    def model(self, config, name="model"):
        model = self.make_folder(name)
        (model / "config.json").write_text(json.dumps(config))
        return model

    def manifest(self, program):
        return json.loads(subprocess.run([PROGRAM_JSON, "read", program], check=True, capture_output=True).stdout)

    def rewrite(self, program, manifest, name="changed"):
        text, changed = self.directory / (name + ".json"), self.directory / name
        text.write_text(json.dumps(manifest))
        subprocess.run([PROGRAM_JSON, "write", program, text, changed], check=True, timeout=TIMEOUT)
        return changed


class Programs(VerifyTest):
    def test_programs_agree_with_their_models(self):
        for name, config, layout, settings in [
                ("gpt2", GPT2, ["--mesh", "dp=2,tp=2"], SETTINGS),
                ("ddp", GPT2, ["--mesh", "dp=4", "--strategy", "ddp"], SETTINGS | {"accumulation": 1}),
                ("bf16", LLAMA, ["--mesh", "dp=2"], SETTINGS | {"compute": "bf16", "gradients": "bf16"}),
                ("context", LLAMA, ["--mesh", "dp=2,cp=3", "--strategy", "cp"], SETTINGS | {"sequence_length": 6}),
                ("llama", LLAMA, ["--mesh", "tp=2", "--strategy", "megatron-sp"],
                 SETTINGS | {"optimizer": "sgd", "clip_norm": 0})]:
            with self.subTest(name):
                program = self.compile(name, self.model(config, name + "-model"), *layout, **settings)
                output = self.dtc("verify", program)
                self.assertIn("Verified    all agree", output)
                self.assertIn(f"vocab {config['vocab_size']}", output)
                answer = json.loads(self.dtc("verify", program, "--json"))
                self.assertTrue(answer["verified"])
                self.assertGreater(len(answer["comparisons"]), 100)
                # All have run: generated kernels and the library's.
                self.assertEqual(answer["code"]["kernels"], len(self.manifest(program)["kernels"]))
                # The model's own files state nothing that the program does not.
                self.dtc("verify", program, "--model", self.directory / (name + "-model"))

    def test_another_model_is_a_difference(self):
        program = self.compile("program", self.model(GPT2), **SETTINGS)
        other = self.model(GPT2 | {"layer_norm_epsilon": 1e-3}, "other")
        self.assertIn("Differs     after list", self.dtc("verify", program, "--model", other, code=1))
        wider = self.model(GPT2 | {"n_inner": 9}, "wider")
        self.assertIn("mlp 9", self.dtc("verify", program, "--model", wider, code=1))

    def test_a_program_of_a_text_needs_the_text(self):
        text = self.directory / "model.mlir"
        self.dtc("compile", self.model(GPT2), "--set", "global_batch=4", "--set", "sequence_length=5", "--compile-to",
                 "model", "-o", text)
        program = self.compile("program", text, "--mesh", "dp=2", global_batch=4)
        message = self.dtc("verify", program, code=3)
        self.assertIn(f"{program}: was compiled from a model in text", message)
        self.assertIn("--model FILE.mlir", message)
        self.assertIn("Verified", self.dtc("verify", program, "--model", text))

    def test_what_a_program_cannot_be_told(self):
        program = self.compile("program", self.model(GPT2), **SETTINGS)
        for option in (["--mesh", "dp=2"], ["--strategy", "ddp"], ["--set", "steps=3"], ["--size", "vocab=8"],
                       ["--full-size"]):
            self.assertIn(f"verify: {option[0]} is for a model", self.dtc("verify", program, *option, code=2))
        self.assertIn("a model needs none", self.dtc("verify", self.directory / "model", "--model", "x", code=2))
        damaged = self.directory / "damaged"
        damaged.write_bytes(program.read_bytes()[:-100])
        self.dtc("verify", damaged, code=3)

    def test_what_would_not_end_is_not_begun(self):
        program = self.compile("program", "gpt2", global_batch=8)
        self.assertRegex(self.dtc("verify", program, code=3), r"about \d+ minutes and .* GB of memory; --no-limit does so "
                         "anyway, --code runs its kernels alone")


class Effort(VerifyTest):
    # All layers are requested; by default verify takes as few as show what the others do.
    LAYOUT = ["--mesh", "dp=4,tp=8", "--set", "global_batch=32", "--size", "layers=80"]

    # The size of a large Llama 3.
    def large(self, layers):
        return self.model({"model_type": "llama", "hidden_size": 8192, "num_attention_heads": 64,
                           "num_key_value_heads": 8, "intermediate_size": 28672, "num_hidden_layers": layers,
                           "max_position_embeddings": 8192, "vocab_size": 128256}, f"llama-{layers}")

    def test_what_takes_long_is_refused_unless_insisted_on(self):
        model, takes = self.large(80), r"about \d+ minutes and \d+(\.\d)? GB of memory"
        self.assertRegex(self.dtc("verify", model, *self.LAYOUT, code=3),
                         f"interpreting a step of all ranks would take {takes}; --no-limit does so anyway, and a smaller")
        self.start("verify", model, *self.LAYOUT, "--no-limit")
        self.await_output("GB of memory\n", 100)
        self.assertRegex(self.output(), f"^dtc: interpreting a step of all ranks takes {takes}\n$")


class ChangedPrograms(VerifyTest):
    def setUp(self):
        super().setUp()
        self.program = self.compile("program", self.model(GPT2), "--mesh", "dp=2,tp=2", **SETTINGS)
        self.original = self.manifest(self.program)

    def verify(self, manifest, name):
        changed = self.rewrite(self.program, manifest, name)
        done = subprocess.run([DTC, "verify", changed], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=TIMEOUT)
        return done.returncode, done.stdout

    def differs(self, message, change):
        """Verify reports an error in the program that `change` makes."""
        manifest = copy.deepcopy(self.original)
        change(manifest)
        code, output = self.verify(manifest, "changed")
        self.assertEqual(code, 1, output)
        self.assertRegex(output, "Differs     .*" + message)

    def test_the_manifest_as_it_is_agrees(self):
        self.assertEqual(self.verify(self.original, "same")[0], 0)

    def generated(self, manifest):
        return [launch for launch, _ in commands_of(manifest, "launch")
                if not manifest["kernels"][launch["kernel"]]["library"]]

    def test_commands(self):
        def scalar(manifest):
            value = next(scalar for launch in self.generated(manifest) for scalar in launch["scalars"]
                         if "value" in scalar)
            value["value"] = str(int(value["value"]) - 1)

        def grid(manifest):
            launch = self.generated(manifest)[-1]
            launch["grid"] = str(int(launch["grid"]) - 1)

        def group(manifest):
            axes = [[axis["axis"] for axis in group["axes"]] for group in manifest["groups"]]
            start, _ = next(pair for pair in commands_of(manifest, "start")
                            if axes[pair[0]["group"]] == ["tp"] and pair[0]["reduction"] == "SUM")
            start["group"] = axes.index(["dp"])

        def wait_too_late(manifest):
            """The wait of the first sum comes after the command that reads it."""
            commands = manifest["lists"][0]["commands"]
            first = next(i for i, command in enumerate(commands) if "wait" in command)
            commands[first], commands[first + 1] = commands[first + 1], commands[first]

        def order(manifest):
            launch, commands = commands_of(manifest, "launch")[-1]
            commands.insert(0, commands.pop(next(i for i, c in enumerate(commands) if c.get("launch") is launch)))

        def duty(manifest):
            next(entry for entry in manifest["lists"] if entry["name"] == "eval")["duty"] = "BOTH_PASSES"

        self.differs("scalar", scalar)
        self.differs("list 'eval' is said to be BOTH_PASSES; the model's: FORWARD_PASS", duty)
        self.differs("grid", grid)
        self.differs("", group)
        self.differs("", wait_too_late)
        self.differs("", order)

    def test_parameters_and_places(self):
        def permutation(manifest):
            parameter = next(p for p in manifest["parameters"] if p["name"] == "h.0.attn.c_attn.weight")
            file, factored, order = parameter["file_shape"], parameter["factored_shape"], parameter["permutation"]
            swap = [(i, j) for i in range(len(order)) for j in range(i)
                    if factored[int(order[i])] == factored[int(order[j])]]
            i, j = swap[0]  # the same shapes: only the addresses differ
            order[i], order[j] = order[j], order[i]

        def offset(manifest):
            """Two inputs of one size swap their places in the arena, but not in the command lists."""
            one, two = (next(t for t in manifest["roles"][0]["tensors"] if t["name"] == name) for name in ("tokens", "targets"))
            one["address"], two["address"] = two["address"], one["address"]

        def placement(manifest):
            tensor = next(t for t in manifest["roles"][0]["tensors"] if t["name"] == "targets")
            tensor["sharding"]["dims"].reverse()
            tensor["local_shape"] = ["4", "3"]

        def decay(manifest):
            manifest["parameters"][0]["decays"] ^= True

        self.differs("h.0.attn.c_attn.weight: the permutation is", permutation)
        self.differs("", offset)
        self.differs("", decay)
        code, output = self.verify(self.changed(placement), "placed")
        self.assertNotEqual(code, 0, output)

    def changed(self, change):
        manifest = copy.deepcopy(self.original)
        change(manifest)
        return manifest

    def test_the_step_and_its_settings(self):
        def set_training(**values):
            return lambda manifest: manifest["training"].update(values)

        def set_optimizer(key, value):
            def change(manifest):
                setting, = (each for each in manifest["training"]["optimizer_settings"] if each["key"] == key)
                setting["value"] = value
            return change

        def correct_by(setting):
            def change(manifest):
                tensor, = (t for t in manifest["roles"][0]["tensors"] if t["name"] == "bias_correction1")
                tensor["source"]["setting"] = setting
            return change

        def no_update(manifest):
            next(t for t in manifest["roles"][0]["timetables"] if t["name"] == "step")["period"].pop()

        def other_config(manifest):
            manifest["model_config_json"] = json.dumps(GPT2 | {"activation_function": "silu"})

        def kernel_of_another_name(manifest):
            one, two = [kernel for kernel in manifest["kernels"] if not kernel["library"]][:2]
            one["symbol"], two["symbol"] = two["symbol"], one["symbol"]

        self.differs("parameter of wte.weight differs", set_optimizer("beta2", 0.9))
        self.differs("parameter of wte.weight differs", set_training(clip_norm=2.0))
        self.differs("", set_training(dropout=0.2))
        self.differs("", set_optimizer("weight_decay", 0.0))
        self.differs("bias_correction1 is from BIAS_CORRECTION of beta2, the model's is from BIAS_CORRECTION of beta1",
                     correct_by("beta2"))
        code, output = self.verify(self.changed(correct_by("momentum")), "momentum")
        self.assertEqual(code, 3, output)
        self.assertIn("are of a setting, one of the optimizer 'adamw'", output)
        self.differs("its step runs", no_update)
        self.differs("", other_config)
        self.differs("has the reference of", kernel_of_another_name)

    def is_candidate(self, path, value):
        """Whether verify must notice another value of the field: the rules of test/e2e/mutation/mutations.h say why
        not."""
        key, launch = path[-1], path[:5]
        if isinstance(value, list) and not value:
            return False
        if "launch" in path and path[-2:] != ("launch", "kernel"):
            kernel = self.original["kernels"][at(self.original, launch)["kernel"]]
            if kernel["library"] and "scalars" in path and key != "scalars":
                return False  # a stride of one element, draws for what is not dropped (E4, E5)
        if "rank_index" in path and not at(self.original, path[:path.index("rank_index") + 1])["axes"]:
            return False  # the index within no axes
        if "start" in path and at(self.original, launch)["reduction"] == "MAX":
            return key == "kind"  # any shift of the exponents will do (E3)
        if key == "chunk" and at(self.original, path[:-1])["value"] == "wpe":
            return False  # it ends with a position that no sample reaches
        if "tensors" in path and key == "parameter":
            return value >= 0
        if "tensors" in path and "sharding" in path:
            if key == "dims":
                return bool(value[-1]["axes"])  # a dimension that is not mentioned is whole
            return True
        return not (path[0] == "kernels" and key == "reference" and not value)

    def test_every_field_counts_or_is_free(self):
        source, places = random.Random(1), {}
        for path, value in fields(self.original):
            if not isinstance(value, dict) and self.is_candidate(path, value):
                places.setdefault(name_of(path, value), []).append(path)
        self.assertGreater(len(places), 80)
        self.assertFalse({name.split("[")[0] for name in places if name.startswith("training") and name.count(".") == 1} - set(
            f"training.{key}" for key in self.original["training"]))

        def tried(name, paths):
            """How many of them: settings and sources each mean something else."""
            each = "optimizer_settings" in name or "source" in name
            return len(paths) if each else min(2 if "commands" in name else 1, len(paths))

        cases = [(name, path) for name, paths in sorted(places.items()) for path in source.sample(paths, tried(name, paths))]

        def judge(number):
            name, path = cases[number]
            manifest = copy.deepcopy(self.original)
            at(manifest, path[:-1])[path[-1]] = other_value(path[-1], at(manifest, path))
            return self.verify(manifest, f"case-{number}")

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(judge, range(len(cases))))
        for (name, path), (code, output) in zip(cases, answers):
            with self.subTest(name, path=path):
                self.assertIn(code, (0, 1, 3), output)
                if name in FREE:
                    self.assertNotEqual(code, 1, output)
                else:
                    self.assertNotEqual(code, 0, f"{path} is not noticed")
        # Most are not refused as inconsistent but run and found to differ.
        self.assertGreater(sum(code == 1 for code, _ in answers), 40)


if __name__ == "__main__":
    unittest.main()
