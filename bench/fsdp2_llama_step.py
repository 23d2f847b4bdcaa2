#!/usr/bin/env python3
"""One rank that fine-tunes a model directory of Llama's kind under PyTorch's FSDP2 on CPU: the peer of `zero3` in bf16.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 \\
        fsdp2_llama_step.py MODEL TOKENS [--precision autocast] [--length 512] [--rows 1] [--steps 5]

transformers' own model, loaded from MODEL in f32, with `fully_shard` around each layer and around the whole, resharded
after each forward, over Gloo; attention by scaled_dot_product_attention. Either autocast converts products to bf16,
with parameters gathered in f32, or FSDP2's own mixed precision ("mixed") gathers them in bf16 and computes everything
in it; it reduces gradients in f32. Fused AdamW with dtc's default settings, gradients clipped to a norm of 1. Each step
trains on the same windows of TOKENS, of which each rank has `rows` of its own. One thread.

Rank 0 prints one JSON line: seconds and loss of each step, over both ranks, and the versions.
"""

import argparse
import array
import json
import time

import torch
import torch.distributed as dist
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

HEADER_INTS, LEARNING_RATE = 256, 3e-4


def windows(path, rows, length):
    """The rank's rows: inputs and, shifted by one, targets."""
    data = open(path, "rb").read()[4 * HEADER_INTS:]
    tokens = torch.tensor(array.array("H", data), dtype=torch.long)
    begins = [(dist.get_rank() * rows + row) * length for row in range(rows)]
    return (torch.stack([tokens[begin:begin + length] for begin in begins]),
            torch.stack([tokens[begin + 1:begin + length + 1] for begin in begins]))


def sharded_model(path, mixed):
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="sdpa")
    model.config.use_cache = False
    how = {"mesh": init_device_mesh("cpu", (dist.get_world_size(),)), "reshard_after_forward": True}
    if mixed:
        how["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.model.layers:
        fully_shard(layer, **how)
    return fully_shard(model, **how).train()


def optimizer_of(model):
    decayed = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    others = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=(0.9, 0.95), eps=1e-8, fused=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("tokens")
    parser.add_argument("--precision", choices=["autocast", "mixed"], default="autocast")
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--rows", type=int, default=1, help="of each rank")
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = sharded_model(args.model, args.precision == "mixed")
    optimizer = optimizer_of(model)
    inputs, targets = windows(args.tokens, args.rows, args.length)
    seconds, losses = [], []
    for _ in range(args.steps):
        start = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.precision == "autocast"):
            logits = model(input_ids=inputs).logits
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        mean = loss.detach()
        dist.all_reduce(mean)
        losses.append(mean.item() / dist.get_world_size())
        seconds.append(time.perf_counter() - start)
    if dist.get_rank() == 0:
        print(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__, "seconds": seconds,
                          "losses": losses}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
