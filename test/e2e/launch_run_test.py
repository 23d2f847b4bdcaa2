#!/usr/bin/env python3
"""dtc run and what ends its ranks: no reader, no terminal, no memory, a damaged program, a launcher of another kind."""

import os
import pathlib
import pty
import random
import re
import resource
import shutil
import signal
import subprocess
import termios
import unittest

from driver import DTC, SANITIZED, SOURCE, TIMEOUT, DriverTest, write_tokens

MODEL = SOURCE / "test/e2e/oracle/gpt2"
ENDLESS = 1_000_000


class Launch(DriverTest):
    def setUp(self):
        super().setUp()
        self.data = write_tokens(self.directory / "tokens", 4000, 61)
        self.program = self.compile("program", MODEL, "--mesh", "dp=2", sequence_length=16, global_batch=4,
                                    validation_fraction=0)

    def command(self, out, steps, *more):
        return [DTC, "run", self.program, "--data", self.data, "--out", self.directory / out, "--threads", "1", "--steps",
                str(steps), *more]

    def checkpoints(self, out):
        return [path.name for path in (self.directory / out / "checkpoints").glob("step-*")]

    def read_one_line(self, command, **options):
        """`command | head -1`: its exit code and errors."""
        job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        self.addCleanup(lambda: job.poll() is None and job.kill())
        job.stdout.readline()
        job.stdout.close()
        job.stdout = None
        errors = job.communicate(timeout=TIMEOUT)[1]
        return job.returncode, errors

    def test_an_output_that_nobody_reads_ends_the_run_with_a_checkpoint(self):
        code, errors = self.read_one_line(self.command("out", ENDLESS))
        self.assertEqual(code, 128 + signal.SIGPIPE, errors)
        self.assertRegex(errors, r"stopped after step \d+: nobody reads the output any more; go on with --resume")
        [name] = self.checkpoints("out")
        done = int(name.removeprefix("step-"))
        self.dtc(*self.command("out", done + 1, "--resume", self.directory / "out")[1:])

    def test_an_output_that_nobody_reads_is_ignored_when_asked_for(self):
        ignore = lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # trap '' PIPE
        code, errors = self.read_one_line(self.command("out", 300), preexec_fn=ignore)
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual(self.checkpoints("out"), ["step-000300"])

    def test_a_terminal_that_closes_ends_the_run_with_a_checkpoint(self):
        job = self.start(*self.command("out", ENDLESS)[1:])
        self.await_output("step 1/")
        job.send_signal(signal.SIGHUP)
        self.assertEqual(job.wait(20), 128 + signal.SIGHUP)
        self.assertEqual(len(self.checkpoints("out")), 1)

    def check_limit(self, most, limit, remedy):
        """Raises a limit until the run works: until then each message says what to do, and blames the machine."""
        for number in range(1, most):
            with self.subTest(number=number):
                done = subprocess.run(self.command(f"out{number}", 1), preexec_fn=lambda: limit(number), text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT)
                if done.returncode == 0:
                    return
                if "shared libraries" not in done.stdout:  # before dtc began
                    self.assertEqual(done.returncode, 1, done.stdout)
                    self.assertIn(remedy, done.stdout)
        self.fail("the run never worked")

    def test_a_limit_of_open_files(self):
        self.check_limit(30, lambda number: resource.setrlimit(resource.RLIMIT_NOFILE, (number, number)), "(ulimit -n)")

    def test_a_limit_of_processes(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to become a user who has no processes yet")
        self.directory.chmod(0o777)

        def limit(number):
            resource.setrlimit(resource.RLIMIT_NPROC, (number, number))
            os.setgroups([])
            os.setresuid(54321, 54321, 54321)

        self.check_limit(30, limit, "(ulimit -u")

    def test_a_rank_that_does_not_stop_is_killed(self):
        job = self.start("run", "--grace", "0.5", *self.command("out", ENDLESS)[2:])
        self.await_output("step 1/")
        stuck = self.children(job)[1]
        os.kill(stuck, signal.SIGSTOP)
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(20), 128 + signal.SIGTERM)
        self.assertRegex(self.output(), r"killed ranks? .*1, which had not stopped 0\.5 s after signal 15")

    # The launcher loads no compiler, and the ranks load only what the program needs.
    @unittest.skipIf(SANITIZED, "sanitizers take more addresses than the limit")
    def test_little_memory_suffices(self):
        job = self.start(*self.command("endless", ENDLESS)[1:])
        self.await_output("step 1/")
        maps = pathlib.Path(f"/proc/{job.pid}/maps").read_text()
        job.send_signal(signal.SIGINT)
        self.assertIn("/dtc", maps)
        self.assertNotRegex(maps, "LLVM|MLIR")
        self.assertEqual(job.wait(20), 128 + signal.SIGINT)
        limit = 64 << 20
        restrict = lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        self.dtc(*self.command("out", 2)[1:], preexec_fn=restrict)
        self.dtc("inspect", self.program, preexec_fn=restrict)

    @unittest.skipIf(SANITIZED, "sanitizers take more addresses than the limit")
    def test_too_little_memory_says_what_is_needed(self):
        limit = 64 << 20
        restrict = lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        message = self.dtc("run", self.program, "--data", self.data, "--out", self.directory / "out", "--threads", 40,
                           code=1, preexec_fn=restrict)
        self.assertRegex(message, r"cannot start thread \d+ of 40: .*; each takes 8 MiB of addresses")
        big = self.compile("big", "gpt2", "--mesh", "dp=2")
        message = self.dtc("run", big, "--data", self.data, "--out", self.directory / "big.out", code=1,
                           preexec_fn=restrict)
        self.assertRegex(message, r"cannot get \d+ MiB for the arena: .*; use more ranks")

    # One flipped bit anywhere: the launcher refuses the program, and so does the program itself, or it crashes; no step
    # is run.
    def test_every_changed_bit_is_noticed_before_the_first_step(self):
        whole = self.program.read_bytes()
        source = random.Random(7)
        alone = self.compile("alone", MODEL, "--mesh", "dp=1", sequence_length=16, global_batch=4,
                             validation_fraction=0)
        for path, command in [(self.program, self.command("by-dtc", 1)),
                              (alone, [alone, "--data", self.data, "--out", self.directory / "alone.out", "--steps", "1"])]:
            whole = path.read_bytes()
            refused = 0
            for _ in range(60):
                at = source.randrange(len(whole))
                changed = bytearray(whole)
                changed[at] ^= 1 << source.randrange(8)
                path.write_bytes(changed)
                done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, timeout=TIMEOUT, errors="replace")
                self.assertNotEqual(done.returncode, 0, f"byte {at}: {done.stdout}")
                self.assertNotIn("step 1/1", done.stdout, f"byte {at}")
                refused += "do not match their checksum" in done.stdout
            # Other bits crash the process while it is loaded, or hit the footer or the file's headers.
            self.assertGreater(refused, 50)
            path.write_bytes(whole)
            subprocess.run(command, check=True, timeout=TIMEOUT, stdout=subprocess.DEVNULL)

    def test_ranks_that_torchrun_starts(self):
        port = str(os.getpid())
        def start(rank):
            variables = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": port}
            return subprocess.Popen([self.program, *map(str, self.command("out", 2)[3:])], env={**os.environ, **variables},
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        ranks = [start(0), start(1)]
        outputs = [rank.communicate(timeout=TIMEOUT)[0] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0], outputs)
        self.assertEqual(self.checkpoints("out"), ["step-000002"])
        self.assertEqual(list(pathlib.Path(f"/dev/shm/dtc-{os.geteuid()}").glob(f"torchrun-{port}*")), [])

    def on_a_terminal(self, columns):
        """The output of a run on a terminal of this many columns; checks that it is right."""
        terminal, end = pty.openpty()
        self.addCleanup(os.close, terminal)
        termios.tcsetwinsize(end, (24, columns))
        job = subprocess.Popen(self.command("out", 5), stdout=end, stderr=end, stdin=end)
        os.close(end)
        shown = b""
        try:
            while part := os.read(terminal, 4096):
                shown += part
        except OSError:  # nobody has the other end any more
            pass
        self.assertEqual(job.wait(TIMEOUT), 0, shown)
        shutil.rmtree(self.directory / "out")
        return shown.decode()

    def test_a_terminal_shows_how_far_a_run_is(self):
        figures = [r"loss \d\.\d{4}", r"lr \S+", r"norm \S+", r"\d+ tokens/s", r"MFU \S+ %", r"\S+ GiB", r"ETA \d+:\d\d"]
        for columns, missing in [(200, []), (40, figures[1:-1])]:
            with self.subTest(columns=columns):
                shown = self.on_a_terminal(columns)
                lines = [line for line in re.split(r"\r\x1b\[K|\r\n", shown) if "step " in line and "loss" in line and "held-out" not in line]
                self.assertEqual(len(lines), 5, shown)
                for number, line in enumerate(lines, 1):
                    self.assertLess(len(line), columns)
                    self.assertRegex(line, rf"step {number}/5  " + "  ".join(one for one in figures if one not in missing) + "$")
                self.assertNotRegex(shown, r"\d\dZ ")  # times are for logs

    # A build of a commit states that commit; one of a tree without git, such as an unpacked archive, states that it is
    # unknown.
    def test_version(self):
        commit = subprocess.run(["git", "-C", SOURCE, "rev-parse", "HEAD"], text=True, capture_output=True).stdout.strip()
        version = self.dtc("--version")
        self.assertRegex(version, r"\Adtc \d+\.\d+\.\d+\ncommit   (?:[0-9a-f]{12}(-dirty)?|unknown)\n"
                         r"host     \w+(-\w+)+\nLLVM     22\.\d+\.\d+\n"
                         r"targets  cpu .*cpu:x86-64-v4 .*cuda:sm_90.*\n\Z")
        if commit:
            self.assertRegex(re.search("commit   (.*)", version)[1].removesuffix("-dirty"), "^[0-9a-f]{12}$")
        self.assertEqual(self.dtc("compile", "--help").count("--version"), 0)
        program = subprocess.run([self.program, "--version"], stdout=subprocess.PIPE, text=True).stdout
        self.assertRegex(program, re.escape("a program made by " + version.split("targets")[0]) +
                         r"target   x86-64-v\d\nmodel    gpt2 for dp=2\n\Z")

    def test_the_commit_of_a_tree(self):
        tree, header = self.directory / "tree", self.directory / "commit.h"
        (tree / "cmake").mkdir(parents=True)

        def commit():
            subprocess.run(["cmake", f"-DSOURCE={tree}", f"-DOUTPUT={header}", "-P", SOURCE / "cmake/WriteCommit.cmake"], check=True)
            return re.fullmatch('#define DTC_COMMIT "(.*)"\n', header.read_text())[1]

        def git(*words):
            return subprocess.run(["git", "-C", tree, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, text=True,
                                  stdout=subprocess.PIPE).stdout.strip()

        (tree / "cmake/commit.txt").write_text((SOURCE / "cmake/commit.txt").read_text())
        self.assertEqual(commit(), "unknown")
        before = header.stat().st_mtime_ns
        commit()
        self.assertEqual(header.stat().st_mtime_ns, before)  # otherwise each build would link everything again
        (tree / ".gitattributes").write_text((SOURCE / ".gitattributes").read_text())
        git("init", "-q")
        git("add", ".")
        git("commit", "-qm", "one")
        self.assertEqual(commit(), git("rev-parse", "HEAD")[:12])
        (tree / ".gitattributes").write_text("")
        self.assertEqual(commit(), git("rev-parse", "HEAD")[:12] + "-dirty")
        head = git("rev-parse", "--short", "HEAD")
        git("archive", "-o", self.directory / "tree.tar", "HEAD")
        shutil.rmtree(tree)
        tree.mkdir()
        subprocess.run(["tar", "-xf", self.directory / "tree.tar", "-C", tree], check=True)
        self.assertEqual(commit(), head)


if __name__ == "__main__":
    unittest.main()
