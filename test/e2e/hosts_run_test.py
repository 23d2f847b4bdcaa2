#!/usr/bin/env python3
"""Several hosts have the same losses as one, whatever their clocks say."""

import os
import pathlib
import signal
import subprocess
import time
import unittest

from driver import SANITIZED, SOURCE
from hosts import HostsTest

DEMO = SOURCE / "examples/gpt-small"


class Losses(HostsTest):
    """The demo model, on one host and on several."""

    hosts = 4

    def demo(self, name, *arguments):
        return self.compile(name, DEMO, *arguments, "--config", DEMO / "train.toml", steps=8, checkpoint_every=0,
                            eval_every=0, global_batch=8)

    def test_four_ranks_on_one_two_and_four_hosts(self):
        for name, mesh, strategy in (("ddp", "dp=4", "ddp"), ("megatron-sp", "dp=2,tp=2", "megatron-sp"),
                                     ("zero3", "dp=4", "zero3")):
            program = self.demo(name, "--mesh", mesh, "--strategy", strategy)
            self.dtc("run", *self.words(program, f"{name}-one", 8))
            for hosts, per_host in ((4, 1), (2, 2)):
                with self.subTest(strategy=name, hosts=hosts):
                    self.hosts = hosts
                    out = f"{name}-{hosts}"
                    self.finish(self.on_hosts(per_host, program, out, 8))
                    self.assert_close(out, f"{name}-one")

    def test_two_ranks_on_two_hosts(self):
        self.hosts = 2
        for name, mesh in (("ddp", "dp=2"), ("megatron-sp", "tp=2"), ("zero3", "dp=2")):
            with self.subTest(strategy=name):
                program = self.demo(name, "--mesh", mesh, "--strategy", name)
                self.dtc("run", *self.words(program, f"{name}-one", 8))
                self.finish(self.on_hosts(1, program, f"{name}-two", 8))
                self.assert_close(f"{name}-two", f"{name}-one")


@unittest.skipIf(SANITIZED, "libfaketime does not go with sanitizers")
class Clocks(HostsTest):
    """The second host was booted an hour before the first, and its time of day is an hour ahead."""

    def setUp(self):
        super().setUp()
        fake = next(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
        shell = self.directory / "later-shell"
        shell.write_text(f"""#!/bin/sh
                         host=$1; shift
                         printf '%s' "$*" > $0.line
                         exec {self.net.remote_shell} $host unshare --time --monotonic 3600 --boottime 3600 --fork \\
                           --kill-child env LD_PRELOAD={fake} FAKETIME=+1h FAKETIME_DONT_FAKE_MONOTONIC=1 sh $0.line""")
        shell.chmod(0o755)
        self.net.remote_shell = shell
        clocks = self.finish([shell, self.net.address(1), "date +%s; cat /proc/uptime"]).split()
        self.assertGreater(int(clocks[0]), time.time() + 3500)
        self.assertGreater(float(clocks[1]), time.monotonic() + 3500)
        self.program = self.small("program", "--mesh", "dp=2")

    def test_losses_are_the_same(self):
        self.dtc("run", *self.words(self.program, "one", 20))
        self.finish(self.on_hosts(1, self.program, "two", 20, "--watchdog", "5"))
        self.assert_close("two", "one")

    def test_faults_are_named_in_time(self):
        for signal_number, said in ((signal.SIGKILL, "process .* is gone"), (signal.SIGSTOP, "its process is stopped")):
            with self.subTest(said):
                subprocess.run(["rm", "-rf", self.directory / "out"], check=True)
                job = self.begin(self.on_hosts(1, self.program, "out", 1_000_000, "--watchdog", "4"))
                os.kill(self.ranks(self.program)[1], signal_number)
                self.ends(job, 4, within=20)
                self.assertRegex(self.output.read_text(), f"rank 1 was lost: .*{said}|rank 1 was lost: it was ended by signal")


if __name__ == "__main__":
    unittest.main()
