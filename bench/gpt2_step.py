#!/usr/bin/env python3
"""Times one GPT-2 124M training step in PyTorch: the peer that dtc is measured against.

    gpt2_step.py [--batch 4] [--tokens 64] [--mode eager|compile|gemms] [--precision f32|bf16] [--steps 5] [--threads 1]

Random weights and tokens, f32 or under bf16 autocast, no dropout; a step is forward, backward and AdamW. The model is
written for speed: fused attention, tied embedding, fused optimizer, gradients set to none. "gemms" times only the
step's matrix products with weights plus fused AdamW: a floor for any step built on PyTorch's products.

Prints one JSON line: seconds (median and least over the steps), peak resident memory in GiB and the loss. Needs torch
from PyPI in an environment of its own.
"""

import argparse
import json
import math
import resource
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, WIDTH, HEADS, VOCABULARY, POSITIONS = 12, 768, 12, 50257, 1024


class Block(nn.Module):
    def __init__(self, width=WIDTH, heads=HEADS):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.attention(self.ln_1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attention_out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(POSITIONS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1), ignore_index=-100)


def training_step(args):
    model = Gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    loss_of = torch.compile(model) if args.mode == "compile" else model
    tokens, targets = torch.randint(0, VOCABULARY, (2, args.batch, args.tokens))

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.precision == "bf16"):
            loss = loss_of(tokens, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return step


def gemms_step(args):
    """Forward, input gradient and weight gradient of every product with a weight, then AdamW; no other work."""
    rows = args.batch * args.tokens
    shapes = [(WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)] * LAYERS
    shapes.append((WIDTH, VOCABULARY))
    weights = [nn.Parameter(torch.randn(n, k) * 0.02) for k, n in shapes]
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    optimizer = torch.optim.AdamW(weights, lr=1e-4, weight_decay=0.1, fused=True)
    widths = sorted({size for shape in shapes for size in shape})
    ins = {width: torch.randn(rows, width) for width in widths}
    outs = {width: torch.empty(rows, width) for width in widths}

    @torch.no_grad()
    def step():
        for weight in weights:
            n, k = weight.shape
            torch.mm(ins[k], weight.t(), out=outs[n])
            torch.mm(ins[n], weight, out=outs[k])
            torch.mm(ins[n].t(), ins[k], out=weight.grad)
        optimizer.step()
        return math.nan

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--mode", choices=["eager", "compile", "gemms"], default="eager")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32", help="bf16: autocast; not of gemms")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    step = gemms_step(args) if args.mode == "gemms" else training_step(args)
    warmup = time.perf_counter()
    for _ in range(2):
        step()
    warmup = time.perf_counter() - warmup
    seconds, loss = [], 0.0
    for _ in range(args.steps):
        start = time.perf_counter()
        loss = step()
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({
        "torch": torch.__version__, "mode": args.mode, "precision": args.precision, "batch": args.batch, "tokens": args.tokens,
        "threads": args.threads, "median_s": round(statistics.median(seconds), 4), "least_s": round(min(seconds), 4),
        "first_two_steps_s": round(warmup, 2), "peak_gib": round(peak, 3), "loss": None if math.isnan(loss) else loss}))


if __name__ == "__main__":
    main()
