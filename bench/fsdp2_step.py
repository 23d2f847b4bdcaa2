#!/usr/bin/env python3
"""One rank of a GPT-2 training step under PyTorch's FSDP2 on CPU: the peer of `zero3`.

    RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 \\
        fsdp2_step.py --layers 12 --width 768 --heads 12 [--batch 4] [--tokens 64] [--steps 5]

The model of gpt2_step.py with `fully_shard` around each block and around the whole, resharded after each forward, over
Gloo. Written to save memory: parameters are created on the meta device and sharded before they exist, the optimizer is
fused, gradients are set to none. f32, one thread, no dropout, random weights and tokens; each rank has its own batch.

Rank 0 prints one JSON line: seconds of each step, the loss, the version of torch, and the peak resident memory of the
process before the model is created.
"""

import argparse
import json
import resource
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

import gpt2_step


def sharded_model():
    """Each rank draws the shard that it holds; the values do not affect the time of a step."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    with torch.device("meta"):
        model = gpt2_step.Gpt2()
    for block in model.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=True)
    fully_shard(model, mesh=mesh, reshard_after_forward=True)
    model.to_empty(device="cpu")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            local = parameter.to_local() if isinstance(parameter, DTensor) else parameter
            if parameter.dim() == 2:
                local.normal_(std=0.02)
            else:
                local.fill_(0.0 if name.endswith("bias") else 1.0)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--batch", type=int, default=4, help="rows of each rank")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    gpt2_step.LAYERS, gpt2_step.WIDTH, gpt2_step.HEADS = args.layers, args.width, args.heads

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    libraries = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    torch.manual_seed(rank)
    model = sharded_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    tokens, targets = torch.randint(0, gpt2_step.VOCABULARY, (2, args.batch, args.tokens))
    seconds, loss = [], 0.0
    for _ in range(args.steps):
        start = time.perf_counter()
        result = model(tokens, targets)
        result.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss = result.item()
        seconds.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps({"torch": torch.__version__, "seconds": [round(s, 4) for s in seconds], "loss": round(loss, 4),
                          "libraries_gib": round(libraries, 3)}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
