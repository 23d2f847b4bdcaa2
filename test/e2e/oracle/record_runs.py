#!/usr/bin/env python3
"""Records what PyTorch and transformers compute in six training runs of 50 steps: the oracle for dtc from end to end.

    record_runs.py DIRECTORY      writes DIRECTORY/tokens.bin and DIRECTORY/RUN/ for each run below

Needs torch, transformers, numpy and safetensors; test/e2e/oracle_run_test.py needs only the output, which is stored in
runs/ next to it. Each folder holds
  config.json, model.safetensors   the model before the first step, as transformers writes it, f32 weights
  train.toml                       the run's settings, as dtc reads them
  steps.json                       lists of loss (mean over the step's tokens), grad_norm (of the mean gradient, before
                                   clipping) and lr, one entry a step; and the held-out loss after the last
  final.safetensors                the weights after the last step, rounded to f32
PyTorch computes in f64; transformers computes its RMS norms and rotary angles in f32 nevertheless. Models, losses,
clipping, optimizers and schedules are PyTorch's and transformers' own. What dtc documents is implemented here again:
which samples form a batch (runtime/data/sampler.h), and which elements dropout zeroes (runtime/abi/random.h). Every run
is made twice, once stopped after 20 steps and resumed from saved state: both must agree to the last bit.
"""

import copy
import io
import json
import pathlib
import struct
import sys

import numpy
import torch
import transformers
from safetensors.torch import save_file

from late_gradients import NesterovAdamW

STEPS, STOP, VOCABULARY, SEQUENCE, POSITIONS, TOKENS = 50, 20, 61, 16, 24, 1500
HELD_OUT = 0.125  # exact in binary: no doubt about the rounding of a product

GPT2 = dict(vocab_size=VOCABULARY, n_positions=POSITIONS, n_embd=16, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)
LLAMA = dict(vocab_size=VOCABULARY, max_position_embeddings=POSITIONS, hidden_size=16, intermediate_size=24,
             num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-5, bos_token_id=0,
             eos_token_id=0, pad_token_id=None)

# Together: both optimizers, with and without momentum; every schedule, warm-ups and minima; clipping that is always,
# sometimes and never active; one, two and four micro-batches; three dropout rates in one model; tied and untied heads.
RUNS = {
    "gpt2_adamw_cosine": dict(
        model=transformers.GPT2Config(**GPT2, embd_pdrop=0.05, attn_pdrop=0.2, resid_pdrop=0.1),
        optimizer="adamw", beta1=0.9, beta2=0.95, epsilon=1e-8, weight_decay=0.1, clip_norm=0.5,
        schedule="cosine", learning_rate=2e-3, minimum_learning_rate=2e-4, warmup_steps=7,
        global_batch=8, accumulation=2, seed=11),
    "gpt2_sgd_linear": dict(
        model=transformers.GPT2Config(**GPT2, embd_pdrop=0.1, attn_pdrop=0.0, resid_pdrop=0.15),
        optimizer="sgd", momentum=0.9, weight_decay=0.05, clip_norm=0.0,
        schedule="linear", learning_rate=2e-2, minimum_learning_rate=5e-3, warmup_steps=0,
        global_batch=8, accumulation=1, seed=5),
    "llama_adamw_linear": dict(
        model=transformers.LlamaConfig(**LLAMA, attention_dropout=0.1, tie_word_embeddings=False),
        optimizer="adamw", beta1=0.8, beta2=0.99, epsilon=1e-4, weight_decay=0.3, clip_norm=1.0,
        schedule="linear", learning_rate=3e-3, minimum_learning_rate=0.0, warmup_steps=10,
        global_batch=4, accumulation=1, seed=2**31 - 1),
    "llama_sgd_constant": dict(
        model=transformers.LlamaConfig(**LLAMA, attention_dropout=0.0, tie_word_embeddings=True),
        optimizer="sgd", momentum=0.8, weight_decay=0.1, clip_norm=0.9,
        schedule="constant", learning_rate=3e-2, minimum_learning_rate=0.0, warmup_steps=4,
        global_batch=16, accumulation=4, seed=0),
    "llama_sgd_plain": dict(
        model=transformers.LlamaConfig(**LLAMA, attention_dropout=0.25, tie_word_embeddings=True),
        optimizer="sgd", momentum=0.0, weight_decay=0.0, clip_norm=1.5,
        schedule="cosine", learning_rate=5e-2, minimum_learning_rate=0.0, warmup_steps=0,
        global_batch=8, accumulation=2, seed=1234567),
    "qwen2_adamw_cosine": dict(
        model=transformers.Qwen2Config(**LLAMA, attention_dropout=0.1, tie_word_embeddings=True),
        optimizer="adamw", beta1=0.9, beta2=0.98, epsilon=1e-6, weight_decay=0.2, clip_norm=1.0,
        schedule="cosine", learning_rate=3e-3, minimum_learning_rate=3e-4, warmup_steps=5,
        global_batch=8, accumulation=2, seed=77),
}


# Random numbers: runtime/abi/random.h, on arrays.

def mix(x):
    x = numpy.asarray(x, dtype=numpy.uint32)
    with numpy.errstate(over="ignore"):  # arithmetic is modulo 2^32
        x = x ^ (x >> numpy.uint32(16))
        x = x * numpy.uint32(0x7FEB352D)
        x = x ^ (x >> numpy.uint32(15))
        x = x * numpy.uint32(0x846CA68B)
        return x ^ (x >> numpy.uint32(16))


def word(number):
    return number & 0xFFFFFFFF


def stream(seed, step, site):
    a = int(mix(word(seed)))
    b = int(mix(word(a + 0x9E3779B9 + step)))
    return int(mix(word(b + 0x85EBCA6B + site)))


def bits(key, index):
    index = numpy.asarray(index, dtype=numpy.uint64)
    low, high = index.astype(numpy.uint32), (index >> numpy.uint64(32)).astype(numpy.uint32)
    with numpy.errstate(over="ignore"):
        return mix(mix(low ^ numpy.uint32(key)) + high + numpy.uint32(word(key << 1 | 1)))


def uniform(key, index):
    return (bits(key, index) >> numpy.uint32(8)).astype(numpy.float64) * 2.0 ** -24


# Data: runtime/data/sampler.h.

def permute(size, key, index):
    """Element `index` of the order of 0 .. size-1 that `key` names."""
    half = 1
    while 1 << 2 * half < size:
        half += 1
    mask = (1 << half) - 1
    while True:
        left, right = index >> half, index & mask
        for turn in range(4):
            left, right = right, left ^ (int(bits(stream(key, 0, turn), right)) & mask)
        index = left << half | right
        if index < size:
            return index


class Data:
    def __init__(self, tokens, seed):
        self.seed = seed
        held_out = int(len(tokens) * HELD_OUT)
        self.training = self.windows(tokens[:len(tokens) - held_out])
        self.validation = self.windows(tokens[len(tokens) - held_out:])

    @staticmethod
    def windows(tokens):
        """Each has one token more than it has inputs, and shares it with the next."""
        return [tokens[i * SEQUENCE:(i + 1) * SEQUENCE + 1] for i in range((len(tokens) - 1) // SEQUENCE)]

    def rows(self, first, count):
        """Training samples, counted over all epochs, each of which has its own order."""
        samples = []
        for sample in range(first, first + count):
            epoch, index = divmod(sample, len(self.training))
            samples.append(self.training[permute(len(self.training), stream(self.seed, epoch | 1 << 31, 0), index)])
        return torch.tensor(samples)


def write_tokens(path, generator):
    """Tokens that a model can learn: each is mostly determined by the one before. The format is llm.c's."""
    follower = torch.randperm(VOCABULARY, generator=generator).tolist()
    guess = torch.randint(0, VOCABULARY, (TOKENS,), generator=generator).tolist()
    sure = torch.rand(TOKENS, generator=generator).tolist()
    tokens = [0]
    for i in range(1, TOKENS):
        tokens.append(follower[tokens[-1]] if sure[i] < 0.7 else guess[i])
    path.write_bytes(struct.pack("<256i", 20240520, 1, TOKENS, *[0] * 253) + struct.pack(f"<{TOKENS}H", *tokens))
    return tokens


# Dropout: a draw for each element of the tensor of the whole batch, in row-major order, from the stream of (seed, step,
# site). Sites count the model's dropouts with a non-zero rate, in the order in which the model reaches them.

class Dropout:
    def __init__(self):
        self.seed = self.step = self.first_row = self.site = 0

    def begin(self, seed, step, first_row):
        self.seed, self.step, self.first_row, self.site = seed, step, first_row, 0

    def __call__(self, x, p=0.5, training=True, inplace=False):
        if p == 0 or not training:
            return x
        key = stream(self.seed, self.step, self.site)
        self.site += 1
        first = self.first_row * x[0].numel()
        draw = uniform(key, numpy.arange(first, first + x.numel(), dtype=numpy.uint64))
        kept = torch.from_numpy(draw >= p).reshape(x.shape)
        return torch.where(kept, x / (1 - p), 0.0)


DROPOUT = Dropout()
torch.nn.functional.dropout = DROPOUT  # nn.Dropout and transformers' attention call it by this name


# Training, as a PyTorch user writes it.

def make_model(config, generator):
    """Weights large enough that every part of the model affects the loss; biases and norms too, to find a wrong use."""
    config = copy.deepcopy(config)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() > 1:
                parameter.copy_(0.25 * noise)
            else:
                parameter.copy_(0.1 * noise + (1 if name.endswith("weight") else 0))
    return model


def make_optimizer(model, run):
    """Weight decay applies to matrices, not to biases and norms."""
    parameters = list(model.parameters())
    groups = [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": run["weight_decay"]},
              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
    if run.get("nesterov"):
        return NesterovAdamW(groups, run)
    if run["optimizer"] == "adamw":
        return torch.optim.AdamW(groups, lr=run["learning_rate"], betas=(run["beta1"], run["beta2"]),
                                 eps=run["epsilon"])
    return torch.optim.SGD(groups, lr=run["learning_rate"], momentum=run["momentum"])


def make_schedule(optimizer, run):
    rate, least, warmup = run["learning_rate"], run["minimum_learning_rate"], run["warmup_steps"]
    schedules, rest = torch.optim.lr_scheduler, run.get("steps", STEPS) - warmup
    decay = {"constant": lambda: schedules.ConstantLR(optimizer, factor=1.0, total_iters=rest),
             "linear": lambda: schedules.LinearLR(optimizer, 1.0, least / rate, total_iters=rest),
             "cosine": lambda: schedules.CosineAnnealingLR(optimizer, T_max=rest, eta_min=least)}[run["schedule"]]()
    if warmup == 0:
        return decay
    rise = schedules.LinearLR(optimizer, 1 / warmup, 1.0, total_iters=warmup - 1)
    return schedules.SequentialLR(optimizer, [rise, decay], milestones=[warmup])


def loss_sum(model, rows):
    logits = model(input_ids=rows[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), rows[:, 1:].reshape(-1), reduction="sum")


def train_step(model, optimizer, schedule, data, run, step):
    optimizer.zero_grad()
    total, tokens = 0.0, run["global_batch"] * SEQUENCE
    micro = run["global_batch"] // run["accumulation"]
    for first_row in range(0, run["global_batch"], micro):
        DROPOUT.begin(run["seed"], step, first_row)
        loss = loss_sum(model, data.rows(step * run["global_batch"] + first_row, micro)) / tokens
        loss.backward()
        total += loss.item()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), run["clip_norm"] or float("inf")).item()
    result = {"loss": total, "grad_norm": norm, "lr": optimizer.param_groups[0]["lr"]}
    optimizer.step()
    schedule.step()
    return result


def train(initial, data, run, stop=None):
    """All steps; after `stop` of them everything is saved, created anew and loaded."""
    def make():
        model = copy.deepcopy(initial).double().train()
        optimizer = make_optimizer(model, run)
        return model, optimizer, make_schedule(optimizer, run)

    parts, results = make(), []
    for step in range(STEPS):
        if step == stop:
            saved = io.BytesIO()
            torch.save([part.state_dict() for part in parts], saved)
            saved.seek(0)
            parts = make()
            for part, state in zip(parts, torch.load(saved, weights_only=False)):
                part.load_state_dict(state)
        results.append(train_step(*parts, data, run, step))
    return parts[0], results


def held_out_loss(model, data):
    model.eval()
    with torch.no_grad():
        return loss_sum(model, torch.tensor(data.validation)).item() / (len(data.validation) * SEQUENCE)


# Files.

def tensors(model):
    """The published gpt2 files name tensors without the wrapper's prefix."""
    return {name.removeprefix("transformer."): p.detach().float().clone() for name, p in model.named_parameters()}


def write_settings(path, run):
    sections = {"training": ["global_batch", "accumulation", "seed"],
                "optimizer": ["optimizer", "learning_rate", "beta1", "beta2", "epsilon", "weight_decay", "momentum",
                              "nesterov", "clip_norm"],
                "schedule": ["schedule", "warmup_steps", "minimum_learning_rate"]}
    known = {"steps": STEPS, "sequence_length": SEQUENCE} | run
    sections["training"] += ["steps", "sequence_length"]
    text = ""
    for section, keys in sections.items():
        text += f"[{section}]\n" + "".join(f"{key} = {json.dumps(known[key])}\n" for key in keys if key in known) + "\n"
    path.write_text(text + f"[evaluation]\neval_batches = 0\n\n[data]\nvalidation_fraction = {HELD_OUT}\n")


def record(name, run, tokens, folder, generator):
    folder.mkdir(parents=True, exist_ok=True)
    initial, data = make_model(run["model"], generator), Data(tokens, run["seed"])
    initial.config.architectures = [type(initial).__name__]
    initial.config.save_pretrained(folder)
    save_file(tensors(initial), folder / "model.safetensors", metadata={"format": "pt"})
    write_settings(folder / "train.toml", run)

    model, results = train(initial, data, run)
    resumed, again = train(initial, data, run, stop=STOP)
    assert results == again, f"{name}: a resumed run differs"
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), resumed.parameters())), name
    save_file(tensors(model), folder / "final.safetensors", metadata={"format": "pt"})
    record = {key: [result[key] for result in results] for key in ("loss", "grad_norm", "lr")}
    record["held_out_loss"] = held_out_loss(model, data)
    (folder / "steps.json").write_text(json.dumps(record, indent=0) + "\n")
    clipped = sum(norm > run["clip_norm"] > 0 for norm in record["grad_norm"])
    print(f"{name}: loss {record['loss'][0]:.6f} to {record['loss'][-1]:.6f}, held out {record['held_out_loss']:.6f}; "
          f"{clipped} of {STEPS} steps clipped; {DROPOUT.site} dropouts")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    root.mkdir(parents=True, exist_ok=True)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(50)
    tokens = write_tokens(root / "tokens.bin", generator)
    for name, run in RUNS.items():
        record(name, run, tokens, root / name, generator)


if __name__ == "__main__":
    main()
