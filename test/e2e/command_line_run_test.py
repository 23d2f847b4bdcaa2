#!/usr/bin/env python3
"""The command line's rule: errors in the words alone are usage (2), errors in what they name are input (3).

The tables below have a row for every option of every verb and of compiled programs; a test compares them with --help.
"""

import json
import re
import tomllib
import unittest

from driver import SOURCE, DriverTest, write_tokens

MODEL = SOURCE / "test/e2e/oracle/gpt2"
SMALL = ["--set", "sequence_length=16", "--set", "global_batch=4", "--set", "validation_fraction=0"]

MESHES = ["dp=2,tp", "dp", "dp=0", "dp=-1", "dp=2,,tp=2", "dp=2,", "=2", "dp=x", "dp=2,dp=2", "dp=99999999999"]
SETTINGS = ["steps", "=3", "stepz=3", "training.stepz=3", "optimizer.steps=3", "steps=x", "steps=-1", "steps=",
            "learning_rate=nan", "learning_rate=inf", "learning_rate=-1"]
FORMATS = ["nanogtp", "llm"]

# Wrong whatever files there are.
MALFORMED = {
    "compile": {
        "--mesh": MESHES, "--strategy": [], "--config": [], "--set": SETTINGS, "--timetable": ["1f2b", ""], "--choices": [],
        "--target": ["nonsense", "cpu:", "cpu:nonsense", "gpu"],
        "--memory-limit": ["x", "-1", "-1GB", "16XB", "99999999999999999999"],
        "--compile-to": ["nowhere"], "--output": [], "--generate": ["0", "-1", "x", "1.5"], "--rows": ["0", "x"],
        "--prompt-positions": ["0", "x"], "--cluster": [], "--profile": [], "--schedule-effort": ["0", "-1", "x", "1.5"],
        "--silence": ["no-such-advice"], "--advice": ["some"], "--reference-batch": ["0", "-1", "x"], "--reference-rate": ["0", "-1", "x"],
    },
    "plan": {
        "--cluster": [], "--devices": ["0", "-1", "x", "1.5", "4,", "few"], "--config": [], "--set": SETTINGS,
        "--fix": ["tp=x", "zero4"], "--forbid": ["tp=x", "zero4"], "--allow": ["anything"], "--margin": ["-0.1", "1", "x", "nan"],
        "--memory-limit": ["x", "-1", "-1GB", "16XB"], "--effort": ["0", "-1", "x", "1.5"], "--refine": ["-1", "x", "1.5"],
        "--tokens": ["0", "-1", "x"], "--days": ["0", "-1", "x"], "--price": ["0", "-1", "x"], "--target": ["nonsense", "cpu:", "gpu"],
        "--data": [], "--output": [], "--report": [], "--silence": ["no-such-advice"], "--advice": ["some"],
        "--reference-batch": ["0", "-1", "x"], "--reference-rate": ["0", "-1", "x"],
    },
    "sample": {
        "--prompt-ids": [",", "1,x", "-1"], "--max-tokens": ["0", "-1", "x", "1.5"], "--stop-ids": [",", "x"],
        "--temperature": ["-1", "x", "nan"], "--top-k": ["-1", "x"], "--top-p": ["-0.1", "1.1", "x"], "--seed": ["-1", "x"],
        "--mesh": [], "--strategy": [], "--set": [], "--threads": ["-1", "x"], "--prompt": [], "--tokenizer": [],
        "--stop": [],
    },
    "verify": {
        "--mesh": MESHES, "--strategy": [], "--config": [], "--set": SETTINGS, "--timetable": ["1f2b", ""], "--choices": [],
        "--model": [], "--cluster": [],
        "--size": ["vocab", "vocab=", "vocab=x", "vocab=0", "vocab=-1", "vocab=99999999999999999999"],
    },
    "run": {
        "--ranks": ["0", "-1", "x", "1.5"], "--grace": ["-1", "x", "nan", "1e9"], "--max-restarts": ["-1", "x"],
        "--hosts": ["", ":2", "a:", "a:0", "a,,b", "-x"], "--nnodes": ["0", "x"], "--node-rank": ["-1", "x", "1"],
        "--server": [], "--interface": [], "--remote-shell": [], "--log-dir": [], "--start-timeout": ["0", "x"],
    },
    "eval": {
        "--data": [], "--data-format": FORMATS, "--weights": [], "--mesh": MESHES, "--strategy": [], "--set": SETTINGS,
        "--target": ["nonsense", "cpu:", "cpu:nonsense", "gpu"], "--threads": ["-1", "x"],
    },
    "simulate": {
        "--cluster": [], "--mesh": [], "--strategy": [], "--timetable": [], "--target": [], "--set": [], "--profile": [],
        "--schedule-effort": [], "--what-if": [], "--trace": [], "--fail-over": ["0", "-1", "x"], "--scale": ["0", "-1", "x", "1.5"],
    },
    "schedule": {
        "--timetable": ["1f2b", "mine.txt"], "--stages": ["0", "-1", "x", "1.5"], "--microbatches": ["0", "-1", "x", "1.5"],
        "--ranks": ["0", "-1", "x"], "--stages-per-rank": ["0", "-1", "x"], "--memory-limit": ["0", "-1", "x", "1GB"],
        "--forward": ["0", "-1", "x", "nan"], "--backward": ["0", "-1", "x", "nan"], "--weight": ["0", "-1", "x", "nan"],
        "--transfer": ["-1", "x", "nan"], "--csv": [], "--output": [],
    },
    "tune": {
        "--data": [], "--data-format": [], "--cluster": [], "--output": [], "--candidates": ["0", "1", "-1", "x", "1.5"],
        "--steps": ["0", "-1", "x", "1.5"], "--rounds": ["0", "-1", "x", "1.5"], "--hosts": [], "--remote-shell": [],
        "--interface": [],
    },
    "balance": {"--run": [], "--output": [], "--hosts": [], "--remote-shell": [], "--interface": [], "--max-restarts": []},
    "inspect": {"--cluster": []},
    "explain": {"--cluster": []},
    "report": {"--cluster": [], "--compare": [], "--output": []},
    "data pack": {
        "--output": [], "--tokenizer": [], "--field": [], "--documents": ["lines", ""], "--end-of-document": [""], "--format": FORMATS,
        "--vocabulary": ["0", "-1", "x", "1.5"], "--sequence-length": ["0", "-1", "x", "1.5"], "--balance": ["memory", ""],
    },
    "data show": {"--data-format": FORMATS},
    "data check": {"--data-format": FORMATS, "--vocabulary": ["0", "-1", "x", "1.5"]},
    "PROGRAM": {
        "--data": [], "--validation-data": [], "--data-format": FORMATS, "--out": [], "--resume": [], "--weights": [],
        "--steps": ["-1", "x", "1.5", "99999999999999999999"], "--threads": ["-1", "x"], "--set": SETTINGS,
        "--watchdog": ["0", "x", "-1"], "--start-timeout": ["0", "x", "-1"],
        "--trace": ["0", "x", "3-", "3-2", "-3", "3-5-7"], "--log-losses": [],
        "--replay-check": ["0", "-1", "x", "1.5"], "--tune": [], "--sample": [],
    },
}

# Well-formed, but names something that is missing or does not fit. (A path that cannot be written is not input.)
UNUSABLE = {
    "compile": {
        "--mesh": ["dp=3"], "--strategy": ["megatorn"], "--config": ["missing.toml"], "--set": ["accumulation=3"],
        "--memory-limit": ["1kB"], "--choices": ["missing.toml"], "--cluster": ["missing.textproto"], "--profile": ["missing"],
    },
    "verify": {
        "--choices": ["missing.toml"], "--mesh": ["dp=3"], "--strategy": ["megatorn"], "--config": ["missing.toml"], "--set": ["accumulation=3"],
        "--size": ["nonsense=3"], "--cluster": ["missing.textproto"],
    },
    "plan": {
        "--cluster": ["missing.textproto"], "--config": ["missing.toml"], "--data": ["missing.bin"], "--devices": ["64"],
        "--fix": ["tp=3"], "--memory-limit": ["1kB"],
    },
    "simulate": {
        "--cluster": ["missing.textproto"], "--mesh": ["dp=3"], "--strategy": ["megatorn"], "--set": ["accumulation=3"],
        "--profile": ["missing"], "--what-if": ["bandwidth"], "--scale": ["3"],
    },
    "schedule": {
        "--timetable": ["missing.csv"], "--ranks": ["3", "8"], "--stages-per-rank": ["3"], "--memory-limit": ["3"],
    },
    "tune": {"--cluster": ["missing.textproto"], "--data": ["missing.bin"]},
    "balance": {"--run": ["missing"]},
    "inspect": {"--cluster": ["missing.textproto"]},
    "explain": {"--cluster": ["missing.textproto"]},
    "run": {"--ranks": ["3"]},
    "eval": {
        "--data": ["missing.bin"], "--data-format": ["nanogpt"], "--weights": ["missing"], "--mesh": ["dp=3"],
        "--strategy": ["megatorn"], "--set": ["accumulation=3"],
    },
    "data check": {"--vocabulary": ["2"]},
    "PROGRAM": {
        "--data": ["missing.bin"], "--validation-data": ["missing.bin"], "--resume": ["missing"],
        "--weights": ["missing"], "--data-format": ["nanogpt"], "--set": ["minimum_learning_rate=1"],
    },
}


class CommandLine(DriverTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls("compile_program")
        case.setUp()
        cls.addClassCleanup(case.doCleanups)
        case.compile_program()
        cls.files = case.directory

    def compile_program(self):
        self.dtc("compile", MODEL, *SMALL, "-o", self.directory / "program")
        write_tokens(self.directory / "tokens.bin", 500, 61)
        (self.directory / "text").write_text("some text")

    def words(self, verb, option, value):
        """A command line that would be right without the option."""
        before = {
            "compile": ["compile", MODEL, *SMALL],
            "verify": ["verify", MODEL, *SMALL],
            "sample": ["sample", MODEL, "--prompt-ids", "1"],
            "run": ["run"],
            "balance": ["balance"],
            "eval": ["eval", MODEL, *SMALL],
            "simulate": ["simulate", MODEL, *SMALL],
            "plan": ["plan", MODEL, *SMALL] + (["--tokens", "1e6"] if option in ("--days", "--price") else []),
            "schedule": ["schedule", "--stages", "4", "--microbatches", "4"],
            "tune": ["tune", self.files / "program"],
            "inspect": ["inspect", self.files / "program"],
            "explain": ["explain", self.files / "program"],
            "report": ["report", self.files],
            "data pack": ["data", "pack", self.files / "text"],
            "data show": ["data", "show", self.files / "tokens.bin"],
            "data check": ["data", "check", self.files / "tokens.bin"],
            "PROGRAM": ["run", self.files / "program"],
        }[verb]
        if verb == "PROGRAM" and option != "--data":
            before += ["--data", self.files / "tokens.bin"]
        if verb == "PROGRAM" and option != "--out":
            before += ["--out", self.directory / "out"]
        if verb == "tune" and option != "--cluster":
            before += ["--cluster", SOURCE / "examples/clusters/h100x8.textproto"]
        if verb in ("eval", "tune") and option != "--data":
            before += ["--data", self.files / "tokens.bin"]
        if verb in ("plan", "simulate") and option != "--cluster":
            before += ["--cluster", SOURCE / "examples/clusters/h100x8.textproto"]
        if verb in ("compile", "tune", "data pack") and option != "--output":
            before += ["-o", self.directory / "output"]
        after = [self.files / "program", "--data", self.files / "tokens.bin", "--out",
                 self.directory / "out"] if verb in ("run", "balance") else []
        return [*before, option, value, *after]

    def options(self, verb):
        """The options that take a value, according to --help."""
        words = ["run", self.files / "program"] if verb == "PROGRAM" else verb.split()
        found = re.findall(r"^  (?:-\w,)?(--[a-z-]+) [A-Z]{2,}", self.dtc(*words, "--help"), re.MULTILINE)
        return set(found)

    def test_every_option_has_a_row(self):
        for verb, rows in MALFORMED.items():
            with self.subTest(verb=verb):
                self.assertEqual(self.options(verb), set(rows))

    def test_malformed_values_are_usage(self):
        for verb, rows in MALFORMED.items():
            for option, values in rows.items():
                for value in values:
                    with self.subTest(verb=verb, option=option, value=value):
                        self.assertIn(option, self.dtc(*self.words(verb, option, value), code=2))

    def test_what_does_not_fit_is_bad_input(self):
        for verb, rows in UNUSABLE.items():
            for option, values in rows.items():
                for value in values:
                    with self.subTest(verb=verb, option=option, value=value):
                        self.dtc(*self.words(verb, option, value), code=3, cwd=self.directory)

    def test_empty_values_are_usage(self):
        for verb, rows in MALFORMED.items():
            for option in rows:
                with self.subTest(verb=verb, option=option):
                    self.assertIn(option, self.dtc(*self.words(verb, option, ""), code=2))
        for verb in ["compile", "verify", "run", "inspect", "explain", "report", "data pack", "data show", "data check"]:
            with self.subTest(verb=verb):
                output = ["-o", self.directory / "output"] if verb in ("compile", "data pack") else []
                self.assertIn("is empty", self.dtc(*verb.split(), "", *output, code=2))

    def test_misspelled_names_lead_to_the_nearest(self):
        program = self.files / "program"
        for words, message in [
                (["verfy"], "'verfy' is unknown, did you mean 'verify'?"),
                (["data", "pak", "x"], "'pak' is unknown, did you mean 'pack'?"),
                (["compile", MODEL, "--mseh", "dp=2"], "'--mseh' is unknown, did you mean '--mesh'?"),
                (["run", "--rank", "4", program], "'--rank' is unknown, did you mean '--ranks'?"),
                (["run", program, "--dta", "x"], "'--dta' is unknown, did you mean '--data'?"),
                (["run", program, "--data", "x", "--resme", "y"], "'--resme' is unknown, did you mean '--resume'?"),
                (["run", "-np", "2", program], "'-np' is -n with the value 'p', write -n VALUE"),
                (["data", "pack", "x"], "Try 'dtc data pack --help'."),
                (["data", "show"], "Try 'dtc data show --help'."),
                (["inspect"], "Try 'dtc inspect --help'.")]:
            with self.subTest(words=words):
                self.assertIn(message, self.dtc(*words, code=2))

    # The options of `dtc run` that a program lacks, placed after it: a test for each, so that none is forgotten.
    def test_options_of_run_behind_the_program(self):
        for option in self.options("run") - self.options("PROGRAM"):
            with self.subTest(option=option):
                output = self.dtc("run", self.files / "program", option, "2", code=2)
                self.assertIn(f"'{option}' is an option of 'dtc run' and goes before the program", output)

    def test_numbers_out_of_range(self):
        for option, value, reason in [("--ranks", "p", "p is not a whole number"), ("--ranks", "0", "0 is less than 1"),
                                      ("--node-rank", "-1", "-1 is less than 0"),
                                      ("--ranks", "9" * 30, "9 is not a whole number of 64 bits")]:
            output = self.dtc("run", option, value, self.files / "program", code=2)
            self.assertRegex(output, f"{option}: .*{reason}")

    # The mistake is the value, and what follows PROGRAM belongs to the program.
    def test_only_unknown_words_are_corrected(self):
        self.assertNotIn("did you mean", self.dtc("run", "-n", "x", self.files / "program", "--grade", "y", code=2))


class Settings(DriverTest):
    def settings(self, out):
        return (self.directory / out / "settings.toml").read_text()

    # Compiled with the settings that a run wrote, the program is the same one, and so is its run.
    def test_a_run_can_be_had_again_from_its_settings(self):
        data = write_tokens(self.directory / "tokens.bin", 2000, 61)
        first = self.compile("first", MODEL, "--mesh", "dp=2", sequence_length=16, global_batch=4, steps=3,
                             accumulation=2, dropout=0.25, learning_rate=1.1e-3, warmup_steps=2, schedule="linear",
                             optimizer="sgd", weight_decay=1e-05, seed=7)
        self.train(first, data, "first.out")
        config = self.directory / "first.out/settings.toml"
        self.assertIn("learning_rate = 0.0011\n", self.settings("first.out"))
        again = self.compile("again", MODEL, "--mesh", "dp=2", "--config", config)
        self.assertEqual(first.read_bytes(), again.read_bytes())
        self.train(again, data, "again.out")
        self.assertEqual(self.losses("first.out"), self.losses("again.out"))

    # What the run changed takes precedence, and what a model leaves open stays as it was decided.
    def test_settings_changed_at_the_run(self):
        data = write_tokens(self.directory / "tokens.bin", 2000, 61)
        program = self.compile("program", MODEL, global_batch=4, steps=9)
        self.train(program, data, "out", "--steps", 4, "--set", "training.seed=3", "--set", "learning_rate=2e-3",
                   "--set", "eval_every=2")
        again = self.compile("again", MODEL, "--config", self.directory / "out/settings.toml")
        self.train(again, data, "again.out")
        self.assertEqual(len(self.losses("out")), 4)
        self.assertEqual(self.losses("out"), self.losses("again.out"))
        self.assertEqual(self.settings("out"), self.settings("again.out"))
        # An evaluation does not count as a run.
        self.dtc("run", again, "--data", data, "--out", self.directory / "out", "--eval-only", "--weights", MODEL,
                 "--set", "seed=8")
        self.assertEqual(self.settings("out"), self.settings("again.out"))

    def test_a_resumed_run_writes_the_seed_that_it_has(self):
        data = write_tokens(self.directory / "tokens.bin", 2000, 61)
        program = self.compile("program", MODEL, global_batch=4, steps=2)
        self.train(program, data, "out", "--set", "training.seed=3")
        self.train(program, data, "out", "--resume", self.directory / "out", "--steps", 3)
        self.assertIn("seed = 3\n", self.settings("out"))
        self.assertIn("steps = 3\n", self.settings("out"))
        self.assertIn("seed was 3 and is 5", self.dtc(
            "run", program, "--data", data, "--out", self.directory / "out", "--resume", self.directory / "out",
            "--set", "training.seed=5", code=3))

    def test_inspect_shows_all(self):
        program = self.compile("program", MODEL, global_batch=4, optimizer="sgd", dropout=0.25, epsilon=1e-7)
        data = write_tokens(self.directory / "tokens.bin", 2000, 61)
        self.train(program, data, "out", "--steps", 1)
        written = tomllib.loads(self.settings("out"))
        written["training"]["steps"] = 100
        self.assertEqual(json.loads(self.dtc("inspect", program, "--json"))["settings"], written)
        text = self.dtc("inspect", program)
        for section, values in written.items():
            for key in values:
                self.assertRegex(text, rf"  {section} .*\b{key} = ")


class HelpOfRun(DriverTest):
    """The examples in the help of `dtc run`, in its order, as a user types them."""

    def test_the_examples_work(self):
        self.dtc("compile", MODEL, "--mesh", "dp=2,tp=2", *SMALL, "--set", "steps=1", "-o", self.directory / "gpt")
        write_tokens(self.directory / "book.bin", 500, 61)
        examples = [line.split("#")[0].split()[2:] for line in self.dtc("run", "--help").splitlines()
                    if line.startswith("  $ dtc run ") and "node1" not in line]  # launchers_run_test.py has hosts
        self.assertTrue(any("--resume" in words for words in examples))
        for words in examples:
            with self.subTest(words=words):
                self.dtc(*words, cwd=self.directory)


if __name__ == "__main__":
    unittest.main()
