"""Hosts as network namespaces of this machine, joined by a bridge. Only root can create them; otherwise tests that need
them are skipped."""

import itertools
import os
import pathlib
import shutil
import subprocess
import time
import unittest

from driver import DTC, SOURCE, TIMEOUT, DriverTest, write_tokens

SMALL = SOURCE / "test/e2e/oracle/gpt2"
# docs/trust.md: native f32 over 10 steps.
TOLERANCE = 1e-5


def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def may_make_namespaces():
    return subprocess.run(["unshare", "--net", "--mount", "true"], stderr=subprocess.DEVNULL).returncode == 0


class Hosts:
    """`count` hosts with the addresses 10.213.N.1, .2, ...; N differs between tests that run in parallel."""

    made = itertools.count()

    def __init__(self, count, directory):
        if os.geteuid() != 0 or not shutil.which("ip") or not may_make_namespaces():
            raise unittest.SkipTest("network namespaces need iproute2 and root's rights, which containers often withhold")
        self.mark = f"dtc{os.getpid()}n{next(self.made)}"
        self.net = f"10.213.{os.getpid() % 256}"
        self.count = count
        self.switch = f"{self.mark}s"
        ip("netns", "add", self.switch)
        ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.switch, "link", "set", "bridge", "up")
        for host in range(count):
            self.add(host)
        # Like ssh: a host's address, then a command line for a shell.
        self.remote_shell = pathlib.Path(directory) / "remote-shell"
        self.remote_shell.write_text(f'#!/bin/sh\nhost=$1; shift\n'
                                     f'exec ip netns exec {self.mark}h$(( ${{host##*.}} - 1 )) sh -c "$*"\n')
        self.remote_shell.chmod(0o755)

    def add(self, host):
        name, inside, outside = self.name(host), "data", f"port{host}"
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", inside, "netns", name, "type", "veth", "peer", "name", outside, "netns", self.switch)
        ip("-n", name, "address", "add", f"{self.address(host)}/24", "dev", inside)
        ip("-n", name, "link", "set", inside, "up")
        ip("-n", self.switch, "link", "set", outside, "master", "bridge", "up")

    def name(self, host):
        return f"{self.mark}h{host}"

    def address(self, host):
        return f"{self.net}.{host + 1}"

    def on(self, host, *command):
        """A command line that runs on a host."""
        return ["ip", "netns", "exec", self.name(host), *map(str, command)]

    def limit(self, rate, burst="1mb"):
        """Limits what a host sends to this rate, as tc writes it: "40mbps" is 40 MB/s; `burst` passes at once."""
        for host in range(self.count):
            subprocess.run(self.on(host, "tc", "qdisc", "replace", "dev", "data", "root", "tbf", "rate", rate, "burst",
                                   burst, "latency", "50ms"), check=True)

    def cut(self, host, state="down"):
        ip("-n", self.switch, "link", "set", f"port{host}", state)

    def mend(self, host):
        self.cut(host, "up")

    def cut_towards(self, host, other):
        """Drops what `host` sends to `other`; the other direction still works."""
        ip("-n", self.name(host), "neighbour", "replace", self.address(other), "lladdr", "02:00:00:00:00:01", "dev", "data",
           "nud", "permanent")

    def processes(self, host):
        """All processes that run there."""
        return [int(word) for word in subprocess.run(["ip", "netns", "pids", self.name(host)], check=True,
                                                     stdout=subprocess.PIPE, text=True).stdout.split()]

    def listening(self, host):
        """The addresses on which processes listen there."""
        lines = subprocess.run(self.on(host, "ss", "-Htln"), check=True, stdout=subprocess.PIPE, text=True).stdout
        return [line.split()[3] for line in lines.splitlines()]

    def sockets(self, host):
        """Its connections as the system sees them, with retransmissions and the time of the next one."""
        return subprocess.run(self.on(host, "ss", "-tnoim"), stdout=subprocess.PIPE, text=True).stdout

    def remove(self):
        for name in [self.name(host) for host in range(self.count)] + [self.switch]:
            subprocess.run(["ip", "netns", "delete", name], check=False)


def read_losses(path):
    return [(int(line.split()[0]), line.split()[1]) for line in path.read_text().splitlines()]


class HostsTest(DriverTest):
    """A test that trains on several hosts."""

    hosts = 2

    def setUp(self):
        super().setUp()
        self.net = Hosts(self.hosts, self.directory)
        self.addCleanup(self.net.remove)
        self.data = write_tokens(self.directory / "tokens", 4000, 61)

    def small(self, name, *arguments, **settings):
        return self.compile(name, SMALL, *arguments, sequence_length=16, global_batch=4, validation_fraction=0,
                            **settings)

    def words(self, program, out, steps, *more):
        """The arguments after `dtc run`."""
        return [program, "--data", self.data, "--out", self.directory / out, "--log-losses",
                self.directory / f"{out}.losses", "--threads", "1", "--steps", str(steps), *more]

    def on_hosts(self, per_host, program, out, steps, *more, options=()):
        """A command line for `dtc run` over all hosts, from the first."""
        places = ",".join(f"{self.net.address(host)}:{per_host}" for host in range(self.hosts))
        return self.net.on(0, DTC, "run", "--hosts", places, "--remote-shell", self.net.remote_shell, *options,
                           *self.words(program, out, steps, *more))

    def finish(self, command, code=0, **options):
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=TIMEOUT, **options)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def assert_close(self, out, reference):
        found, expected = (read_losses(self.directory / f"{name}.losses") for name in (out, reference))
        self.assertEqual([step for step, _ in found], [step for step, _ in expected])
        for (step, a), (_, b) in zip(found, expected):
            self.assertLessEqual(abs(float(a) - float(b)), TOLERANCE * abs(float(b)), f"step {step}: {a} and {b}")

    def begin(self, command):
        """Starts a job, which writes to a file, and waits until it trains."""
        self.output = self.directory / "output"
        with open(self.output, "w") as file:
            job = subprocess.Popen(list(map(str, command)), stdout=file, stderr=subprocess.STDOUT)
        self.addCleanup(lambda: job.poll() is None and job.kill())
        self.await_words("step 1/")
        return job

    def await_words(self, words, seconds=30):
        end = time.monotonic() + seconds
        while words not in self.output.read_text():
            self.assertLess(time.monotonic(), end, f"no '{words}' in: {self.output.read_text()}")
            time.sleep(0.02)

    def await_true(self, condition, seconds=30):
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end, self.output.read_text())
            time.sleep(0.002)

    def ranks(self, program):
        """Processes of a program, by rank."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if os.readlink(entry / "exe") == str(program):
                    parts = (entry / "environ").read_bytes().split(b"\0")
                    variables = dict(part.split(b"=", 1) for part in parts if b"=" in part)
                    found[int(variables[b"DTC_RANK"])] = int(entry.name)
            except (OSError, ValueError, KeyError):
                pass
        return found

    def ends(self, job, code, within):
        begin = time.monotonic()
        self.assertEqual(job.wait(within), code, self.output.read_text())
        return time.monotonic() - begin
