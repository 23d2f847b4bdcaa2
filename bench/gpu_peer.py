#!/usr/bin/env python3
"""Times training steps of GPT-2 or Llama in PyTorch on a GPU: the peer of scripts/gpu-check bench.

    gpu_peer.py CONFIG [--batch 4] [--tokens 1024] [--steps 22] [--mode compile|eager] [--device cuda|cpu]

CONFIG is a config.json as of Hugging Face. Random weights and tokens, weights in f32 under bf16 autocast, no dropout; a
step is forward, backward, fused AdamW and the reading of the loss. Written for speed: fused attention, one product for
q, k and v, gradients set to none, a vocabulary padded to a multiple of 128 (rows of 50257 bf16 logits are slow),
torch.compile of the model with its loss.

Prints one JSON line: seconds of a step (median), the peak of PyTorch's allocated bytes, the bandwidth of a copy (bytes
read and written per second), and the number of parameters.
"""

import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    """`groups` heads of keys and values; `rotary` gives the rotation of positions, or is None."""

    def __init__(self, width, heads, groups, bias, rotary):
        super().__init__()
        self.heads, self.groups, self.size, self.rotary = heads, groups, width // heads, rotary
        self.qkv = nn.Linear(width, (heads + 2 * groups) * self.size, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, -1, self.size).transpose(1, 2)
        q, k, v = qkv.split([self.heads, self.groups, self.groups], dim=1)
        if self.rotary:
            q, k = self.rotary(q), self.rotary(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.groups != self.heads)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Rotary(nn.Module):
    def __init__(self, size, base, positions):
        super().__init__()
        angles = torch.outer(torch.arange(positions), base ** (-torch.arange(0, size, 2) / size))
        self.register_buffer("cos", torch.cat([angles.cos()] * 2, -1))
        self.register_buffer("sin", torch.cat([angles.sin()] * 2, -1))

    def forward(self, x):
        low, high = x.chunk(2, -1)
        length = x.shape[-2]
        return (x * self.cos[:length] + torch.cat([-high, low], -1) * self.sin[:length]).to(x.dtype)


class Gpt2Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["n_embd"]
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, config["n_head"], config["n_head"], True, None)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tokens = nn.Embedding(config["vocab_size"], config["n_embd"])
        self.positions = nn.Embedding(config["n_positions"], config["n_embd"])
        self.layers = nn.ModuleList(Gpt2Layer(config) for _ in range(config["n_layer"]))
        self.norm = nn.LayerNorm(config["n_embd"])

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class LlamaLayer(nn.Module):
    def __init__(self, config, rotary):
        super().__init__()
        width, inner, epsilon = config["hidden_size"], config["intermediate_size"], config["rms_norm_eps"]
        self.norm1, self.norm2 = nn.RMSNorm(width, epsilon), nn.RMSNorm(width, epsilon)
        self.attention = Attention(width, config["num_attention_heads"], config["num_key_value_heads"], False, rotary)
        self.gate_up, self.down = nn.Linear(width, 2 * inner, bias=False), nn.Linear(inner, width, bias=False)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["hidden_size"]
        rotary = Rotary(width // config["num_attention_heads"], config["rope_theta"], config["max_position_embeddings"])
        self.tokens = nn.Embedding(config["vocab_size"], width)
        self.layers = nn.ModuleList(LlamaLayer(config, rotary) for _ in range(config["num_hidden_layers"]))
        self.norm = nn.RMSNorm(width, config["rms_norm_eps"])
        self.head = nn.Linear(width, config["vocab_size"], bias=False)
        if config["tie_word_embeddings"]:
            self.head.weight = self.tokens.weight

    def forward(self, tokens, targets):
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten())


def copy_bandwidth(device):
    """Bytes read and written per second by a copy of a tensor that no cache holds."""
    source = torch.ones((1 << 28) if device == "cuda" else (1 << 24), device=device)
    target = torch.empty_like(source)
    seconds = []
    for _ in range(20):
        synchronize(device)
        begin = time.perf_counter()
        target.copy_(source)
        synchronize(device)
        seconds.append(time.perf_counter() - begin)
    return 2 * source.numel() * source.element_size() / statistics.median(seconds)


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def measure(args):
    config = json.load(open(args.config))
    tokens_known = config["vocab_size"]
    config["vocab_size"] = -(-tokens_known // args.pad) * args.pad
    torch.manual_seed(0)
    with torch.device(args.device):
        model = (Gpt2 if config["model_type"] == "gpt2" else Llama)(config)
        tokens, targets = torch.randint(0, min(tokens_known, 50257), (2, args.batch, args.tokens))
    for parameter in model.parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    loss_of = torch.compile(model) if args.mode == "compile" else model
    seconds, losses = [], []
    for _ in range(3 + args.steps):
        begin = time.perf_counter()
        with torch.autocast(args.device, dtype=torch.bfloat16):
            loss = loss_of(tokens, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        seconds.append(time.perf_counter() - begin)
    return {"seconds": statistics.median(seconds[3:]), "first_loss": losses[0],
            "parameters": sum(each.numel() for each in model.parameters()),
            "peak_bytes": torch.cuda.max_memory_allocated() if args.device == "cuda" else 0}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=22)
    parser.add_argument("--pad", type=int, default=128, help="the vocabulary to a multiple of")
    parser.add_argument("--mode", choices=["compile", "eager"], default="compile")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    args = parser.parse_args()
    result = {"torch": torch.__version__, **measure(args)}
    if args.device == "cuda":
        result["gpu"] = torch.cuda.get_device_name()
        torch.cuda.empty_cache()
    print(json.dumps({**result, "copy_bytes_per_second": copy_bandwidth(args.device)}))


if __name__ == "__main__":
    main()
