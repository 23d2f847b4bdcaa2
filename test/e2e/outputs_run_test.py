#!/usr/bin/env python3
"""Outputs that cannot be written are reported before the work, and a disk that fills up later loses nothing of a
run."""

import ctypes
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import time
import unittest

from driver import DTC, SOURCE, TIMEOUT, DriverTest, write_tokens

MODEL = SOURCE / "test/e2e/oracle/gpt2"
ENDLESS = 1_000_000


def drop_rights():
    """Runs in a child: from the next program on, file permissions bind root, too."""
    PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


def snapshot(folder):
    """Everything below: names, kinds, permissions and contents."""
    return {str(path.relative_to(folder)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else None)
            for path in folder.rglob("*")}

# On a busy machine a rank may be slow for long, which is reported, too.
WARNING = re.compile(r"warning: (?!rank \d+ computes)")


class OutputTest(DriverTest):
    def setUp(self):
        super().setUp()
        self.data = write_tokens(self.directory / "tokens", 4000, 61)
        self.place = self.make_folder("place")

    def unwritable(self, path):
        """Removes write permission from a file or folder; skips where nothing can take it from us."""
        path.chmod(path.stat().st_mode & ~0o222)
        self.addCleanup(lambda: path.exists() and path.chmod(0o755))
        target = path / "attempt" if path.is_dir() else path
        tried = subprocess.run(["sh", "-c", ': >> "$0"', target], preexec_fn=drop_rights, stderr=subprocess.DEVNULL)
        if tried.returncode == 0:
            self.skipTest(f"{path} can be written without the right to")
        return path


class Runs(OutputTest):
    def setUp(self):
        super().setUp()
        self.program = self.compile("program", MODEL, "--mesh", "dp=2", sequence_length=16, global_batch=4,
                                    validation_fraction=0)
        self.out = self.place / "out"

    def arguments(self, *more, steps=2, data=None):
        return ["run", self.program, "--data", data or self.data, "--threads", 1, "--steps", steps, *more]

    def checkpoints(self):
        return sorted(path.name for path in (self.out / "checkpoints").glob("*"))

    def refuse_at_once(self, *arguments, code=1, says, **options):
        """Nothing is trained, and everything is as it was."""
        before = snapshot(self.directory)
        message = self.dtc(*self.arguments(*arguments, **options), code=code, preexec_fn=drop_rights)
        self.assertNotIn("step 1/", message)
        for words in says:
            self.assertIn(words, message)
        self.assertEqual(snapshot(self.directory), before, message)

    #===------------------------------------------------------------------===#
    # Before the first step
    #===------------------------------------------------------------------===#

    def test_a_folder_that_cannot_be_made(self):
        file = self.place / "file"
        file.write_text("precious")
        for out, reason in [(file, "Not a directory"), (file / "out", "Not a directory"),
                            ("/proc/no/out", "No such file or directory")]:
            self.refuse_at_once("--out", out, says=[f"--out {out}: cannot write '{out}': {reason}; "])
        self.unwritable(self.place)
        self.refuse_at_once("--out", self.out, says=[f"--out {self.out}: cannot write '{self.out}': Permission denied"])

    def test_a_folder_that_cannot_be_written(self):
        self.out.mkdir()
        self.unwritable(self.out)
        self.refuse_at_once("--out", self.out, says=[f"--out {self.out}: cannot write '{self.out}/lock': Permission denied",
                                                     "choose a place where you may write"])

    def test_metrics(self):
        metrics = self.out / "metrics.jsonl"
        metrics.mkdir(parents=True)
        self.refuse_at_once("--out", self.out, says=[f"--out {self.out}: cannot write '{metrics}': Is a directory"])
        metrics.rmdir()
        metrics.write_text("")
        self.unwritable(metrics)
        self.refuse_at_once("--out", self.out, says=[f"cannot write '{metrics}': Permission denied"])

    def test_settings(self):
        settings = self.out / "settings.toml"
        settings.mkdir(parents=True)
        self.refuse_at_once("--out", self.out, says=[f"--out {self.out}: cannot write '{settings}': it is a directory"])

    def test_checkpoints(self):
        folder = self.out / "checkpoints"
        self.out.mkdir()
        folder.write_text("precious")
        self.refuse_at_once("--out", self.out, says=[f"--out {self.out}: cannot write '{folder}': Not a directory"])
        folder.unlink()
        folder.mkdir()
        self.unwritable(folder)
        self.refuse_at_once("--out", self.out, says=[f"--out {self.out}: cannot write '{folder}", "Permission denied"])

    def test_trace(self):
        trace = self.out / "trace.json"
        trace.mkdir(parents=True)
        self.refuse_at_once("--out", self.out, "--trace", 1,
                            says=[f"--out {self.out}: cannot write '{trace}': it is a directory"])
        trace.rmdir()
        trace.write_text("precious")
        self.unwritable(trace)
        self.refuse_at_once("--out", self.out, "--trace", 1, says=[f"cannot write '{trace}': Permission denied"])

    def test_a_trace_that_would_never_be_written(self):
        self.refuse_at_once("--out", self.out, "--trace", "3-4", code=3,
                            says=["--trace 3: this run goes from step 1 to 2"])
        self.dtc(*self.arguments("--out", self.out))
        self.refuse_at_once("--out", self.out, "--resume", self.out, "--trace", "1-4", steps=4, code=3,
                            says=["--trace 1: this run goes from step 3 to 4"])

    def test_losses(self):
        losses = self.place / "losses"

        def refuse(path, reason):
            self.refuse_at_once("--out", self.out, "--log-losses", path,
                                says=[f"--log-losses {path}: cannot write '{path}': {reason}"])
        refuse(self.place, "Is a directory; name a file in it")
        refuse(self.place / "no/losses", f"No such file or directory; make the folder '{self.place}/no' first")
        refuse(self.data / "losses", "Not a directory")
        os.mkfifo(losses)
        refuse(losses, "No such device or address; nobody reads this pipe")
        losses.unlink()
        losses.write_text("precious")
        self.unwritable(losses)
        refuse(losses, "Permission denied")
        folder = self.place / "folder"
        folder.mkdir()
        self.unwritable(folder)
        refuse(folder / "losses", "Permission denied")

    def test_losses_over_the_data(self):
        link = self.place / "link"
        link.symlink_to(self.data)
        self.refuse_at_once("--out", self.out, "--log-losses", link, code=3, says=[f"'{link}' is also read, as '{self.data}'; choose another"])

    # Whatever the reason for refusing a run, it leaves no lock, no empty file and no folder, and what was there stays.
    def test_a_refused_run_leaves_nothing(self):
        losses = self.place / "losses"
        losses.write_text("precious")
        wrong = write_tokens(self.directory / "wrong", 4000, 1000)
        logged = ["--out", self.out, "--log-losses", losses]
        for _ in range(2):
            self.refuse_at_once(*logged, data=wrong, code=3, says=["vocabulary has 61"])
            self.refuse_at_once(*logged, data=self.directory / "none", code=3, says=["none"])
            self.refuse_at_once(*logged, "--resume", self.place, code=3, says=["no checkpoint in"])
            self.refuse_at_once(*logged, "--weights", self.place, code=3, says=["place"])
            self.out.mkdir(exist_ok=True)  # a folder of the user stays
        nested = self.place / "some/where/else"
        self.refuse_at_once("--out", nested, data=wrong, code=3, says=["vocabulary has 61"])
        # Then it runs, and only that changes the files.
        self.dtc(*self.arguments(*logged))
        self.assertEqual(len(losses.read_text().splitlines()), 2)
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["checkpoints", "manifest.pb", "metrics.jsonl", "settings.toml"])

    def test_evaluating_leaves_losses_as_they_were(self):
        losses = self.place / "losses"
        losses.write_text("precious")
        self.dtc(*self.arguments("--out", self.out, "--validation-data", self.data, "--eval-only", "--log-losses", losses))
        self.assertEqual(losses.read_text(), "precious")

    #===------------------------------------------------------------------===#
    # A disk that fills up
    #===------------------------------------------------------------------===#

    def test_full_losses_and_metrics(self):
        whole = self.train(self.program, self.data, "whole", "--steps", 5)
        for number, (what, options) in enumerate([("/dev/full", ["--log-losses", "/dev/full"]), ("metrics", [])]):
            out = self.place / str(number)
            if what == "metrics":
                what = out / "metrics.jsonl"
                out.mkdir()
                what.symlink_to("/dev/full")
            output = self.dtc(*self.arguments("--out", out, *options, steps=5), code=1)
            reason = f"cannot write '{what}': No space left on device; free some space"
            self.assertIn(f"warning: step 1: {reason}", output)
            self.assertEqual(len(WARNING.findall(output)), 1, output)
            self.assertIn(f"error: rank 0: {reason}", output)
            self.assertIn("it lacks what belongs to step 1 and later; nothing of the run itself is lost", output)
            self.assertRegex(output, "dtc: error: rank 0 failed first, with exit code 1: cannot write")
            # All steps were trained, and a run can resume from there.
            self.assertIn("step 5/5", output)
            rest = self.train(self.program, self.data, f"rest-{number}", "--resume", out, "--steps", 6)
            self.assertEqual([step for step, _ in rest], ["6"])
        self.assertEqual(len(whole), 5)

    def limit_files(self, job, size):
        """The ranks' files cannot grow beyond it: to a writer that is the same as a full disk, and it can be lifted."""
        for rank in self.children(job):
            hard = resource.prlimit(rank, resource.RLIMIT_FSIZE)[1]
            resource.prlimit(rank, resource.RLIMIT_FSIZE, (size if size is not None else hard, hard))

    def await_size(self, path, size):
        end = time.monotonic() + 60
        while not path.exists() or path.stat().st_size < size:
            self.assertLess(time.monotonic(), end, self.output())
            time.sleep(0.01)

    def test_a_disk_that_is_full_for_a_while_costs_no_line(self):
        losses = self.place / "losses"
        job = self.start(*self.arguments("--out", self.out, "--log-losses", losses, steps=ENDLESS))
        self.await_size(losses, 20_000)
        self.limit_files(job, 20_000)
        self.await_output(f"cannot write '{losses}': File too large")
        self.await_output(f"cannot write '{self.out}/metrics.jsonl': File too large")
        # Meanwhile the disk holds whole lines only.
        self.assertTrue(losses.read_text().endswith("\n"))
        self.limit_files(job, None)
        self.await_output(f"'{losses}' can be written again, and nothing is missing from it")
        self.await_output(f"'{self.out}/metrics.jsonl' can be written again, and nothing is missing from it")
        job.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(20), 128 + signal.SIGINT, self.output())
        [checkpoint] = self.checkpoints()
        steps = list(range(1, int(checkpoint.removeprefix("step-")) + 1))
        self.assertEqual([int(line.split()[0]) for line in losses.read_text().splitlines()], steps)
        self.assertEqual([line["step"] for line in self.metrics("place/out")], steps)

    # The trace fails, and the run continues: its checkpoint is there, and no part of a trace.
    def test_full_trace(self):
        job = self.start(*self.arguments("--out", self.out, "--trace", "1500-1600", steps=1700))
        self.await_output("step 1/")
        self.limit_files(job, 2_000_000)
        self.assertEqual(job.wait(TIMEOUT), 1, self.output())
        reason = rf"cannot write '{self.out}/trace.json(.rank-\d)?': File too large; free some space"
        self.assertRegex(self.output(), rf"warning: step 1600: the trace: {reason}")
        self.assertRegex(self.output(), rf"error: rank \d: {reason}")
        self.assertEqual(len(WARNING.findall(self.output())), 1, self.output())
        self.assertIn("step 1700/1700", self.output())
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["checkpoints", "manifest.pb", "metrics.jsonl", "settings.toml"])
        self.assertEqual(self.checkpoints(), ["step-001700"])

    def test_a_full_disk_at_a_checkpoint(self):
        self.dtc(*self.arguments("--out", self.out))
        good = snapshot(self.out / "checkpoints")
        largest = max(path.stat().st_size for path in (self.out / "checkpoints").rglob("*"))
        for size in [largest - 1, 10_000]:  # there is room for some of its files, or only for the run's output
            job = self.start(*self.arguments("--out", self.out, "--resume", self.out, "--set", "checkpoint_every=1000",
                                             steps=ENDLESS))
            self.await_output("step 3/")
            self.limit_files(job, size)
            self.assertEqual(job.wait(TIMEOUT), 1, self.output())
            self.assertRegex(self.output(), "error: rank [01]: the checkpoint after step 1000: cannot write "
                             r"'.*/step-001000\.[0-9a-f]+\.tmp/.*': File too large; free some space or choose another place; "
                             "checkpoints before it are as they were")
            self.assertEqual(snapshot(self.out / "checkpoints"), good)
        self.dtc(*self.arguments("--out", self.place / "again", "--resume", self.out, steps=4))

    # The same with a real disk, where we may mount one: the second checkpoint finds no room next to the first.
    def test_a_small_disk(self):
        self.dtc(*self.arguments("--out", self.out, steps=1))
        bytes_in = lambda folder: sum(path.stat().st_blocks * 512 for path in folder.rglob("*"))
        size = bytes_in(self.out) + bytes_in(self.out / "checkpoints") // 2
        disk = self.make_folder("disk")
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size // 1024}k", "tmpfs", disk],
                                 stderr=subprocess.DEVNULL)
        if mounted.returncode:
            self.skipTest("no right to mount")
        self.addCleanup(lambda: subprocess.run(["umount", disk], check=True))
        output = self.dtc(*self.arguments("--out", disk / "out", "--set", "checkpoint_every=1"), code=1)
        self.assertIn("error: rank 0: the checkpoint after step 2: cannot write", output)
        self.assertIn("No space left on device; free some space", output)
        self.assertEqual([path.name for path in (disk / "out/checkpoints").iterdir()], ["step-000001"])
        self.dtc(*self.arguments("--out", self.place / "again", "--resume", disk / "out"))
        # No room for anything: reported before the first step.
        subprocess.run(["sh", "-c", f"cat /dev/zero > {disk}/zero"], stderr=subprocess.DEVNULL)
        output = self.dtc(*self.arguments("--out", disk / "another"), code=1)
        self.assertRegex(output, f"--out {disk}/another: cannot write '.*': No space left on device; free some space")
        self.assertNotIn("step 1/", output)
        self.assertFalse((disk / "another").exists())

    #===------------------------------------------------------------------===#
    # An output that is closed from the start
    #===------------------------------------------------------------------===#

    # The run's output must not get into the first file that takes the place of the closed one.
    def test_closed_standard_output(self):
        alone = self.compile("alone", MODEL, sequence_length=16, global_batch=4, validation_fraction=0)
        losses = self.place / "losses"
        arguments = self.arguments("--out", self.out, "--log-losses", losses, steps=3)
        for command in [[DTC, *arguments], [alone, *arguments[2:]]]:
            for closed in [">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"]:
                done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *map(str, command)],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual([line.split()[0] for line in losses.read_text().splitlines()], ["1", "2", "3"])
                self.assertEqual([line["step"] for line in self.metrics("place/out")], [1, 2, 3])
                shutil.rmtree(self.out)

    # A request for help is a request, too.
    def test_the_help_of_a_program_that_cannot_be_written(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([self.program, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\A\S+Z dtc: error: cannot write to the standard output: No space left on device\n\Z")


class Verbs(OutputTest):
    """compile -o and data pack -o: reported before the work, and nothing half-written or replaced."""

    def setUp(self):
        super().setUp()
        self.text = self.directory / "text"
        self.text.write_text("abcd" * 1000)

    def makers(self, missing=False):
        """Every verb that has -o, without it; with `missing` one whose input does not exist."""
        model = self.directory / "missing" if missing else MODEL
        settings = ["--set", "global_batch=4", "--set", "sequence_length=16"]
        yield ["compile", model, *settings]
        yield ["compile", model, *settings, "--compile-to", "where"]
        yield ["data", "pack", self.directory / "missing" if missing else self.text]

    def refuse(self, output, reason, **options):
        for maker in self.makers(missing=True):  # so the output is tried first
            before = snapshot(self.directory)
            message = self.dtc(*maker, "-o", output, code=1, preexec_fn=drop_rights, **options)
            self.assertIn(f"-o {output}: cannot write '{output}': {reason}", message)
            self.assertEqual(snapshot(self.directory), before, message)

    def test_places_where_nothing_can_be_written(self):
        self.refuse(self.place, "it is a directory, and would be replaced")
        self.refuse(self.place / "no/output", f"No such file or directory; make the folder '{self.place}/no' first")
        self.refuse(self.text / "output", "Not a directory")
        self.refuse("/proc/output", "No such file or directory")
        file = self.place / "file"
        file.write_text("precious")
        self.unwritable(file)
        self.refuse(file, "Permission denied")
        folder = self.place / "folder"
        folder.mkdir()
        self.unwritable(folder)
        self.refuse(folder / "output", "Permission denied")

    # A pipe and, where we may make them, devices like /dev/null and /dev/full; the system's own are not risked.
    def test_devices_and_pipes_are_never_replaced(self):
        nodes = [self.place / "pipe"]
        os.mkfifo(nodes[0])
        for minor in [3, 7]:
            node = self.place / f"device-{minor}"
            try:
                os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(1, minor))
                nodes.append(node)
            except PermissionError:
                pass
        for node in nodes:
            self.refuse(node, "it is not a regular file, and would be replaced; choose another name")
            link = self.place / "link"
            link.symlink_to(node)
            self.refuse(link, "it is not a regular file, and would be replaced; choose another name")
            link.unlink()

    def test_links_stay(self):
        for maker in self.makers():
            target, link = self.place / "target", self.place / "link"
            target.write_text("old")
            link.symlink_to("target")
            self.dtc(*maker, "-o", link)
            self.assertTrue(link.is_symlink())
            self.assertGreater(target.stat().st_size, 1000)
            link.unlink()
            link.symlink_to("nowhere")
            message = self.dtc(*maker, "-o", link, code=1)
            self.assertIn("it is a link that leads nowhere", message)
            link.unlink()

    def test_inputs_are_not_overwritten(self):
        model = self.directory / "model.mlir"
        self.dtc("compile", MODEL, "--compile-to", "model", "-o", model)
        config = self.directory / "train.toml"
        config.write_text("[training]\nsteps = 1\n")
        for words, read in [(["compile", model], model), (["compile", MODEL, "--config", config], config),
                            (["data", "pack", model, self.text], self.text)]:
            before = snapshot(self.directory)
            self.assertIn(f"'{read}' is also read, as '{read}'", self.dtc(*words, "-o", read, code=3))
            self.assertEqual(snapshot(self.directory), before)

    def test_a_full_disk(self):
        output = self.place / "output"
        for maker, size in zip(self.makers(), [1_000_000, 1000, 1000]):
            for old in [None, b"precious"]:
                if old:
                    output.write_bytes(old)
                limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
                message = self.dtc(*maker, "-o", output, code=1, preexec_fn=limit)
                self.assertIn(f"cannot write '{output}': File too large; free some space or choose another", message)
                self.assertEqual(snapshot(self.place), {"output": (output.stat().st_mode, old)} if old else {})
            output.unlink()

    # Exit code 0 promises that the answer is there.
    def test_answers_that_cannot_be_written(self):
        program = self.compile("program", MODEL, sequence_length=16, global_batch=4)
        tokens = write_tokens(self.directory / "few", 100, 61)
        made, packed = self.place / "made", self.place / "packed"
        verbs = [["--help"], ["--version"], ["compile", "--help"], ["inspect", program], ["inspect", program, "--json"],
                 ["explain", program], ["explain", program, "--json"], ["verify", MODEL, "--json"], ["verify", MODEL],
                 ["compile", MODEL, "--compile-to", "model"], ["compile", MODEL, "--compile-to", "how"],
                 ["compile", MODEL, "-o", made], ["data", "show", tokens], ["data", "check", tokens, "--json"],
                 ["data", "pack", self.text, "-o", packed]]
        for words in verbs:
            for redirection, reason in [("> /dev/full", "No space left on device"), (">&-", "Bad file descriptor")]:
                done = subprocess.run(["sh", "-c", f'exec "$@" {redirection}', "sh", DTC, *map(str, words)],
                                      stderr=subprocess.PIPE, text=True, timeout=TIMEOUT)
                self.assertEqual((done.returncode, done.stderr),
                                 (1, f"dtc: error: cannot write to the standard output: {reason}\n"), words)
        # What was written before the answer is complete.
        self.dtc("inspect", made)
        self.dtc("data", "show", packed)


if __name__ == "__main__":
    unittest.main()
