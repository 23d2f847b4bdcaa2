"""GPT-2 124M in f32 on two hosts of one core each, compiled for links of some rates, by dtc and by a peer."""

import json
import shutil
import statistics
import subprocess

from compare_gpt2_step import ROOT, write_tokens
from foretell import Machine
from ranks import RANKS, run_ranks, step_seconds

BATCH, TOKENS = 4, 256
LAYOUTS = {"ddp": ["--mesh", "dp=2", "--strategy", "ddp"], "zero1": ["--mesh", "dp=2", "--strategy", "zero1"],
           "zero3": ["--mesh", "dp=2", "--strategy", "zero3"], "tp+sp": ["--mesh", "tp=2", "--strategy", "megatron-sp"],
           "tp": ["--mesh", "tp=2", "--strategy", "megatron"]}
LAYOUTS["tp whole"] = LAYOUTS["tp"]  # each layer the whole batch at a time
WHOLE = '[split]\n"*" = 1\n'


class Bench(Machine):
    def __init__(self, args, folder):
        super().__init__(args, folder)
        self.args = args
        self.add_hosts()
        self.corpus = folder / "corpus.bin"
        write_tokens(self.corpus)
        self.devices, _ = self.calibrate()
        self.clusters = {}

    def cluster(self, rate):
        """The cluster file of the two hosts at a rate, to which the link is then limited."""
        self.limit(rate)
        if rate not in self.clusters:
            self.clusters[rate] = self.calibrate_network(self.devices, f"network{rate}")
        return self.clusters[rate]

    def compile_for(self, layout, cluster):
        rows = BATCH if layout.startswith("tp") else BATCH * RANKS
        program, words = self.folder / f"{layout}-{cluster.stem}", LAYOUTS[layout]
        if layout == "tp whole":
            choices = self.folder / "whole.toml"
            choices.write_text(WHOLE)
            words = [*words, "--choices", choices]
        subprocess.run([self.dtc, "compile", ROOT / "examples/gpt2", *words, "--cluster", cluster, *self.settings(rows), "-o", program],
                       check=True, stdout=subprocess.DEVNULL)
        return program

    def compile_alone(self):
        """For one rank without peers."""
        program = self.folder / "alone"
        subprocess.run([self.dtc, "compile", ROOT / "examples/gpt2", *self.settings(BATCH), "-o", program], check=True,
                       stdout=subprocess.DEVNULL)
        return program

    def settings(self, rows):
        return ["--set", f"global_batch={rows}", "--set", f"sequence_length={TOKENS}", "--set", "dropout=0", "--set",
                "validation_fraction=0", "--set", f"steps={self.steps}"]

    def step(self, program, net, *words):
        """Median seconds of a step of dtc, and the peak memory; without a `net` on this machine."""
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        _, peak = run_ranks(lambda rank: [program, "--data", self.corpus, "--threads", 1, "--out", out, *words], net)
        return statistics.median(step_seconds(out)[1:]), peak

    def torch_step(self, script, net, *words):
        output, peak = run_ranks(lambda rank: [self.args.torch_python, ROOT / "bench" / script, "--batch", BATCH, "--tokens", TOKENS,
                                               "--steps", self.steps, *words], net)
        result = json.loads(output.splitlines()[-1])
        return statistics.median(result["seconds"][1:]), peak
