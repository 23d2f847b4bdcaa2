"""Model directories whose weights follow from their names, so that a test needs no file of weights.

Shared by config_run_test.py, sample_run_test.py, oracle/fuzz_config.py and oracle/make_generation.py. A case is
{"family", "changes", "weights", ...}: the base configuration of a family with some keys set to other values (a key set
to REMOVED is absent), and a form of the weights.
"""

import functools
import json
import random
import shutil
import struct
import subprocess

from driver import write_safetensors

REMOVED = "(removed)"
LENGTH = 16  # tokens that are predicted, unless the model has fewer positions

DECODER = {"vocab_size": 61, "max_position_embeddings": 24, "hidden_size": 16, "intermediate_size": 24,
           "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5}
BASE = {
    "gpt2": {"model_type": "gpt2", "vocab_size": 61, "n_positions": 24, "n_embd": 16, "n_layer": 2, "n_head": 4},
    "gpt_neox": {"model_type": "gpt_neox", "vocab_size": 61, "max_position_embeddings": 24, "hidden_size": 16,
                 "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}} | {
    family: {"model_type": family} | DECODER | own for family, own in {
        "llama": {}, "mistral": {}, "qwen2": {}, "granite": {}, "qwen3": {"head_dim": 6},
        "olmo2": {"pad_token_id": None}, "phi3": {"pad_token_id": None}, "smollm3": {"pad_token_id": None},
        "gemma2": {"head_dim": 6, "sliding_window": 5}, "gemma3_text": {"head_dim": 6, "sliding_window": 5}}.items()}
ATTENTION = {"attention_bias": ["q", "k", "v", "o"]}
BIASES = {  # what has one, by family and key
    "llama": ATTENTION | {"mlp_bias": ["gate", "up", "down"]}, "mistral": {}, "qwen2": {"": ["q", "k", "v"]},
    "granite": ATTENTION | {"mlp_bias": ["gate", "up", "down"]}, "qwen3": ATTENTION, "olmo2": ATTENTION, "phi3": {},
    "smollm3": ATTENTION | {"mlp_bias": ["gate", "up", "down"]}, "gemma2": ATTENTION, "gemma3_text": ATTENTION}
BLOCK_NORMS = {  # where they are not llama's
    "olmo2": ["post_attention_layernorm", "post_feedforward_layernorm"]} | dict.fromkeys(
        ["gemma2", "gemma3_text"], ["input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                                    "post_feedforward_layernorm"])
TIED = ["gpt2", "gemma2", "gemma3_text", "smollm3"]  # where a config is silent


def config_of(case):
    config = BASE[case["family"]] | case["changes"]
    return {key: value for key, value in config.items() if value != REMOVED}


def tensors(config):
    """{name: shape} of what the families store, by the names of their papers' sizes."""
    def size(key, absent):
        value = config.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else absent

    vocab = size("vocab_size", 61)
    if config["model_type"] == "gpt2":
        embed, layers = size("n_embd", 768), size("n_layer", 12)
        inner = size("n_inner", 4 * embed)
        shapes = {"wte.weight": [vocab, embed], "wpe.weight": [size("n_positions", 1024), embed]}
        norms = ["ln_f"] + [f"h.{i}.ln_{which}" for i in range(layers) for which in (1, 2)]
        linear = {f"h.{i}.{name}": dims for i in range(layers) for name, dims in {
            "attn.c_attn": [embed, 3 * embed], "attn.c_proj": [embed, embed],
            "mlp.c_fc": [embed, inner], "mlp.c_proj": [inner, embed]}.items()}
        for name in norms:
            shapes |= {name + ".weight": [embed], name + ".bias": [embed]}
        for name, dims in linear.items():
            shapes |= {name + ".weight": dims, name + ".bias": dims[1:]}
        return shapes | ({} if config.get("tie_word_embeddings", True) else {"lm_head.weight": [vocab, embed]})
    if config["model_type"] == "gpt_neox":
        return neox_tensors(config, size)

    family, embed, inner = config["model_type"], size("hidden_size", 4096), size("intermediate_size", 11008)
    heads = size("num_attention_heads", 32)
    groups, width = size("num_key_value_heads", heads), size("head_dim", embed // heads)
    shapes = {"model.embed_tokens.weight": [vocab, embed], "model.norm.weight": [embed]}
    biased = [name for key, names in BIASES[family].items() if not key or config.get(key) is True for name in names]
    head_norms = {"qwen3": [width, width], "gemma3_text": [width, width], "olmo2": [heads * width, groups * width]}
    for i in range(size("num_hidden_layers", 32)):
        projections = {
            "self_attn.q_proj": [heads * width, embed], "self_attn.k_proj": [groups * width, embed],
            "self_attn.v_proj": [groups * width, embed], "mlp.gate_proj": [inner, embed], "mlp.up_proj": [inner, embed]}
        if family == "phi3":
            projections = {"self_attn.qkv_proj": [(heads + 2 * groups) * width, embed],
                           "mlp.gate_up_proj": [2 * inner, embed]}
        norms = {name: [embed] for name in BLOCK_NORMS.get(family, ["input_layernorm", "post_attention_layernorm"])}
        norms |= {f"self_attn.{which}_norm": [dim] for which, dim in zip("qk", head_norms.get(family, []))}
        outputs = {"self_attn.o_proj": [embed, heads * width], "mlp.down_proj": [embed, inner]}
        for name, dims in (projections | outputs | norms).items():
            shapes[f"model.layers.{i}.{name}.weight"] = dims
            if name.partition(".")[2].removesuffix("_proj") in biased:
                shapes[f"model.layers.{i}.{name}.bias"] = dims[:1]
    tied = config.get("tie_word_embeddings", family in TIED)
    return shapes | ({} if tied else {"lm_head.weight": [vocab, embed]})


def neox_tensors(config, size):
    vocab, embed, inner = size("vocab_size", 61), size("hidden_size", 6144), size("intermediate_size", 24576)
    shapes = {"gpt_neox.embed_in.weight": [vocab, embed]}
    norms, has_bias = ["final_layer_norm"], config.get("attention_bias", True)
    for i in range(size("num_hidden_layers", 44)):
        norms += [f"layers.{i}.input_layernorm", f"layers.{i}.post_attention_layernorm"]
        for name, dims in {"attention.query_key_value": [3 * embed, embed], "attention.dense": [embed, embed],
                           "mlp.dense_h_to_4h": [inner, embed], "mlp.dense_4h_to_h": [embed, inner]}.items():
            shapes[f"gpt_neox.layers.{i}.{name}.weight"] = dims
            if has_bias or name.startswith("mlp."):
                shapes[f"gpt_neox.layers.{i}.{name}.bias"] = dims[:1]
    for name in norms:
        shapes |= {f"gpt_neox.{name}.weight": [embed], f"gpt_neox.{name}.bias": [embed]}
    return shapes | ({} if config.get("tie_word_embeddings", False) else {"lm_head.weight": [vocab, embed]})


@functools.lru_cache(maxsize=4096)
def values(name, shape):
    """The elements of a tensor of this shape (a tuple): large enough that every part of a model affects the loss, and
    exact in f16."""
    source, count = random.Random(name), 1
    for dim in shape:
        count *= dim
    is_norm = len(shape) == 1 and name.endswith("weight")
    spread, middle = (64, 256) if len(shape) == 1 else (128, 0)
    return [(source.randint(-spread, spread) + (middle if is_norm else 0)) / 256 for _ in range(count)]


def write_weights(path, shapes, form):
    """The forms in which published files hold the same weights, and two that must not be accepted as such."""
    stored = {name: (shape, values(name, tuple(shape))) for name, shape in shapes.items()}
    embedding = next((name for name in ("wte.weight", "model.embed_tokens.weight", "gpt_neox.embed_in.weight")
                     if name in stored), None)
    if form == "equal_head":
        stored["lm_head.weight"] = stored[embedding]
    elif form == "other_head":
        stored["lm_head.weight"] = (shapes[embedding], values("another", tuple(shapes[embedding])))
    elif form == "prefixed" and embedding == "wte.weight":
        stored = {name if name == "lm_head.weight" else "transformer." + name: entry for name, entry in stored.items()}
    elif form == "buffers":
        stored |= {"h.0.attn.bias": ([4], [1.0] * 4), "h.0.attn.masked_bias": ([1], [-1e4])}
    elif form == "older":
        stored = {name.replace("lm_head", "embed_out"): entry for name, entry in stored.items()}
        stored |= {f"gpt_neox.layers.0.attention.{name}": ([4], [1.0] * 4)
                   for name in ("bias", "masked_bias", "rotary_emb.inv_freq")}
    elif form == "extra":
        stored["h.0.extra.weight"] = ([4], [1.0] * 4)
    code, kind = ("e", "F16") if form == "f16" else ("f", "F32")
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (shape, elements) in stored.items():
        content = struct.pack(f"<{len(elements)}{code}", *elements)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    write_safetensors(path, text + b" " * (-len(text) % 8), data)


def write_model(directory, case, shapes=None):
    config = config_of(case)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config, indent=2))
    write_weights(directory / "model.safetensors", shapes or tensors(config), case["weights"])


def write_longer(directory, recorded, positions):
    """The model of a folder of oracle/ for more positions. Rotary models need nothing for them; where positions are
    learned, the result is another model of the family."""
    config = json.loads((recorded / "config.json").read_text())
    if "n_positions" in config:
        write_model(directory, {"family": "gpt2", "changes": {"n_positions": positions}, "weights": "plain"})
        return
    longer = max(positions, config["max_position_embeddings"])
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config | {"max_position_embeddings": longer}))
    shutil.copy(recorded / "model.safetensors", directory)


def window(case):
    """The tokens: all but the first are predicted."""
    config = config_of(case)
    positions = config.get("n_positions", config.get("max_position_embeddings"))
    length = min(LENGTH, positions) if isinstance(positions, int) and positions > 0 else LENGTH
    vocabulary = config.get("vocab_size")
    source = random.Random(5)
    return [source.randrange(vocabulary if isinstance(vocabulary, int) and vocabulary > 0 else 61)
            for _ in range(length + 1)]


def write_windows(path, tokens):
    """A file in llm.c's format: the first window is the training set, the second is held out."""
    header = [20240520, 1, 2 * len(tokens)] + [0] * 253
    path.write_bytes(struct.pack("<256i", *header) + struct.pack(f"<{2 * len(tokens)}H", *tokens, *tokens))


class Interpreter:
    """Losses from the interpreter, in f64: a process of config_loss.cpp that answers line by line."""

    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def loss(self, directory, case):
        """The loss of the case's window, or the message where the directory is refused."""
        request = {"directory": str(directory), "tokens": window(case)}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{case}: config_loss ended with {self.process.wait()}")
        answer = json.loads(line)
        return answer["refused"] if "refused" in answer else float("nan" if answer["loss"] is None else answer["loss"])


def compiled_loss(run, directory, case):
    """The held-out loss from a compiled program, or dtc's message where it refuses to compile. `run` takes the
    arguments of a dtc command and returns (exit code, output)."""
    tokens = window(case)
    program, data, out = directory / "program", directory / "windows", directory / "evaluation"
    write_windows(data, tokens)
    settings = ["global_batch=1", f"sequence_length={len(tokens) - 1}", "validation_fraction=0.5"]
    code, output = run("compile", directory / "model", "-o", program,
                       *[word for setting in settings for word in ("--set", setting)])
    if code == 3:
        return output
    if code == 0:
        code, output = run("run", program, "--data", data, "--out", out, "--eval-only", "--threads", 1)
    if code != 0:
        raise RuntimeError(f"{case}: exit code {code}\n{output}")
    return json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])["validation_metrics/loss"]
