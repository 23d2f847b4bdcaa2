#!/usr/bin/env python3
"""What people type who come from other tools, and that each answer names the right way."""

import unittest

from driver import SOURCE, DriverTest

MODEL = SOURCE / "test/e2e/oracle/gpt2"

# Of compilation: a setting or an option, and what the answer must name.
SETTINGS = {
    "lr=1e-4": "'learning_rate'", "optimizer.lr=1e-4": "'learning_rate'", "min_lr=0": "'minimum_learning_rate'",
    "seq_len=32": "'sequence_length'", "max_seq_length=32": "'sequence_length'", "block_size=32": "'sequence_length'",
    "batch_size=8": "'global_batch'", "per_device_train_batch_size=8": "'global_batch'",
    "gradient_accumulation_steps=4": "'accumulation'", "grad_accum=4": "'accumulation'", "dtype=bf16": "'compute'",
    "torch_dtype=bf16": "'compute'", "max_steps=5": "'steps'", "max_iters=5": "'steps'", "max_grad_norm=1": "'clip_norm'",
    "grad-clip=1": "'clip_norm'", "warmup_iters=3": "'warmup_steps'", "lr_scheduler_type=cosine": "'schedule'",
    "adam_beta1=0.9": "'beta1'", "eps=1e-8": "'epsilon'", "save_steps=10": "'checkpoint_every'",
    "eval_interval=10": "'eval_every'", "eval_iters=2": "'eval_batches'", "save_total_limit=2": "'keep'",
}
COMPILE = {
    "--lr 1e-4": "--set learning_rate=", "--learning_rate 1e-4": "--set learning_rate=", "--bf16": "--set compute=",
    "--learning-rate 1e-4": "--set learning_rate=", "--seq-length 32": "--set sequence_length=",
    "--micro-batch-size 4": "--set global_batch=", "--gradient-accumulation-steps 4": "--set accumulation=",
    "--train-iters 100": "--set steps=", "--steps 100": "--set steps=", "--weight-decay 0.1": "--set weight_decay=",
    "--tensor-model-parallel-size 2": "--mesh tp=", "--tp 2": "--mesh tp=", "--pipeline-model-parallel-size 2": "--mesh pp=",
    "--data-parallel-size 2": "--mesh dp=", "--sequence-parallel": "--strategy megatron-sp", "--fsdp": "--strategy",
    "--use-distributed-optimizer": "--strategy zero1", "--zero-stage 3": "zero3", "--deepspeed ds.json": "--strategy",
    "--device cuda": "--target cuda", "--gpus 8": "--target cuda", "--model gpt2": "without an option",
}
RUN = {  # of `dtc run`, before the program
    "--nproc-per-node 2": "-n RANKS", "--nproc_per_node=2": "-n RANKS", "-np 2": "-n", "--ntasks 2": "-n RANKS",
    "--num_processes 2": "-n RANKS", "--master_addr a": "--server", "--rdzv-endpoint a:1": "--server",
    "--hostfile hosts": "--hosts", "--num_nodes 2": "--nnodes",
}
PROGRAM = {  # of a compiled program
    "--output_dir out": "--out", "--train_file x": "--data", "--resume_from_checkpoint x": "--resume", "--load x": "--resume",
    "--lr 1e-4": "--set learning_rate=", "--max_steps 5": "--set steps=", "--do_eval": "--eval-only", "--profile": "--trace",
}
VERBS = {
    "train": "dtc compile MODEL -o PROGRAM", "fit": "dtc run", "finetune": "dtc run", "launch": "dtc run",
    "export": "Hugging Face", "convert": "Hugging Face", "eval": "--eval-only", "resume": "--resume", "help": "dtc --help",
    "tokenize": "dtc data pack", "preprocess": "dtc data pack", "info": "dtc inspect", "version": "dtc --version",
    "frobnicate": "compile, run, verify, inspect, explain",
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
        self.answers("compile, run, verify, inspect, explain")


if __name__ == "__main__":
    unittest.main()
