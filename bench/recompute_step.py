#!/usr/bin/env python3
"""Times a GPT-2 124M training step in PyTorch that recomputes instead of keeping: the peer of bench/recompute.py.

    recompute_step.py --way none|full|selective|budget:SHARE [--batch 4] [--tokens 1024] [--steps 3] [--threads 1]

The model of gpt2_step.py, f32, no dropout. `full` checkpoints each block (torch.utils.checkpoint), `selective` keeps
the results of products and attention (create_selective_checkpoint_contexts), `budget:0.5` is torch.compile with
torch._functorch.config.activation_memory_budget, `none` and `compile` are eager and compiled without checkpointing.
Prints one JSON line: seconds of each step except the first, and peak resident memory. Needs torch from PyPI in an
environment of its own.
"""

import argparse
import functools
import json
import resource
import time

import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import gpt2_step

KEPT = {torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default,
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default}


def policy(_, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if op in KEPT else CheckpointPolicy.PREFER_RECOMPUTE


def wrap_blocks(model, **arguments):
    for block in model.blocks:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False, **arguments)


def loss_of(model, way):
    if way == "full":
        wrap_blocks(model)
    elif way == "selective":
        wrap_blocks(model, context_fn=functools.partial(create_selective_checkpoint_contexts, policy))
    elif way == "compile":
        return torch.compile(model)
    elif way.startswith("budget:"):
        torch._functorch.config.activation_memory_budget = float(way.removeprefix("budget:"))
        return torch.compile(model)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", default="none")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = gpt2_step.Gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    loss = loss_of(model, args.way)
    tokens, targets = torch.randint(0, gpt2_step.VOCABULARY, (2, args.batch, args.tokens))
    seconds = []
    for _ in range(args.steps + 1):
        begin = time.perf_counter()
        loss(tokens, targets).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"torch": torch.__version__, "way": args.way, "seconds": seconds[1:],
                      "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
