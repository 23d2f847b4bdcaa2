"""Programs for NVIDIA GPUs as a user starts them: where there is no driver, and with the stand-in for it."""

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from driver import SOURCE, DriverTest, interleaved_zero_bubble, write_tokens

SMALL = ["--set", "sequence_length=16"]


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
        return True
    except OSError:
        return False


def is_sanitized():
    """Whether the stand-ins need a sanitizer in whatever loads them; Python has none."""
    return b"__asan_init" in (Path(os.environ["DTC_STAND_IN_LIBRARIES"]) / "libcuda.so.1").read_bytes()


class GpuRuns(DriverTest):
    def setUp(self):
        super().setUp()
        self.data = write_tokens(self.directory / "tokens", 2000, 61)
        self.model, self.program = SOURCE / "examples/gpt-small", self.directory / "program"

    def compile_gpu(self, *arguments):
        self.dtc("compile", SOURCE / "examples/gpt-small", *(arguments or ["--target", "cuda:sm_90"]), *SMALL, "-o",
                 self.program)

    def compile_stand_in(self, *arguments):
        """With the same kernels as code of this machine."""
        subprocess.run([os.environ["DTC_STAND_IN_COMPILE"], "compile", self.model, "--target", "cuda:sm_90", *SMALL,
                        *arguments, "-o", self.program], check=True, stdout=subprocess.DEVNULL)

    def run_stand_in(self, setting, code, libraries="DTC_STAND_IN_LIBRARIES"):
        environment = {**os.environ, "LD_LIBRARY_PATH": os.environ[libraries], "DTC_STAND_IN": setting}
        return self.refused("run", self.program, "--data", self.data, "--out", self.directory / "out", code=code,
                            within=10, env=environment)

    @unittest.skipIf(has_driver(), "this machine has NVIDIA's driver")
    def test_without_a_driver(self):
        self.compile_gpu()
        message = self.refused("run", self.program, "--data", self.data, code=1)
        self.assertIn("compiled for NVIDIA GPUs, and their driver cannot be loaded: libcuda.so.1", message)
        self.assertIn("compile the program with --target cpu", message)

    def start_two(self, *settings, **more):
        """Two ranks as a launcher starts them, each on its own stand-in; returns their exit codes and output."""
        world = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": str(os.getpid()), **more}
        command = [self.program, "--data", self.data, "--out", self.directory / "out"]
        ranks = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={
            **os.environ, **world, "RANK": str(rank), "LD_LIBRARY_PATH": os.environ["DTC_STAND_IN_LIBRARIES"],
            "DTC_STAND_IN": setting}) for rank, setting in enumerate(settings)]
        words = [rank.communicate(timeout=60)[0] for rank in ranks]
        return [rank.returncode for rank in ranks], words

    def test_gpus_that_do_not_fit(self):
        self.compile_stand_in("--mesh", "dp=2", "--set", "steps=1", "--set", "global_batch=2")
        message = self.run_stand_in("devices=1", code=1)
        self.assertIn("error: rank 0: ranks 0 and 1 both work on GPU 0 (stand-in, sm_90), and each needs", message)
        self.assertNotIn("error: rank 1:", message)
        codes, words = self.start_two("first=0", "first=1")
        self.assertEqual(codes, [0, 0], words)
        codes, words = self.start_two("first=0", "first=1,multiprocessors=3")
        self.assertEqual(codes, [1, 1])
        self.assertIn("rank 0 works on GPU 0 (stand-in, sm_90) with 1 multiprocessors, and rank 1 on a GPU of sm_90 "
                      "with 3", words[0])
        self.assertEqual(words[1], "")

    def test_a_gpu_that_is_lost(self):
        self.compile_stand_in("--mesh", "dp=2", "--set", "steps=1", "--set", "global_batch=2")
        codes, words = self.start_two("first=0", "first=1,lost_at=100")
        self.assertEqual(codes, [4, 1], words)
        self.assertIn("rank 1", words[0])
        self.assertIn("CUDA_ERROR_ECC_UNCORRECTABLE", words[1])

    def test_a_launch_that_is_refused(self):
        """While sums that its peer no longer joins are in progress: nobody waits for them."""
        self.compile_stand_in("--mesh", "dp=2", "--set", "steps=2", "--set", "global_batch=2")
        for launch in range(60, 180, 30):
            with self.subTest(launch):
                codes, words = self.start_two("first=0", f"first=1,refused_at={launch}")
                self.assertEqual(codes, [4, 1], words)
                self.assertIn("rank 1", words[0])
                self.assertIn("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", words[1])

    def test_what_the_machine_lacks(self):
        self.compile_stand_in("--set", "steps=1", "--set", "global_batch=2", "--set", "compute=bf16", "--set", "dropout=0")
        for setting, words in [
            ("devices=0", "compiled for NVIDIA GPUs, and there is none here"),
            ("version=11080", "NVIDIA's driver is too old: it knows CUDA 11.8, and programs need 12.0"),
            ("architecture=80", "runs none of the program's code (cubin.sm_90); compile it with --target cuda:sm_80"),
            ("memory=50000000", "has too little memory: the program's tensors and kernels need "),
        ]:
            with self.subTest(setting):
                self.assertIn(words, self.run_stand_in(setting, code=1))
        self.check_attention()

    def check_attention(self):
        """The run says that attention is cuDNN's where that is available, and why not otherwise."""
        libraries = os.environ["DTC_STAND_IN_LIBRARIES"]
        without = self.make_folder("without")
        for library in os.listdir(libraries):
            if not library.startswith("libcudnn"):
                (without / library).symlink_to(os.path.join(libraries, library))
        kernels = [f"dtc_cuda_attention_{each}$bf16_64_causal_2x16x16x4x1 is " for each in ("forward", "backward")]
        for path, setting, words in [
            (libraries, "", ["attention may be cuDNN's, 9.19.0", *(each + "cuDNN's" for each in kernels)]),
            (libraries, "refuses", [each + "the program's own: cuDNN has no kernels for it" for each in kernels]),
            (without, "", ["attention runs in the program's own kernels: cuDNN can"]),
        ]:
            with self.subTest(f"{path} {setting}"):
                out = self.directory / f"out-{os.path.basename(path)}-{setting}"
                output = self.dtc("run", self.program, "--data", self.data, "--out", out,
                                  env={**os.environ, "LD_LIBRARY_PATH": str(path), "DTC_STAND_IN_CUDNN": setting})
                for each in words:
                    self.assertIn(each, output)

    def test_a_driver_that_lacks_a_function(self):
        self.compile_gpu()
        self.assertIn("NVIDIA's driver, libcuda.so.1, has no function 'cuGetErrorName'; install a newer driver",
                      self.run_stand_in("", code=1, libraries="DTC_STAND_IN_LACKING"))

    def losses_of(self, *command, **environment):
        losses = self.directory / "losses"
        out = self.directory / ("out" + "".join(environment.values()))
        self.dtc("run", *command, "--data", self.data, "--out", out, "--log-losses", losses,
                 env={**os.environ, **environment})
        return [float(line.split()[1]) for line in losses.read_text().splitlines()]

    def test_two_ranks(self):
        """Products, attention and communication as on a machine with GPUs, by stand-ins of all its libraries."""
        layout = ["--mesh", "dp=2", "--set", "steps=3", "--set", "global_batch=2"]
        self.dtc("compile", SOURCE / "examples/gpt-small", *SMALL, *layout, "-o", self.directory / "cpu")
        self.compile_stand_in(*layout)
        want = self.losses_of(self.directory / "cpu")
        self.assertEqual(len(want), 3)
        libraries = os.environ["DTC_STAND_IN_LIBRARIES"]
        for setting, epilogues, flags in [("devices=2", "", []), ("devices=1", "", ["--share-gpu"]), ("devices=2", "few", [])]:
            with self.subTest(setting, epilogues=epilogues):
                got = self.losses_of(*flags, self.program, "--trace", "2-2", LD_LIBRARY_PATH=libraries,
                                     DTC_STAND_IN=setting, DTC_STAND_IN_CUBLASLT=epilogues)
                self.assertEqual(len(got), len(want))
                for a, b in zip(got, want):
                    self.assertAlmostEqual(a, b, delta=1e-5 * b)

        self.check_times(self.directory / f"out{libraries}devices=2")

    def test_pipelines(self):
        """Stages with a GPU each: what one waits for does not block what another needs. All timetables have the same
        bits."""
        sizes = ["--set", "steps=3", "--set", "global_batch=4", "--set", "accumulation=4"]
        self.dtc("compile", SOURCE / "examples/gpt-small", *SMALL, *sizes, "-o", self.directory / "cpu")
        want = self.losses_of(self.directory / "cpu")
        environment = {"LD_LIBRARY_PATH": os.environ["DTC_STAND_IN_LIBRARIES"], "DTC_STAND_IN": "devices=4"}
        losses = {}
        for mesh, timetable in [("pp=4", "naive"), ("pp=4", "gpipe"), ("pp=4", "1f1b"), ("pp=2,tp=2", "1f1b")]:
            with self.subTest(mesh=mesh, timetable=timetable):
                self.compile_stand_in("--mesh", mesh, "--timetable", timetable, *sizes)
                got = self.losses_of(self.program, **environment, OUT=mesh + timetable)
                self.assertEqual(losses.setdefault(mesh, got), got)
                self.assertEqual(len(got), len(want))
                for a, b in zip(got, want):
                    self.assertAlmostEqual(a, b, delta=1e-5 * b)
        message = self.refused("run", self.program, "--data", self.data, "--out", self.directory / "other", code=1,
                               env={**os.environ, **environment, "NCCL_LAUNCH_ORDER_IMPLICIT": "1"})
        self.assertIn("NCCL_LAUNCH_ORDER_IMPLICIT is '1' in the environment, and a pipeline of stages would hang", message)

    def test_later_timetables(self):
        """The same with several stages a rank, with backward passes in two, and with a file of PyTorch's. DTC_LONG_TESTS:
        all."""
        self.model = self.make_folder("model")
        (self.model / "config.json").write_text(json.dumps({"model_type": "gpt2", "vocab_size": 61, "n_positions": 16,
                                                            "n_embd": 32, "n_layer": 4, "n_head": 4}))
        file = self.directory / "zb1p.csv"
        file.write_text(interleaved_zero_bubble())
        sizes = [word for setting in ("steps=3", "global_batch=8", "accumulation=8", "dropout=0.1", "learning_rate=1e-3",
                                      "clip_norm=0.05", "validation_fraction=0") for word in ("--set", setting)]
        self.dtc("compile", self.model, *SMALL, *sizes, "-o", self.directory / "cpu")
        want = self.losses_of(self.directory / "cpu")
        self.assertEqual(len(want), 3)
        environment = {"LD_LIBRARY_PATH": os.environ["DTC_STAND_IN_LIBRARIES"], "DTC_STAND_IN": "devices=2"}
        first = None
        timetables = ["1f1b", "interleaved", "zbv", file]
        if os.environ.get("DTC_LONG_TESTS"):
            timetables += ["zb-h1", "zb-h2", "v-half", "v-min", "dualpipev"]
        for timetable in timetables:
            with self.subTest(timetable=timetable):
                self.compile_stand_in("--mesh", "pp=2", "--timetable", timetable, *sizes)
                got = self.losses_of(self.program, **environment, OUT=Path(timetable).name)
                first = first or got
                self.assertEqual(got, first)
                self.assertEqual(len(got), len(want))
                for a, b in zip(got, want):
                    self.assertAlmostEqual(a, b, delta=1e-5 * b)

    def test_steps_that_overlap(self):
        """Those of zbv are redone, since clipping strikes in each; stages of PipeDream compute with as old parameters as
        on the processor. DTC_LONG_TESTS: with the bits of steps that do not overlap."""
        self.model = self.make_folder("model")
        (self.model / "config.json").write_text(json.dumps({"model_type": "gpt2", "vocab_size": 61, "n_positions": 16,
                                                            "n_embd": 32, "n_layer": 4, "n_head": 4,
                                                            "tie_word_embeddings": False}))
        overlapping = self.losses_in_stages("zbv", 4, 0.05, "--overlap-steps")
        pipedream = self.losses_in_stages("pipedream", 1, 0)
        self.assertGreater(abs(overlapping[-1] - pipedream[-1]), 1e-3)
        if os.environ.get("DTC_LONG_TESTS"):
            self.assertEqual(self.losses_in_stages("zbv", 4, 0.05), overlapping)
            self.assertEqual(self.losses_in_stages("zb-h2", 4, 0.05, "--overlap-steps"), overlapping)

    def losses_in_stages(self, timetable, accumulation, clip_norm, *more):
        """Of two ranks, each with a GPU, after a comparison with those of the same program for the processor."""
        words = ["--mesh", "pp=2", "--timetable", timetable, *more]
        for setting in ("steps=5", "global_batch=8", f"accumulation={accumulation}", "dropout=0.1", "learning_rate=1e-2",
                        f"clip_norm={clip_norm}", "schedule=constant", "validation_fraction=0"):
            words += ["--set", setting]
        name = timetable + "".join(more)
        self.dtc("compile", self.model, *SMALL, *words, "-o", self.directory / f"{name}.cpu")
        want = self.losses_of(self.directory / f"{name}.cpu", OUT=f"{name}.cpu")
        self.assertEqual(len(want), 5)
        self.compile_stand_in(*words)
        got = self.losses_of(self.program, LD_LIBRARY_PATH=os.environ["DTC_STAND_IN_LIBRARIES"], DTC_STAND_IN="devices=2",
                             OUT=name)
        self.assertEqual(len(got), len(want))
        for a, b in zip(got, want):
            self.assertAlmostEqual(a, b, delta=1e-5 * b)
        return got

    def test_tuned(self):
        """The stand-in's algorithms give equal bits, so a run that times them has the same losses as one that does
        not."""
        self.compile_stand_in("--set", "steps=3", "--set", "global_batch=2", "--set", "accumulation=2")
        environment = {"LD_LIBRARY_PATH": os.environ["DTC_STAND_IN_LIBRARIES"]}
        want = self.losses_of(self.program, **environment, DTC_STAND_IN="devices=1")
        self.assertEqual(len(want), 3)
        tuned = self.directory / "tuned"
        self.assertEqual(self.losses_of(self.program, "--tune", tuned, **environment, DTC_STAND_IN="devices=2"), want)
        choices = tuned.read_text()
        self.assertIn("stand-in, cuBLASLt 130000: ", choices)
        self.assertEqual(self.losses_of(self.program, "--tune", tuned, **environment, DTC_STAND_IN="devices=3"), want)
        self.assertEqual(tuned.read_text(), choices, "what is chosen stays")
        tuned.write_text("# mine\n")
        message = self.refused("run", self.program, "--tune", tuned, "--data", self.data, "--out", self.directory / "other",
                               code=3, env={**os.environ, **environment, "DTC_STAND_IN": ""})
        self.assertIn(f"the file of --tune, '{tuned}', has something else in line 1", message)

    def test_copies_in_16_bits(self):
        """Copies are made from weights that are initialized, read or resumed, and are in no checkpoint; a step that is
        computed twice keeps them."""
        sizes = ["--set", "compute=bf16", "--set", "global_batch=2", "--set", "accumulation=2", "--set", "checkpoint_every=2"]
        self.compile_stand_in(*sizes, "--set", "steps=4")
        environment = {"LD_LIBRARY_PATH": os.environ["DTC_STAND_IN_LIBRARIES"]}
        want = self.losses_of(self.program, **environment, DTC_STAND_IN="devices=1")
        self.assertEqual(len(want), 4)
        memory = json.loads(self.dtc("inspect", self.program, "--json"))["roles"][0]["memory"]
        self.assertLess(0, memory["copies in 16 bits"])
        self.assertLessEqual(memory["copies in 16 bits"], memory["parameters"] / 2)
        self.assertIn("copies in 16 bits", self.dtc("inspect", self.program))
        self.assertEqual(self.losses_of(self.program, "--replay-check", "1", **environment, DTC_STAND_IN="devices=2"), want)
        checkpoints = self.directory / ("out" + environment["LD_LIBRARY_PATH"] + "devices=1") / "checkpoints"
        self.assertEqual(self.losses_of(self.program, "--resume", checkpoints / "step-000002", **environment,
                                        DTC_STAND_IN="devices=3"), want[2:])
        evaluated = []
        for option in ["--resume", "--weights"]:
            out = self.directory / f"evaluated{option}"
            evaluated.append(self.dtc("run", self.program, "--data", self.data, "--out", out, "--eval-only", option,
                                      checkpoints / "step-000004", env={**os.environ, **environment}))
        losses = [re.search(r"held-out loss \S+", text)[0] for text in evaluated]
        self.assertEqual(losses[0], losses[1])
        self.assertIn("all agree", self.dtc("verify", self.program, "--no-code"))

    def check_times(self, out):
        """The stand-in works only when it is waited for: so the GPU's work ends long after it was enqueued."""
        events = json.loads((out / "trace.json").read_text())["traceEvents"]
        for rank in range(2):
            mine = [event for event in events if event["pid"] == rank and event["ph"] == "X"]
            step = next(event for event in mine if event["cat"] == "step")
            work = [event for event in mine if event["cat"] in ("kernel", "collective")]
            self.assertEqual({event["cat"] for event in work}, {"kernel", "collective"})
            for event in work:
                self.assertLessEqual(step["ts"], event["ts"] + 1)
                self.assertLessEqual(event["ts"] + event["dur"], step["ts"] + step["dur"] + 1)
            kernels = sorted((event["ts"], event["dur"]) for event in work if event["cat"] == "kernel")
            for (begin, length), (then, _) in zip(kernels, kernels[1:]):
                self.assertLessEqual(begin + length, then + 1, "one stream has one kernel at a time")
            self.assertGreater(sum(length for _, length in kernels), step["dur"] / 4)

    def test_several_architectures(self):
        self.compile_gpu("--target", "cuda:sm_80,sm_100")
        self.assertIn("cuda:sm_80,sm_100", self.dtc("inspect", self.program))
        message = self.refused("compile", SOURCE / "examples/gpt-small", "--target", "cuda:sm_80,sm_91", code=2)
        self.assertIn("cuda:sm_91 not in {", message)

    def fake_python(self, folders):
        """Instead of an environment with PyTorch: NVIDIA's libraries are in its packages and nowhere else."""
        python = self.directory / "python"
        python.write_text(f"#!/bin/sh\n[ \"$1\" = -c ] && echo '{folders}'\n")
        python.chmod(0o755)
        return python

    @unittest.skipIf(is_sanitized(), "gpu-check loads the stand-ins into Python")
    def test_gpu_check(self):
        build = self.make_folder("build")
        (build / "bin").symlink_to(os.environ["DTC_BIN"])
        subprocess.run([SOURCE / "scripts/gpu-check", "prepare", "--few", "--build", build, "--target", "cuda:sm_90",
                        "--compiler", os.environ["DTC_STAND_IN_COMPILE"]], check=True, stdout=subprocess.DEVNULL)
        # The packed files suffice, wherever they are unpacked.
        subprocess.run([sys.executable, "-m", "tarfile", "-e", build / "gpu-check.tar.xz", self.directory], check=True)
        shutil.rmtree(build)
        script = [self.directory / "gpu-check/scripts/gpu-check"]
        build = self.directory / "gpu-check/build"
        environment = {**os.environ, "DTC_STAND_IN": ""}
        environment.pop("LD_LIBRARY_PATH", None)

        def check(command, *more, python=self.fake_python(os.environ["DTC_STAND_IN_LIBRARIES"]), **settings):
            done = subprocess.run([*script, command, "--python", python, *more],
                                  env={**environment, **settings}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            return done.returncode, done.stdout

        code, words = check("probe")
        self.assertEqual(code, 0, words)
        for each in ["GPUs: 1\n", "libcudnn.so.9: 9", "libcublasLt.so.12: 120000", "a program starts: yes", "PyTorch: "]:
            self.assertIn(each, words)
        code, words = check("tests")
        self.assertEqual(code, 0, words)
        self.assertIn("3 of 3 as on the processor", words)
        self.assertIn("attention may be cuDNN's", (build / "gpu-check-logs/gpt-small-long.rank0").read_text())
        code, words = check("tests", "--only", "*-long", DTC_STAND_IN_CUDNN="refuses")
        self.assertEqual(code, 1)
        self.assertIn("| gpt-small-long | cuDNN is there, and attention did not run in it | ", words)
        code, words = check("tests", "--only", "gpt-small-ddp", DTC_STAND_IN="lost_at=100")
        self.assertEqual(code, 1)
        self.assertIn("0 of 1 as on the processor", words)
        self.assertIn("ECC_UNCORRECTABLE", (build / "gpu-check-logs/gpt-small-ddp.rank1").read_text())
        code, words = check("tests", "--minutes", "0")
        self.assertEqual((code, words.count("not run: the time is over")), (1, 3))
        self.assertIn("not expected: --nonsense", check("tests", "--only", "*-long", "--flags", "--nonsense")[1])
        code, words = check("tests", "--only", "nothing")
        self.assertIn("no case is called nothing; there are gpt-small-ddp, ", words)
        self.check_sanitizer(check, build / "gpu-check-logs")
        self.check_foretold(check, build / "gpu-check-logs")
        code, words = check("probe", python=self.fake_python(""))  # takes the place of the other
        self.assertEqual(code, 1)
        self.assertIn("libcuda.so.1: NONE", words)
        self.check_bench([*script, "bench", "--few", "--steps", "2"],
                         {**environment, "LD_LIBRARY_PATH": os.environ["DTC_STAND_IN_LIBRARIES"]})

    def check_sanitizer(self, check, logs):
        """With a script in its place that finds nothing; then with one that leaves a process behind and hangs."""
        if not shutil.which("compute-sanitizer"):
            self.assertIn("compute-sanitizer is not in PATH", check("sanitizer")[1])
        sanitizer = self.directory / "compute-sanitizer"
        settings = {"PATH": f"{self.directory}:{os.environ['PATH']}"}
        sanitizer.write_text('#!/bin/sh\necho "$*"\nshift 6\nexec "$@"\n')
        sanitizer.chmod(0o755)
        code, words = check("sanitizer", **settings)
        self.assertEqual(code, 0, words)
        self.assertRegex((logs / "gpt-small-ddp.rank1").read_text(), "--error-exitcode 9 .* --watchdog 400 ")
        sanitizer.write_text('#!/bin/sh\nsleep 1234 &\necho $!\nwait\n')
        code, words = check("sanitizer", "--minutes", "0.15", **settings)
        self.assertEqual(code, 1)
        self.assertRegex(words, r"\| gpt-small-ddp \| not done after \d+ s")
        left = Path("/proc", (logs / "gpt-small-ddp.rank1").read_text().strip(), "cmdline")
        self.assertNotIn("1234", left.read_text() if left.exists() else "")

    def check_foretold(self, check, logs):
        """dtc calibrate measures a stand-in, whose figures mean nothing."""
        code, words = check("foretell", "--few", "--steps", "2")
        self.assertEqual(code, 0, words)
        self.assertRegex(words, r"\| gpt2-tiny \| [\d.]+ \| [\d.]+ \| [-+][\d.]+% \|")
        cluster = (logs / "gpu.textproto").read_text()
        for each in ['name: "stand-in"', "memory_bytes: 1073741824", 'type: "bf16"', 'kernel_class: "attention"', "devices: 1"]:
            self.assertIn(each, cluster)

    def check_bench(self, bench, environment):
        """With figures in place of PyTorch's, which cannot compile here."""
        peer = self.directory / "peer"
        figures = {"torch": "none", "seconds": 0.5, "peak_bytes": 2**40, "copy_bytes_per_second": 1e30}
        peer.write_text("#!/bin/sh\ncase \"$*\" in *compile) echo 'RuntimeError: no C compiler' >&2; exit 1;; esac\n"
                        f"echo '{json.dumps(figures)}'\n")
        peer.chmod(0o755)
        done = subprocess.run([*bench, "--python", peer], env=environment, stdout=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("PyTorch (compile): RuntimeError: no C compiler", done.stdout)
        self.assertIn("torch none (eager)", done.stdout)
        rows = [line.split("|")[1:-1] for line in done.stdout.splitlines() if line.startswith("| gpt2-tiny")]
        name, ours, theirs, ratio, gib, peer_gib, *rest = [word.strip() for word in rows[0]]
        self.assertEqual(theirs, str(2 * 16 * 2))
        self.assertAlmostEqual(float(ratio), int(ours) / int(theirs), delta=0.01)
        self.assertEqual(peer_gib, "1024.00")
        self.assertLess(0, float(gib))
        self.assertTrue(any("adamw" in row[1] for row in rows[1:]), done.stdout)
        self.assertTrue(any("dtc_cuda_gemm" in row[1] for row in rows[1:]), done.stdout)
        peer.write_text("#!/bin/sh\necho no GPU >&2; exit 1\n")
        done = subprocess.run([*bench, "--python", peer], env=environment, stdout=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("PyTorch (eager): no GPU", done.stdout)
        self.assertRegex(done.stdout, r"\| gpt2-tiny \| \d+ \| - \| - \|", "ours is shown all the same")
        self.assertTrue((self.directory / "gpu-check/build/gpu-check-logs/gpt2-tiny.trace.json").exists())
        done = subprocess.run([*bench, "--model", "bert"], env=environment, stderr=subprocess.PIPE, text=True)
        self.assertIn("no model is called bert; there are gpt2-tiny", done.stderr)

    def test_code_that_the_driver_refuses(self):
        self.compile_gpu()  # for a real GPU, which the stand-in is not
        self.assertIn("refuses the program's ", self.run_stand_in("", code=1))


if __name__ == "__main__":
    unittest.main()
