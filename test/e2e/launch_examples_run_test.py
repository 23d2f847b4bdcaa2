#!/usr/bin/env python3
"""The files of examples/launch, each run by the tool it is for; torchrun by a stand-in, a container by a folder as its
root."""

import configparser
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import unittest

from driver import DTC, SANITIZED, SOURCE, TIMEOUT, DriverTest, write_tokens
from slurm import OneNodeSlurm

LAUNCH = SOURCE / "examples/launch"
MODEL = SOURCE / "test/e2e/oracle/gpt2"
BUILD = pathlib.Path(os.environ["DTC_BIN"]).parent

# The options that the scripts pass to torchrun, and the variables that ranks then get.
TORCHRUN = """#!/usr/bin/env python3
import argparse, os, subprocess, sys
parser = argparse.ArgumentParser()
parser.add_argument("--no-python", action="store_true", required=True)
for name in ["--nnodes", "--node-rank", "--nproc-per-node", "--master-port", "--max-restarts"]:
    parser.add_argument(name, type=int, required=True)
parser.add_argument("--master-addr", required=True)
parser.add_argument("command", nargs=argparse.REMAINDER)
options = parser.parse_args()
ranks = []
for local in range(options.nproc_per_node):
    variables = {"RANK": options.node_rank * options.nproc_per_node + local, "WORLD_SIZE": options.nnodes * options.nproc_per_node,
                 "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": options.nproc_per_node, "MASTER_ADDR": options.master_addr,
                 "MASTER_PORT": options.master_port}
    ranks.append(subprocess.Popen(options.command, env=os.environ | {name: str(value) for name, value in variables.items()}))
sys.exit(max(rank.wait() for rank in ranks))
"""


class LaunchExamples(DriverTest):
    def setUp(self):
        super().setUp()
        self.data = write_tokens(self.directory / "corpus.bin", 4000, 61)
        self.program = self.compile("program", MODEL, "--mesh", "dp=2", sequence_length=16, global_batch=4,
                                    validation_fraction=0, schedule="constant", checkpoint_every=2)
        self.train(self.program, self.data, "reference", "--steps", 6)
        self.arguments = ["--data", self.data, "--threads", "1", "--log-losses", self.directory / "out.losses"]

    def start_twice(self, command, **options):
        """Four steps, and then, with the same command, the rest of six: the losses are those of an uninterrupted
        run."""
        told = []
        for steps in (4, 6):
            subprocess.run([*map(str, command), *map(str, self.arguments), "--steps", str(steps)], check=True, cwd=self.directory,
                           timeout=TIMEOUT, stdout=subprocess.DEVNULL, **options)
            told += self.losses("out")
        self.assertEqual([step for step, _ in told], ["1", "2", "3", "4", "5", "6"])
        self.assertEqual(told, self.losses("reference"))

    def with_path(self, folder, **more):
        return os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"} | more

    def test_go_on(self):
        self.start_twice([LAUNCH / "go-on", "out", DTC, "run", self.program])

    def test_torchrun(self):
        torchrun = self.directory / "bin/torchrun"
        torchrun.parent.mkdir()
        torchrun.write_text(TORCHRUN)
        torchrun.chmod(0o755)
        self.start_twice([LAUNCH / "torchrun.sh", "out", self.program], env=self.with_path(torchrun.parent, RANKS="2"))

    @unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
    def test_mpirun(self):
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        self.start_twice([LAUNCH / "mpirun.sh", "out", self.program], env=os.environ | root | {"RANKS": "2"})
        self.start_twice_on_named_hosts(root)

    def start_twice_on_named_hosts(self, root):
        shutil.rmtree(self.directory / "out")
        self.start_twice([LAUNCH / "mpirun.sh", "out", self.program],
                         env=os.environ | root | {"RANKS": "2", "HOSTS": "localhost:2", "DTC_TOKEN": "0123456789abcdef",
                                                  "DTC_TOKEN_FILE": ""})

    def test_scripts_say_what_they_lack(self):
        for script in ["torchrun.sh", "mpirun.sh"]:
            done = subprocess.run([LAUNCH / script, "out", "program"], stderr=subprocess.PIPE, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("RANKS: set RANKS to the number of ranks", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("slurmctld"), "Slurm is not installed, or this is not root")
    def test_sbatch(self):
        slurm = OneNodeSlurm(self.directory / "slurm")
        self.addCleanup(slurm.stop)
        self.start_twice([shutil.which("sbatch"), "--wait", "--ntasks-per-node=2", "--overcommit", LAUNCH / "slurm.sbatch", "out",
                          self.program], env=slurm.environment)
        logs = [path.read_text() for path in self.directory.glob("dtc-*.log")]
        self.assertEqual(len(logs), 2)
        self.assertTrue(any("step 6/6" in log for log in logs), logs)

    def unit(self):
        unit = configparser.ConfigParser(strict=False, interpolation=None, comment_prefixes="#")
        unit.optionxform = str
        unit.read(LAUNCH / "dtc-train.service")
        return unit

    @unittest.skipIf(SANITIZED, "what sanitizers add is not installed")
    def test_the_unit_of_systemd(self):
        prefix = self.directory / "prefix"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
        if shutil.which("systemd-analyze"):
            text = (LAUNCH / "dtc-train.service").read_text().replace("/opt/dtc", str(prefix))
            (self.directory / "dtc-train.service").write_text(text)
            done = subprocess.run(["systemd-analyze", "verify", "./dtc-train.service"], cwd=self.directory, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertNotIn("dtc-train.service", done.stdout)
        service = self.unit()["Service"]
        words = [word.replace("/opt/dtc", str(prefix)) for word in shlex.split(service["ExecStart"])]
        self.arguments = self.arguments[2:]  # the unit has the data
        self.start_twice(words)
        # When stopped, it ends with the exit code that the unit calls a success, within the time that the unit allows.
        with open(self.directory / "output", "w") as output:
            job = subprocess.Popen([*words, "--threads", "1", "--steps", "1000000"], cwd=self.directory, stdout=output,
                                   stderr=subprocess.STDOUT)
        self.addCleanup(lambda: job.poll() is None and (job.kill(), job.wait()))
        self.await_output("step 7/")
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(float(service["TimeoutStopSec"])), int(service["SuccessExitStatus"]))

    def instructions(self):
        lines = [line for line in (LAUNCH / "Dockerfile").read_text().splitlines() if line and not line.startswith("#")]
        return [line.split(maxsplit=1) for line in lines]

    def without_weights(self):
        """Which a program does not carry."""
        (self.directory / "model").mkdir()
        shutil.copy2(MODEL / "config.json", self.directory / "model")
        return self.directory / "model"

    def build_root(self, image, root):
        """The result of the instructions, on a base that has only the libraries of glibc and C++."""
        entry = None
        for instruction, words in self.instructions():
            if instruction == "COPY":
                source, target = words.split()
                (root / target.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(image / source, root / target.lstrip("/"))
            elif instruction == "WORKDIR":
                (root / words.lstrip("/")).mkdir(parents=True)
            elif instruction == "ENTRYPOINT":
                entry = eval(words)
            else:
                self.assertIn(instruction, ["FROM", "STOPSIGNAL"])
        programs = [root / "opt/dtc/bin/dtc", root / "opt/program", pathlib.Path("/bin/bash")]
        lines = "".join(subprocess.run(["ldd", path], check=True, text=True, stdout=subprocess.PIPE).stdout for path in programs)
        for path in {"/bin/bash", *re.findall(r"(/\S+) \(0x", lines)}:
            (root / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, root / path.lstrip("/"))
        known = r"ld-linux-x86-64|lib(c|m|mvec|z|stdc\+\+|gcc_s|pthread|dl|rt|tinfo)\.so"  # all of debian:12-slim
        self.assertEqual([name for name in re.findall(r"^\s*(\S+) =>", lines, re.MULTILINE) if not re.match(known, name)], [])
        return entry

    @unittest.skipUnless(os.geteuid() == 0 and not SANITIZED, "only root can change roots; sanitizers are not installed")
    def test_the_container(self):
        image, root = self.directory / "image", self.directory / "root"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", image / "dtc"], check=True, stdout=subprocess.DEVNULL)
        program = self.compile("without_weights", self.without_weights(), "--mesh", "dp=2", sequence_length=16, global_batch=4,
                               validation_fraction=0, schedule="constant", checkpoint_every=2)
        self.train(program, self.data, "inside", "--steps", 6)
        shutil.copy2(program, image / "program")
        entry = self.build_root(image, root)
        shutil.copy2(self.data, root / "train/corpus.bin")
        (root / "proc").mkdir()
        (root / "dev").mkdir()
        inside = f"mount -t proc proc {root}/proc && mount --bind /dev {root}/dev && exec chroot {root} /bin/bash -c 'cd /train && exec \"$@\"' bash \"$@\""
        self.arguments = ["--data", "corpus.bin", "--threads", "1", "--log-losses", "out.losses"]
        for steps in (4, 6):
            done = subprocess.run(["unshare", "-mpf", "bash", "-c", inside, "bash", *entry, *self.arguments, "--steps", str(steps)],
                                  text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT, env={"PATH": os.environ["PATH"]})
            self.assertEqual(done.returncode, 0, done.stdout)
        told = [tuple(line.split()) for line in (root / "train/out.losses").read_text().splitlines()]
        self.assertEqual(told, self.losses("inside")[4:])

    def test_scripts_are_sound(self):
        scripts = [path for path in LAUNCH.iterdir() if path.read_text().startswith("#!")]
        self.assertEqual(len(scripts), 4)
        for script in scripts:
            self.assertTrue(os.access(script, os.X_OK), script)
            subprocess.run(["bash", "-n", script], check=True)
            if shutil.which("shellcheck"):
                subprocess.run(["shellcheck", "-x", script], check=True)


if __name__ == "__main__":
    unittest.main()
