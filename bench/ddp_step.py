#!/usr/bin/env python3
"""One rank of a GPT-2 124M training step under PyTorch's DistributedDataParallel over Gloo: the peer of `ddp`.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=... MASTER_PORT=29500 GLOO_SOCKET_IFNAME=data ddp_step.py [--batch 4] [--tokens 64] [--steps 5] [--bucket 25]

The model of gpt2_step.py, f32, one thread, fused AdamW; buckets of BUCKET MB are reduced during the backward pass, and
gradients are views of them. Rank 0 prints one JSON line: seconds of each step, the loss and the version of torch.
"""

import argparse
import json
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import gpt2_step


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=4, help="rows of each rank")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--bucket", type=float, default=25, help="MB")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(gpt2_step.Gpt2(), gradient_as_bucket_view=True, static_graph=True,
                                    bucket_cap_mb=args.bucket)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    tokens = torch.randint(gpt2_step.VOCABULARY, (args.batch, args.tokens + 1))
    seconds = []
    for _ in range(args.steps):
        begin = time.perf_counter()
        loss = model(tokens[:, :-1], tokens[:, 1:].contiguous())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        seconds.append(time.perf_counter() - begin)
    if dist.get_rank() == 0:
        print(json.dumps({"seconds": seconds, "loss": loss.item(), "torch": torch.__version__}))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
