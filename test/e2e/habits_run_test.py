#!/usr/bin/env python3
"""What people type who come from other tools; each answer names the right way."""

import os
import re
import subprocess
import unittest

from driver import DTC, SOURCE, TIMEOUT, DriverTest, write_tokens

MODEL = SOURCE / "test/e2e/oracle/gpt2"
SMALL = ["--set", "sequence_length=16", "--set", "global_batch=4", "--set", "validation_fraction=0"]

# For compilation: a setting or an option, and what the answer must name.
SETTINGS = {
    "lr=1e-4": "'learning_rate'", "optimizer.lr=1e-4": "'learning_rate'", "min_lr=0": "'minimum_learning_rate'",
    "seq_len=32": "'sequence_length'", "max_seq_length=32": "'sequence_length'", "block_size=32": "'sequence_length'",
    "batch_size=8": "'global_batch'", "per_device_train_batch_size=8": "'global_batch'",
    "gradient_accumulation_steps=4": "'accumulation'", "grad_accum=4": "'accumulation'", "dtype=bf16": "'compute'",
    "torch_dtype=bf16": "'compute'", "max_steps=5": "'steps'", "max_iters=5": "'steps'", "max_grad_norm=1": "'clip_norm'",
    "grad-clip=1": "'clip_norm'", "warmup_iters=3": "'warmup_steps'", "lr_scheduler_type=cosine": "'schedule'",
    "adam_beta1=0.9": "'beta1'", "eps=1e-8": "'epsilon'", "save_steps=10": "'checkpoint_every'",
    "reset_attention_mask=true": "'separate_documents'", "eval_interval=10": "'eval_every'", "eval_iters=2": "'eval_batches'", "save_total_limit=2": "'keep'",
    "gather_ahead=4": "gather_ahead into a file for --choices",
}
COMPILE = {
    "--lr 1e-4": "--set learning_rate=", "--learning_rate 1e-4": "--set learning_rate=", "--bf16": "--set compute=",
    "--learning-rate 1e-4": "--set learning_rate=", "--seq-length 32": "--set sequence_length=",
    "--micro-batch-size 4": "--set global_batch=", "--gradient-accumulation-steps 4": "--set accumulation=",
    "--train-iters 100": "--set steps=", "--steps 100": "--set steps=", "--weight-decay 0.1": "--set weight_decay=",
    "--tensor-model-parallel-size 2": "--mesh tp=", "--tp 2": "--mesh tp=", "--pipeline-model-parallel-size 2": "--mesh pp=",
    "--context-parallel-size 2": "--strategy cp", "--context_parallel_degree=2": "--mesh cp=N", "--cp 2": "--mesh cp=",
    "--data-parallel-size 2": "--mesh dp=", "--sequence-parallel": "--strategy megatron-sp", "--fsdp": "--strategy",
    "--use-distributed-optimizer": "--strategy zero1", "--zero-stage 3": "zero3", "--deepspeed ds.json": "--strategy",
    "--prefetch 2": "gather_ahead into a file for --choices", "--device cuda": "--target cuda", "--gpus 8": "--target cuda", "--model gpt2": "without an option",
}
RUN = {  # for `dtc run`, before the program
    "--nproc-per-node 2": "-n RANKS", "--nproc_per_node=2": "-n RANKS", "-np 2": "-n", "--ntasks 2": "-n RANKS",
    "--num_processes 2": "-n RANKS", "--master_addr a": "--server", "--rdzv-endpoint a:1": "--server",
    "--hostfile hosts": "--hosts", "--num_nodes 2": "--nnodes",
}
PROGRAM = {  # for a compiled program
    "--output_dir out": "--out", "--train_file x": "--data", "--resume_from_checkpoint x": "--resume", "--load x": "--resume",
    "--lr 1e-4": "--set learning_rate=", "--max_steps 5": "--set steps=", "--do_eval": "--eval-only", "--max_shard_size 5GB": "dtc export", "--profile": "--trace",
    "--report_to tensorboard": "--tensorboard", "--tensorboard-dir x": "--tensorboard",
}
VERBS = {
    "train": "dtc compile MODEL -o PROGRAM", "fit": "dtc run", "finetune": "dtc run", "launch": "dtc run",
    "convert": "dtc export CHECKPOINT", "save": "dtc export", "evaluate": "dtc eval MODEL", "resume": "--resume", "help": "dtc --help",
    "tokenize": "dtc data pack", "preprocess": "dtc data pack", "info": "dtc inspect", "version": "dtc --version",
    "generate": "dtc sample MODEL", "timetable": "dtc schedule", "repartition": "dtc balance PROGRAM", "autotune": "dtc plan MODEL --cluster FILE",
    "frobnicate": "plan, compile, tune, run, balance, eval, sample, verify, inspect, explain, report, export",
}


class Habits(DriverTest):
    def answers(self, expected, *words):
        message = self.dtc(*words, code=2)
        self.assertIn(expected, message)

    def test_settings_of_other_tools(self):
        for setting, expected in SETTINGS.items():
            with self.subTest(setting=setting):
                self.answers(expected, "compile", MODEL, "--set", setting, "-o", self.directory / "program")

    def test_options_of_compilation(self):
        for words, expected in COMPILE.items():
            with self.subTest(words=words):
                self.answers(expected, "compile", MODEL, *words.split(), "-o", self.directory / "program")

    def test_options_of_launchers(self):
        for words, expected in RUN.items():
            with self.subTest(words=words):
                self.answers(expected, "run", *words.split(), "program", "--data", "tokens")

    def test_options_of_programs(self):
        program = self.compile("program", MODEL, "--set", "sequence_length=16", global_batch=4)
        for words, expected in PROGRAM.items():
            with self.subTest(words=words):
                self.answers(expected, "run", program, "--data", "tokens", *words.split())

    def test_verbs(self):
        for verb, expected in VERBS.items():
            with self.subTest(verb=verb):
                self.answers(expected, verb, "model")

    def test_no_verb(self):
        self.answers("plan, compile, tune, run, balance, eval, sample, verify, inspect, explain, report, export")


class WrongVerb(DriverTest):
    """Something that belongs to another verb: the answer says what each verb takes, and gives a command that works."""

    def setUp(self):
        super().setUp()
        self.dtc("compile", MODEL, *SMALL, "-o", self.directory / "program")
        write_tokens(self.directory / "tokens", 500, 61)
        (self.directory / "my model").symlink_to(MODEL)

    def options_of(self, *verb):
        text = self.dtc(*verb, "--help", cwd=self.directory)
        return set(re.findall(r"^  (?:-\w,)?(--[a-z0-9-]+)", text, re.MULTILINE)) - {"--help", "--version", "--json"}

    def run_advice(self, message):
        """The text after "Write: " is typed into a shell."""
        command = message.split("Write: ")[1].splitlines()[0].replace("--data FILE", "--data tokens --steps 1")
        path = f"{os.path.dirname(DTC)}:{os.environ['PATH']}"
        return subprocess.run(["bash", "-ec", command], cwd=self.directory, env={**os.environ, "PATH": path}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT)

    def test_a_model_where_a_program_is_expected(self):
        for verb, rest in [("inspect", []), ("explain", []), ("run", ["--data", "tokens"])]:
            with self.subTest(verb=verb):
                message = self.dtc(verb, "my model", *rest, code=3, cwd=self.directory)
                self.assertIn(f"my model' is a model; 'dtc {verb}' takes a program, which 'dtc compile' makes of it", message)
                done = self.run_advice(message.replace("-o", " ".join(SMALL) + " -o"))
                self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_layout_where_a_program_is_expected(self):
        for verb, shown in [("inspect", "dp=2: 2 ranks"), ("explain", "all_reduce over dp")]:
            with self.subTest(verb=verb):
                message = self.dtc(verb, "my model", "--json", "--mesh", "dp=2", code=2, cwd=self.directory)
                self.assertIn(f"'--mesh' is an option of 'dtc compile', and 'dtc {verb}' takes the program that it writes", message)
                self.assertIn(shown, self.run_advice(message).stdout)

    def test_neither_model_nor_program(self):
        self.assertIn("is not a regular file but a directory without a config.json; 'dtc inspect' takes a program",
                      self.dtc("inspect", self.directory, code=3))
        self.assertIn("holds no dtc program", self.dtc("inspect", self.directory / "tokens", code=3))
        message = self.dtc("compile", "program", "-o", "new", code=3, cwd=self.directory)
        self.assertIn("'program' is a program, and 'dtc compile' takes a model", message)
        self.assertIn("Write: dtc inspect program,", message)

    # The tables of options are compared with --help: every option, at every verb that lacks it. Whoever writes --profile
    # for a program wants a trace of its run.
    def test_options_of_other_commands(self):
        owners = {"dtc compile": ["compile"], "dtc verify": ["verify"], "dtc run": ["run"], "the program": ["run", "program"]}
        all_options = {owner: self.options_of(*words) for owner, words in owners.items()}
        for verb in ["compile", "verify", "run", "inspect", "explain"]:
            for owner, options in all_options.items():
                for option in options - self.options_of(verb):
                    with self.subTest(verb=verb, option=option):
                        message = self.dtc(verb, option, "x", code=2)
                        self.assertTrue(any(option in options and (f"'{option}' is an option of '{name}'" in message or
                                                                   f"'{option}' is an option of {name}" in message)
                                            for name, options in all_options.items()) or
                                        "--set steps" in message or "without an option" in message or
                                        (option == "--profile" and "write --trace 3-5" in message), message)

    def test_options_of_compilation_at_a_program(self):
        for option in self.options_of("compile") - self.options_of("run", "program") - {"--profile"}:
            with self.subTest(option=option):
                self.assertIn(f"'{option}' is an option of 'dtc compile'",
                              self.dtc("run", "program", "--data", "tokens", option, "x", code=2, cwd=self.directory))

    def test_the_command_to_type_has_the_model(self):
        self.assertIn("Write: dtc compile 'my model' -o 'my model.train', then dtc run 'my model.train' ARGUMENTS",
                      self.dtc("compile", "my model", "--data", "x", code=2, cwd=self.directory))
        self.assertIn("then dtc run OPTIONS 'my model.train' --data FILE",
                      self.dtc("compile", "my model", "-n", "4", code=2, cwd=self.directory))


TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


class Prefixes(DriverTest):
    """Every error line begins in the same way, whoever reports it."""

    def test_compiler_launcher_and_ranks(self):
        self.dtc("compile", MODEL, "--mesh", "dp=2", *SMALL, "-o", self.directory / "program")
        program, data = self.directory / "program", write_tokens(self.directory / "tokens", 500, 61)
        ranks = ["run", program, "--data", data, "--set", "eval_every=1", "--weights", self.directory]
        for words, code, line in [
                (["compile"], 2, "MODEL is required"), (["frobnicate"], 2, ".*"), (["inspect", "none"], 3, "cannot read 'none'.*"),
                (["run", "none"], 3, "cannot read './none'.*"), (ranks, 3, "rank [01]: .*"), (ranks, 3, "rank [01] failed first.*"),
                (["run", program, "--stepps", 3], 2, "rank 0: .*")]:
            with self.subTest(words=words):
                self.assertRegex(self.dtc(*words, code=code, cwd=self.directory), re.compile(f"^({TIME} )?dtc: error: {line}", re.MULTILINE))


if __name__ == "__main__":
    unittest.main()
