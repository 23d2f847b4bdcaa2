"""What the end-to-end tests share: running dtc and the programs that it compiles, as a user does.

The tests take the folder of the binaries from DTC_BIN and the source tree from DTC_SOURCE; CMakeLists.txt sets both.
"""

import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

DTC = str(pathlib.Path(os.environ["DTC_BIN"]) / "dtc")
SANITIZED = b"__asan_init" in pathlib.Path(DTC).read_bytes()
SOURCE = pathlib.Path(os.environ["DTC_SOURCE"])
TIMEOUT = 600 if SANITIZED else 120  # seconds that no command may exceed

# A shell starts background jobs without SIGINT, and nohup without SIGHUP; programs would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def write_token_file(path, tokens, bits=16):
    """In llm.c's format."""
    magic, version, code = {16: (20240520, 1, "H"), 32: (20240801, 7, "I")}[bits]
    header = struct.pack("<3i", magic, version, len(tokens)).ljust(1024, b"\0")
    path.write_bytes(header + struct.pack(f"<{len(tokens)}{code}", *tokens))
    return path


def write_tokens(path, count, vocabulary, seed=1):
    """A token file that a model can learn: each token is mostly determined by the one before."""
    source = random.Random(seed)
    follower = [source.randrange(vocabulary) for _ in range(vocabulary)]
    token, tokens = 0, []
    for _ in range(count):
        token = follower[token] if source.random() < 0.7 else source.randrange(vocabulary)
        tokens.append(token)
    return write_token_file(path, tokens)


def interleaved_zero_bubble():
    """zb1p_2rank_2stagep_compute.csv of PyTorch's tests, by its rule: two ranks, four stages, eight micro-batches."""
    first = "0F0,0F1,2F0,,2F1,2I0,2W0,0F2,2I1,2W1,0F3,0I0,0W0,2F2,0I1,0W1,2F3,2I2,2W2"
    second = ",1F0,1F1,3F0,3I0,3F1,3I1,3W0,1F2,1I0,3W1,1F3,1I1,1W0,3F2,3I2,1W1,3F3,3I3,3W2"
    for a in (4, 6):
        b, c, d = a + 1, a - 2, a - 1
        first += f",0F{a},2I{d},2W{d},0F{b},0I{c},0W{c},2F{a},0I{d},0W{d},2F{b},2I{a},2W{a}"
        second += f",1F{a},1I{c},3W{d},1F{b},1I{d},1W{c},3F{a},3I{a},1W{d},3F{b},3I{b},3W{a}"
    return f"{first},2I7,2W7,0I6,0W6,0I7,0W7\n{second},1I6,3W7,1I7,1W6,1W7\n"


def read_safetensors(path):
    """The header (without __metadata__) and the data."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + size])
    header.pop("__metadata__", None)
    return header, content[8 + size:]


def write_safetensors(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_metrics(path):
    """The training steps among the lines of a metrics.jsonl."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if "loss_metrics/global_avg_loss" in line]


def names_of(tests):
    """Of single tests, as the command line takes them."""
    if isinstance(tests, unittest.TestSuite):
        return [name for test in tests for name in names_of(test)]
    return [tests.id().removeprefix("__main__.")]


def main(at_once):
    """unittest.main, for tests that mostly wait, or whose commands use one core: runs `at_once` of them in parallel,
    each in a process of its own."""
    if any(word != "-v" for word in sys.argv[1:]):
        unittest.main()

    def run(name):
        begin = time.monotonic()
        done = subprocess.run([sys.executable, "-B", sys.argv[0], "-v", name], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        print(f"{done.stdout}{time.monotonic() - begin:.1f} s\n", flush=True)
        return done.returncode

    with ThreadPoolExecutor(at_once) as pool:
        sys.exit(any(list(pool.map(run, names_of(unittest.defaultTestLoader.loadTestsFromName("__main__"))))))


class DriverTest(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="dtc-e2e-"))
        self.addCleanup(shutil.rmtree, self.directory)

    def make_folder(self, name):
        """A new folder in the test's own."""
        folder = self.directory / name
        folder.mkdir()
        return folder

    def dtc(self, *arguments, code=0, **options):
        """Runs dtc, requires the exit code `code`, and returns what it printed."""
        done = subprocess.run([DTC, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=TIMEOUT, **options)
        self.assertEqual(done.returncode, code, f"dtc {' '.join(map(str, arguments))}\n{done.stdout}")
        return done.stdout

    def refused(self, *arguments, code=3, within=1.0, **options):
        """Runs a command that must be refused in time and returns its message."""
        begin = time.monotonic()
        output = self.dtc(*arguments, code=code, **options)
        self.assertLess(time.monotonic() - begin, within, output)
        return output

    def compile(self, name, model, *arguments, **settings):
        """Compiles an example, or a model directory, and returns the program's path."""
        program = self.directory / name
        model = SOURCE / "examples" / model if isinstance(model, str) else model
        assignments = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        self.dtc("compile", model, *arguments, *assignments, "-o", program)
        return program

    def train(self, program, data, out, *arguments):
        """Trains on one thread per rank and returns the losses, exactly as logged: [(step, text)]."""
        log = self.directory / (out + ".losses")
        self.dtc("run", program, "--data", data, "--out", self.directory / out, "--log-losses", log, "--threads", 1,
                 *arguments)
        return self.losses(out)

    def losses(self, out):
        return [tuple(line.split()) for line in (self.directory / (out + ".losses")).read_text().splitlines()]

    def metrics(self, out):
        return read_metrics(self.directory / out / "metrics.jsonl")

    def start(self, *arguments):
        """dtc in the background; its output goes to the file `output`."""
        with open(self.directory / "output", "w") as output:
            job = subprocess.Popen([DTC, *map(str, arguments)], stdout=output, stderr=subprocess.STDOUT)
        self.addCleanup(lambda: job.poll() is None and (job.kill(), job.wait()))
        return job

    def output(self):
        return (self.directory / "output").read_text()

    def await_output(self, text, seconds=30):
        """Waits until the job in the background has written `text`."""
        end = time.monotonic() + seconds
        while text not in self.output():
            self.assertLess(time.monotonic(), end, f"no '{text}' in:\n{self.output()}")
            time.sleep(0.01)

    def assert_close(self, expected, actual, tolerance):
        """The same steps, with losses whose relative difference is at most `tolerance`."""
        self.assertEqual([step for step, _ in expected], [step for step, _ in actual])
        for (step, a), (_, b) in zip(expected, actual):
            self.assertLessEqual(abs(float(a) - float(b)), tolerance * abs(float(a)), f"step {step}: {a} and {b}")

    def children(self, job):
        """Process ids of the ranks of `dtc run`, in the order of ranks."""
        return [int(word) for word in pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()]
