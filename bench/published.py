"""Models, runs and figures of papers, for scripts that plan or predict them.

Sizes, the meshes of arXiv 2205.05198 and what was fitted for its table are those of test/e2e/goldens_run_test.py and
docs/goldens.md, which explain them.
"""

import dataclasses
import importlib
import json
import os
import sys

from arguments import ROOT

SEQUENCE, VOCABULARY = 2048, 51200
SUPERPOD = ROOT / "examples/clusters/dgx_a100_superpod.textproto"
TARGET = "cuda:sm_80"
PER_NODE = 8

# layers, hidden, heads of arXiv 2104.04473, table 1; the rest of the table is NARAYANAN
SIZES = {"1.7B": (24, 2304, 24), "3.6B": (30, 3072, 32), "7.5B": (36, 4096, 32), "18.4B": (40, 6144, 48),
         "39.1B": (48, 8192, 64), "76.1B": (60, 10240, 80), "145.6B": (80, 12288, 96), "310.1B": (96, 16384, 128),
         "529.6B": (105, 20480, 128), "1008B": (128, 25600, 160)}

# Of LLaMA (arXiv 2302.13971) and LLaMA 2 (arXiv 2307.09288): hidden, intermediate, key heads, positions. Both have 80
# layers and 64 heads.
LLAMAS = {"65B": (8192, 22016, 64, 2048), "70B": (8192, 28672, 8, 4096)}


def goldens(build):
    """The module with the figures that are tested already."""
    os.environ.update(DTC_BIN=str(build / "bin"), DTC_SOURCE=str(ROOT))
    sys.path.insert(0, str(ROOT / "test/e2e"))
    return importlib.import_module("goldens_run_test")


def gpt(layers, hidden, heads):
    return {"model_type": "gpt2", "vocab_size": VOCABULARY, "n_positions": SEQUENCE, "n_embd": hidden, "n_layer": layers,
            "n_head": heads, "activation_function": "gelu_new", "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0,
            "tie_word_embeddings": True}


def llama(name):
    hidden, intermediate, key_heads, positions = LLAMAS[name]
    return {"model_type": "llama", "vocab_size": 32000, "hidden_size": hidden, "intermediate_size": intermediate,
            "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": key_heads,
            "max_position_embeddings": positions, "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": False}


def write_model(folder, name, config):
    """A model directory without weights."""
    model = folder / name
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text(json.dumps(config))
    return model


def superpod(folder, devices, change=None):
    """The shipped file of A100 with this many devices, in nodes of 8; `change` makes another text of its text."""
    text = SUPERPOD.read_text()
    nodes = max(-(-devices // PER_NODE), 2)  # a level joins two units or more
    text = text.replace("nodes { count: 560 ", f"nodes {{ count: {nodes} ").replace("units: 560", f"units: {nodes}")
    text = text.replace('name: "dgx_a100_superpod"', f'name: "a100x{devices}"')
    if text.count(f"count: {nodes} ") != 1 or text.count(f"units: {nodes}\n") < 1:
        raise SystemExit(f"{SUPERPOD}: no 'count: 560' of nodes, or no 'units: 560' of a level; both are replaced")
    path = folder / f"a100x{devices}{'-changed' if change else ''}.textproto"
    path.write_text(change(text) if change else text)
    return path


def assignments(**settings):
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


@dataclasses.dataclass
class Run:
    """A published run. `chunks`: stages of each rank along the pipeline. `seconds`: of a step, as measured; 0: nothing
    was published. Without a mesh (`tp` is 0) the paper does not say how the model was split."""
    name: str
    config: dict
    devices: int
    batch: int
    micro: int = 1
    tp: int = 0
    pp: int = 1
    chunks: int = 1
    splits_sequence: bool = False
    recompute: str = "cheap"
    crossing: str = ""
    seconds: float = 0
    teraflops: float = 0  # of a device, as the paper counts operations
    sequence: int = SEQUENCE

    @property
    def dp(self):
        return self.devices // (self.tp * self.pp)

    @property
    def micro_batches(self):
        return self.batch // (self.dp * self.micro)

    def settings(self):
        return {"global_batch": self.batch, "sequence_length": self.sequence, "compute": "bf16"}

    def mesh(self):
        """As these programs number their ranks: those of tp are closest together, those of pp farthest apart."""
        axes = {"pp": self.pp, "dp": self.dp, "tp": self.tp}
        return ",".join(f"{name}={size}" for name, size in axes.items() if size > 1) or "dp=1"

    def choices(self):
        """Of a pipeline: its timetable and cut, and how activations cross it."""
        stages = self.pp * self.chunks
        layers = self.config["n_layer"]
        cut = [(number + 1) * layers // stages - number * layers // stages for number in range(stages)]
        lines = [f'timetable = "{"interleaved" if self.chunks > 1 else "1f1b"}"', f"layers = {cut}"]
        return "\n".join(lines + ([f'crossing = "{self.crossing}"'] if self.crossing else [])) + "\n"

    def compile_words(self, model, folder):
        """The arguments of `dtc compile` for the run's own plan."""
        strategy = "ddp" if self.tp == 1 else "megatron-sp" if self.splits_sequence else "megatron"
        words = [model, "--mesh", self.mesh(), "--strategy", strategy, "--target", TARGET]
        if self.pp > 1:
            choices = folder / f"{model.name}.toml"
            choices.write_text(self.choices())
            words += ["--choices", choices]
        return words + assignments(**self.settings(), accumulation=self.micro_batches, recompute=self.recompute)


def step_of(teraflops, run):
    """Seconds of a step, by equation 3 of arXiv 2104.04473, which counts the recomputed forward pass: 96 B s l h^2
    (1 + s / 6 h + V / 16 l h)."""
    layers, hidden = run.config["n_layer"], run.config["n_embd"]
    flops = 96 * run.batch * run.sequence * layers * hidden**2 * (
        1 + run.sequence / (6 * hidden) + VOCABULARY / (16 * layers * hidden))
    return flops / (run.devices * teraflops * 1e12)


# arXiv 2104.04473, table 1 (TFLOP/s of a device); micro-batches and stages of a rank are those of the authors' script,
# github.com/NVIDIA/Megatron-LM, examples/sc21/run_table_1.sh. All recompute whole layers.
#            tp, pp, stages of a rank, devices, batch, micro-batch, TFLOP/s
NARAYANAN = {"1.7B": (1, 1, 1, 32, 512, 16, 137), "3.6B": (2, 1, 1, 64, 512, 16, 138), "7.5B": (4, 1, 1, 128, 512, 16, 142),
             "18.4B": (8, 1, 1, 256, 1024, 8, 135), "39.1B": (8, 2, 1, 512, 1536, 4, 138),
             "76.1B": (8, 4, 3, 1024, 1792, 2, 140), "145.6B": (8, 8, 2, 1536, 2304, 2, 148),
             "310.1B": (8, 16, 2, 1920, 2160, 1, 155), "529.6B": (8, 35, 3, 2520, 2520, 1, 163),
             "1008B": (8, 64, 1, 3072, 3072, 1, 163)}


def narayanan():
    runs = []
    for name, (tp, pp, chunks, devices, batch, micro, teraflops) in NARAYANAN.items():
        run = Run(name, gpt(*SIZES[name]), devices, batch, micro, tp, pp, chunks, recompute="full",
                  crossing="sliced" if pp > 1 and tp > 1 else "", teraflops=teraflops)
        run.seconds = step_of(teraflops, run)
        runs.append(run)
    return runs


def korthikanti(tested, is_selective):
    """arXiv 2205.05198, table 5."""
    seconds = {"22B": (1.10, 1.42), "175B": (13.75, 18.13), "530B": (37.83, 49.05), "1T": (71.49, 94.42)}
    return [Run(name, gpt(*tested.SIZES[name]), tested.WAYS * ranks, batch, micro, tested.WAYS, ranks, chunks,
                splits_sequence=is_selective, recompute="cheap" if is_selective else "full",
                seconds=seconds[name][0 if is_selective else 1])
            for name, (ranks, chunks, batch, micro) in tested.KORTHIKANTI.items()]


def megatron_turing(tested):
    """arXiv 2201.11990, section 2.3. As in docs/goldens.md, nothing is recomputed: the fitted figure has it."""
    return [Run(f"530B, dp={dp}", gpt(*tested.SIZES["530B"]), dp * 35 * tested.WAYS, 1920, 1, tested.WAYS, 35,
                seconds=seconds) for dp, seconds in [(8, 60.1), (10, 50.2), (12, 44.4)]]


def unmeasured(tested):
    """A plan of course notes, of which no step was measured."""
    return [Run("GPT-3 175B on 64 x 8 x 8", gpt(*tested.SIZES["175B"]), 4096, 4096, 1, 8, 8, splits_sequence=True)]


def without_mesh():
    """Runs whose papers say what was reached, but not how the model was split."""
    of_gpt3 = json.loads((ROOT / "examples/gpt3-175b/config.json").read_text())
    return [Run("GPT-3 175B", of_gpt3, 1024, 1536, teraflops=140),
            Run("LLaMA-65B", llama("65B"), 2048, 2048),
            Run("LLaMA-70B", llama("70B"), 64, 1024, sequence=4096)]
