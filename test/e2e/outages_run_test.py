#!/usr/bin/env python3
"""A cut between hosts that is shorter than the watchdog only costs time; a longer one is named on both sides."""

import concurrent.futures
import os
import signal
import subprocess
import time
import unittest

from driver import DTC
from hosts import Hosts, HostsTest, read_losses


class Cut:
    """Training on its own two hosts, whose link is cut once or several times."""

    def __init__(self, test, name, watchdog, seconds):
        self.test, self.name, self.watchdog, self.seconds = test, name, watchdog, seconds
        self.folder = test.directory / name
        self.folder.mkdir()
        self.sockets = ""
        self.output, self.losses = self.folder / "output", test.directory / f"{name}.losses"

    def run(self):
        """How the job ended, and how many seconds after each cut it trained again."""
        net = Hosts(2, self.folder)
        try:
            net.limit("1mbps")  # the link is then busy, and steps take a while
            places = ",".join(f"{net.address(host)}:1" for host in range(2))
            with open(self.output, "w") as output:
                job = subprocess.Popen(
                    list(map(str, net.on(0, DTC, "run", "--hosts", places, "--remote-shell", net.remote_shell,
                                         *self.test.words(self.test.program, self.name, 1_000_000, "--watchdog",
                                                          self.watchdog)))),
                    stdout=output, stderr=subprocess.STDOUT)
            try:
                self.await_steps(job, 1, 60)
                pauses = [self.cut(job, net, seconds, number % 2) for number, seconds in enumerate(self.seconds)]
                if job.poll() is None:
                    job.send_signal(signal.SIGTERM)
                return job.wait(60), pauses
            finally:
                job.kill()
                job.wait()
        finally:
            net.remove()

    def cut(self, job, net, seconds, host):
        net.cut(host)
        time.sleep(seconds)
        net.mend(host)
        pause = self.await_steps(job, self.steps() + 2, 5)
        if pause >= 5:  # far longer than it should take: the state of the connections tells why
            self.sockets = "\n".join(net.sockets(host) for host in range(2))
            pause += self.await_steps(job, self.steps() + 2, 25)
        time.sleep(3)  # so that the next cut counts as another one for idle connections, too
        return pause

    def steps(self):
        return self.losses.read_text().count("\n") if self.losses.exists() else 0

    def await_steps(self, job, steps, seconds):
        begin = time.monotonic()
        while self.steps() < steps and job.poll() is None and time.monotonic() < begin + seconds:
            time.sleep(0.1)
        return time.monotonic() - begin

    def words(self):
        return self.output.read_text() + self.sockets


class Outages(HostsTest):
    def setUp(self):
        super().setUp()
        self.program = self.small("program", "--mesh", "dp=2", schedule="constant", checkpoint_every=0)

    def run_all(self, cuts):
        with concurrent.futures.ThreadPoolExecutor(len(cuts)) as pool:
            return list(pool.map(Cut.run, cuts))

    def assert_undisturbed(self, survivors):
        """Their losses are those of an undisturbed run, bit for bit."""
        losses = [read_losses(cut.losses) for cut in survivors]
        self.dtc("run", *self.words(self.program, "reference", max(map(len, losses))))
        expected = read_losses(self.directory / "reference.losses")
        for found in losses:
            self.assertGreater(len(found), 3)
            self.assertEqual(found, expected[:len(found)])

    def assert_survived(self, cut, result):
        self.assertEqual(result[0], 128 + signal.SIGTERM, cut.words())

    def assert_named(self, cut, result):
        self.assertEqual(result[0], 4, cut.words())
        for who, here, there in (("rank 1", 1, 2), ("the launcher", 2, 1)):
            self.assertRegex(cut.words(), rf"{who} was lost: its host is unreachable: nothing has come from there for "
                             rf"\d+ s over the link between 10\.213\.\d+\.{here} and 10\.213\.\d+\.{there}")

    def test_cuts_shorter_than_the_watchdog_are_survived_and_longer_ones_named(self):
        watchdog = 16
        cuts = [Cut(self, f"cut-{share}", watchdog, [share * watchdog]) for share in (0.5, 0.9, 1.3)]
        half, most, beyond = self.run_all(cuts)
        self.assert_survived(cuts[0], half)
        self.assert_survived(cuts[1], most)
        self.assert_named(cuts[2], beyond)
        self.assert_undisturbed(cuts[:2])

    @unittest.skipUnless(os.environ.get("DTC_LONG_TESTS"), "minutes: scripts/test --all runs it")
    def test_thirty_outages_under_the_watchdog_that_nobody_has_set(self):
        watchdog = 45
        short = [[1, 2, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21], [40, 38, 36, 23], [39, 37, 35, 25], [34, 33, 31, 29]]
        long = [50, 52, 54, 56, 58, 60]
        survivors = [Cut(self, f"short-{number}", watchdog, seconds) for number, seconds in enumerate(short)]
        others = [Cut(self, f"long-{seconds}", watchdog, [seconds]) for seconds in long]
        results = self.run_all(survivors + others)
        for cut, (code, pauses) in zip(survivors + others, results):
            print(cut.seconds, "s: exit code", code, "seconds to the second step after:",
                  [f"{pause:.1f}" for pause in pauses])
        for cut, result in zip(survivors, results):
            self.assert_survived(cut, result)
        for cut, result in zip(others, results[len(survivors):]):
            self.assert_named(cut, result)
        self.assert_undisturbed(survivors)


if __name__ == "__main__":
    unittest.main()
