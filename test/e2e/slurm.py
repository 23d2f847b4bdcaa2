"""A Slurm of this machine alone, with its own daemons and files."""

import os
import shutil
import socket
import subprocess
import time


class OneNodeSlurm:
    def __init__(self, folder):
        folder.mkdir()
        self.folder = folder
        self.daemons = []
        name = socket.gethostname().split(".")[0]
        base = 20000 + os.getpid() % 10000
        (folder / "slurm.conf").write_text(f"""ClusterName=test
SlurmctldHost={name}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={base}
SlurmdPort={base + 1}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
MpiDefault=none
NodeName={name} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN
PartitionName=all Nodes={name} Default=YES MaxTime=INFINITE State=UP
""")
        (folder / "state").mkdir()
        (folder / "spool").mkdir()
        self.environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}
        try:
            self.start_munge()
            self.start("slurmctld", "-D")
            self.start("slurmd", "-D")
            self.await_node()
        except BaseException:
            self.stop()
            raise

    def start(self, *command):
        with open(self.folder / f"{command[0]}.out", "w") as output:
            self.daemons.append(subprocess.Popen(command, env=self.environment, stdout=output, stderr=output))

    def start_munge(self):
        """With its own key. munged checks who owns the folders above its files, unless told otherwise."""
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self.start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.socket",
                   f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log",
                   f"--seed-file={self.folder}/munged.seed")
        self.await_true(lambda: (self.folder / "munge.socket").exists())

    def await_node(self):
        self.await_true(lambda: "idle" in subprocess.run(["sinfo", "-h", "-o", "%T"], env=self.environment,
                                                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout)

    def await_true(self, condition, seconds=30):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end or any(daemon.poll() is not None for daemon in self.daemons):
                raise RuntimeError("".join(f"== {path.name}\n{path.read_text()}" for path in self.folder.glob("*.out")))
            time.sleep(0.05)

    def srun(self, ranks):
        return [shutil.which("srun"), "--overcommit", "-n", str(ranks)]

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
