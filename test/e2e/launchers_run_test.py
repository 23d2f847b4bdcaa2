#!/usr/bin/env python3
"""Whatever starts the ranks, they find each other; and ranks that do not belong together are refused."""

import os
import shlex
import shutil
import signal
import subprocess
import unittest

from driver import DTC, TIMEOUT, DriverTest, main, write_tokens
from hosts import SMALL, HostsTest
from slurm import OneNodeSlurm


class Launchers(HostsTest):
    def setUp(self):
        super().setUp()
        self.program = self.small("program", "--mesh", "dp=2,tp=2")
        self.dtc("run", *self.words(self.program, "reference", 10))

    def variables(self, rank, **more):
        """As torchrun sets them."""
        return os.environ | {"DTC_TOKEN": "0123456789abcdef", "MASTER_ADDR": self.net.address(0), "MASTER_PORT": "29511",
                             "RANK": str(rank), "WORLD_SIZE": "4", "LOCAL_RANK": str(rank % 2), "LOCAL_WORLD_SIZE": "2"} | more

    def start_ranks(self, *more, **changes):
        """All four, two on each host; `changes`: variables and program of single ranks, as rank1=dict(...)."""
        jobs = []
        for rank in range(4):
            change = dict(changes.get(f"rank{rank}", {}))
            words = self.words(change.pop("program", self.program), "out", 10, *more)
            jobs.append(subprocess.Popen(self.net.on(rank // 2, *words), env=self.variables(rank, **change),
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        outputs = [job.communicate(timeout=TIMEOUT)[0] for job in jobs]
        return [job.returncode for job in jobs], outputs

    def test_torchrun_s_variables(self):
        codes, outputs = self.start_ranks()
        self.assertEqual(codes, [0, 0, 0, 0], outputs)
        self.assert_close("out", "reference")

    def test_dtc_run_on_each_host(self):
        address = f"{self.net.address(0)}:29512"
        jobs = [subprocess.Popen(self.net.on(host, DTC, "run", "--nnodes", "2", "--node-rank", host, "--server", address,
                                             *self.words(self.program, "out", 10)),
                                 stdout=subprocess.DEVNULL,
                                 env=os.environ | {"DTC_TOKEN": "0123456789abcdef"}) for host in (1, 0)]
        self.assertEqual([job.wait(TIMEOUT) for job in jobs], [0, 0])
        self.assert_close("out", "reference")

    def run_nodes(self, port, *options):
        """`dtc run` on two hosts, with these options; exit codes and output."""
        jobs = [subprocess.Popen(self.net.on(host, DTC, "run", "--server", f"{self.net.address(0)}:{port}",
                                             "--start-timeout", "3", *options[host].split(),
                                             *self.words(self.program, "out", 10)),
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 env=os.environ | {"DTC_TOKEN": "0123456789abcdef"}) for host in range(2)]
        outputs = [job.communicate(timeout=TIMEOUT)[0] for job in jobs]
        return [job.returncode for job in jobs], outputs

    def test_nodes_that_do_not_fit_are_refused(self):
        codes, outputs = self.run_nodes(29514, "--nnodes 2 --node-rank 0", "--nnodes 2 --node-rank 1 -n 3")
        self.assertEqual(codes, [3, 3], outputs)
        self.assertIn("compiled for 4 ranks, but the nodes start 5 (2 + 3)", outputs[0])
        self.assertIn("ended the job before it began", outputs[1])
        codes, outputs = self.run_nodes(29515, "--nnodes 2 --node-rank 0", "--nnodes 2 --node-rank 0")
        self.assertEqual(codes, [1, 3], outputs)
        self.assertIn("of 2 nodes, these did not join in time: 1;", outputs[0])
        self.assertIn("it is no address of this machine", outputs[1])
        codes, outputs = self.run_nodes(29516, "--nnodes 2 --node-rank 0", "--nnodes 3 --node-rank 1")
        self.assertEqual(codes, [1, 3], outputs)
        self.assertIn("it was started with --nnodes 3, the first node with 2", outputs[1])

    @unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
    def test_mpirun(self):
        self.finish(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "4", *self.words(self.program, "out", 10)])
        self.assert_close("out", "reference")

    def test_dtc_run_by_variables(self):
        variables = os.environ | {"DTC_TOKEN": "0123456789abcdef", "PET_NNODES": "2", "PET_MASTER_ADDR": self.net.address(0),
                                  "PET_MASTER_PORT": "29513"}
        jobs = [subprocess.Popen(self.net.on(host, DTC, "run", "--log-dir", self.directory / "logs",
                                             *self.words(self.program, "out", 10)), stdout=subprocess.DEVNULL,
                                 env=variables | {"PET_NODE_RANK": str(host)}) for host in range(2)]
        self.assertEqual([job.wait(TIMEOUT) for job in jobs], [0, 0])
        self.assert_close("out", "reference")
        self.assertEqual(sorted(path.name for path in (self.directory / "logs").iterdir()),
                         ["rank-00001.log", "rank-00002.log", "rank-00003.log"])

    def test_a_name_that_means_the_machine_itself_on_its_own_host(self):
        """The hosts file as Debian's installer writes it, which other hosts do not have."""
        def with_names(host, first):
            names = self.directory / f"hosts-{host}"
            names.write_text(f"127.0.0.1 localhost\n{first} node1\n{self.net.address(1)} node2\n")
            return self.net.on(host, "unshare", "-m", "sh", "-c", f'mount --bind {names} /etc/hosts && exec "$@"', "names")
        own = with_names(0, "127.0.1.1")
        shell = self.directory / "shell"
        shell.write_text(f'#!/bin/sh\nshift\nexec {shlex.join(with_names(1, self.net.address(0)))} sh -c "$*"\n')
        shell.chmod(0o755)
        run = [DTC, "run", "--start-timeout", "20"]
        self.finish([*own, *run, "--hosts", "node1:2,node2:2", "--remote-shell", shell, *self.words(self.program, "out", 10)])
        self.assert_close("out", "reference")
        said = self.finish([*own, *run, "--nnodes", "2", "--node-rank", "0", "--server", "node1:29518",
                            *self.words(self.program, "out", 10)], code=3, env=os.environ | {"DTC_TOKEN": "0123456789abcdef"})
        self.assertIn("here the name stands for 127.0.1.1, which no other host can reach", said)

    def test_another_token_is_refused(self):
        codes, outputs = self.start_ranks("--start-timeout", "3", rank3={"DTC_TOKEN": "another token, of 30 letters"})
        self.assertEqual(codes[3], 3, outputs)
        self.assertIn("the job there has another token", outputs[3])
        for rank in range(3):
            self.assertEqual(codes[rank], 4, outputs)
            self.assertIn("rank 3 of 4 did not come within 3 s", outputs[rank])

    def test_no_token_is_refused_at_once(self):
        codes, outputs = self.start_ranks(**{f"rank{rank}": {"DTC_TOKEN": ""} for rank in range(4)})
        self.assertEqual(codes, [3, 3, 3, 3])
        self.assertIn("DTC_TOKEN", outputs[0])

    def test_another_program_is_refused(self):
        other = self.small("other", "--mesh", "dp=2,tp=2", learning_rate=0.5)
        codes, outputs = self.start_ranks("--start-timeout", "5", rank1={"program": other})
        self.assertNotIn(0, codes)
        self.assertIn("another program", "".join(outputs))

    def test_a_rank_started_twice_is_refused(self):
        codes, outputs = self.start_ranks("--start-timeout", "3", rank3={"RANK": "2"})
        self.assertIn(3, codes[2:])
        self.assertIn("rank 2 has already joined", "".join(outputs[2:]))
        self.assertEqual(codes[:2], [4, 4])


# Argument: host:port. Connects a thousand times; of every four connections one sends nothing, and the others send no
# valid greeting.
STRANGER = """
import os, resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (2000, 2000))
host, port = sys.argv[1].rsplit(":", 1)
kept = []
for number in range(1000):
    try:
        kept.append(socket.create_connection((host, int(port)), timeout=5))
        kept[-1].sendall([b"", os.urandom(3000), b"GET / HTTP/1.1\\r\\n\\r\\n", b"\\0" * 100][number % 4])
    except OSError:
        pass
print(len(kept), flush=True)
time.sleep(100)
"""


class Strangers(HostsTest):
    def knock(self, address):
        stranger = subprocess.Popen(self.net.on(1, "python3", "-c", STRANGER, address), stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (stranger.kill(), stranger.communicate()))
        self.assertGreater(int(stranger.stdout.readline()), 900)

    def test_they_disturb_nobody(self):
        """A thousand connections each, to the meeting point of a job that is starting, and to everything that listens
        while it trains."""
        program = self.small("program", "--mesh", "dp=2", schedule="constant", checkpoint_every=0)
        endless, address = 10 ** 6, f"{self.net.address(0)}:29517"
        token = os.environ | {"DTC_TOKEN": "0123456789abcdef"}
        jobs = []
        for host in range(2):
            jobs.append(subprocess.Popen(self.net.on(host, DTC, "run", "--nnodes", "2", "--node-rank", host, "--server", address,
                                                     *self.words(program, "out", endless)), stdout=subprocess.DEVNULL,
                                         env=token))
            self.addCleanup(lambda job=jobs[-1]: (job.kill(), job.wait()))
            if host == 0:
                while not self.net.listening(0):
                    self.assertIsNone(jobs[0].poll())
                self.knock(address)
        losses = self.directory / "out.losses"
        while not losses.exists() or not losses.read_text():
            self.assertIsNone(jobs[0].poll())
        places = [place for host in range(2) for place in self.net.listening(host)]
        self.assertEqual(len(places), 3) # the server, and each rank
        for place in places:
            self.knock(place)
        self.assertIsNone(jobs[0].poll(), "it should train while they knock")
        jobs[0].send_signal(signal.SIGINT)
        self.assertEqual(jobs[0].wait(TIMEOUT), 128 + signal.SIGINT)
        jobs[1].wait(TIMEOUT)
        self.dtc("run", *self.words(program, "reference", len(losses.read_text().splitlines())))
        self.assert_close("out", "reference")


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("slurmctld"), "Slurm is not installed, or this is not root")
class Slurm(DriverTest):
    """A real Slurm of one node."""

    def setUp(self):
        super().setUp()
        self.slurm = OneNodeSlurm(self.directory / "slurm")
        self.addCleanup(self.slurm.stop)

    def test_srun(self):
        data = write_tokens(self.directory / "tokens", 4000, 61)
        program = self.compile("program", SMALL, "--mesh", "dp=2,tp=2", sequence_length=16, global_batch=4,
                               validation_fraction=0)
        losses = []
        for out, start in (("one", [DTC, "run"]), ("srun", self.slurm.srun(4))):
            subprocess.run([*start, program, "--data", data, "--out", self.directory / out, "--log-losses",
                            self.directory / f"{out}.losses", "--threads", "1", "--steps", "10"], check=True,
                           timeout=TIMEOUT, stdout=subprocess.DEVNULL, env=self.slurm.environment)
            losses.append((self.directory / f"{out}.losses").read_text())
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(len(losses[0].splitlines()), 10)


if __name__ == "__main__":
    main(at_once=3)
