#!/usr/bin/env python3
"""Losing launchers of other hosts, their hosts or their connections costs a restart at most: `dtc run --hosts` brings
them back. By default one fault of each kind; DTC_LONG_TESTS: twenty between four hosts."""

import ctypes
import os
import pathlib
import random
import signal
import socket
import stat
import sys
import time
import unittest

from hosts import HostsTest, read_losses

LONG = bool(os.environ.get("DTC_LONG_TESTS"))
SYSTEM = ctypes.CDLL(None, use_errno=True)
PIDFD_OPEN, PIDFD_GETFD = 434, 438


def peer_port(file):
    """0: it is not connected."""
    connection = socket.socket(fileno=file)
    try:
        return connection.getpeername()[1]
    except OSError:
        return 0
    finally:
        connection.detach()


def reset_connection(process, port):
    """Resets the connections that a process has made to a port, as a firewall does that forgets them."""
    handle = SYSTEM.syscall(PIDFD_OPEN, process, 0)
    count = 0
    for name in os.listdir(f"/proc/{process}/fd"):
        file = SYSTEM.syscall(PIDFD_GETFD, handle, int(name), 0)
        if file < 0:
            continue
        try:
            if stat.S_ISSOCK(os.fstat(file).st_mode) and peer_port(file) == port:
                SYSTEM.connect(file, b"\0" * 16, 16) # AF_UNSPEC: no connection any more
                count += 1
        finally:
            os.close(file)
    os.close(handle)
    return count


class LauncherFaults(HostsTest):
    hosts = 4 if LONG else 2
    port = 29400

    def launcher(self, host):
        """The process of `dtc run` there."""
        for process in self.net.processes(host):
            words = pathlib.Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
            if b"--token-from-stdin" in words and words[0].endswith(b"dtc"):
                return process
        return None

    def kill(self, host, processes):
        """Returns when they have ended: while one ends, ranks may take another step, which would look like progress."""
        for process in processes:
            os.kill(process, signal.SIGKILL)
        self.await_true(lambda: not set(processes) & set(self.net.processes(host)), 20)

    def kill_launcher(self, host):
        self.kill(host, [self.launcher(host)])

    def kill_host(self, host):
        self.kill(host, list(self.net.processes(host)))

    def cut_link(self, host):
        self.net.cut(host)
        time.sleep(7)
        self.net.mend(host)

    def reset(self, host):
        self.assertEqual(reset_connection(self.launcher(host), self.port), 1)

    def last_checkpoint(self):
        return max((int(path.name[5:]) for path in (self.directory / "out/checkpoints").glob("step-??????")), default=0)

    def await_progress(self, job):
        """Training continues past a checkpoint that is newer than all current ones, with all launchers there."""
        now = self.last_checkpoint()
        self.await_true(lambda: job.poll() is not None or
                        (self.last_checkpoint() > now and all(self.launcher(host) for host in range(1, self.hosts))), 120)
        self.assertIsNone(job.poll(), self.output.read_text())

    def suffer(self, faults):
        program = self.small("program", "--mesh", f"dp={self.hosts}", schedule="constant", checkpoint_every=20, keep=2)
        job = self.begin(self.on_hosts(1, program, "out", 10 ** 6, "--watchdog", "4",
                                       options=("--max-restarts", len(faults), "--start-timeout", "30")))
        for number, (fault, host) in enumerate(faults):
            self.await_progress(job)
            if LONG:
                print(f"{number}: {fault.__name__} {host}, after step {self.last_checkpoint()}", file=sys.stderr)
            fault(host)
        self.await_progress(job)
        job.send_signal(signal.SIGINT)
        self.ends(job, 128 + signal.SIGINT, within=60)
        losses = read_losses(self.directory / "out.losses")
        self.dtc("run", *self.words(program, "reference", len(losses)))
        self.assertEqual(losses, read_losses(self.directory / "reference.losses"))

    @unittest.skipIf(LONG, "the long form has them all")
    def test_a_launcher_a_host_a_link_and_a_connection_come_back(self):
        faults = [(self.reset, 1), (self.kill_launcher, 1), (self.kill_host, 1), (self.cut_link, 1)]
        self.suffer(faults)
        said = self.output.read_text()
        self.assertIn("starting again (3 of 4)", said)
        self.assertNotIn("starting again (4 of 4)", said) # a reset alone costs nothing
        self.assertIn("starting the launcher on", said)

    @unittest.skipUnless(LONG, "minutes: scripts/test --all runs it")
    def test_twenty_of_them(self):
        source = random.Random(5)
        kinds = [self.kill_launcher, self.kill_host, self.cut_link, self.reset]
        self.suffer([(kinds[number % 4], source.randrange(1, self.hosts)) for number in range(20)])

    def test_a_remote_shell_that_fails_is_told_at_once(self):
        program = self.small("program", "--mesh", f"dp={self.hosts}")
        shell = self.directory / "broken-shell"
        shell.write_text("#!/bin/sh\necho no route to $1 >&2\nexit 255\n")
        shell.chmod(0o755)
        self.net.remote_shell = shell
        begin = time.monotonic()
        for _ in range(10): # the shell ends before or after the token was written
            said = self.finish(self.on_hosts(1, program, "out", 10), code=1)
            self.assertIn(f"no route to {self.net.address(1)}", said)
            self.assertIn("ended with exit code 255 before the launcher there (node", said)
        self.assertLess(time.monotonic() - begin, 30)


if __name__ == "__main__":
    unittest.main()
