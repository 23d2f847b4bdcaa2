#!/usr/bin/env python3
"""What <Tab> offers in each shell: runs the shells themselves, as a user has them."""

import os
import pathlib
import pty
import re
import select
import subprocess
import time
import unittest

from driver import DTC, SOURCE, TIMEOUT, DriverTest

FILES = SOURCE / "tools/dtc/completion"
MODEL = SOURCE / "test/e2e/oracle/gpt2"

# The words of a command line, and what must be offered for the last of them: exactly these, or at least these.
ALL = {
    ("",): ["data", "calibrate", "simulate", "schedule", "plan", "compile", "tune", "run", "balance", "eval", "sample", "verify", "inspect", "explain", "report",
            "export"],
    ("ver",): ["verify"],
    ("data", ""): ["pack", "show", "check"],
    ("data", "p"): ["pack"],
    ("data", "show", "--data-format", ""): ["auto", "llm.c", "megatron", "nanogpt"],
    ("compile", "--me"): ["--mesh", "--memory-limit"],
    ("plan", "--fi"): ["--fix"],
    ("plan", "--forbid", "time"): ["timetable="],
    ("plan", "--allow", "as"): ["asynchronous"],
    ("plan", "--set", "opt"): ["optimizer="],
    ("plan", "x", "--advice", "a"): ["all"],
    ("compile", "--pro"): ["--prompt-positions", "--profile"],
    ("compile", "--timetable", "g"): ["gpipe"],
    ("schedule", "--timetable", "zb"): ["zb-h1", "zb-h2", "zbv"],
    ("compile", "x", "--compile-to", "wh"): ["what", "where", "when"],
    ("compile", "--set", "opt"): ["optimizer="],
    ("verify", "--full"): ["--full-size"],
    ("run", "--max"): ["--max-restarts"],
    ("run", "-n", "2", "--max"): ["--max-restarts"],  # 2 is no program
    ("run", "-n", "2", "a-program", "--tens"): ["--tensorboard"],
    ("run", "a-program", "--set", "war"): ["warmup_steps="],
    ("balance", "--ru"): ["--run"],
    ("balance", "a-program", "--tens"): ["--tensorboard"],
    ("run", "a-program", "--set", "optim"): [],  # it is compiled in
    ("inspect", "--j"): ["--json"],
    ("run", "--token"): [],  # nobody types it
    ("compile", "a-m"): ["a-model"],
    ("run", "a-pr"): ["a-program"],
    ("run", "a-program", "--data", "to"): ["tokens"],
    ("data", "pack", "--output", "to"): ["tokens"],
    ("compile", "--target", "cpu:x"): ["cpu:x86-64-v3", "cpu:x86-64-v4"],
    ("compile", "--strategy", "megatron-sp+z"): ["megatron-sp+zero1", "megatron-sp+zero2", "megatron-sp+zero3"],
}
SOME = {
    ("compile", "--strategy", ""): ["ddp", "zero3", "tokens"],  # or a file
    ("run", "-"): ["--grace", "--hosts"],
    ("run", "a-program", "-"): ["--data", "--resume"],
}


class Completion(DriverTest):
    def setUp(self):
        super().setUp()
        (self.directory / "a-model").mkdir()
        for name in ["a-program", "tokens"]:
            (self.directory / name).write_text("")
        self.environment = {**os.environ, "PATH": f"{pathlib.Path(DTC).parent}:{os.environ['PATH']}", "HOME": str(self.directory),
                            "XDG_CONFIG_HOME": str(self.directory / ".config"), "XDG_DATA_HOME": str(self.directory / ".local"),
                            "LC_ALL": "C.UTF-8"}

    def hold(self, complete):
        for words, expected in ALL.items():
            with self.subTest(words=words):
                self.assertEqual(sorted(complete(*words)), sorted(expected))
        for words, expected in SOME.items():
            with self.subTest(words=words):
                self.assertLessEqual(set(expected), set(complete(*words)))

    def answer(self, *command):
        return subprocess.run(command, cwd=self.directory, env=self.environment, stdout=subprocess.PIPE, text=True, check=True,
                              timeout=TIMEOUT).stdout

    def test_bash(self):
        def complete(*words):
            cut = [part for word in words for part in re.findall(r"[:=]|[^:=]+", word) or [""]]  # as readline does
            offered = self.answer("bash", "-c", 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dtc; '
                                  'printf "%s\\n" "${COMPREPLY[@]}"', "bash", FILES / "dtc.bash", "dtc", *cut).split()
            seen = words[-1][:max(words[-1].rfind(":"), words[-1].rfind("=")) + 1]
            return [seen + word for word in offered]
        self.hold(complete)
        self.assertEqual(complete("compile", "--timetable=1"), ["--timetable=1f1b"])

    def test_fish(self):
        def complete(*words):
            line = " ".join(["dtc", *words])
            offered = self.answer("fish", "--no-config", "-c", f"source {FILES}/dtc.fish; complete -C '{line}'").splitlines()
            return [word.split("\t")[0].rstrip("/") for word in offered]
        self.hold(complete)
        self.assertIn("verify\tCheck a compilation", self.answer("fish", "--no-config", "-c",
                                                                 f"source {FILES}/dtc.fish; complete -C 'dtc ver'"))

    def test_zsh(self):
        """Runs its functions with a stand-in for the builtin that receives the offers."""
        script = """
            compadd() { while [[ $1 != -a ]]; do shift; done; shift; print -rl -- ${(P)1}; }
            _files() { print -rl -- ${words[CURRENT]}*(N); }
            words=("$@"); CURRENT=$#
            source %s/_dtc || true""" % FILES

        def complete(*words):
            found = [line for line in self.answer("zsh", "-f", "-c", script, "zsh", "dtc", *words).splitlines() if line]
            return [word for word in found if word.startswith(words[-1])]
        self.hold(complete)

    def type(self, shell, begin, typed, expected):
        """Types into a shell on a terminal until it shows what is expected."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.directory)
            os.execvpe(shell[0], shell, {**self.environment, "TERM": "xterm"})
        self.addCleanup(os.waitpid, pid, 0)
        self.addCleanup(os.close, terminal)
        shown, end = "", time.monotonic() + 60

        def await_text(text):
            nonlocal shown
            while not re.search(text, re.sub(r"\x1b[\[\]][0-9;?]*[a-zA-Z]|\x1b[=>]|[\x07\x08]", "", shown)):
                self.assertLess(time.monotonic(), end, repr(shown))
                if select.select([terminal], [], [], 1)[0]:
                    shown += os.read(terminal, 4096).decode(errors="replace")

        os.write(terminal, f"{begin}; echo rea''dy\n".encode())
        await_text("ready")
        os.write(terminal, typed.encode())
        await_text(expected)
        os.write(terminal, b"\x15exit\n")

    def test_keys_in_bash(self):
        self.type(["bash", "--norc", "--noprofile"], f"source {FILES}/dtc.bash", "dtc compile --target cpu:x86-64-v3 --set optim\t",
                  "--set optimizer=")

    def test_keys_in_zsh(self):
        self.type(["zsh", "-f", "-i"], f"fpath=({FILES} $fpath); autoload -Uz compinit; compinit -u -d $HOME/dump",
                  "dtc run a-program --data tok\t--tensorb\t", r"--data tokens +--tensorboard")


if __name__ == "__main__":
    unittest.main()
